//! Contenders: processes that take a setting, and answer `decide N` and `record N` with N times.

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::{bench::python, places::Places, say, stage};

/// The peers, pinned: what each is called, its word in [`PROGRAM`], its package.
const PEERS: [(&str, &str, &str); 2] = [
    ("AgentLock 1.4.0", "agentlock", "agentlock==1.4.0"),
    (
        python::VERB_AUTHORITY.0,
        "verb-authority",
        python::VERB_AUTHORITY.1,
    ),
];

/// What the peers' processes run.
const PROGRAM: &str = include_str!("peer.py");

const OURS: &str = "custody";

/// A process, ready for commands.
pub(super) struct Contender {
    pub(super) name: &'static str,
    answers: Lines<BufReader<ChildStdout>>,
    child: Child,
    commands: ChildStdin,
}

impl Contender {
    /// Ours, built as it is released.
    pub(super) fn ours(places: &Places) -> Result<Self> {
        let mut build = places.cargo();
        build.args([
            "build",
            "--quiet",
            "--release",
            "--package",
            "custody-replay",
        ]);
        stage::must(build.args(["--example", "decide"]))?;
        let program = places.target.join("release/examples/decide");
        Self::start(OURS, OURS, &mut Command::new(program))
    }

    pub(super) fn is_ours(&self) -> bool {
        self.name == OURS
    }

    fn start(name: &'static str, word: &str, command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let answers = BufReader::new(child.stdout.take().context("no pipe")?).lines();
        let mut contender = Self {
            name,
            answers,
            commands: child.stdin.take().context("no pipe")?,
            child,
        };
        contender.tell(&setting(word))?;
        // What is done once is not counted.
        contender.times("decide", 50)?;
        Ok(contender)
    }

    /// Times of `count` of `what`, in nanoseconds.
    pub(super) fn times(&mut self, what: &str, count: usize) -> Result<Vec<u64>> {
        self.tell(&format!("{what} {count}"))?;
        let line = self
            .answers
            .next()
            .with_context(|| format!("{} ended", self.name))?
            .with_context(|| format!("cannot hear {}", self.name))?;
        let times: Vec<u64> =
            serde_json::from_str(&line).with_context(|| format!("{} said `{line}`", self.name))?;
        ensure!(!times.is_empty(), "{} said nothing", self.name);
        Ok(times)
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        writeln!(self.commands, "{line}")
            .and_then(|()| self.commands.flush())
            .with_context(|| format!("cannot tell {}", self.name))
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait().map(drop)) {
            say::error(format_args!("cannot end {}: {error}", self.name));
        }
    }
}

/// Every peer.
pub(super) fn peers(places: &Places) -> Result<Vec<Contender>> {
    let packages = PEERS.map(|(_name, _word, package)| package);
    let folder = places.target.join("bench-gate");
    let environment = python::environment(&folder, &packages)?;
    let program = folder.join("peer.py");
    fs::write(&program, PROGRAM).context("cannot write the peers' program")?;
    PEERS
        .into_iter()
        .map(|(name, word, _package)| {
            let mut command = Command::new(environment.join("bin/python"));
            Contender::start(name, word, command.arg(&program))
        })
        .collect()
}

/// 25 tools, a call of about 1 KB whose recipient the person named, results of 4 KB.
fn setting(peer: &str) -> String {
    let tools: Vec<String> = (0..24)
        .map(|it| format!("tool_{it}"))
        .chain(["send_email".to_owned()])
        .collect();
    let words =
        |words: &str, bytes: usize| -> String { words.chars().cycle().take(bytes).collect() };
    json!({
        "peer": peer,
        "tools": tools,
        "tool": "send_email",
        "reader": "tool_1",
        "task": "Write to ada.quill@customer.example about the numbers of this quarter.",
        "arguments": {
            "to": "ada.quill@customer.example",
            "subject": "The numbers",
            "body": words("The numbers of the quarter are in, and they look good. ", 930),
        },
        "words": vocabulary(),
        "size": 4_080,
    })
    .to_string()
}

/// Some thousand words of three to nine letters: as many as long texts have.
fn vocabulary() -> Vec<String> {
    let letters = [
        "ba", "cor", "de", "fi", "gal", "ho", "ju", "kem", "li", "mo", "nu", "or", "pe", "ra",
        "su", "ti",
    ];
    (0..4_096_usize)
        .map(|it| {
            let pick = |shift: usize| letters.get((it >> shift) & 15).copied().unwrap_or_default();
            let third = if it % 3 == 0 { pick(8) } else { "" };
            format!("{}{}{third}", pick(0), pick(4))
        })
        .collect()
}
