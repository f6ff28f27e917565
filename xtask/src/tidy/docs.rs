//! The policies that the documentation shows compile.

use std::fs;

use anyhow::{Context as _, Result};
use gate::{id::PolicyName, policy::Policy};

use super::Finding;
use crate::places::Places;

const FILE: &str = "gate/docs/policy.md";

pub(super) fn check(places: &Places) -> Result<Vec<Finding>> {
    let text = fs::read_to_string(places.root.join(FILE))
        .with_context(|| format!("cannot read `{FILE}`"))?;
    Ok(judge(&text))
}

fn judge(text: &str) -> Vec<Finding> {
    let examples: Vec<_> = text
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(example, _)| example)
        .collect();
    if examples.is_empty() {
        return vec![Finding::new(FILE, "shows no policy")];
    }
    examples.into_iter().filter_map(compile).collect()
}

fn compile(example: &str) -> Option<Finding> {
    let name = example
        .lines()
        .find_map(|line| line.strip_prefix("name = "))
        .unwrap_or_default()
        .trim_matches('"');
    let compiled = match PolicyName::parse(name) {
        Ok(name) => Policy::compile(&name, example).map_err(|error| format!("{error:#}")),
        Err(error) => Err(error.to_string()),
    };
    let why = compiled.err()?;
    Some(Finding::new(
        FILE,
        format!("its policy `{name}` does not compile: {why}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_does_not_compile_is_found() {
        assert_eq!(judge("# A\n").len(), 1);
        assert_eq!(judge("```toml\nformat = 1\nname = \"a\"\n```\n"), []);
        assert_eq!(
            judge("```toml\nformat = 1\nname = \"a\"\nx = 1\n```\n").len(),
            1
        );
    }
}
