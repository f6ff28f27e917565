//! The Debian archive that this host installs from, asked about other releases.
//!
//! Where it is and whose signature counts stands in the host's own sources (sources.list(5)); no
//! name of a machine stands here. What is asked is private: lists of its own, and a status file
//! that says that nothing is installed, so that nothing of the host is changed or believed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, bail};

use crate::{say, stage};

mod sources;

pub(super) use sources::Source;

/// How long an index is good enough. Debian's archive changes four times a day.
const FRESH: Duration = Duration::from_secs(24 * 60 * 60);

/// An index of some suites, in a folder of its own.
#[derive(Debug)]
pub(super) struct Index {
    folder: PathBuf,
}

/// A package that can be downloaded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) depends: String,
    pub(super) sha256: String,
}

impl Index {
    /// The index of `suites` in `folder`, not older than a day. Where the archive cannot be
    /// reached an older one is good enough: what it names may be in the cache.
    pub(super) fn open(source: &Source, suites: &[&str], folder: &Path) -> Result<Self> {
        for below in ["lists/partial", "cache/archives/partial", "parts"] {
            fs::create_dir_all(folder.join(below)).context("the index's folder")?;
        }
        fs::write(folder.join("status"), "").context("the index's status")?;
        let lines: String = suites.iter().map(|suite| source.line(suite)).collect();
        let list = folder.join("sources.list");
        let known = fs::read_to_string(&list).is_ok_and(|old| old == lines);
        fs::write(&list, lines).context("the index's sources")?;
        let index = Self {
            folder: folder.to_owned(),
        };
        let stamp = folder.join("updated");
        let age = stamp
            .metadata()
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok());
        if known && age.is_some_and(|age| age < FRESH) {
            return Ok(index);
        }
        say::line(format_args!(
            "    asking the archive for {}",
            suites.join(", ")
        ));
        match stage::output(
            index
                .apt("apt-get")
                .args(["-q", "update", "--error-on=any"]),
        ) {
            Ok(_) => fs::write(stamp, "").context("the index's stamp")?,
            Err(error) if known && age.is_some() => {
                say::line(format_args!("    an older index is used: {error:#}"));
            }
            Err(error) => return Err(error.context("cannot read the index of Debian's archive")),
        }
        Ok(index)
    }

    /// Every version of `name`, newest first: so apt keeps them.
    pub(super) fn versions(&self, name: &str) -> Result<Vec<Package>> {
        let text = stage::output(self.apt("apt-cache").args(["show", "--all-versions", name]))?;
        Ok(parse(&text))
    }

    /// One version of `name`.
    pub(super) fn package(&self, name: &str, version: &str) -> Result<Package> {
        self.versions(name)?
            .into_iter()
            .find(|package| package.version == version)
            .with_context(|| format!("the archive has no {name} {version}"))
    }

    /// Downloads a package into the folder `to`. apt checks it against the signed index.
    pub(super) fn download(&self, package: &Package, to: &Path) -> Result<()> {
        let mut apt = self.apt("apt-get");
        apt.args(["-q", "download"])
            .arg(format!("{}={}", package.name, package.version))
            .current_dir(to);
        stage::output(&mut apt).map(drop)
    }

    /// Paths are absolute: apt takes others as below its own folders (apt.conf(5), `Dir`).
    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (key, below) in [
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::Etc::sourceparts", "parts"),
            ("Dir::Etc::preferencesparts", "parts"),
            ("Dir::State::lists", "lists"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
        ] {
            let path = self.folder.join(below);
            command.arg("-o").arg(format!("{key}={}", path.display()));
        }
        command.args([
            "-o",
            "APT::Sandbox::User=root",
            "-o",
            "Acquire::Languages=none",
            "-o",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        ]);
        command
    }
}

/// The stanzas that `apt-cache show` prints (deb-control(5)).
fn parse(text: &str) -> Vec<Package> {
    let field = |stanza: &str, name: &str| {
        stanza
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .unwrap_or_default()
            .to_owned()
    };
    text.split("\n\n")
        .filter(|stanza| !stanza.trim().is_empty())
        .map(|stanza| Package {
            name: field(stanza, "Package"),
            version: field(stanza, "Version"),
            depends: field(stanza, "Depends"),
            sha256: field(stanza, "SHA256"),
        })
        .collect()
}

impl Package {
    /// The names in `Depends` that begin with one of `prefixes`; first alternatives only.
    pub(super) fn needs(&self, prefixes: &[&str]) -> Vec<String> {
        self.depends
            .split(',')
            .filter_map(|need| need.split_whitespace().next())
            .filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
            .map(str::to_owned)
            .collect()
    }

    /// That the index names a digest; without one nothing is kept.
    pub(super) fn digest(&self) -> Result<&str> {
        if self.sha256.len() == 64 && self.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            Ok(&self.sha256)
        } else {
            bail!("the index names no SHA-256 of {}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "\
Package: linux-image-cloud-amd64
Version: 7.3.4-1
Depends: linux-base-cloud-amd64 (= 7.3.4-1), linux-image-7.3.4-cloud-amd64 (= 7.3.4-1)
SHA256: aa

Package: linux-image-cloud-amd64
Version: 6.12.1-1
Depends: linux-image-6.12.1-cloud-amd64 (= 6.12.1-1)
";

    #[test]
    fn every_version_is_read_with_what_it_needs() {
        let packages = parse(SHOWN);
        let versions: Vec<_> = packages.iter().map(|p| p.version.as_str()).collect();
        assert_eq!(versions, ["7.3.4-1", "6.12.1-1"]);
        assert_eq!(
            packages[0].needs(&["linux-image-"]),
            ["linux-image-7.3.4-cloud-amd64"]
        );
    }

    #[test]
    fn a_package_without_a_digest_is_refused() {
        let packages = parse(SHOWN);
        assert!(packages[0].digest().is_err() && packages[1].digest().is_err());
        let good = Package {
            sha256: "0".repeat(64),
            ..packages[0].clone()
        };
        assert!(good.digest().is_ok());
    }
}
