//! The root of the machines: Debian with systemd, made once and then kept.
//!
//! It is of the host's own release, so that programs which were linked here run there, and from
//! the archive that the host's own apt uses.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};
use sha2::{Digest as _, Sha256};

/// Beside what Debian calls essential. Python is for the agents, in the test and in the suite.
const PACKAGES: &str = "dbus,python3,systemd,systemd-sysv,util-linux";

/// Part of the cache's key: to be raised when something else than the packages changes.
const RECIPE: &str = "1";

/// mmdebstrap took 100 s on two busy cores.
const SECONDS_MAX: &str = "900";

/// From where and which release.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Source {
    /// The release's code name.
    codename: String,
    /// The archive.
    uri: String,
}

impl Source {
    /// What the host's own apt uses for the host's own release.
    ///
    /// # Errors
    /// When the host is not Debian, or apt has no index of its archive yet: what is then needed.
    pub fn of_host() -> anyhow::Result<Self> {
        let os = fs::read_to_string("/etc/os-release").context("/etc/os-release")?;
        let codename = field(&os, "VERSION_CODENAME").context("a Debian release")?;
        let output = Command::new("apt-get")
            .args(["indextargets", "--format"])
            .arg("$(ORIGIN) $(RELEASE) $(COMPONENT) $(REPO_URI)")
            .arg("Created-By: Packages")
            .output()
            .context("apt-get(8)")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let uri = archive(&text, &codename)
            .with_context(|| format!("apt's index of Debian {codename}: run `apt-get update`"))?;
        Ok(Self { codename, uri })
    }

    fn key(&self) -> String {
        let recipe = format!("{RECIPE}\n{}\n{}\n{PACKAGES}\n", self.codename, self.uri);
        let digest = Sha256::digest(recipe);
        digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// The root in the folder `guest`, made if it is not there.
    ///
    /// # Errors
    /// When it cannot be made; mmdebstrap's last words are in the error.
    pub fn root(&self, guest: &Path) -> anyhow::Result<PathBuf> {
        let root = guest.join(format!("rootfs-{}", self.key()));
        if root.is_dir() {
            return Ok(root);
        }
        fs::create_dir_all(guest).with_context(|| format!("`{}`", guest.display()))?;
        let fresh = guest.join(format!("rootfs-{}.new", self.key()));
        if fresh.exists() {
            fs::remove_dir_all(&fresh).with_context(|| format!("`{}`", fresh.display()))?;
        }
        self.make(&fresh)?;
        fs::rename(&fresh, &root).with_context(|| format!("`{}`", root.display()))?;
        Ok(root)
    }

    fn make(&self, fresh: &Path) -> anyhow::Result<()> {
        // A mount namespace: what mmdebstrap mounts goes with it, however it ends.
        let output = Command::new("timeout")
            .args(["--kill-after=5", SECONDS_MAX, "unshare", "--mount"])
            .args(["mmdebstrap", "--mode=root", "--variant=minbase"])
            .arg(format!("--include={PACKAGES}"))
            .args(
                [
                    "/usr/share/doc/*",
                    "/usr/share/locale/*",
                    "/usr/share/man/*",
                ]
                .map(exclude),
            )
            .arg(&self.codename)
            .arg(fresh)
            .arg(format!("deb {} {} main", self.uri, self.codename))
            .stdin(Stdio::null())
            .output()
            .context("mmdebstrap(1)")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last: Vec<&str> = said.lines().rev().take(12).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            bail!("mmdebstrap ended ({}): {}", output.status, last.join("\n"));
        }
        ensure!(
            fresh.join("usr/lib/systemd/systemd").is_file(),
            "mmdebstrap made a root without systemd"
        );
        Ok(())
    }
}

fn exclude(path: &str) -> String {
    format!("--dpkgopt=path-exclude={path}")
}

fn field(os_release: &str, name: &str) -> Option<String> {
    os_release
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
        .map(|value| value.trim_matches('"').to_owned())
}

/// The archive of Debian's main component of `codename`, from `apt-get indextargets`.
fn archive(targets: &str, codename: &str) -> Option<String> {
    targets.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Debian", release, "main", uri] if *release == codename => Some((*uri).to_owned()),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_debians_own_for_the_hosts_release() {
        let targets = "Somebody bookworm main http://somebody.example/apt\n\
                       Debian bookworm-security main http://security.example/debian\n\
                       Debian bookworm contrib http://archive.example/debian\n\
                       Debian bookworm main http://archive.example/debian\n";
        assert_eq!(
            archive(targets, "bookworm").as_deref(),
            Some("http://archive.example/debian")
        );
        assert_eq!(archive(targets, "trixie"), None);
    }

    #[test]
    fn another_release_or_archive_is_another_root() {
        let source = |codename: &str, uri: &str| Source {
            codename: codename.into(),
            uri: uri.into(),
        };
        let key = source("a", "b").key();
        assert_eq!(key, source("a", "b").key());
        assert_ne!(key, source("a", "c").key());
        assert_ne!(key, source("c", "b").key());
    }

    #[test]
    fn a_field_of_os_release_may_be_quoted() {
        let text = "ID=debian\nVERSION_CODENAME=\"trixie\"\n";
        assert_eq!(field(text, "VERSION_CODENAME").as_deref(), Some("trixie"));
        assert_eq!(field(text, "VERSION"), None);
    }
}
