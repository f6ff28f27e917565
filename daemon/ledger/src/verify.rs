//! The whole ledger: both chains, and what each receipt rests on.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use gate::{
    chain::{ChainName, Place, keys::Keyring},
    id::{SessionId, ToolName},
    record::{Decision, Effect},
};

use crate::{
    books::{Books, Decisions},
    certificates,
    chain::{self, Bad, Chain, Walk},
    key::KeyError,
    keys::Keys,
    segment::FilesError,
};

/// How many effects in doubt are named one by one.
pub const IN_DOUBT_LISTED: usize = 1_000;

/// Heads that somebody noted elsewhere, custodyd in the journal: each must stand in its chain, or
/// the chain's end was cut off.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    /// Of the decision records.
    pub decisions: Vec<Place>,
    /// Of intents and receipts.
    pub receipts: Vec<Place>,
}

/// What a ledger turned out to be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// The gate's decision records.
    pub decisions: Chain,
    /// The vault's intents and receipts.
    pub receipts: Chain,
    /// Effects that may have happened, in the order of their lines: the first
    /// [`IN_DOUBT_LISTED`].
    pub in_doubt: Vec<InDoubt>,
    /// How many there are.
    pub in_doubt_count: u64,
    /// Receipts of idempotent effects whose decision a power cut took, before it was on disk. Each names a
    /// position at which a start stands, or one shortly behind it.
    pub decisions_lost: u64,
    /// Outcomes that the gate recorded with a receipt which a power cut took from the vault's chain: their
    /// effects are idempotent, and a start of the vault stands there.
    pub receipts_lost: u64,
    /// What is wrong between the chains, though each is good: the first [`IN_DOUBT_LISTED`].
    pub contradictions: Vec<String>,
}

impl Report {
    /// Whether every line of both chains is good, every receipt rests on a decision, no decision has two
    /// effects, and every receipt that a decision names is there.
    /// Effects in doubt are no fault of the ledger: that it names them is its job.
    pub const fn is_good(&self) -> bool {
        self.decisions.bad.is_none()
            && self.receipts.bad.is_none()
            && self.contradictions.is_empty()
    }
}

/// An effect that may have happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InDoubt {
    /// The line of the intent or of the receipt; of a lease without either, its decision.
    pub position: u64,
    /// The session.
    pub session: SessionId,
    /// The tool.
    pub tool: ToolName,
    /// The decision that it rests on.
    pub decision: u64,
    /// Why it is in doubt.
    pub why: String,
}

/// Why a ledger could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A folder is not there or cannot be listed.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A public key is not there.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Reading failed.
    #[error("cannot read the chain in `{folder}`")]
    Read {
        /// The folder.
        folder: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Verifies the ledger in `dir`, a state folder or a copy of one: `decisions/`, `receipts/` and
/// the keys in `public/` (each signer writes in a folder of its own there; a copy may have all files in
/// one). Keys that come with what they
/// verify show that nothing was changed by anyone who has not the private ones; for more, compare
/// them with keys kept elsewhere.
///
/// # Errors
/// When it cannot be looked at. What is wrong with it stands in the report.
pub fn verify(dir: &Path, noted: &Noted) -> Result<Report, VerifyError> {
    verify_with(dir, &Keys::beside(dir)?, noted)
}

/// As [`verify`], with keys that the caller trusts.
///
/// # Errors
/// As [`verify`].
pub fn verify_with(dir: &Path, keys: &Keys, noted: &Noted) -> Result<Report, VerifyError> {
    let decisions_folder = dir.join(ChainName::Decisions.as_str());
    let receipts_folder = dir.join(ChainName::Receipts.as_str());
    // A service may be running. A receipt is written after its decision, and a decision that names a
    // receipt after that: what is there of the receipts first rests on what is there of the decisions, and
    // what the decisions name is there of the receipts then.
    let (resting, _wrong) = chain::extent(&receipts_folder)?;
    let decisions_extent = chain::extent(&decisions_folder)?;
    let receipts_extent = chain::extent(&receipts_folder)?;

    let ring =
        |folder: &Path, chain, ring: &Keyring| certificates::learn(folder, chain, ring.clone());
    let mut decisions = Walk::<Decision>::new(
        &decisions_folder,
        ring(&decisions_folder, ChainName::Decisions, &keys.decisions),
        decisions_extent,
    );
    let mut receipts = Walk::<Effect>::new(
        &receipts_folder,
        ring(&receipts_folder, ChainName::Receipts, &keys.receipts),
        receipts_extent,
    );
    let mut books = Books::new(&decisions_folder);
    let mut noted_decisions = Expected::of(&noted.decisions);
    let mut noted_receipts = Expected::of(&noted.receipts);
    let read = |folder: &PathBuf| {
        let folder = folder.clone();
        |source| VerifyError::Read { folder, source }
    };
    // Side by side: the decisions as far as a receipt needs them, so that what is open on either side at
    // once is what was under way at once.
    while let Some((at, effect)) = receipts.next().map_err(read(&receipts_folder))? {
        let needs = books.needs(&effect);
        while decisions.head() < needs
            && books
                .decision(&mut decisions, &mut noted_decisions)
                .map_err(read(&decisions_folder))?
        {}
        let known = if decisions.is_bad() || !resting.has(at) {
            Decisions::InPart
        } else {
            Decisions::InFull
        };
        let met = books
            .effect(at.place, effect, known)
            .map_err(read(&decisions_folder))?
            .and_then(|()| noted_receipts.meet(at.place));
        if let Err(why) = met {
            receipts.fail(&why);
        }
    }
    while books
        .decision(&mut decisions, &mut noted_decisions)
        .map_err(read(&decisions_folder))?
    {}
    let (mut decisions, mut receipts) = (decisions.finish(), receipts.finish());
    noted_decisions.left(&mut decisions, &decisions_folder);
    noted_receipts.left(&mut receipts, &receipts_folder);
    Ok(books.report(decisions, receipts))
}

/// Noted heads by position.
pub(crate) struct Expected(BTreeMap<u64, Vec<Place>>);

impl Expected {
    fn of(noted: &[Place]) -> Self {
        let mut by_position = BTreeMap::<u64, Vec<Place>>::new();
        for place in noted.iter().filter(|place| place.position > 0) {
            by_position.entry(place.position).or_default().push(*place);
        }
        Self(by_position)
    }

    pub(crate) fn meet(&mut self, place: Place) -> Result<(), String> {
        let noted = self.0.remove(&place.position).unwrap_or_default();
        match noted.iter().find(|noted| noted.digest != place.digest) {
            None => Ok(()),
            Some(noted) => Err(format!(
                "position {} was noted with digest {}, and the line here has {}",
                place.position, noted.digest, place.digest
            )),
        }
    }

    fn left(self, chain: &mut Chain, folder: &Path) {
        if let (None, Some(position)) = (&chain.bad, self.0.into_keys().next_back()) {
            chain.bad = Some(Bad {
                path: folder.into(),
                line: None,
                why: format!(
                    "the chain ends at position {}, and position {position} was noted: its end was cut off",
                    chain.head.position
                ),
            });
        }
    }
}
