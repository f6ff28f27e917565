//! What holds for every text file: it ends with one newline, has no trailing blanks, names no
//! machine; a Rust file that grows past one sitting is pointed at.

use super::{Finding, Source};

/// Past this, ask what the second idea is.
const LONG: usize = 400;

/// Folders of one machine. Split so that this file is not its own finding.
const MACHINES: &[&str] = &[
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/ro", "ot/.cargo"),
    concat!("/tmp/", "t-"),
];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if is_data(&source.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if !source.text.is_empty() && (!source.text.ends_with('\n') || source.text.ends_with("\n\n")) {
        findings.push(Finding::new(&source.path, "must end with one newline"));
    }
    for (number, line) in source.text.lines().enumerate() {
        let place = || format!("{}:{}", source.path, number + 1);
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(place(), "has trailing blanks"));
        }
        if let Some(machine) = MACHINES.iter().find(|machine| line.contains(**machine)) {
            findings.push(Finding::new(
                place(),
                format!("names a folder of one machine: `{machine}`"),
            ));
        }
    }
    findings
}

pub(super) fn warn(source: &Source) -> Option<Finding> {
    let lines = source.text.lines().count();
    (source.path.ends_with(".rs") && lines > LONG).then(|| {
        Finding::new(
            &source.path,
            format!("has {lines} lines; past {LONG}, ask what the second idea is"),
        )
    })
}

/// Recorded bytes are kept as they are.
fn is_data(path: &str) -> bool {
    path == "LICENSE" || path == "Cargo.lock" || path.ends_with(".jsonl") || path.ends_with(".json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        check(&Source {
            path: "gate/src/lib.rs".into(),
            text: text.into(),
        })
        .len()
    }

    #[test]
    fn the_end_of_a_file_is_one_newline() {
        assert_eq!(findings("a\n"), 0);
        assert_eq!(findings("a"), 1);
        assert_eq!(findings("a\n\n"), 1);
    }

    #[test]
    fn a_folder_of_one_machine_is_found() {
        assert_eq!(findings("see /usr/bin/rustc\n"), 0);
        assert_eq!(findings(concat!("see /wo", "rk/main\n")), 1);
    }

    #[test]
    fn a_long_file_is_only_pointed_at() {
        let long = Source {
            path: "gate/src/lib.rs".into(),
            text: "//\n".repeat(401),
        };
        assert!(warn(&long).is_some());
        assert!(check(&long).is_empty());
    }
}
