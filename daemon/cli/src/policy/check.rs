//! `custody policy check`: what the service would make of a policy, without it.

use std::{fs, path::Path};

use anyhow::Context as _;
use custody_config::Config;
use custody_rules::Rules;
use gate::{id::ToolName, policy::Tool};

use super::{compile, complain_of};
use crate::{complain, exit::Exit, inert, say};

/// `custody policy check`.
///
/// # Errors
/// When a file cannot be read.
pub fn check(file: &Path, config: Option<&Path>) -> anyhow::Result<Exit> {
    let Some(policy) = compile(file)? else {
        return Ok(Exit::Bad);
    };
    let rules = match Rules::load(&policy) {
        Ok(rules) => rules,
        Err(error) => {
            complain_of(file, &error);
            return Ok(Exit::Bad);
        }
    };
    let name = policy.name();
    if let Some(path) = config {
        let shown = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read `{shown}`"))?;
        let config = match Config::parse(path, &text) {
            Ok(config) => config,
            Err(error) => {
                complain(&format!("{:#}", anyhow::Error::from(error)));
                return Ok(Exit::Bad);
            }
        };
        let mut exit = Exit::Done;
        for label in policy.credentials().keys() {
            if !config.credentials.contains_key(label) {
                complain(&format!(
                    "policy `{name}` uses credential `{label}`, which `{shown}` does not have; \
                     add it to `[credentials]`"
                ));
                exit = Exit::Bad;
            }
        }
        if exit != Exit::Done {
            return Ok(exit);
        }
    }
    let tools: Vec<&str> = policy.tools().keys().map(|tool| tool.as_str()).collect();
    say(&format!("policy  {name}"));
    say(&format!("hash    {}", policy.hash()));
    say(&format!("tools   {}", inert::line(&tools.join(", "))));
    for (name, tool) in policy.tools() {
        say(&inert::line(&described(name, tool)));
    }
    for rule in rules.list() {
        let does = if rule.holds { "holds" } else { "refuses" };
        let of = rule.tool.as_deref().unwrap_or("every tool");
        say(&inert::line(&format!(
            "rule    {} (line {}): {does} calls of {of}",
            rule.name, rule.line
        )));
    }
    Ok(Exit::Done)
}

/// What a tool does, and what a session may still do with it that has read anyone's words.
fn described(name: &ToolName, tool: &Tool) -> String {
    let mut said = format!(
        "tool    {name}: {}, after untrusted content {}",
        tool.risk.as_str(),
        tool.on_taint.as_str()
    );
    let classes: Vec<&str> = tool.classes.iter().map(|it| it.as_str()).collect();
    if !classes.is_empty() {
        said.push_str("; ");
        said.push_str(&classes.join(", "));
    }
    said
}
