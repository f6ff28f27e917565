//! What the two scanners say: the peer in a process of its own, ours by its report.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::compare::{Authority, Verdict, Verdicts};
use crate::stage;

/// What the peer's process runs.
const PEER: &str = include_str!("peer.py");

/// What the peer's process answers.
#[derive(Deserialize)]
pub(super) struct Theirs {
    pub(super) files: BTreeMap<PathBuf, Scanned>,
    pub(super) corpus: BTreeMap<String, Judgement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scanned {
    Arguments(Vec<Argument>),
    Refused(String),
}

/// One argument, as the peer's report has it.
#[derive(Deserialize)]
pub(super) struct Argument {
    tool: String,
    argument: String,
    authority: Authority,
    #[serde(rename = "type")]
    kind: String,
}

/// One case of the corpus: each argument's authority, each call's decision.
#[derive(Deserialize)]
pub(super) struct Judgement {
    pub(super) authority: BTreeMap<String, Authority>,
    pub(super) decisions: BTreeMap<String, String>,
}

impl Theirs {
    pub(super) fn ask(
        folder: &Path,
        environment: &Path,
        files: &[PathBuf],
        corpus: &Value,
    ) -> Result<Self> {
        let program = folder.join("peer.py");
        fs::write(&program, PEER).context("cannot write the peer's program")?;
        let asked = folder.join("asked.json");
        fs::write(
            &asked,
            json!({ "files": files, "corpus": corpus }).to_string(),
        )
        .context("cannot write what the peer is asked")?;
        let said = stage::output(Command::new(environment.join("bin/python")).args([
            Path::new("-I"),
            &program,
            &asked,
        ]))?;
        serde_json::from_str(&said).context("the peer's answer")
    }
}

pub(super) fn verdicts(all: &[Argument]) -> Verdicts {
    all.iter()
        .map(|it| {
            let path = format!("/{}", it.argument.replace('~', "~0").replace('/', "~1"));
            let because = format!("their type {}", it.kind);
            let authority = it.authority;
            ((it.tool.clone(), path), Verdict { authority, because })
        })
        .collect()
}

/// What ours says: the report of `custody scan`, as a person gets it.
pub(super) fn ours(custody: &Path, file: &Path) -> Result<Verdicts> {
    let said = stage::output(
        Command::new(custody)
            .args(["scan", "--format", "json"])
            .arg(file),
    )?;
    let report: Report = serde_json::from_str(&said).context("our report")?;
    let mut verdicts = Verdicts::new();
    for tool in report.documents.into_iter().flat_map(|it| it.tools) {
        for argument in tool.arguments {
            let key = (tool.name.clone(), argument.path);
            let verdict = Verdict {
                authority: argument.authority,
                because: argument.reason,
            };
            verdicts.insert(key, verdict);
        }
    }
    Ok(verdicts)
}

#[derive(Deserialize)]
struct Report {
    documents: Vec<Reported>,
}

#[derive(Deserialize)]
struct Reported {
    tools: Vec<ReportedTool>,
}

#[derive(Deserialize)]
struct ReportedTool {
    name: String,
    arguments: Vec<ReportedArgument>,
}

#[derive(Deserialize)]
struct ReportedArgument {
    path: String,
    authority: Authority,
    reason: String,
}
