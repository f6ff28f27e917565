//! What the documentation shows is accepted: policies by the gate, configurations by custodyd.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use custody_config::Config;
use gate::{id::PolicyName, policy::Policy};

use super::Finding;
use crate::places::Places;

/// Whether an example is accepted.
type Accept = fn(&str) -> Result<(), String>;

/// A page, and what its examples are.
const PAGES: [(&str, Accept); 2] = [
    ("daemon/config/docs/custodyd.md", configuration),
    ("gate/docs/policy.md", policy),
];

pub(super) fn check(places: &Places) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (page, accept) in PAGES {
        let text = fs::read_to_string(places.root.join(page))
            .with_context(|| format!("cannot read `{page}`"))?;
        findings.extend(judge(page, &text, accept));
    }
    Ok(findings)
}

fn judge(page: &str, text: &str, accept: Accept) -> Vec<Finding> {
    let examples: Vec<_> = text
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(example, _)| example)
        .collect();
    if examples.is_empty() {
        return vec![Finding::new(page, "shows no example")];
    }
    let refused = examples
        .into_iter()
        .filter_map(|example| accept(example).err());
    refused
        .map(|why| Finding::new(page, format!("its example is refused: {why}")))
        .collect()
}

fn policy(example: &str) -> Result<(), String> {
    let name = example
        .lines()
        .find_map(|line| line.strip_prefix("name = "))
        .unwrap_or_default()
        .trim_matches('"');
    let name = PolicyName::parse(name).map_err(|error| error.to_string())?;
    Policy::compile(&name, example)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn configuration(example: &str) -> Result<(), String> {
    Config::parse(Path::new("custodyd.toml"), example)
        .map(drop)
        .map_err(|error| format!("{:#}", anyhow::Error::from(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_that_is_refused_is_found() {
        assert_eq!(judge("a", "# A\n", policy).len(), 1);
        for accept in [policy as Accept, configuration] {
            let page = |more: &str| format!("```toml\nformat = 1\nname = \"a\"\n{more}```\n");
            assert_eq!(judge("a", &page("x = 1\n"), accept).len(), 1);
        }
        assert_eq!(
            judge("a", "```toml\nformat = 1\nname = \"a\"\n```\n", policy),
            []
        );
        assert_eq!(judge("a", "```toml\nformat = 1\n```\n", configuration), []);
    }
}
