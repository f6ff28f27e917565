//! What a start finds in the chain: intents whose receipt never came.
//!
//! The chain is read back to the line of the last start, which was written when nothing before it
//! was in doubt.

use std::{collections::BTreeMap, fs, io, path::Path};

use ed25519_dalek::VerifyingKey;
use gate::{
    chain::{ChainName, LineError, Place, Seen, Verifier, keys::Keyring, read_record, rests_on},
    json::Value,
    record::{Bound, Effect, Outcome, Verification},
};

use crate::receipts::{ChainFailed, Receipts};

/// The intents that no receipt names: their effects are in doubt.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    open: BTreeMap<u64, Doubt>,
}

/// An intent without its receipt.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    pub(crate) intent: Place,
    pub(crate) effect: Bound,
    /// The complete call, where the effect can be read back by it.
    pub(crate) call: Option<Value>,
}

/// Why the chain cannot be read back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DoubtsError {
    #[error("`{file}` has a bad line: {why}")]
    Line { file: String, why: LineError },
    #[error("cannot read `{file}`")]
    Read { file: String, source: io::Error },
}

impl Doubts {
    /// Reads the chain in `folder`, which was just opened for writing: its end is whole.
    pub(crate) fn read(folder: &Path, keys: &[VerifyingKey]) -> Result<Self, DoubtsError> {
        let failed = |file: &str| {
            let file = file.to_owned();
            move |source| DoubtsError::Read { file, source }
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed("."))? {
            let name = entry.map_err(failed("."))?.file_name();
            // Beside them lies what an earlier start cut off.
            names.extend(
                name.to_str()
                    .filter(|name| name.ends_with(".jsonl"))
                    .map(str::to_owned),
            );
        }
        // Six digits each: the newest name is the greatest.
        names.sort_unstable();
        let read = |name: &String| fs::read(folder.join(name)).map_err(failed(name));
        // No line is kept on the way back: there may be many since the last start. That may have
        // left earlier intents open: then back to the first of them.
        let mut from = 0;
        let mut earliest = None;
        for (at, name) in names.iter().enumerate().rev() {
            let text = read(name)?;
            if earliest.is_none() {
                earliest = lines_of(&text).filter_map(start).last();
            }
            let before = lines_of(&text).next().and_then(rests_on);
            let behind = before.map(|tip| tip.head.position);
            if behind.is_some_and(|behind| earliest.is_some_and(|position| position > behind)) {
                from = at;
                break;
            }
        }
        let mut doubts = Self::default();
        let ring = Keyring::of(keys);
        let mut verifier = None;
        for name in names.iter().skip(from) {
            let text = read(name)?;
            let bad = |why| DoubtsError::Line {
                file: name.clone(),
                why,
            };
            for line in lines_of(&text) {
                let Some(verifier) = &mut verifier else {
                    verifier = if from > 0 {
                        // The first line of a file behind the first says what it rests on, and is signed.
                        let first = Verifier::behind(ChainName::Receipts, ring.clone(), line);
                        Some(first.map_err(bad)?)
                    } else {
                        let mut first = Verifier::new(ChainName::Receipts, ring.clone());
                        let seen = first.line(line).map_err(bad)?;
                        doubts.see(&first, seen);
                        Some(first)
                    };
                    continue;
                };
                let seen = verifier.line(line).map_err(bad)?;
                doubts.see(verifier, seen);
            }
        }
        Ok(doubts)
    }

    fn see(&mut self, verifier: &Verifier, line: Seen<Effect>) {
        let place = verifier.head();
        let line = match line {
            Seen::Record(line) => line,
            Seen::Checkpoint(_) | Seen::Keys(_) => return,
        };
        match line {
            Effect::Intent { effect, call, .. } => {
                let doubt = Doubt {
                    intent: place,
                    effect,
                    call,
                };
                drop(self.open.insert(place.position, doubt));
            }
            Effect::Receipt {
                intent: Some(intent),
                ..
            } => {
                // Only the receipt that names this very line closes it.
                let same = self
                    .open
                    .get(&intent.position)
                    .is_some_and(|doubt| doubt.intent == intent);
                if same {
                    drop(self.open.remove(&intent.position));
                }
            }
            Effect::Receipt { intent: None, .. } => {}
            // What it does not name was settled before it.
            Effect::Started { open, .. } => self
                .open
                .retain(|_position, doubt| open.contains(&doubt.intent)),
        }
    }

    /// Those that can be read back, and the others.
    pub(crate) fn part(self, can: impl Fn(&Doubt) -> bool) -> (Vec<Doubt>, Vec<Doubt>) {
        self.open.into_values().partition(can)
    }
}

impl Doubt {
    /// Says that the effect is in doubt, in the chain and in the log. Nothing is performed again.
    pub(crate) fn stays(
        self,
        receipts: &Receipts,
        verification: Verification,
    ) -> Result<(), ChainFailed> {
        tracing::warn!(
            call = %self.effect.call,
            tool = %self.effect.tool,
            session = %self.effect.session,
            intent = self.intent.position,
            finding = verification.finding.as_str(),
            "in doubt: the vault ended between the intent and its receipt; look at the service \
             before the call is repeated"
        );
        let outcome = Outcome::InDoubt {
            verification,
            why: LOST.into(),
        };
        let _place = receipts.receipt(self.effect, Some(self.intent), outcome)?;
        Ok(())
    }
}

/// Why there is no answer.
pub(crate) const LOST: &str = "the vault ended between the intent and its receipt";

fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
}

/// From where on lines count, if the line says that it is a start: itself, or the earliest intent that
/// it leaves open. It is verified when it is read forwards.
fn start(line: &[u8]) -> Option<u64> {
    match read_record::<Effect>(line).ok()?? {
        (place, Effect::Started { open, .. }) => {
            let positions = open.iter().map(|place| place.position);
            Some(positions.min().unwrap_or(place.position))
        }
        (_place, Effect::Intent { .. } | Effect::Receipt { .. }) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use custody_ledger::writer::Writer;
    use ed25519_dalek::SigningKey;
    use gate::{digest::Digest, id, nonce::Nonce};

    fn bound(nonce: u8) -> Bound {
        Bound {
            approval: None,
            call: Digest::ZERO,
            credential: id::CredentialLabel::parse("api").unwrap(),
            decision: Place {
                digest: Digest::ZERO,
                position: 1,
            },
            nonce: Nonce([nonce; 16]),
            policy: Digest::ZERO,
            session: id::SessionId(7),
            tool: id::ToolName::parse("send").unwrap(),
        }
    }

    fn started() -> Effect {
        Effect::Started {
            at: 1,
            epoch: Nonce([0; 16]),
            open: Vec::new(),
            version: "test".into(),
        }
    }

    fn intent(nonce: u8) -> Effect {
        Effect::Intent {
            at: 1,
            call: None,
            effect: bound(nonce),
        }
    }

    fn receipt(nonce: u8, intent: Place) -> Effect {
        Effect::Receipt {
            at: 1,
            effect: bound(nonce),
            intent: Some(intent),
            outcome: Outcome::Failed { why: "test".into() },
        }
    }

    /// A chain in files of one or two lines each, and the doubts in it.
    fn doubts(write: impl FnOnce(&mut dyn FnMut(Effect) -> Place)) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let key = SigningKey::from_bytes(&[7; 32]);
        let public = key.verifying_key();
        let (mut writer, _tail) = Writer::open_with(dir.path(), key, 1_000).unwrap();
        write(&mut |line| writer.append(&line).unwrap());
        assert!(fs::read_dir(dir.path()).unwrap().count() > 1);
        let doubts = Doubts::read(dir.path(), &[public]).unwrap();
        doubts
            .open
            .into_values()
            .map(|doubt| doubt.effect.nonce.0[0])
            .collect()
    }

    #[test]
    fn an_intent_is_found_in_an_earlier_file_and_its_receipt_in_a_later_one() {
        let found = doubts(|append| {
            append(started());
            let _never_closed = append(intent(1));
            let closed = append(intent(2));
            let _never_closed = append(intent(3));
            append(receipt(2, closed));
        });
        assert_eq!(found, [1, 3]);
    }

    #[test]
    fn a_receipt_that_names_another_line_closes_nothing() {
        let found = doubts(|append| {
            append(started());
            let place = append(intent(1));
            let other = Place {
                digest: Digest::ZERO,
                ..place
            };
            append(receipt(1, other));
            append(receipt(
                1,
                Place {
                    position: 1,
                    ..place
                },
            ));
        });
        assert_eq!(found, [1]);
    }

    #[test]
    fn a_file_that_is_missing_since_the_last_start_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let key = SigningKey::from_bytes(&[7; 32]);
        let public = key.verifying_key();
        let (mut writer, _tail) = Writer::open_with(dir.path(), key, 1_000).unwrap();
        writer.append(&started()).unwrap();
        for n in 1..9 {
            writer.append(&intent(n)).unwrap();
        }
        drop(writer);
        assert!(Doubts::read(dir.path(), &[public]).is_ok());
        fs::remove_file(dir.path().join("000002.jsonl")).unwrap();
        let why = Doubts::read(dir.path(), &[public]).unwrap_err().to_string();
        assert!(why.contains("000003.jsonl"), "{why}");
    }

    #[test]
    fn what_was_settled_before_an_earlier_start_is_not_raised_again() {
        let found = doubts(|append| {
            append(started());
            append(intent(1));
            append(started());
            append(intent(2));
        });
        assert_eq!(found, [2]);
    }

    #[test]
    fn what_a_start_left_open_is_found_before_it_and_nothing_else_is() {
        let found = doubts(|append| {
            append(started());
            append(intent(1));
            let left = append(intent(2));
            append(intent(3));
            let Effect::Started {
                at, epoch, version, ..
            } = started()
            else {
                panic!()
            };
            append(Effect::Started {
                at,
                epoch,
                version,
                open: vec![left],
            });
            append(intent(4));
        });
        assert_eq!(found, [2, 4]);
    }
}
