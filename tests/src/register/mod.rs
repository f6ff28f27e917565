//! The register's half of property E: the file that lists every credential and key, held against
//! the source.
//!
//! | module | what |
//! |---|---|
//! | [`access`] | where the code obtains a credential or a key |
//! | [`entry`] | the register |
//! | [`zone`] | the agent zone, from the crate graph |
//!
//! **Invariant:** the check reads source and crate graph; it never reads a credential.

pub mod access;
pub mod entry;
pub mod zone;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    process::Command,
};

use self::{
    entry::{Entry, Register, RegisterError},
    zone::Graph,
};
use crate::evidence::status::RegisterHalf;

/// Why the check could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The crate graph.
    #[error("cargo does not say which crates there are")]
    Graph(#[source] Box<cargo_metadata::Error>),
    /// The register.
    #[error("the register cannot be used")]
    Register(#[from] RegisterError),
    /// The source.
    #[error("the source of `{package}` cannot be read")]
    Source {
        /// Whose.
        package: String,
        /// Why.
        source: io::Error,
    },
}

/// Holds the register of the tree at `source` against its source.
///
/// # Errors
/// When the check could not be made. What it finds is in the half's `drifts`.
pub fn check(source: &Path) -> Result<RegisterHalf, CheckError> {
    let register = Register::of(source)?;
    let graph = Graph::of(source).map_err(|error| CheckError::Graph(Box::new(error)))?;
    let sites = sites(&register, &graph)?;
    Ok(compare(&register, &graph, &sites, revision(source)))
}

/// Every site at which a package that is not excluded obtains a credential.
fn sites(register: &Register, graph: &Graph) -> Result<BTreeSet<String>, CheckError> {
    let mut sites = BTreeSet::new();
    for (package, folder) in &graph.members {
        if register
            .scope
            .excluded
            .iter()
            .any(|it| it.package == *package)
        {
            continue;
        }
        let closure = graph.closure([package.as_str()]);
        let found = access::sites(package, folder).map_err(|source| CheckError::Source {
            package: package.clone(),
            source,
        })?;
        sites.extend(
            found
                .into_iter()
                .filter(|site| access::can_mean(site, &closure)),
        );
    }
    Ok(sites)
}

/// Compares the register with what the source does.
pub fn compare(
    register: &Register,
    graph: &Graph,
    sites: &BTreeSet<String>,
    revision: String,
) -> RegisterHalf {
    let roots: Vec<&str> = register
        .zone
        .root
        .iter()
        .map(|it| it.package.as_str())
        .collect();
    let zone = graph.closure(roots.iter().copied());
    let mut drifts = read_but_not_listed(register, sites);
    for entry in &register.credential {
        drifts.extend(entry_drifts(entry, sites));
        drifts.extend(
            inside(entry, &zone)
                .map(|site| format!("`{}` is read inside the agent zone: {site}", entry.id)),
        );
    }
    for root in &register.zone.root {
        if !graph.members.contains_key(&root.package) {
            drifts.push(format!(
                "zone root `{}` is no package of ours",
                root.package
            ));
        }
    }
    let ours = zone
        .iter()
        .filter(|it| graph.members.contains_key(*it))
        .count();
    let mut described = vec![format!(
        "the zone holds {} packages, {ours} of them ours: {}",
        zone.len(),
        roots.join(", ")
    )];
    described.extend(
        register
            .zone
            .root
            .iter()
            .map(|root| format!("root `{}`: {}", root.package, root.reason)),
    );
    described.extend(wider(register, graph, &roots));
    RegisterHalf {
        revision,
        entries: register.credential.len(),
        drifts,
        limits: register
            .limit
            .iter()
            .map(|limit| format!("{}: {}", limit.id, limit.limit))
            .chain(register.credential.iter().flat_map(|entry| {
                entry
                    .limits
                    .iter()
                    .map(|limit| format!("{}: {limit}", entry.id))
            }))
            .collect(),
        zone: described,
    }
}

/// First drift: the code reads it and the register does not list it.
fn read_but_not_listed(register: &Register, sites: &BTreeSet<String>) -> Vec<String> {
    let listed: BTreeSet<&String> = register
        .credential
        .iter()
        .flat_map(|it| &it.readers)
        .collect();
    sites
        .iter()
        .filter(|site| !listed.contains(site))
        .map(|site| format!("the code reads what the register does not list: {site}"))
        .collect()
}

/// Second and third drift: nothing reads an entry any more, or its readers are others.
fn entry_drifts(entry: &Entry, sites: &BTreeSet<String>) -> Vec<String> {
    let gone: Vec<&String> = entry.readers.difference(sites).collect();
    if gone.len() == entry.readers.len() {
        return vec![format!("nothing reads `{}` any more", entry.id)];
    }
    gone.into_iter()
        .map(|site| format!("`{}` has other readers: not any more {site}", entry.id))
        .collect()
}

/// Readers of an entry that is declared unreachable, inside `zone`.
fn inside<'a>(
    entry: &'a Entry,
    zone: &'a BTreeSet<String>,
) -> impl Iterator<Item = &'a String> + 'a {
    entry
        .readers
        .iter()
        .filter(move |site| !entry.agent_reachable && zone.contains(package_of(site)))
}

/// What changes if the roots are drawn wider, one package at a time.
fn wider<'a>(
    register: &'a Register,
    graph: &'a Graph,
    roots: &'a [&'a str],
) -> impl Iterator<Item = String> + 'a {
    graph
        .members
        .keys()
        .filter(move |package| !roots.contains(&package.as_str()))
        .filter_map(move |package| {
            let zone = graph.closure(roots.iter().copied().chain([package.as_str()]));
            let reached: Vec<&str> = register
                .credential
                .iter()
                .filter(|entry| inside(entry, &zone).next().is_some())
                .map(|entry| entry.id.as_str())
                .collect();
            (!reached.is_empty()).then(|| {
                format!(
                    "wider by `{package}`, it would hold readers of {}",
                    reached.join(", ")
                )
            })
        })
}

/// The package in `ACCESS PACKAGE::MODULE`.
fn package_of(site: &str) -> &str {
    site.split_once(' ')
        .map_or(site, |(_, module)| module)
        .split("::")
        .next()
        .unwrap_or_default()
}

/// The commit of the tree, and whether it was changed since.
fn revision(source: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(source)
            .args(arguments)
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "HEAD"]), git(&["status", "--porcelain"])) {
        (Some(head), Some(changes)) if changes.is_empty() => head,
        (Some(head), _) => format!("{head}, with changes that are not committed"),
        (None, _) => "no revision: not a git checkout".into(),
    }
}

/// The entries by class, for a reader.
pub fn summary(register: &Register) -> BTreeMap<String, Vec<String>> {
    let mut classes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in &register.credential {
        classes
            .entry(format!("{:?}", entry.class))
            .or_default()
            .push(entry.id.clone());
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        format = 1
        limit = [{ id = "L1", limit = "plain file reads are not seen" }]
        [scope]
        excluded = []
        [zone]
        root = [{ package = "bridge", reason = "it runs in the session" }]
        [[credential]]
        id = "token"
        class = "effect_credential"
        holder = "vault"
        authorized_path = "permit"
        readers = ["credential.read vault::credential", "credential.lend vault::work"]
        agent_reachable = false
        reachability = "another uid"
        limits = ["root reads it"]
    "#;

    fn register() -> Register {
        Register::parse(TEXT).unwrap()
    }

    fn graph() -> Graph {
        let edge =
            |from: &str, to: &[&str]| (from.into(), to.iter().map(|it| (*it).into()).collect());
        Graph {
            members: ["bridge", "front", "vault"]
                .map(|it| (it.into(), "".into()))
                .into(),
            edges: [
                edge("bridge", &[]),
                edge("front", &["vault"]),
                edge("vault", &[]),
            ]
            .into(),
        }
    }

    fn sites() -> BTreeSet<String> {
        register().credential[0].readers.clone()
    }

    fn drifts(register: &Register, sites: &BTreeSet<String>) -> Vec<String> {
        compare(register, &graph(), sites, "0".into()).drifts
    }

    #[test]
    fn a_register_that_agrees_has_no_drift_and_states_limits_and_zone() {
        let half = compare(&register(), &graph(), &sites(), "0".into());
        assert_eq!(half.drifts, Vec::<String>::new());
        assert_eq!(
            half.limits,
            ["L1: plain file reads are not seen", "token: root reads it"]
        );
        let zone = half.zone.join("\n");
        assert!(
            zone.contains("wider by `front`, it would hold readers of token"),
            "{zone}"
        );
    }

    #[test]
    fn what_the_code_reads_and_the_register_omits_is_a_drift() {
        let mut sites = sites();
        sites.insert("key.file gate::main".into());
        assert_eq!(
            drifts(&register(), &sites),
            ["the code reads what the register does not list: key.file gate::main"]
        );
    }

    #[test]
    fn an_entry_that_nothing_reads_is_a_drift() {
        assert_eq!(
            drifts(&register(), &BTreeSet::new()),
            ["nothing reads `token` any more"]
        );
    }

    #[test]
    fn a_reader_set_that_differs_is_a_drift() {
        let mut fewer = sites();
        fewer.remove("credential.lend vault::work");
        assert_eq!(
            drifts(&register(), &fewer),
            ["`token` has other readers: not any more credential.lend vault::work"]
        );
    }

    #[test]
    fn a_read_inside_the_agent_zone_is_a_drift() {
        let mut register = register();
        let site = "credential.read bridge".to_owned();
        register.credential[0].readers.insert(site.clone());
        let mut sites = sites();
        sites.insert(site);
        assert_eq!(
            drifts(&register, &sites),
            ["`token` is read inside the agent zone: credential.read bridge"]
        );
    }

    #[test]
    fn the_register_of_this_tree_agrees_with_its_source() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let half = match check(&source) {
            Err(CheckError::Graph(error)) if is_not_ours(&error) => {
                println!("not attempted: needs a cargo that this user may execute");
                return;
            }
            checked => checked.unwrap(),
        };
        assert_eq!(half.drifts, Vec::<String>::new());
        assert!(half.entries >= 5, "{}", half.entries);
    }

    /// Whether cargo lies in another user's home.
    fn is_not_ours(error: &cargo_metadata::Error) -> bool {
        matches!(error, cargo_metadata::Error::Io(error)
            if error.kind() == io::ErrorKind::PermissionDenied)
    }
}
