//! The whole ledger: both chains, and what each receipt rests on.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use ed25519_dalek::VerifyingKey;
use gate::{
    chain::{ChainName, Place},
    id::{SessionId, ToolName},
    record::{Bound, Decision, Effect, Outcome},
};

use crate::{
    chain::{self, Bad, Chain},
    index::{Allowed, Index},
    key::{self, KeyError},
    segment::FilesError,
};

/// How many effects in doubt are named one by one.
pub const IN_DOUBT_LISTED: usize = 1_000;

/// The public keys of both chains.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Of the decision records.
    pub decisions: Vec<VerifyingKey>,
    /// Of intents and receipts.
    pub receipts: Vec<VerifyingKey>,
}

impl Keys {
    /// The key of `chain` that lies beside it in `dir`, as [`verify`] finds it.
    ///
    /// # Errors
    /// When it is not there.
    pub fn beside(dir: &Path, chain: ChainName) -> Result<Vec<VerifyingKey>, KeyError> {
        public_key(dir, chain).map(|key| vec![key])
    }
}

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
}

impl Report {
    /// Whether every line of both chains is good, and every receipt rests on a decision.
    /// Effects in doubt are no fault of the ledger: that it names them is its job.
    pub const fn is_good(&self) -> bool {
        self.decisions.bad.is_none() && self.receipts.bad.is_none()
    }
}

/// An effect that may have happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InDoubt {
    /// The line of the intent or of the receipt.
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
/// the keys `public/decisions/decisions.pub` and `public/receipts/receipts.pub` (each signer writes
/// in a folder of its own; a copy may have both files in `public/`). Keys that come with what they
/// verify show that nothing was changed by anyone who has not the private ones; for more, compare
/// them with keys kept elsewhere.
///
/// # Errors
/// When it cannot be looked at. What is wrong with it stands in the report.
pub fn verify(dir: &Path, noted: &Noted) -> Result<Report, VerifyError> {
    let keys = Keys {
        decisions: Keys::beside(dir, ChainName::Decisions)?,
        receipts: Keys::beside(dir, ChainName::Receipts)?,
    };
    verify_with(dir, &keys, noted)
}

fn public_key(dir: &Path, chain: ChainName) -> Result<VerifyingKey, KeyError> {
    let public = dir.join("public");
    let name = format!("{chain}.pub");
    let own = public.join(chain.as_str());
    // The signer's own folder, if it is there, whatever else lies beside it.
    let path = if own.is_dir() {
        own.join(name)
    } else {
        public.join(name)
    };
    key::read_public(&path)
}

/// As [`verify`], with keys that the caller trusts.
///
/// # Errors
/// As [`verify`].
pub fn verify_with(dir: &Path, keys: &Keys, noted: &Noted) -> Result<Report, VerifyError> {
    let decisions_folder = dir.join(ChainName::Decisions.as_str());
    let receipts_folder = dir.join(ChainName::Receipts.as_str());
    // A service may be running. A receipt is written after its decision, so that what is there of
    // the receipts now rests on what is there of the decisions later.
    let receipts_extent = chain::extent(&receipts_folder)?;
    let decisions_extent = chain::extent(&decisions_folder)?;

    let mut index = Index::new(&decisions_folder);
    let mut expected = Expected::of(&noted.decisions);
    let mut decisions = chain::verify::<Decision>(
        &decisions_folder,
        &keys.decisions,
        decisions_extent,
        |at, _body| {
            index.note(at.place.position, at.file, at.offset);
            Ok(expected.meet(at.place))
        },
    )
    .map_err(|source| VerifyError::Read {
        folder: decisions_folder.clone(),
        source,
    })?;
    expected.left(&mut decisions, &decisions_folder);

    let mut effects = Effects {
        index,
        decisions_are_good: decisions.bad.is_none(),
        open: BTreeMap::new(),
        in_doubt: Vec::new(),
        in_doubt_count: 0,
    };
    let mut expected = Expected::of(&noted.receipts);
    let mut receipts = chain::verify::<Effect>(
        &receipts_folder,
        &keys.receipts,
        receipts_extent,
        |at, body| {
            Ok(match effects.meet(at.place, body)? {
                Ok(()) => expected.meet(at.place),
                Err(why) => Err(why),
            })
        },
    )
    .map_err(|source| VerifyError::Read {
        folder: receipts_folder.clone(),
        source,
    })?;
    expected.left(&mut receipts, &receipts_folder);
    let (in_doubt, in_doubt_count) = effects.finish();
    Ok(Report {
        decisions,
        receipts,
        in_doubt,
        in_doubt_count,
    })
}

/// Noted heads by position.
struct Expected(BTreeMap<u64, Vec<Place>>);

impl Expected {
    fn of(noted: &[Place]) -> Self {
        let mut by_position = BTreeMap::<u64, Vec<Place>>::new();
        for place in noted.iter().filter(|place| place.position > 0) {
            by_position.entry(place.position).or_default().push(*place);
        }
        Self(by_position)
    }

    fn meet(&mut self, place: Place) -> Result<(), String> {
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

/// What was seen of the receipts.
struct Effects {
    index: Index,
    decisions_are_good: bool,
    /// Intents that no receipt named yet. As many as effects were under way at once, and those
    /// that a crash left.
    open: BTreeMap<u64, (Place, Bound)>,
    in_doubt: Vec<InDoubt>,
    in_doubt_count: u64,
}

impl Effects {
    fn meet(&mut self, place: Place, body: Effect) -> io::Result<Result<(), String>> {
        let (effect, intent, doubt) = match body {
            Effect::Started { .. } => return Ok(Ok(())),
            Effect::Intent { effect, .. } => {
                let rests = self.rests(&effect)?;
                drop(self.open.insert(place.position, (place, effect)));
                return Ok(rests);
            }
            Effect::Receipt {
                effect,
                intent,
                outcome,
                ..
            } => match outcome {
                Outcome::InDoubt { why, .. } => (effect, intent, Some(why)),
                Outcome::Done { .. }
                | Outcome::Failed { .. }
                | Outcome::Found { .. }
                | Outcome::NotFound { .. }
                | Outcome::Refused { .. }
                | Outcome::Stale { .. } => (effect, intent, None),
            },
        };
        if let Some(intent) = intent {
            match self.open.remove(&intent.position) {
                Some((there, bound)) if there == intent && bound == effect => {}
                Some(_) => {
                    return Ok(Err(format!(
                        "the receipt names line {} as its intent, which is another effect's",
                        intent.position
                    )));
                }
                None => {
                    return Ok(Err(format!(
                        "the receipt names line {} as its intent, which is none or has a receipt",
                        intent.position
                    )));
                }
            }
        }
        if let Some(why) = doubt {
            self.doubt(place.position, &effect, why.to_string());
        }
        self.rests(&effect)
    }

    /// Whether the effect rests on a decision that allowed it.
    fn rests(&mut self, effect: &Bound) -> io::Result<Result<(), String>> {
        let position = effect.decision.position;
        // Beyond the first bad decision nothing is known, and that one is named already.
        let unknown = |what: String| {
            if self.decisions_are_good {
                Err(what)
            } else {
                Ok(())
            }
        };
        Ok(match self.index.entry(position)? {
            None => unknown(format!(
                "it rests on decision {position}, which the decisions do not have"
            )),
            Some(entry) if entry.digest != effect.decision.digest => Err(format!(
                "it rests on decision {position} with digest {}, and that line has {}",
                effect.decision.digest, entry.digest
            )),
            Some(entry) => {
                let wanted = Allowed {
                    call: effect.call,
                    credential: effect.credential.clone(),
                    policy: effect.policy,
                    session: effect.session,
                    tool: Some(effect.tool.clone()),
                };
                if entry.allowed == Some(wanted) {
                    Ok(())
                } else {
                    Err(format!(
                        "it rests on decision {position}, which does not allow this effect"
                    ))
                }
            }
        })
    }

    fn doubt(&mut self, position: u64, effect: &Bound, why: String) {
        self.in_doubt_count = self.in_doubt_count.saturating_add(1);
        if self.in_doubt.len() < IN_DOUBT_LISTED {
            self.in_doubt.push(InDoubt {
                position,
                session: effect.session,
                tool: effect.tool.clone(),
                decision: effect.decision.position,
                why,
            });
        }
    }

    fn finish(mut self) -> (Vec<InDoubt>, u64) {
        for (position, (_place, effect)) in std::mem::take(&mut self.open) {
            self.doubt(position, &effect, "no receipt follows its intent".into());
        }
        self.in_doubt.sort_by_key(|it| it.position);
        (self.in_doubt, self.in_doubt_count)
    }
}
