//! A machine whose pid 1 is systemd: systemd-nspawn(1) on a Debian root of its own.
//!
//! | module | what |
//! |---|---|
//! | [`machine`] | one machine: files put into it, booted, its results read, gone afterwards |
//! | [`rootfs`] | the root that all machines share and none changes |
//! | [`unit`] | custodyd as a unit on a machine, and what its steps left |
//!
//! **Invariant:** nothing of it is on the host afterwards but the shared root, which is a cache:
//! its mounts are in a mount namespace of its own, its processes in a cgroup of its own.

pub mod machine;
pub mod rootfs;
pub mod unit;

use std::{fs, path::Path};

/// What is missing here for a machine; none if it can be started.
pub fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("root".into());
    }
    const PROGRAMS: [(&str, &str); 4] = [
        ("mmdebstrap", "mmdebstrap"),
        ("systemd-nspawn", "systemd-container"),
        ("timeout", "coreutils"),
        ("unshare", "util-linux"),
    ];
    for (program, package) in PROGRAMS {
        if !is_on_path(program) {
            return Some(format!(
                "`{program}` (package {package}; `cargo xtask setup`)"
            ));
        }
    }
    let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has_overlay = filesystems
        .lines()
        .any(|line| line.split_whitespace().last() == Some("overlay"));
    (!has_overlay).then(|| "overlayfs in the kernel".into())
}

fn is_on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
    })
}
