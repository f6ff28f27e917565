//! Crates import only downwards: the floors are written here, a new crate must be given one.

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

use super::Finding;
use crate::places::Places;

/// The floors, lowest first. A crate may use those of lower floors only.
const FLOORS: &[&[&str]] = &[
    &["agent-ebpf", "gate"],
    &["custody-rules", "custody-sys"],
    &["custody-wire"],
    &[
        "custody-config",
        "custody-ledger",
        "custody-replay",
        "custody-service",
        "custody-shown",
    ],
    &["custody-approvals", "custody-audit", "custody-scan"],
    // Its library tidies the workspaces that it changed, for custodyd.
    &["custody-launch"],
    &[
        "custody-bridge",
        "custody-control",
        "custody-effect",
        "custody-front",
        "custody-gatekeeper",
        "custody-review",
        "custody-supervisor",
        "custody-vault",
    ],
    &["custody-cli"],
    &["custody-tests", "xtask"],
];

/// Our crates that a crate may use at all, where its floor would allow more. custody-bridge is in
/// the agent zone and holds nothing.
const ONLY: &[(&str, &[&str])] = &[("custody-bridge", &[])];

pub(super) fn check(places: &Places) -> Result<Vec<Finding>> {
    let metadata = MetadataCommand::new()
        .current_dir(&places.root)
        .no_deps()
        .exec()
        .context("cannot ask cargo for the crate graph")?;
    let edges = metadata.packages.iter().flat_map(|package| {
        package
            .dependencies
            .iter()
            .filter(|dependency| dependency.path.is_some())
            .map(|dependency| {
                (
                    package.name.as_str(),
                    dependency.name.as_str(),
                    dependency.kind,
                )
            })
    });
    let homeless = metadata
        .packages
        .iter()
        .filter(|package| floor(&package.name).is_none())
        .map(|package| {
            Finding::new(
                package.name.as_str(),
                "has no floor; give it one in xtask/src/tidy/imports.rs",
            )
        });
    Ok(homeless
        .chain(edges.filter_map(|(from, to, kind)| judge(from, to, kind)))
        .collect())
}

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&name))
}

fn judge(from: &str, to: &str, kind: DependencyKind) -> Option<Finding> {
    if let Some((_, only)) = ONLY.iter().find(|(name, _)| *name == from)
        && !only.contains(&to)
    {
        return Some(Finding::new(from, format!("must not use `{to}`")));
    }
    let (above, below) = (floor(from)?, floor(to)?);
    // A program's tests may drive its neighbour, the real one.
    let reach = above + usize::from(kind == DependencyKind::Development);
    (below >= reach).then(|| Finding::new(from, format!("uses `{to}`, which is not below it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(from: &str, to: &str) -> Option<Finding> {
        judge(from, to, DependencyKind::Normal)
    }

    #[test]
    fn a_crate_may_use_what_lies_below_it() {
        assert_eq!(normal("custody-vault", "gate"), None);
        assert_eq!(normal("xtask", "custody-cli"), None);
    }

    #[test]
    fn upwards_and_sideways_are_findings() {
        assert!(normal("gate", "custody-sys").is_some());
        assert!(normal("custody-gatekeeper", "custody-vault").is_some());
    }

    #[test]
    fn tests_may_reach_sideways_and_not_upwards() {
        let tests = |from, to| judge(from, to, DependencyKind::Development);
        assert_eq!(tests("custody-vault", "custody-effect"), None);
        assert!(tests("gate", "custody-vault").is_some());
    }

    #[test]
    fn the_bridge_uses_none_of_ours() {
        assert!(normal("custody-bridge", "custody-wire").is_some());
    }
}
