//! The operators' policies: one file for each suite, to be read and changed.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use custody_replay::{
    format::Suite,
    generate::{self, Additions, Without},
};
use gate::{id::PolicyName, policy::Policy};

use crate::say;

/// The folder of the policies.
const FOLDER: &str = "policies";

/// What an operator says beside the labels of the tools.
pub(super) fn additions(ours: &Path) -> Result<Additions> {
    let path = ours.join("operator.toml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Additions::parse(&text).with_context(|| format!("`{}`", path.display()))
}

/// Writes the suite's policy anew.
pub(super) fn write(ours: &Path, suite: &Suite, additions: &Additions) -> Result<()> {
    let text = made(suite, additions)?;
    compile(suite, &text)?;
    let path = ours.join(FOLDER).join(format!("{}.toml", suite.suite));
    fs::create_dir_all(ours.join(FOLDER)).context("cannot make the folder of the policies")?;
    fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))
}

/// The suite's policy: the file that lies there, if it has every tool of the suite; else one that is
/// made from the labels.
pub(super) fn of(ours: &Path, suite: &Suite, additions: &Additions) -> Result<Policy> {
    let path = ours.join(FOLDER).join(format!("{}.toml", suite.suite));
    if path.exists() {
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        let policy = compile(suite, &text).with_context(|| format!("`{}`", path.display()))?;
        let missing = suite
            .tools
            .iter()
            .find(|it| !policy.tools().contains_key(it.name.as_str()));
        match missing {
            None => return Ok(policy),
            Some(tool) => say::error(format_args!(
                "`{}` has no tool `{}`; a policy is made from the labels instead",
                path.display(),
                tool.name
            )),
        }
    }
    compile(suite, &made(suite, additions)?)
}

/// The suite's policy as it is made, with a rule left out.
pub(super) fn without(suite: &Suite, additions: &Additions, without: Without) -> Result<Policy> {
    let text = generate::policy_without(suite, additions, Some(without))
        .with_context(|| format!("suite `{}`", suite.suite))?;
    compile(suite, &text)
}

fn made(suite: &Suite, additions: &Additions) -> Result<String> {
    generate::policy(suite, additions).with_context(|| format!("suite `{}`", suite.suite))
}

fn compile(suite: &Suite, text: &str) -> Result<Policy> {
    let name = PolicyName::parse(&suite.suite)
        .with_context(|| format!("suite `{}` cannot name a policy", suite.suite))?;
    Policy::compile(&name, text).with_context(|| format!("the policy of suite `{}`", suite.suite))
}
