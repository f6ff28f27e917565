//! The README prints every non-claim, in the words of the one file that has them.

use std::fs;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::Finding;
use crate::places::Places;

const FILE: &str = "fixtures/non-claims.toml";
const README: &str = "README.md";
const BEGIN: &str = "<!-- non-claims: begin, from fixtures/non-claims.toml -->\n";
const END: &str = "<!-- non-claims: end -->\n";

#[derive(Deserialize)]
struct File {
    non_claim: Vec<NonClaim>,
}

#[derive(Deserialize)]
struct NonClaim {
    what: String,
    because: String,
}

pub(super) fn check(places: &Places) -> Result<Vec<Finding>> {
    let read = |path: &str| {
        fs::read_to_string(places.root.join(path)).with_context(|| format!("cannot read `{path}`"))
    };
    let file: File =
        toml::from_str(&read(FILE)?).with_context(|| format!("`{FILE}` does not parse"))?;
    Ok(judge(&file, &read(README)?).into_iter().collect())
}

fn judge(file: &File, readme: &str) -> Option<Finding> {
    let wanted = print(file);
    let found = readme
        .split_once(BEGIN)
        .and_then(|(_, rest)| rest.split_once(END))
        .map(|(found, _)| found);
    (found != Some(wanted.as_str())).then(|| {
        let what = format!(
            "between its marks it must say the non-claims of `{FILE}`:\n{BEGIN}{wanted}{END}"
        );
        Finding::new(README, what)
    })
}

fn print(file: &File) -> String {
    file.non_claim
        .iter()
        .map(|claim| format!("- **{}**: {}.\n", claim.what, claim.because))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readme_that_says_something_else_is_found() {
        let file = File {
            non_claim: vec![NonClaim {
                what: "that it stays up".into(),
                because: "it fails closed".into(),
            }],
        };
        let readme = |line: &str| format!("# A\n{BEGIN}{line}{END}more\n");
        assert_eq!(
            judge(&file, &readme("- **that it stays up**: it fails closed.\n")),
            None
        );
        assert!(judge(&file, &readme("- **that it stays up**: we hope.\n")).is_some());
        assert!(judge(&file, "# A\n").is_some());
    }
}
