//! custodyd as a systemd unit on a machine: what a package and an administrator put there, the
//! steps of `fixtures/systemd/steps.sh`, and what they left.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::{
    machine::{Machine, Step},
    rootfs::Source,
};
use crate::{
    evidence::Evidence,
    host::programs_folder,
    register,
    witness::record::{self, Seen},
};

/// How long the machine may take: 25 s were measured on two busy cores.
const LIMIT: Duration = Duration::from_secs(300);

/// The credential of the unit.
pub const TOKEN: &str = "fake-token-for-tests-of-the-unit";

/// Where the shipped and the test's files go on the machine; all are root's.
const FILES: [(&str, &str); 8] = [
    (
        "daemon/supervisor/systemd/custody.conf",
        "/usr/lib/sysusers.d/custody.conf",
    ),
    (
        "daemon/supervisor/systemd/custodyd.service",
        "/usr/lib/systemd/system/custodyd.service",
    ),
    (
        "fixtures/systemd/credential.conf",
        "/etc/systemd/system/custodyd.service.d/credential.conf",
    ),
    (
        "fixtures/systemd/custodyd.toml",
        "/etc/custody/custodyd.toml",
    ),
    (
        "fixtures/policies/demo.toml",
        "/etc/custody/policies/demo.toml",
    ),
    (
        "fixtures/systemd/custody-test.service",
        "/etc/systemd/system/custody-test.service",
    ),
    (
        "fixtures/systemd/steps.sh",
        "/usr/share/custody-test/steps.sh",
    ),
    (
        "fixtures/systemd/agent.py",
        "/usr/share/custody-test/agent.py",
    ),
];

/// What the machine left.
#[derive(Debug)]
pub struct Report {
    /// The machine's exit status: what its last step ended with.
    pub code: Option<i32>,
    /// What the service accepted.
    pub accepted: Vec<Seen>,
    /// What the service rejected.
    pub rejected: Vec<Seen>,
    /// Its steps, by their names.
    pub steps: BTreeMap<String, Step>,
    evidence: Vec<u8>,
    said: String,
}

/// One thing that an agent did, in its own words.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Deed {
    /// What.
    pub step: String,
    /// `allowed`, `refused`, `failed`, `REACHED`, …
    pub outcome: String,
    /// An errno, a rule or an answer.
    pub detail: String,
}

/// What is missing here; none if it can be made.
pub fn missing() -> Option<String> {
    super::missing()
        .or_else(|| programs_folder().err().map(|error| error.to_string()))
        .or_else(|| Source::of_host().err().map(|error| format!("{error:#}")))
}

/// Boots a machine with the unit of the tree at `source` and makes its steps. Its root is kept in
/// the folder `guest`.
///
/// # Errors
/// When the root cannot be made, or the machine does not come to an end.
pub fn report(source: &Path, guest: &Path) -> anyhow::Result<Report> {
    let root = Source::of_host()?.root(guest)?;
    let machine = Machine::new(guest)?;
    furnish(&machine, source)?;
    let status = machine.boot(&root, LIMIT)?;
    Ok(Report {
        code: status.code(),
        accepted: record::read(&machine.result("accepted"))?,
        rejected: record::read(&machine.result("rejected"))?,
        steps: machine.steps()?,
        // Where the suite left none, its step says why.
        evidence: fs::read(machine.result("evidence.json")).unwrap_or_default(),
        said: machine.said(),
    })
}

fn furnish(machine: &Machine, source: &Path) -> anyhow::Result<()> {
    let read = |path: &str| fs::read_to_string(source.join(path)).context(path.to_owned());
    let programs = programs_folder()?;
    machine.install(&programs, "/usr/lib/custody")?;
    machine.install(&programs.join("session"), "/usr/lib/custody/session")?;
    for (from, to) in FILES {
        machine.write(to, 0o644, &read(from)?)?;
    }
    let notes = read("fixtures/demo/notes.json")?;
    machine.write("/usr/share/custody-test/notes.json", 0o644, &notes)?;
    let half = serde_json::to_string(&register::check(source)?)?;
    machine.write("/usr/share/custody-test/register.json", 0o644, &half)?;
    machine.write("/etc/credstore/demo", 0o600, TOKEN)?;
    machine.enable("custody-test.service", "multi-user.target")
}

impl Report {
    /// One step.
    ///
    /// # Errors
    /// When it was not made; what the machine said is in the error.
    pub fn step(&self, name: &str) -> anyhow::Result<&Step> {
        self.steps
            .get(name)
            .with_context(|| format!("step `{name}` was not made: {}", self.said))
    }

    /// The standard output of a step.
    ///
    /// # Errors
    /// When it was not made, or ended with another status than 0.
    pub fn out(&self, name: &str) -> anyhow::Result<&str> {
        let step = self.step(name)?;
        ensure!(step.code == 0, "step `{name}`: {step:?}");
        Ok(&step.out)
    }

    /// What the agent of a step did.
    ///
    /// # Errors
    /// When the step failed, or a line of it is no [`Deed`].
    pub fn deeds(&self, name: &str) -> anyhow::Result<Vec<Deed>> {
        self.out(name)?
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("`{name}`: {line}")))
            .collect()
    }

    /// What the bypass suite wrote.
    ///
    /// # Errors
    /// When it wrote none, or it does not parse.
    pub fn evidence(&self) -> anyhow::Result<Evidence> {
        serde_json::from_slice(&self.evidence)
            .with_context(|| format!("no evidence: {:?}", self.step("bypass")))
    }
}
