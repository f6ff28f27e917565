//! The programs of the host that guests are made and run with.

use std::{env, ffi::OsString, process::Command};

use crate::places;

/// Program, package.
const NEEDED: [(&str, &str); 7] = [
    ("apt-get", "apt"),
    ("depmod", "kmod"),
    ("dpkg-deb", "dpkg"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mmdebstrap", "mmdebstrap"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("zstd", "zstd"),
];

/// What is missing here for a guest; none if one can be started.
pub(crate) fn missing() -> Option<String> {
    if env::consts::ARCH != "x86_64" {
        return Some("an x86-64 host".to_owned());
    }
    NEEDED
        .iter()
        .find(|(program, _)| find(program).is_none())
        .map(|(program, package)| format!("`{program}` (package {package}; `cargo xtask setup`)"))
}

/// `program` of this host, by itself or where administrators have theirs.
pub(super) fn tool(program: &str) -> Command {
    Command::new(find(program).unwrap_or_else(|| program.into()))
}

/// The same, as root.
pub(super) fn root_tool(program: &str) -> Command {
    places::as_root(find(program).unwrap_or_else(|| program.into()))
}

/// mkfs.ext4(8) and depmod(8) lie in folders that a user's `PATH` may lack.
fn find(program: &str) -> Option<OsString> {
    places::on_path(program)
        .or_else(|| {
            ["/usr/sbin", "/sbin"]
                .iter()
                .map(|folder| std::path::Path::new(folder).join(program))
                .find(|path| places::is_executable(path))
        })
        .map(OsString::from)
}
