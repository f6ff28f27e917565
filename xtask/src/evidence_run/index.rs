//! `index.json`: every file of a run, with its digest, and where it came from.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::step::{Outcome, Ran, Step};
use crate::{places::Places, stage};

/// The index's name in the folder of a run.
pub(super) const FILE: &str = "index.json";

#[derive(Debug, Serialize)]
pub(super) struct Index {
    format: &'static str,
    /// What git calls the source.
    revision: String,
    /// Whether files differed from that revision.
    changed: bool,
    /// Whether the programs were built with optimisations.
    release: bool,
    steps: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    step: String,
    kernel: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'static str>,
    command: Vec<String>,
    started_unix_ms: u64,
    seconds: u64,
    /// `passed`, `failed`, `not attempted`, or `ran` where nothing is judged.
    outcome: &'static str,
    /// Whether it was asked for by its name: then it fails the run when it is not attempted.
    requested: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    files: Vec<Listed>,
}

#[derive(Debug, Serialize)]
struct Listed {
    /// From the index's folder.
    file: String,
    sha256: String,
}

impl Index {
    pub(super) fn begin(places: &Places, release: bool) -> Result<Self> {
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            stage::output(git.arg("-C").arg(&places.root).args(arguments))
        };
        Ok(Self {
            format: "custody-evidence-index/1",
            revision: git(&["rev-parse", "HEAD"])?,
            changed: !git(&["status", "--porcelain"])?.is_empty(),
            release,
            steps: Vec::new(),
        })
    }

    /// Takes up a step, with all files below its folder.
    pub(super) fn add(
        &mut self,
        (step, requested): (&Step, bool),
        ran: &Ran,
        folder: &Path,
    ) -> Result<()> {
        let (outcome, why) = match &ran.outcome {
            Outcome::Failed(why) => ("failed", Some(why.clone())),
            Outcome::NotAttempted(why) => ("not attempted", Some(why.clone())),
            Outcome::Passed => ("passed", None),
            Outcome::Ran(what) => ("ran", Some(what.clone())),
        };
        self.steps.push(Entry {
            step: step.name(),
            kernel: ran.kernel.clone(),
            profile: step.profile(),
            command: ran.command.clone(),
            started_unix_ms: ran.started_unix_ms,
            seconds: ran.seconds,
            outcome,
            requested,
            why,
            files: listed(folder, &folder.join(step.name()))?,
        });
        Ok(())
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        fs::write(folder.join(FILE), text).context("cannot write the index")
    }

    pub(super) fn failed(&self) -> usize {
        let failed = self.steps.iter().filter(|step| step.outcome == "failed");
        failed.count()
    }

    /// How many were not attempted: of all, and of those that were asked for by name.
    pub(super) fn not_attempted(&self) -> (usize, usize) {
        let lacking = self.steps.iter().filter(|it| it.outcome == "not attempted");
        let all: Vec<&Entry> = lacking.collect();
        let requested = all.iter().filter(|step| step.requested).count();
        (all.len(), requested)
    }

    /// For a person: a line for each step.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.steps.iter().map(|step| {
            let why = step.why.as_ref().map(|why| format!(": {why}"));
            format!(
                "{:24} {:>6} s   {}{}",
                step.step,
                step.seconds,
                step.outcome,
                why.unwrap_or_default()
            )
        })
    }
}

fn listed(folder: &Path, below: &Path) -> Result<Vec<Listed>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).with_context(|| format!("`{}`", below.display()))? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            found.extend(listed(folder, &path)?);
        } else if entry.file_type()?.is_file() {
            let bytes = fs::read(&path).with_context(|| format!("`{}`", path.display()))?;
            let file = path.strip_prefix(folder).unwrap_or(&path);
            found.push(Listed {
                file: file.display().to_string(),
                sha256: hex::encode(Sha256::digest(bytes)),
            });
        }
    }
    found.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence_run::step::{Ground, What};

    #[test]
    fn every_file_of_a_step_is_listed_with_its_digest_and_a_failure_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let step = Step::new(Ground::Host, What::Suite("standard"));
        let own = folder.path().join(step.name());
        fs::create_dir_all(own.join("below")).unwrap();
        fs::write(own.join("evidence.json"), "{}").unwrap();
        fs::write(own.join("below/log"), "").unwrap();
        let mut index = Index {
            format: "custody-evidence-index/1",
            revision: "0".into(),
            changed: false,
            release: false,
            steps: Vec::new(),
        };
        let ran = Ran {
            outcome: Outcome::Failed("exit status: 1".into()),
            kernel: "6.12".into(),
            command: vec!["custody-bypass".into()],
            started_unix_ms: 1,
            seconds: 2,
        };
        index.add((&step, false), &ran, folder.path()).unwrap();
        index.write(folder.path()).unwrap();
        let text = fs::read(folder.path().join(FILE)).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let files = &value["steps"][0]["files"];
        assert_eq!(files[0]["file"], "host-suite/below/log");
        assert_eq!(files[1]["file"], "host-suite/evidence.json");
        // printf '{}' | sha256sum
        let digest = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(files[1]["sha256"], digest);
        assert_eq!(value["steps"][0]["why"], "exit status: 1");
        assert_eq!(index.failed(), 1);
        assert_eq!(value["steps"][0]["requested"], false);
    }

    #[test]
    fn a_step_that_was_asked_for_and_not_attempted_is_counted_apart() {
        let folder = tempfile::tempdir().unwrap();
        let mut index = Index {
            format: "custody-evidence-index/1",
            revision: "0".into(),
            changed: false,
            release: false,
            steps: Vec::new(),
        };
        for (profile, requested) in [("standard", false), ("dev", true)] {
            let step = Step::new(Ground::Host, What::Suite(profile));
            fs::create_dir(folder.path().join(step.name())).unwrap();
            let ran = Ran {
                outcome: Outcome::NotAttempted("needs QEMU".into()),
                kernel: String::new(),
                command: Vec::new(),
                started_unix_ms: 1,
                seconds: 0,
            };
            index.add((&step, requested), &ran, folder.path()).unwrap();
        }
        assert_eq!(index.not_attempted(), (2, 1));
        assert_eq!(index.failed(), 0);
    }
}
