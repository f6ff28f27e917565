//! The root file system of all guests: Debian with what the programs, the suite and the tests use.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use super::{
    archive::Source,
    cache::{self, Cache},
    disk::{self, Kind},
    tools,
};
use crate::{say, stage};

/// Its libc is newer than that of any host that this tree builds on, so that programs which were
/// linked there run here.
const RELEASE: &str = "trixie";

/// Beside what Debian calls essential. Sorted.
const PACKAGES: [&str; 13] = [
    "ca-certificates",
    "dbus",
    "git",
    "iproute2",
    "kmod",
    "nodejs",
    "procps",
    "python3",
    "strace",
    "systemd",
    "systemd-sysv",
    "udev",
    "vim-tiny",
];

/// Without use in a guest, and larger than all else.
const LEFT_OUT: [&str; 3] = [
    "/usr/share/doc/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
];

/// Units that have nothing to do in a machine that lives for minutes. A getty on the console
/// writes escape codes into the command's output.
const MASKED: [&str; 11] = [
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "getty.target",
    "getty@.service",
    "proc-sys-fs-binfmt_misc.automount",
    "serial-getty@.service",
    "systemd-logind.service",
    "systemd-timesyncd.service",
];

/// For what a command writes; sparse on the host.
const ROOM: u64 = 4 << 30;

const STUB: &str = include_str!("inside/stub.sh");
const UNIT: &str = include_str!("inside/guest.service");

/// The image, from the cache where it is there.
pub(super) fn obtain(source: &Source, cache: &Cache) -> Result<PathBuf> {
    let name = format!("image-{RELEASE}-{}.ext4", key(source));
    let image = cache.at(&name);
    if image.is_file() {
        return Ok(image);
    }
    say::line("    making the guests' root file system (about a minute)");
    let fresh = cache.fresh(&name)?;
    let laid = lay(&fresh)?;
    let root = fresh.join("root");
    let made = bootstrap(source, &laid, &root).and_then(|()| {
        let file = fresh.join("image");
        disk::make(&root, &file, Kind::Root(ROOM))?;
        cache.keep(&file, &name)
    });
    cache::remove(&fresh)?;
    made
}

/// What makes another image of it.
fn key(source: &Source) -> String {
    let mut digest = Sha256::new();
    digest.update(source.line(RELEASE));
    for part in [&PACKAGES[..], &LEFT_OUT, &MASKED, &[STUB, UNIT]] {
        digest.update(part.join("\n"));
    }
    hex::encode(digest.finalize())
        .get(..16)
        .unwrap_or_default()
        .to_owned()
}

/// Our own files, as they lie in the image.
fn lay(fresh: &Path) -> Result<PathBuf> {
    let laid = fresh.join("laid");
    for (path, text) in [
        ("guest/stub", STUB),
        ("etc/systemd/system/custody-guest.service", UNIT),
    ] {
        let file = laid.join(path);
        let folder = file.parent().context("a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("`{}`", folder.display()))?;
        fs::write(&file, text).with_context(|| format!("`{}`", file.display()))?;
    }
    Ok(laid)
}

fn bootstrap(source: &Source, laid: &Path, root: &Path) -> Result<()> {
    // A mount namespace: what mmdebstrap mounts goes with it, however it ends.
    let mut command = tools::root_tool("unshare");
    command
        .args(["--mount", "mmdebstrap", "--quiet", "--mode=root"])
        .arg("--variant=minbase")
        .arg(format!("--include={}", PACKAGES.join(",")))
        // dpkg(1) would wait for the disk after each file.
        .arg("--dpkgopt=force-unsafe-io")
        .args(LEFT_OUT.map(|path| format!("--dpkgopt=path-exclude={path}")))
        .args(hooks(laid))
        .arg(RELEASE)
        .arg(root)
        .arg(source.line(RELEASE).trim());
    stage::output(&mut command).map(drop)?;
    if !root.join("usr/lib/systemd/systemd").is_file() {
        bail!("mmdebstrap made a root file system without systemd");
    }
    Ok(())
}

/// What is done in the root before it becomes an image; `$1` is its folder (mmdebstrap(1)).
fn hooks(laid: &Path) -> Vec<String> {
    let units = "\"$1\"/etc/systemd/system";
    let mut hooks = vec![
        format!(
            "cp -r --no-preserve=ownership '{}'/. \"$1\"/",
            laid.display()
        ),
        "chmod 0755 \"$1\"/guest \"$1\"/guest/stub".to_owned(),
        format!(
            "mkdir -p {units}/multi-user.target.wants && \
             ln -s ../custody-guest.service {units}/multi-user.target.wants/"
        ),
    ];
    hooks.extend(MASKED.map(|unit| format!("ln -sf /dev/null {units}/'{unit}'")));
    hooks
        .into_iter()
        .map(|hook| format!("--customize-hook={hook}"))
        .collect()
}
