//! `custody ledger`: what needs no service, no database and no private key.

pub mod export;
pub mod journal;
pub mod list;
pub mod select;
pub mod show;
pub(crate) mod time;
pub mod verify;

use std::path::{Path, PathBuf};

use custody_ledger::{key, keys::Keys};
use gate::chain::{ChainName, keys::Keyring};

use crate::{args::LedgerWhat, exit::Exit};

/// Does what the command line says.
///
/// # Errors
/// When the ledger or a key cannot be looked at.
pub fn run(what: LedgerWhat) -> anyhow::Result<Exit> {
    match what {
        LedgerWhat::Export {
            dir,
            filter,
            redact,
            keys,
        } => export::export(&dir, &filter.into(), &redact, &keys.into()),
        LedgerWhat::List {
            dir,
            filter,
            json,
            keys,
        } => list::list(&dir, &filter.into(), &keys.into(), json),
        LedgerWhat::Show { dir, wanted, keys } => show::show(&dir, wanted, &keys.into()),
        LedgerWhat::Verify {
            dir,
            heads,
            noted,
            keys,
        } if dir.is_file() => {
            if !heads.is_empty() || noted.is_some() {
                anyhow::bail!("an export has no end: --head and --heads are for a ledger");
            }
            export::verify(&dir, &keys.into())
        }
        LedgerWhat::Verify {
            dir,
            heads,
            noted,
            keys,
        } => verify::verify(&dir, &heads, noted.as_ref(), &keys.into()),
    }
}

/// Which public keys count.
#[derive(Clone, Debug, Default)]
pub struct Trusted {
    /// A folder of them, instead of the one beside the chains.
    pub folder: Option<PathBuf>,
    /// Single ones, instead of what a folder has for their chain.
    pub keys: Vec<(ChainName, PathBuf)>,
}

impl Trusted {
    /// The keys for what `custody ledger export` wrote.
    ///
    /// # Errors
    /// As [`Trusted::for_ledger`], and when none were given.
    pub fn for_export(&self) -> anyhow::Result<Keys> {
        if self.folder.is_none() && self.keys.is_empty() {
            anyhow::bail!("an export has no keys beside it; give yours with --keys or --key");
        }
        self.for_ledger(Path::new("."))
    }

    /// The keys for the ledger in `dir`.
    ///
    /// # Errors
    /// When a key cannot be read, or a chain has none.
    pub fn for_ledger(&self, dir: &Path) -> anyhow::Result<Keys> {
        let given = |chain| {
            let files = self.keys.iter().filter(|(of, _file)| *of == chain);
            let keys: Result<Vec<_>, _> = files.map(|(_of, file)| key::read_public(file)).collect();
            keys.map(|keys| (!keys.is_empty()).then(|| Keyring::of(&keys)))
        };
        let (decisions, receipts) = (given(ChainName::Decisions)?, given(ChainName::Receipts)?);
        let found = match (&decisions, &receipts) {
            (Some(_), Some(_)) => Keys::default(),
            _ => match &self.folder {
                Some(folder) => Keys::in_folder(folder)?,
                None => Keys::beside(dir)?,
            },
        };
        Ok(Keys {
            decisions: decisions.unwrap_or(found.decisions),
            receipts: receipts.unwrap_or(found.receipts),
        })
    }
}
