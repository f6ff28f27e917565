//! Every crate takes the workspace's lints; no file sends cargo to another registry.

use super::{Finding, Source};

/// What Cargo.lock says of a package from the public registry.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let path = source.path.as_str();
    match path.rsplit('/').next() {
        Some("Cargo.toml") if path != "Cargo.toml" => lints(source).into_iter().collect(),
        Some("Cargo.lock") => foreign(source),
        Some("config.toml") if path.starts_with(".cargo/") => {
            replaced(source).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn lints(source: &Source) -> Option<Finding> {
    let mut lines = source
        .text
        .lines()
        .skip_while(|line| line.trim() != "[lints]");
    let taken = lines
        .nth(1)
        .is_some_and(|line| line.trim() == "workspace = true");
    (!taken).then(|| {
        Finding::new(
            &source.path,
            "must say `[lints]` and then `workspace = true`",
        )
    })
}

fn foreign(source: &Source) -> Vec<Finding> {
    let sources = source
        .text
        .lines()
        .enumerate()
        .filter_map(|(number, line)| {
            let from = line.strip_prefix("source = ")?.trim_matches('"');
            (from != REGISTRY).then(|| {
                let place = format!("{}:{}", source.path, number + 1);
                Finding::new(place, format!("takes a package from `{from}`"))
            })
        });
    sources.collect()
}

fn replaced(source: &Source) -> Option<Finding> {
    let tables = ["[source", "[registries", "[registry"];
    let replaced = source.text.lines().any(|line| {
        tables
            .iter()
            .any(|table| line.trim_start().starts_with(table))
    });
    replaced.then(|| {
        Finding::new(
            &source.path,
            "names another registry; that is each machine's own",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Source {
            path: path.into(),
            text: text.into(),
        })
        .len()
    }

    #[test]
    fn a_crate_without_the_workspaces_lints_is_found() {
        assert_eq!(
            findings("gate/Cargo.toml", "[package]\nname = \"gate\"\n"),
            1
        );
        assert_eq!(
            findings("gate/Cargo.toml", "[lints]\nworkspace = false\n"),
            1
        );
        assert_eq!(
            findings("gate/Cargo.toml", "[lints]\nworkspace = true\n"),
            0
        );
    }

    #[test]
    fn a_package_from_elsewhere_is_found() {
        let lock = format!("source = \"{REGISTRY}\"\nsource = \"git+https://example.org/x\"\n");
        assert_eq!(findings("Cargo.lock", &lock), 1);
    }

    #[test]
    fn a_registry_in_the_trees_own_cargo_configuration_is_found() {
        assert_eq!(findings(".cargo/config.toml", "[source.crates-io]\n"), 1);
        assert_eq!(findings(".cargo/config.toml", "[alias]\n"), 0);
    }
}
