//! The licences and the bans of `.deny.toml`, checked over the whole crate graph.

use std::{collections::BTreeSet, fs};

use anyhow::{Context as _, Result};
use cargo_metadata::MetadataCommand;
use serde::Deserialize;

use super::Finding;
use crate::places::Places;

const FILE: &str = ".deny.toml";

#[derive(Deserialize)]
struct File {
    bans: Bans,
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

pub(super) fn check(places: &Places) -> Result<Vec<Finding>> {
    let text = fs::read_to_string(places.root.join(FILE)).context("cannot read `.deny.toml`")?;
    let file: File = toml::from_str(&text).context("`.deny.toml` does not parse")?;
    let metadata = MetadataCommand::new()
        .current_dir(&places.root)
        .exec()
        .context("cannot ask cargo for the crate graph")?;
    let packages = metadata.packages.iter().map(|package| {
        let license = package.license.as_deref().unwrap_or("none");
        (package.name.as_str(), license)
    });
    Ok(packages
        .flat_map(|(name, license)| judge(&file, name, license))
        .collect())
}

fn judge(file: &File, name: &str, license: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(ban) = file.bans.deny.iter().find(|ban| ban.name == name) {
        findings.push(Finding::new(
            "Cargo.lock",
            format!("has `{name}`: {}", ban.reason),
        ));
    }
    if !admits(&file.licenses.allow, license) {
        let what = format!("has `{name}` under `{license}`, which `.deny.toml` does not allow");
        findings.push(Finding::new("Cargo.lock", what));
    }
    findings
}

/// Whether an SPDX expression can be met with `allowed` (SPDX 2.3, annex D): AND binds tighter
/// than OR. The old `A/B` means `A OR B`.
fn admits(allowed: &BTreeSet<String>, license: &str) -> bool {
    let spaced = license
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = any(allowed, &mut words);
    met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(allowed: &BTreeSet<String>, words: &mut Words<'_>) -> bool {
    let mut met = all(allowed, words);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(allowed, words);
    }
    met
}

fn all(allowed: &BTreeSet<String>, words: &mut Words<'_>) -> bool {
    let mut met = one(allowed, words);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(allowed, words);
    }
    met
}

fn one(allowed: &BTreeSet<String>, words: &mut Words<'_>) -> bool {
    match words.next() {
        Some("(") => {
            let met = any(allowed, words);
            words.next_if_eq(&")").is_some() && met
        }
        // An exception only adds to what the licence permits.
        Some(name) => {
            if words.next_if_eq(&"WITH").is_some() {
                words.next();
            }
            allowed.contains(name)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        toml::from_str(
            "[licenses]\nallow = ['MIT', 'ISC', 'Unicode-3.0']\n\
             [bans]\ndeny = [{ crate = 'bad', reason = 'why' }]",
        )
        .unwrap()
    }

    #[test]
    fn a_licence_is_met_where_one_way_through_its_expression_is() {
        let allowed = file().licenses.allow;
        for met in [
            "MIT",
            "Apache-2.0/MIT",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "MIT WITH LLVM-exception",
        ] {
            assert!(admits(&allowed, met), "{met}");
        }
        for unmet in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT", "none", "", "MIT ISC"] {
            assert!(!admits(&allowed, unmet), "{unmet}");
        }
    }

    #[test]
    fn a_banned_crate_is_found_with_its_reason() {
        let findings = judge(&file(), "bad", "MIT");
        assert_eq!(findings[0].what, "has `bad`: why");
        assert!(judge(&file(), "good", "MIT").is_empty());
    }
}
