//! The musl target of the Rust toolchain: the better libc for what starts in every session.
//!
//! glibc looks at the processor (CPUID) at each start of a static program, and in a virtual
//! machine every such look traps: 0.3 ms a start was measured, where musl takes 0.1.

use std::{path::PathBuf, process::Command};

use crate::say;

/// The target's name.
const TARGET: &str = "x86_64-unknown-linux-musl";

pub(super) const WHY: &str =
    "    missing: the Rust target x86_64-unknown-linux-musl (optional: sessions start sooner)";

/// The target if the toolchain has its standard library.
pub(crate) fn installed() -> Option<&'static str> {
    let rustc = std::env::var_os("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from);
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()
        .ok()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    folder.is_dir().then_some(TARGET)
}

/// Asks rustup for it. Without rustup or network the static programs are built for glibc.
pub(super) fn try_install() {
    say::line(WHY);
    let added = Command::new("rustup")
        .args(["target", "add", TARGET])
        .output()
        .is_ok_and(|output| output.status.success());
    if !added {
        say::line("    not to be had here: the static programs are built for glibc");
    }
}
