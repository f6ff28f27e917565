//! bpf-linker, built once into the target folder.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{
    build_ebpf::{self, Toolchain},
    places::{self, Places},
    say, stage,
};

/// The version that this tree was tried with.
const VERSION: &str = "0.13.0";

/// Where Debian's LLVM of [`Toolchain::LLVM`] lies.
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";

pub(super) const WHY: &str = "    bpf-linker: links the eBPF object";

pub(super) fn missing(places: &Places) -> bool {
    build_ebpf::linker(places).is_none_or(|path| {
        let version = stage::output(Command::new(path).arg("--version"));
        !version.is_ok_and(|version| version == format!("bpf-linker {VERSION}"))
    })
}

pub(super) fn install(places: &Places) -> Result<()> {
    if Toolchain::find_debian().is_none() {
        bail!(
            "there is a nightly toolchain but no bpf-linker {VERSION}; install it for that toolchain's LLVM, see the bpf-linker documentation"
        );
    }
    say::line(format_args!(
        "    building bpf-linker {VERSION} for LLVM {} (about 40 s): it links the eBPF object",
        Toolchain::LLVM
    ));
    // Its default feature is the LLVM after that of Debian's rustc.
    let mut command = places.cargo();
    command
        .args(["install", "bpf-linker", "--locked", "--force"])
        .arg(format!("--version={VERSION}"))
        .args(["--no-default-features", "--features"])
        .arg(format!("llvm-{}", Toolchain::LLVM))
        .arg("--root")
        .arg(places.tools())
        .env("CARGO_TARGET_DIR", places.tools().join("build"))
        .env("LLVM_PREFIX", LLVM_PREFIX)
        .current_dir("/");
    stage::must(&mut command)?;
    if places::is_executable(&places.tools().join("bin/bpf-linker")) {
        Ok(())
    } else {
        bail!(
            "cargo installed no bpf-linker into `{}`",
            places.tools().display()
        );
    }
}
