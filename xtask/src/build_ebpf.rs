//! `build-ebpf`: the object that custodyd embeds.
//!
//! The same sources and the same compiler give the same bytes, wherever the checkout is: paths
//! are remapped, and the profile is fixed here.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::{
    places::{self, Places},
    say, stage,
};

/// The target triple of little-endian BPF.
const TARGET: &str = "bpfel-unknown-none";

/// A compiler that has `core` for BPF.
#[derive(Debug)]
pub(crate) enum Toolchain {
    /// Debian's rustc-web with libstd-rust-web-dev-bpf: `core` is precompiled.
    Debian,
    /// rustup's nightly with rust-src: `core` is built by cargo.
    Nightly,
}

impl Toolchain {
    /// The LLVM of Debian's rustc, which bpf-linker's has to equal.
    pub(crate) const LLVM: u32 = 22;

    const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

    pub(crate) fn find() -> Option<Self> {
        Self::find_debian().or_else(Self::find_nightly)
    }

    pub(crate) fn find_debian() -> Option<Self> {
        let mut rustc = Command::new(Self::DEBIAN_RUSTC);
        let libraries = stage::output(rustc.args(["--print=target-libdir", "--target", TARGET]));
        let entries = fs::read_dir(libraries.ok()?).ok()?;
        let has_core = entries
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"));
        has_core.then_some(Self::Debian)
    }

    pub(crate) fn find_nightly() -> Option<Self> {
        // rustup would try to download a toolchain that is not there.
        let mut rustc = Command::new("rustc");
        rustc
            .args(["+nightly", "--print=sysroot"])
            .env("RUSTUP_AUTO_INSTALL", "0");
        let sysroot = PathBuf::from(stage::output(&mut rustc).ok()?);
        sysroot
            .join("lib/rustlib/src/rust/library/core/Cargo.toml")
            .exists()
            .then_some(Self::Nightly)
    }

    fn describe(&self) -> &'static str {
        match self {
            Self::Debian => "Debian's rustc with precompiled core for BPF",
            Self::Nightly => "rustup's nightly with rust-src",
        }
    }

    fn choose(&self, cargo: &mut Command) {
        match self {
            Self::Debian => {
                // BOOTSTRAP: aya-ebpf uses unstable features, and this rustc is a stable one.
                cargo
                    .env("RUSTC", Self::DEBIAN_RUSTC)
                    .env("RUSTC_BOOTSTRAP", "1");
            }
            Self::Nightly => {
                cargo
                    .env("RUSTUP_TOOLCHAIN", "nightly")
                    .arg("-Zbuild-std=core")
                    .env_remove("CARGO")
                    .env_remove("RUSTC");
            }
        }
    }
}

/// bpf-linker: setup's own, or the one on `PATH`.
pub(crate) fn linker(places: &Places) -> Option<PathBuf> {
    let ours = places.tools().join("bin/bpf-linker");
    if places::is_executable(&ours) {
        Some(ours)
    } else {
        places::on_path("bpf-linker")
    }
}

/// Builds the object and returns its SHA-256.
pub(crate) fn run(places: &Places) -> Result<String> {
    let (Some(toolchain), Some(linker)) = (Toolchain::find(), linker(places)) else {
        bail!("no compiler with core for BPF, or no bpf-linker; run `cargo xtask setup`");
    };
    say::step(format_args!("build-ebpf: with {}", toolchain.describe()));
    let build = places.target.join("ebpf/build");
    let mut cargo = match toolchain {
        Toolchain::Debian => places.cargo(),
        // The cargo that runs us is of another toolchain; rustup's proxy picks the right one.
        Toolchain::Nightly => {
            let mut cargo = Command::new("cargo");
            cargo.current_dir(&places.root);
            cargo
        }
    };
    cargo.args(["build", "--quiet", "--locked", "--package=agent-ebpf"]);
    cargo.args(["--profile=release", "--target", TARGET]);
    cargo.args(["--config", "profile.release.debug=2"]);
    // The verifier is the judge of arithmetic there, and a panic has nowhere to go.
    cargo.args(["--config", "profile.release.overflow-checks=false"]);
    cargo.args(["--config", "profile.release.panic='abort'"]);
    cargo.args(["--config", "profile.release.codegen-units=1"]);
    toolchain.choose(&mut cargo);
    cargo
        .env("CARGO_TARGET_DIR", &build)
        .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", &linker)
        .env("CARGO_ENCODED_RUSTFLAGS", flags(places)?)
        .env_remove("RUSTFLAGS");
    stage::must(&mut cargo)?;

    let built = build.join(TARGET).join("release/agent-ebpf");
    let object = places.ebpf_object();
    let bytes = fs::read(&built).with_context(|| format!("cannot read `{}`", built.display()))?;
    let digest = hex::encode(Sha256::digest(&bytes));
    write_if_changed(&object, &bytes)?;
    say::line(format_args!("    sha256 {digest}  {}", object.display()));
    Ok(digest)
}

/// As aya-build sets them, and no path of this machine in the object.
fn flags(places: &Places) -> Result<String> {
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || {
            std::env::var_os("HOME")
                .map(|home| PathBuf::from(home).join(".cargo"))
                .context("neither CARGO_HOME nor HOME is set")
        },
        |home| Ok(PathBuf::from(home)),
    )?;
    let flags = [
        "--cfg=bpf_target_arch=\"x86_64\"".to_owned(),
        "-Cdebuginfo=2".to_owned(),
        "-Clink-arg=--btf".to_owned(),
        format!("--remap-path-prefix={}=cargo", home.display()),
        format!("--remap-path-prefix={}=custody", places.root.display()),
        format!("--remap-path-prefix={}=target", places.target.display()),
    ];
    Ok(flags.join("\u{1f}"))
}

/// An unchanged object keeps its time, so that custodyd is not compiled again.
fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}
