//! The public keys that a reader trusts, out of a folder.
//!
//! | file | what |
//! |---|---|
//! | `decisions.pub`, `decisions.2.pub`, … | keys of the decision records |
//! | `receipts.pub`, `receipts.2.pub`, … | keys of intents and receipts |
//! | `instance.pub`, `instance.2.pub`, … | keys that certify such keys |
//! | `NAME.revoked` | the key of `NAME.pub` counts only up to a position of its chain: a number and a line feed |

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use ed25519_dalek::VerifyingKey;
use gate::chain::{
    ChainName, key_id,
    keys::{Keyring, Revoked},
};

use crate::key::{self, KeyError};

/// The public keys of both chains.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// Of the decision records.
    pub decisions: Keyring,
    /// Of intents and receipts.
    pub receipts: Keyring,
}

impl Keys {
    /// One key for each.
    pub fn of(decisions: VerifyingKey, receipts: VerifyingKey) -> Self {
        Self {
            decisions: Keyring::of(&[decisions]),
            receipts: Keyring::of(&[receipts]),
        }
    }

    /// Those of one chain.
    pub const fn of_chain(&self, chain: ChainName) -> &Keyring {
        match chain {
            ChainName::Decisions => &self.decisions,
            ChainName::Receipts => &self.receipts,
        }
    }

    /// The keys that lie beside the chains in `dir`, in `public/` and in the signers' own folders there.
    ///
    /// # Errors
    /// When a file is none of a key, or a chain has none.
    pub fn beside(dir: &Path) -> Result<Self, KeyError> {
        let public = dir.join("public");
        let mut found = Found::default();
        found.read(&public)?;
        for chain in ChainName::ALL {
            let own = public.join(chain.as_str());
            if own.is_dir() {
                // The signer's own folder counts, whatever else lies beside it.
                found.forget(chain);
                found.read(&own)?;
            }
        }
        found.keys(&public)
    }

    /// The keys in `folder`.
    ///
    /// # Errors
    /// When a file is none of a key, or a chain has none.
    pub fn in_folder(folder: &Path) -> Result<Self, KeyError> {
        let mut found = Found::default();
        found.read(folder)?;
        found.keys(folder)
    }
}

#[derive(Debug, Default)]
struct Found {
    decisions: Vec<VerifyingKey>,
    receipts: Vec<VerifyingKey>,
    instances: Vec<VerifyingKey>,
    revoked: Vec<Revoked>,
}

impl Found {
    fn of(&mut self, chain: ChainName) -> &mut Vec<VerifyingKey> {
        match chain {
            ChainName::Decisions => &mut self.decisions,
            ChainName::Receipts => &mut self.receipts,
        }
    }

    fn forget(&mut self, chain: ChainName) {
        self.of(chain).clear();
    }

    fn read(&mut self, folder: &Path) -> Result<(), KeyError> {
        let failed = |source| KeyError::Read {
            path: folder.into(),
            source,
        };
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            // That a key is missing is said below, by its name.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if let Some(stem) = name.strip_suffix(".pub") {
                let of = stem.split('.').next();
                let list = match of {
                    Some("decisions") => &mut self.decisions,
                    Some("receipts") => &mut self.receipts,
                    Some("instance") => &mut self.instances,
                    _ => continue,
                };
                list.push(key::read_public(&path)?);
            } else if let Some(stem) = name.strip_suffix(".revoked") {
                self.revoked.push(revoked(folder, stem, &path)?);
            }
        }
        Ok(())
    }

    fn keys(self, folder: &Path) -> Result<Keys, KeyError> {
        let ring = |keys: &[VerifyingKey]| {
            Keyring::of(keys)
                .certified_by(&self.instances)
                .without(&self.revoked)
        };
        let keys = Keys {
            decisions: ring(&self.decisions),
            receipts: ring(&self.receipts),
        };
        for (chain, ring) in [
            (ChainName::Decisions, &keys.decisions),
            (ChainName::Receipts, &keys.receipts),
        ] {
            if ring.is_empty() {
                return Err(KeyError::Read {
                    path: folder.join(format!("{chain}.pub")),
                    source: io::ErrorKind::NotFound.into(),
                });
            }
        }
        Ok(keys)
    }
}

fn revoked(folder: &Path, stem: &str, path: &PathBuf) -> Result<Revoked, KeyError> {
    let key = key::read_public(&folder.join(format!("{stem}.pub")))?;
    let text = fs::read_to_string(path).map_err(|source| KeyError::Read {
        path: path.clone(),
        source,
    })?;
    let until = text
        .strip_suffix('\n')
        .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| KeyError::NotAKey {
            path: path.clone(),
            why: "it is not the last position up to which the key counts, and a newline",
        })?;
    Ok(Revoked {
        key: key_id(&key),
        until,
    })
}
