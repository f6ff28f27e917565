//! `custody why`: how the gate decides on a call, in full. It asks the gate's own function; nothing is
//! performed.

use std::{fs, path::Path};

use anyhow::{Context as _, bail};
use custody_replay::{custody::Custody, trace};
use gate::{
    decide::{Explanation, Ground},
    json::{self, Value},
    meaning::{Meaning, Said},
};

use crate::{complain, exit::Exit, inert, policy, say};

/// `custody why`.
///
/// # Errors
/// When a file cannot be read.
pub fn why(policy: &Path, call: &Path, json: bool) -> anyhow::Result<Exit> {
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
    let shown = call.display();
    let bytes = fs::read(call).with_context(|| format!("cannot read `{shown}`"))?;
    let sessions = match trace::parse(call, &bytes) {
        Ok(sessions) => sessions,
        Err(error) => {
            complain(&format!("{:#}", anyhow::Error::from(error)));
            return Ok(Exit::Bad);
        }
    };
    let [session] = sessions.as_slice() else {
        bail!(
            "`{shown}` has {} sessions; write one of the form `{}`",
            sessions.len(),
            trace::FORMAT
        );
    };
    let (tool, explained) = match gate.explain(session) {
        Ok(found) => found,
        Err(why) => {
            complain(&format!("{shown}: {why}"));
            return Ok(Exit::Bad);
        }
    };
    if json {
        say(&serde_json::to_string(&explained).context("cannot write the explanation")?);
    } else {
        for line in lines(&tool, &explained) {
            say(&inert::line(&line));
        }
    }
    Ok(Exit::Done)
}

fn lines(tool: &str, explained: &Explanation) -> Vec<String> {
    let mut lines = vec![format!("{:8}  {tool}", explained.answer.as_str())];
    for reason in &explained.reasons {
        let about = reason
            .argument
            .as_ref()
            .map_or_else(String::new, |it| format!(", argument `{it}`"));
        lines.push(format!("rule      {}{about}: {}", reason.rule, reason.why));
        lines.push(format!("change    {}", reason.change));
    }
    let Some(grounds) = &explained.grounds else {
        return lines;
    };
    if let Some(approval) = grounds.approval {
        lines.push(format!("approval  record {}", approval.position));
    }
    if let Some(branch) = &grounds.branch {
        lines.push(format!("branch    {branch}"));
    }
    lines.push(format!("risk      {}", grounds.risk.as_str()));
    let classes: Vec<&str> = grounds.classes.iter().map(|it| it.as_str()).collect();
    if !classes.is_empty() {
        lines.push(format!("classes   {}", classes.join(", ")));
    }
    for (name, ground) in &grounds.arguments {
        lines.push(format!("argument  {name}: {}", of(ground)));
    }
    for (aspect, said) in explained.meaning.iter().flat_map(Meaning::aspects) {
        lines.push(format!("meaning   {aspect}: {}", meant(said)));
    }
    let taint: Vec<String> = grounds.taint.iter().map(ToString::to_string).collect();
    lines.push(if taint.is_empty() {
        "taint     none".into()
    } else {
        format!("taint     {}", taint.join("; "))
    });
    if let Some(digest) = explained.digest {
        lines.push(format!("digest    {digest}"));
    }
    lines
}

fn meant(said: &Said) -> String {
    let value = match &said.value {
        Value::Text(text) => text.clone(),
        Value::Bool(_)
        | Value::Int(_)
        | Value::List(_)
        | Value::Null
        | Value::Object(_)
        | Value::Real(_) => String::from_utf8_lossy(&json::canonical(&said.value)).into_owned(),
    };
    format!("{value}, on the word of the {}", said.by.as_str())
}

fn of(ground: &Ground) -> String {
    let mut said = format!("{}, {}", ground.authority.as_str(), ground.role.as_str());
    if let Some(origin) = ground.origin {
        said.push_str(", from ");
        said.push_str(origin.as_str());
    }
    if ground.in_untrusted {
        said.push_str(", and untrusted text has it too");
    }
    if !ground.said_by.is_empty() {
        said.push_str(": ");
        said.push_str(&ground.said_by.join("; "));
    }
    said
}
