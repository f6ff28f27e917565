//! `custody policy`: policies, without a service.
//!
//! | module | what |
//! |---|---|
//! | [`check`] | what the service would make of one |
//! | [`init`] | one to begin with, of what a scan says |
//! | [`fmt`] | one written in the form that all have |
//! | `form` | that form |
//! | `wrong` | what is wrong with one, with the line that it is in |

pub mod check;
pub mod fmt;
mod form;
pub mod init;
mod wrong;

use std::{fs, path::Path};

use anyhow::Context as _;
use custody_rules::RulesError;
use gate::{id::PolicyName, policy::Policy};

use crate::complain;

/// The policy of a file; none if it is not good, which was said then.
///
/// # Errors
/// When the file cannot be read, or is not named as a policy's is.
pub(crate) fn compile(file: &Path) -> anyhow::Result<Option<Policy>> {
    Ok(compile_text(file)?.map(|(policy, _text)| policy))
}

/// The same, with the text that it was compiled of.
///
/// # Errors
/// As [`compile`].
pub(crate) fn compile_text(file: &Path) -> anyhow::Result<Option<(Policy, String)>> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read `{shown}`"))?;
    Ok(of_text(file, &text)?.map(|policy| (policy, text)))
}

/// The policy of a text that is, or is to be, the file's; none if it is not good, which was said then.
///
/// # Errors
/// When the file is not named as a policy's is.
fn of_text(file: &Path, text: &str) -> anyhow::Result<Option<Policy>> {
    let name = name_of(file)?;
    let beside = |name: &str| {
        fs::read_to_string(file.with_file_name(name)).map_err(|error| error.to_string())
    };
    match Policy::compile_beside(&name, text, &beside) {
        Ok(policy) => Ok(Some(policy)),
        Err(_first) => {
            wrong::complain_of(file, text, &Policy::faults(&name, text, &beside));
            Ok(None)
        }
    }
}

/// The name that a policy has by its file's.
///
/// # Errors
/// When the file is not named as a policy's is.
fn name_of(file: &Path) -> anyhow::Result<PolicyName> {
    let shown = file.display();
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.strip_suffix(".toml"))
        .with_context(|| format!("`{shown}` is not named NAME.toml; the name is the policy's"))?;
    PolicyName::parse(name).with_context(|| format!("the name of `{shown}`"))
}

/// Says what is wrong with a policy's rules, a line each.
pub(crate) fn complain_of(file: &Path, error: &RulesError) {
    let rules = file.with_file_name(&error.file);
    for fault in &error.faults {
        complain(&format!("{}:{}: {fault}", rules.display(), fault.line));
    }
}
