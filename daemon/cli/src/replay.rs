//! `custody replay`: what a policy would say of calls that were recorded. Nothing is performed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use custody_replay::{
    custody::Custody,
    trace::{self, Line, Said, Trace},
};

use crate::{complain, exit::Exit, inert, policy, say};

/// `custody replay`.
///
/// # Errors
/// When a file cannot be read, or a line cannot be written.
pub fn replay(policy: &Path, traces: &[PathBuf], json: bool) -> anyhow::Result<Exit> {
    let file = policy;
    let Some(policy) = policy::compile(file)? else {
        return Ok(Exit::Bad);
    };
    let gate = match Custody::new(&policy) {
        Ok(gate) => gate,
        Err(error) => {
            policy::complain_of(file, &error);
            return Ok(Exit::Bad);
        }
    };
    let mut sessions: Vec<Trace> = Vec::new();
    for file in traces {
        let shown = file.display();
        let bytes = fs::read(file).with_context(|| format!("cannot read `{shown}`"))?;
        match trace::parse(file, &bytes) {
            Ok(found) => sessions.extend(found),
            Err(error) => {
                complain(&format!("{:#}", anyhow::Error::from(error)));
                return Ok(Exit::Bad);
            }
        }
    }
    let mut lines = Vec::new();
    for session in &sessions {
        match trace::replay(session, &gate) {
            Ok(found) => lines.extend(found),
            Err(why) => {
                complain(&format!("{}: {why}", session.name));
                return Ok(Exit::Bad);
            }
        }
    }
    for line in &lines {
        if json {
            say(&serde_json::to_string(line).context("cannot write a line")?);
        } else {
            describe(line);
        }
    }
    if !json {
        sum(sessions.len(), &lines);
    }
    Ok(Exit::Done)
}

fn describe(line: &Line) {
    let was = match line.was {
        Some(was) if line.changed => format!(" (was {})", was.as_str()),
        Some(_) | None => String::new(),
    };
    say(&inert::line(&format!(
        "{:6}  {} call {}, {}{was}{}",
        line.now.as_str(),
        line.trace,
        line.call,
        line.tool,
        line.why
            .as_ref()
            .map_or(String::new(), |why| format!(": {why}")),
    )));
}

fn sum(sessions: usize, lines: &[Line]) {
    let count = |said| lines.iter().filter(|it| it.now == said).count();
    let changed = lines.iter().filter(|it| it.changed).count();
    say(&format!(
        "{sessions} sessions, {} calls: {} allowed, {} held, {} refused; {changed} otherwise than recorded. \
         Nothing was performed.",
        lines.len(),
        count(Said::Allow),
        count(Said::Hold),
        count(Said::Refuse),
    ));
}
