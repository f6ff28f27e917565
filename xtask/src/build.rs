//! `build`: every program in `<target>/custody`, as it would be installed.
//!
//! ```text
//! custody/            custodyd, custody-launch (static), custody-control, …, custody
//! custody/session/    custody-init, custody-bridge (static): what a session is shown
//! custody/register.json  the register held against this source, for custody-bypass
//! ```
//! custody-launch and what a session is shown are static: they run where the host's loader and
//! libraries are gone or another's. They are built with musl where the toolchain has it.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    build_ebpf,
    places::{self, Places},
    say,
    setup::musl,
    stage,
};

/// The static programs are built for a target by name: only then cargo keeps crt-static away from
/// build scripts and macros. This one where there is no musl.
const GLIBC: &str = "x86_64-unknown-linux-gnu";

/// Package, program.
const DYNAMIC: &[(&str, &str)] = &[
    ("custody-supervisor", "custodyd"),
    ("custody-control", "custody-control"),
    ("custody-front", "custody-front"),
    ("custody-gatekeeper", "custody-gate"),
    ("custody-vault", "custody-vault"),
    ("custody-effect", "custody-effect"),
    ("custody-review", "custody-review"),
    ("custody-cli", "custody"),
];

/// Package, program, folder below the programs.
const STATIC: &[(&str, &str, &str)] = &[
    ("custody-launch", "custody-launch", ""),
    ("custody-launch", "custody-init", "session"),
    ("custody-bridge", "custody-bridge", "session"),
];

#[derive(clap::Args, Debug, Default)]
pub(crate) struct Args {
    /// With optimisations
    #[arg(long)]
    pub(crate) release: bool,
    /// With the features that `cargo test --workspace` unites, and the tests: it compiles nothing
    /// again then
    #[arg(long, hide = true, conflicts_with = "release")]
    pub(crate) with_tests: bool,
}

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    let folder = places.programs();
    let built = build(places, args, &folder, None)?;
    write_register(places, &built.join("custody-register"))?;
    say::line(format_args!("    {}", folder.display()));
    Ok(())
}

/// Builds every program into `folder`; with `wrapper` in place of the compiler of our own crates
/// (RUSTC_WORKSPACE_WRAPPER, whose results cargo keeps apart). Where cargo left them.
pub(crate) fn build(
    places: &Places,
    args: &Args,
    folder: &Path,
    wrapper: Option<&Path>,
) -> Result<PathBuf> {
    build_ebpf::run(places)?;
    say::step("build: the programs");
    let profile = if args.release { "release" } else { "debug" };

    let mut cargo = cargo(places, args, wrapper);
    if args.with_tests {
        cargo.args(["--workspace", "--all-targets"]);
    } else {
        for (package, program) in DYNAMIC {
            cargo.args(["--package", package, "--bin", program]);
        }
        // The suite's own programs: they are installed beside the others.
        cargo.args(["--package", "custody-tests", "--bins"]);
    }
    stage::must(&mut cargo)?;

    let target = musl::installed().unwrap_or(GLIBC);
    let mut cargo = self::cargo(places, args, wrapper);
    for (package, program, _) in STATIC {
        cargo.args(["--package", package, "--bin", program]);
    }
    cargo
        .args(["--target", target])
        .env("RUSTFLAGS", "-Ctarget-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    stage::must(&mut cargo)?;

    let built = places.target.join(profile);
    let built_static = places.target.join(target).join(profile);
    make_folder(folder)?;
    make_folder(&folder.join("session"))?;
    for program in DYNAMIC
        .iter()
        .map(|(_, program)| *program)
        .chain(suite(places)?.iter().map(String::as_str))
    {
        install(&built.join(program), &folder.join(program))?;
    }
    for (_, program, below) in STATIC {
        install(
            &built_static.join(program),
            &folder.join(below).join(program),
        )?;
    }
    Ok(built)
}

/// Leaves the register's comparison with this source beside the programs: an installed
/// custody-bypass has no source to compare with. A drift stands in the file and fails the tests,
/// not the build.
fn write_register(places: &Places, program: &Path) -> Result<()> {
    let file = places.target.join("register.json");
    if file.exists() {
        std::fs::remove_file(&file).context("cannot remove the former comparison")?;
    }
    let compared = std::process::Command::new(program)
        .arg("--source")
        .arg(&places.root)
        .arg("--json")
        .arg(&file)
        .output()
        .context("cannot start custody-register")?;
    if !file.exists() {
        bail!(
            "custody-register: {}",
            String::from_utf8_lossy(&compared.stderr).trim()
        );
    }
    stage::must(
        places::as_root("install")
            .args(["-o", "root", "-g", "root", "-m", "0644"])
            .args([file, places.programs().join("register.json")]),
    )
}

/// `cargo build`, with the eBPF object named for custodyd's build script.
fn cargo(places: &Places, args: &Args, wrapper: Option<&Path>) -> std::process::Command {
    let mut cargo = places.cargo();
    if let Some(wrapper) = wrapper {
        cargo.env("RUSTC_WORKSPACE_WRAPPER", wrapper);
    }
    cargo.args(["build", "--quiet", "--locked"]);
    if args.release {
        cargo.arg("--release");
    }
    cargo.env(OBJECT, places.ebpf_object());
    cargo
}

/// The variable by which custodyd's build script learns where the object is.
pub(crate) const OBJECT: &str = "CUSTODY_EBPF_OBJECT";

/// The programs of the package custody-tests.
fn suite(places: &Places) -> Result<Vec<String>> {
    let metadata = cargo_metadata::MetadataCommand::new()
        .current_dir(&places.root)
        .no_deps()
        .exec()
        .context("cannot ask cargo for the suite's programs")?;
    Ok(metadata
        .packages
        .iter()
        .filter(|package| package.name.as_str() == "custody-tests")
        .flat_map(|package| &package.targets)
        .filter(|target| target.is_bin())
        .map(|target| target.name.clone())
        .collect())
}

fn make_folder(path: &Path) -> Result<()> {
    let mut command = places::as_root("install");
    stage::must(
        command
            .args(["-d", "-o", "root", "-g", "root", "-m", "0755"])
            .arg(path),
    )
}

/// custodyd starts only what root alone may write. install(1) puts a new file in place of the old
/// one, so that a program that runs is not disturbed.
fn install(from: &Path, to: &Path) -> Result<()> {
    if is_current(from, to)? {
        return Ok(());
    }
    let mut fresh = PathBuf::from(to);
    fresh.as_mut_os_string().push(".new");
    let mut command = places::as_root("install");
    stage::must(
        command
            .args(["-o", "root", "-g", "root", "-m", "0755"])
            .args([from, &fresh]),
    )?;
    stage::must(places::as_root("mv").arg("-T").args([&fresh, to]))
}

/// Whether `to` is newer than `from` and root's: nothing to do.
fn is_current(from: &Path, to: &Path) -> Result<bool> {
    let from = from
        .metadata()
        .with_context(|| format!("`{}` was not built", from.display()))?;
    let newer = |to: std::fs::Metadata| {
        let time = |meta: &std::fs::Metadata| (meta.mtime(), meta.mtime_nsec());
        to.uid() == 0 && to.len() == from.len() && time(&to) > time(&from)
    };
    Ok(to.metadata().is_ok_and(newer))
}
