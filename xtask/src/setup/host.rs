//! The host that this version knows: Debian 12 or 13 userland, kernel 6.12 or newer.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::say;

/// Landlock's scopes came with 6.12 (landlock(7)), and it is the oldest kernel that was tried.
const KERNEL_FLOOR: (u32, u32) = (6, 12);

pub(super) fn check() -> Result<()> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")
        .context("cannot read the kernel's version")?;
    let kernel = version(release.trim())
        .with_context(|| format!("cannot read kernel version `{}`", release.trim()))?;
    if kernel < KERNEL_FLOOR {
        let (major, minor) = KERNEL_FLOOR;
        bail!("kernel `{}` is older than {major}.{minor}", release.trim());
    }
    let os = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    if !is_known(&os) {
        say::line(
            "    this is not Debian 12 or 13: package names may differ, nothing was tried here",
        );
    }
    Ok(())
}

/// `6.12.3-amd64` as (6, 12).
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn is_known(os_release: &str) -> bool {
    let field = |name: &str| {
        os_release
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(|value| value.trim_matches('"'))
    };
    field("ID") == Some("debian") && matches!(field("VERSION_ID"), Some("12" | "13"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_are_compared_as_numbers() {
        assert_eq!(version("6.12.3-amd64"), Some((6, 12)));
        assert!(version("6.9.0").unwrap() < KERNEL_FLOOR);
        assert!(version("7.0-rc1").unwrap() > KERNEL_FLOOR);
        assert_eq!(version("6"), None);
    }

    #[test]
    fn debian_12_and_13_are_known() {
        assert!(is_known("ID=debian\nVERSION_ID=\"13\"\n"));
        assert!(!is_known("ID=ubuntu\nVERSION_ID=\"24.04\"\n"));
        assert!(!is_known("ID=debian\nVERSION_ID=\"11\"\n"));
    }
}
