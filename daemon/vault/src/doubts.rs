//! What a start finds in the chain: intents whose receipt never came.
//!
//! The chain is read back to the line of the last start, which was written when nothing before it
//! was in doubt.

use std::{collections::BTreeMap, fs, io, path::Path};

use ed25519_dalek::VerifyingKey;
use gate::{
    chain::{ChainName, LineError, Place, Verifier},
    json::{self, Limits, Value},
    record::{Bound, Effect, Outcome},
};

use crate::receipts::{ChainFailed, Receipts};

/// The intents that no receipt names: their effects are in doubt.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    open: BTreeMap<u64, (Place, Bound)>,
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
    pub(crate) fn read(folder: &Path, key: &VerifyingKey) -> Result<Self, DoubtsError> {
        let failed = |file: &str| {
            let file = file.to_owned();
            move |source| DoubtsError::Read { file, source }
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed("."))? {
            let name = entry.map_err(failed("."))?.file_name();
            names.extend(name.to_str().map(str::to_owned));
        }
        // Six digits each: the newest name is the greatest.
        names.sort_unstable();
        let mut newest_first = Vec::new();
        for name in names.iter().rev() {
            let text = fs::read(folder.join(name)).map_err(failed(name))?;
            let lines = lines_of(&text, key).map_err(|why| DoubtsError::Line {
                file: name.clone(),
                why,
            })?;
            let started = lines
                .iter()
                .any(|(_place, line)| matches!(line, Effect::Started { .. }));
            newest_first.push(lines);
            if started {
                break;
            }
        }
        let mut doubts = Self::default();
        for (place, line) in newest_first.into_iter().rev().flatten() {
            doubts.see(place, line);
        }
        Ok(doubts)
    }

    fn see(&mut self, place: Place, line: Effect) {
        match line {
            Effect::Intent { effect, .. } => {
                drop(self.open.insert(place.position, (place, effect)));
            }
            Effect::Receipt {
                intent: Some(intent),
                ..
            } => {
                // Only the receipt that names this very line closes it.
                let same = self
                    .open
                    .get(&intent.position)
                    .is_some_and(|(place, _effect)| *place == intent);
                if same {
                    drop(self.open.remove(&intent.position));
                }
            }
            Effect::Receipt { intent: None, .. } => {}
            Effect::Started { .. } => self.open.clear(),
        }
    }

    /// Says of each open intent that its effect is in doubt, in the chain and in the log. Nothing
    /// is performed again.
    pub(crate) fn close(self, receipts: &Receipts) -> Result<(), ChainFailed> {
        for (intent, effect) in self.open.into_values() {
            tracing::warn!(
                call = %effect.call,
                tool = %effect.tool,
                session = %effect.session,
                intent = intent.position,
                "in doubt: the vault ended between the intent and its receipt; look at the service \
                 before the call is repeated"
            );
            let why = "the vault ended between the intent and its receipt".into();
            let _place = receipts.receipt(effect, Some(intent), Outcome::InDoubt { why })?;
        }
        Ok(())
    }
}

/// The lines of one file, each verified behind what its first one says that it rests on.
fn lines_of(text: &[u8], key: &VerifyingKey) -> Result<Vec<(Place, Effect)>, LineError> {
    let mut lines = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .peekable();
    let before = lines.peek().and_then(|first| rests_on(first));
    let mut verifier = Verifier::new(
        ChainName::Receipts,
        std::slice::from_ref(key),
        before.unwrap_or(Place::START),
    );
    lines
        .map(|line| {
            let effect = verifier.line(line)?;
            Ok((verifier.head(), effect))
        })
        .collect()
}

fn rests_on(line: &[u8]) -> Option<Place> {
    let Ok(Value::Object(members)) = json::reparse(line, &Limits::LINE) else {
        return None;
    };
    match (members.get("position"), members.get("previous")) {
        (Some(Value::Int(position)), Some(Value::Text(previous))) => Some(Place {
            position: u64::try_from(position.get()).ok()?.checked_sub(1)?,
            digest: previous.clone().try_into().ok()?,
        }),
        _ => None,
    }
}
