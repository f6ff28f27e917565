//! Debian's cloud kernels: found in the archive, fetched, unpacked, kept by their digests.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use super::{
    archive::{Index, Package, Source},
    cache::{self, Cache},
    disk::{self, Kind},
    tools, vmlinux,
};
use crate::{say, stage};

/// Always depends on the newest of its suite.
const META: &str = "linux-image-cloud-amd64";

/// From 7.x on the image is empty and these have what it had.
const PARTS: [&str; 3] = ["linux-base-", "linux-binary-", "linux-modules-"];

/// Where kernels are looked for: first what goes with the image's release, then the newest.
const SUITES: [&[&str]; 2] = [&["trixie", "trixie-backports"], &["sid"]];

/// Which kernel: `6.12` is the newest of that series, `7.x` the newest whose version begins so.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Series(String);

impl FromStr for Series {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split('.');
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let major = parts.next().is_some_and(digits);
        let minor = parts.next().is_none_or(|part| part == "x" || digits(part));
        if !major || !minor || parts.next().is_some() {
            bail!("`{text}` is no kernel series; say `6.12`, or `7.x` for the newest 7");
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Series {
    fn has(&self, version: &str) -> bool {
        let wanted = self.0.trim_end_matches(".x");
        version
            .strip_prefix(wanted)
            .is_some_and(|rest| rest.starts_with(['.', '-', '~']))
    }
}

/// A kernel, ready to be booted.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// As uname(1) says it.
    pub(crate) release: String,
    /// Uncompressed.
    pub(super) vmlinux: PathBuf,
    /// A disk that is mounted on `/usr/lib/modules`.
    pub(super) modules: PathBuf,
}

/// The newest kernel of `series`, from the cache where it is there.
pub(super) fn obtain(series: &Series, source: &Source, cache: &Cache) -> Result<Kernel> {
    for suites in SUITES {
        let folder = cache.at(&format!("index-{}", suites.join("-")));
        let index = Index::open(source, suites, &folder)?;
        let metas = index.versions(META)?;
        if let Some(meta) = metas.iter().find(|meta| series.has(&meta.version)) {
            return of(meta, &index, cache);
        }
    }
    bail!("Debian's archive has no {META} {series} now");
}

fn of(meta: &Package, index: &Index, cache: &Cache) -> Result<Kernel> {
    let image = meta
        .needs(&["linux-image-"])
        .into_iter()
        .next()
        .with_context(|| format!("{META} {} depends on no image", meta.version))?;
    let release = image.trim_start_matches("linux-image-").to_owned();
    let image = index.package(&image, &meta.version)?;
    let mut packages = Vec::new();
    for name in image.needs(&PARTS) {
        packages.push(index.package(&name, &meta.version)?);
    }
    if packages.is_empty() {
        packages.push(image);
    }
    let mut digest = Sha256::new();
    for package in &packages {
        digest.update(package.digest()?);
    }
    let digest = hex::encode(digest.finalize());
    let name = format!("kernel-{release}-{}", digest.get(..16).unwrap_or_default());
    let folder = cache.at(&name);
    if !folder.is_dir() {
        let fresh = cache.fresh(&name)?;
        fetch(&packages, &release, index, &fresh)?;
        cache.keep(&fresh, &name)?;
    }
    Ok(Kernel {
        vmlinux: folder.join("vmlinux"),
        modules: folder.join("modules.ext4"),
        release,
    })
}

fn fetch(packages: &[Package], release: &str, index: &Index, to: &Path) -> Result<()> {
    let root = to.join("root");
    fs::create_dir(&root).context("root")?;
    // depmod(8) looks below `lib`.
    std::os::unix::fs::symlink("usr/lib", root.join("lib")).context("lib")?;
    for package in packages {
        say::line(format_args!(
            "    downloading {} {}",
            package.name, package.version
        ));
        index.download(package, to)?;
    }
    for entry in fs::read_dir(to)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "deb") {
            let mut unpack = tools::root_tool("dpkg-deb");
            stage::must(unpack.arg("-x").args([&path, &root]))?;
            fs::remove_file(&path).context("a package")?;
        }
    }
    let images = [
        format!("boot/vmlinuz-{release}"),
        format!("usr/lib/modules/{release}/vmlinuz"),
    ];
    let image = images
        .iter()
        .map(|below| root.join(below))
        .find(|path| path.is_file())
        .with_context(|| format!("no kernel image in the packages of {release}"))?;
    vmlinux::unpack(&image, &to.join("vmlinux"))?;
    let mut depmod = tools::root_tool("depmod");
    stage::must(depmod.arg("-b").arg(&root).arg(release))?;
    let modules = root.join("usr/lib/modules");
    disk::make(&modules, &to.join("modules.ext4"), Kind::Plain)?;
    cache::remove(&root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_a_version_or_its_beginning() {
        let has = |series: &str, version: &str| series.parse::<Series>().unwrap().has(version);
        assert!(has("6.12", "6.12.117-1"));
        assert!(!has("6.1", "6.12.117-1"));
        assert!(has("7.x", "7.3.4-1~bpo13+1"));
        assert!(has("7", "7.3~rc7-1"));
        assert!(!has("7.x", "70.1-1"));
    }

    #[test]
    fn what_is_no_series_is_refused() {
        for bad in ["", "x", "6.", "6.12.117", "six", "../6", "7.x.1", "-o"] {
            assert!(bad.parse::<Series>().is_err(), "{bad}");
        }
    }
}
