//! The agent zone: its roots and everything that they are built from, from the crate graph.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// The crate graph, as far as a zone needs it.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Our packages and the folders of their sources.
    pub members: BTreeMap<String, PathBuf>,
    /// Package to the packages that it is built from (normal dependencies, not tests' or builds').
    pub edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Asks cargo for the graph of the workspace at `source`.
    ///
    /// # Errors
    /// When cargo cannot say.
    pub fn of(source: &Path) -> Result<Self, cargo_metadata::Error> {
        let metadata = MetadataCommand::new()
            .current_dir(source)
            .other_options([
                "--locked".into(),
                // It was built from what is there; root fetches nothing.
                "--offline".into(),
                "--filter-platform=x86_64-unknown-linux-gnu".into(),
            ])
            .exec()?;
        let name = |id| {
            metadata
                .packages
                .iter()
                .find(|package| &package.id == id)
                .map(|package| package.name.to_string())
        };
        let members = metadata
            .workspace_packages()
            .iter()
            .filter_map(|package| {
                let folder = package.manifest_path.parent()?.join("src");
                Some((package.name.to_string(), folder.into_std_path_buf()))
            })
            .collect();
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in metadata.resolve.iter().flat_map(|resolve| &resolve.nodes) {
            let Some(from) = name(&node.id) else { continue };
            let to = node
                .deps
                .iter()
                .filter(|dependency| {
                    dependency
                        .dep_kinds
                        .iter()
                        .any(|kind| kind.kind == DependencyKind::Normal)
                })
                .filter_map(|dependency| name(&dependency.pkg));
            edges.entry(from).or_default().extend(to);
        }
        Ok(Self { members, edges })
    }

    /// Everything that `roots` are built from, themselves included.
    pub fn closure<'a>(&self, roots: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
        let mut zone = BTreeSet::new();
        let mut open: Vec<String> = roots.into_iter().map(str::to_owned).collect();
        while let Some(package) = open.pop() {
            if let Some(next) = self.edges.get(&package) {
                open.extend(next.iter().filter(|it| !zone.contains(*it)).cloned());
            }
            zone.insert(package);
        }
        zone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_closed_over_what_its_roots_are_built_from() {
        let edge =
            |from: &str, to: &[&str]| (from.into(), to.iter().map(|it| (*it).into()).collect());
        let graph = Graph {
            members: BTreeMap::new(),
            edges: [
                edge("bridge", &["nix"]),
                edge("launch", &["sys", "wire"]),
                edge("wire", &["gate"]),
                edge("vault", &["ledger"]),
            ]
            .into(),
        };
        let zone: Vec<_> = graph.closure(["bridge", "launch"]).into_iter().collect();
        assert_eq!(zone, ["bridge", "gate", "launch", "nix", "sys", "wire"]);
    }
}
