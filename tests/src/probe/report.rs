//! What an attack saw: each step with the kernel's answer, what it was told, what it found.

use std::{collections::BTreeSet, io};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

/// What begins every canary. Put together at run time, so that the probe does not find itself.
fn marker() -> Vec<u8> {
    [b"CUSTODY".as_slice(), b"CANARY"].concat()
}

/// The most bytes of one canary.
const CANARY_CAP: usize = 128;

/// The most bytes kept of what was answered.
const SAID_CAP: usize = 64 << 10;

/// What an attack saw.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Report {
    /// Each step that was taken.
    pub steps: Vec<Step>,
    /// What the other end answered.
    pub said: String,
    /// Canaries that were read.
    pub found: BTreeSet<String>,
}

/// One step of an attack.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Step {
    /// Which: a system call, with its object where that matters.
    pub step: String,
    /// What refused; none if it was done.
    pub failed: Option<Failure>,
}

/// What refused a step.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Failure {
    /// errno(3), 0 where there is none.
    pub errno: i32,
    /// Its name, or words.
    pub name: String,
}

impl Report {
    /// Notes a step and hands on what it gave.
    pub(super) fn step<T, E: Into<io::Error>>(
        &mut self,
        step: impl Into<String>,
        result: Result<T, E>,
    ) -> Option<T> {
        let (failed, value) = match result {
            Ok(value) => (None, Some(value)),
            Err(error) => (Some(failure(&error.into())), None),
        };
        self.steps.push(Step {
            step: step.into(),
            failed,
        });
        value
    }

    /// Notes that a step could not be taken, in words.
    pub(super) fn words(&mut self, step: impl Into<String>, words: impl Into<String>) {
        self.steps.push(Step {
            step: step.into(),
            failed: Some(Failure {
                errno: 0,
                name: words.into(),
            }),
        });
    }

    /// Keeps what was answered, and any canary in it.
    pub(super) fn heard(&mut self, bytes: &[u8]) {
        self.look(bytes);
        let room = SAID_CAP.saturating_sub(self.said.len());
        let kept = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
        self.said.push_str(&String::from_utf8_lossy(kept));
    }

    /// Looks for canaries in `bytes`.
    pub(super) fn look(&mut self, bytes: &[u8]) {
        let marker = marker();
        let mut rest = bytes;
        while let Some(at) = find(rest, &marker) {
            let (_, here) = rest.split_at(at);
            let canary: Vec<u8> = here
                .iter()
                .copied()
                .take(CANARY_CAP)
                .take_while(u8::is_ascii_alphanumeric)
                .collect();
            self.found
                .insert(String::from_utf8_lossy(&canary).into_owned());
            rest = here.get(marker.len()..).unwrap_or_default();
        }
    }

    /// Adds what another attack saw.
    pub(super) fn absorb(&mut self, other: Self) {
        self.steps.extend(other.steps);
        self.said.push_str(&other.said);
        self.found.extend(other.found);
    }

    /// Whether `step` was done.
    pub fn came_past(&self, step: &str) -> bool {
        self.steps
            .iter()
            .any(|done| done.step == step && done.failed.is_none())
    }

    /// The steps that were refused, each once, in words.
    pub fn refusals(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        self.steps
            .iter()
            .filter_map(|step| {
                let failed = step.failed.as_ref()?;
                let words = format!("{}: {}", step.step, failed.name);
                seen.insert(words.clone()).then_some(words)
            })
            .collect()
    }
}

fn failure(error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(errno) => Failure {
            errno,
            name: format!("{:?}", Errno::from_raw(errno)),
        },
        None => Failure {
            errno: 0,
            name: error.to_string(),
        },
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_is_found_wherever_it_stands_and_ends_where_it_ends() {
        let mut report = Report::default();
        let text = [
            b"\0x".as_slice(),
            &marker(),
            b"vault12\0",
            &marker(),
            b"b\n",
        ]
        .concat();
        report.look(&text);
        let found: Vec<_> = report.found.iter().map(String::len).collect();
        assert_eq!(found, [marker().len() + 1, marker().len() + 7]);
    }

    #[test]
    fn a_refusal_names_its_step_and_errno_once() {
        let mut report = Report::default();
        for _ in 0..2 {
            let refused: Result<(), Errno> = Err(Errno::EPERM);
            assert!(report.step("socket", refused).is_none());
        }
        assert_eq!(report.refusals(), ["socket: EPERM"]);
    }
}
