//! Test programs for a guest, built here.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use cargo_metadata::{Message, MetadataCommand, Package, Target, camino::Utf8PathBuf};

use crate::{build, places::Places, stage};

/// What is run of one package.
#[derive(Debug, Eq, PartialEq)]
struct Wanted {
    package: String,
    /// Its Cargo.toml.
    manifest: Utf8PathBuf,
    /// Names of its test targets; `lib` is its unit tests.
    targets: Vec<String>,
}

/// With whose features tests are built: cargo unites those of the packages that it is given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Scope {
    /// The package's own: as `cargo test -p PACKAGE` has built them.
    Package,
    /// The whole workspace's: as `cargo test --workspace` has built them.
    Workspace,
}

/// Builds the tests called `names` and returns their programs.
///
/// `PACKAGE::TARGET`, where the target is a file or folder below `tests/`, `lib` for the package's
/// unit tests, or the beginning of targets and `*`; `PACKAGE` is all of it.
pub(super) fn build(places: &Places, names: &[String], scope: Scope) -> Result<Vec<PathBuf>> {
    if names.is_empty() {
        bail!("name the tests: `--tests -- PACKAGE::TARGET…`");
    }
    let metadata = MetadataCommand::new()
        .current_dir(&places.root)
        .no_deps()
        .exec()
        .context("cannot ask cargo for the tests")?;
    let mut programs = Vec::new();
    for name in names {
        let wanted = wanted(name, &metadata.packages)?;
        let mut cargo = places.cargo();
        cargo
            .args(["test", "--no-run", "--locked", "--quiet"])
            .arg("--message-format=json-render-diagnostics");
        match scope {
            Scope::Package => cargo.args(["--package", &wanted.package]),
            Scope::Workspace => cargo.arg("--workspace"),
        };
        for target in &wanted.targets {
            match target.as_str() {
                LIB => cargo.arg("--lib"),
                target => cargo.args(["--test", target]),
            };
        }
        cargo.env(build::OBJECT, places.ebpf_object());
        programs.extend(executables(&stage::output(&mut cargo)?, &wanted)?);
    }
    programs.sort();
    programs.dedup();
    Ok(programs)
}

/// Stands for a package's unit tests.
const LIB: &str = "lib";

fn wanted(name: &str, packages: &[Package]) -> Result<Wanted> {
    let (package, pattern) = name.split_once("::").unwrap_or((name, "*"));
    let found = packages
        .iter()
        .find(|found| found.name.as_str() == package)
        .with_context(|| format!("there is no package `{package}`"))?;
    let mut targets: Vec<String> = found
        .targets
        .iter()
        .filter_map(test_name)
        .filter(|target| fits(target, pattern))
        .collect();
    targets.sort();
    if targets.is_empty() {
        bail!("`{package}` has no test `{pattern}`");
    }
    Ok(Wanted {
        package: package.to_owned(),
        manifest: found.manifest_path.clone(),
        targets,
    })
}

fn test_name(target: &Target) -> Option<String> {
    if target.is_test() {
        Some(target.name.clone())
    } else {
        target.is_lib().then(|| LIB.to_owned())
    }
}

fn fits(target: &str, pattern: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(target == pattern, |start| target.starts_with(start))
}

/// The wanted programs in cargo's messages.
fn executables(messages: &str, wanted: &Wanted) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for message in Message::parse_stream(messages.as_bytes()) {
        if let Message::CompilerArtifact(artifact) = message?
            && artifact.profile.test
            && artifact.manifest_path == wanted.manifest
            && test_name(&artifact.target).is_some_and(|name| wanted.targets.contains(&name))
        {
            found.extend(artifact.executable.map(PathBuf::from));
        }
    }
    Ok(found)
}

/// What is run in the guest: each program by itself, on the one kernel. One that fails does not
/// keep the others from running.
pub(super) fn command(programs: &[PathBuf], arguments: &[String]) -> Result<Vec<String>> {
    each("/payload/tests", programs, arguments)
}

fn each(folder: &str, programs: &[PathBuf], arguments: &[String]) -> Result<Vec<String>> {
    const EACH: &str = r#"code=0
folder=$1
count=$2
shift 2
programs=
while [ "$count" -gt 0 ]; do
    programs="$programs $1"
    count=$((count - 1))
    shift
done
for program in $programs; do
    echo "     Running $program"
    "$folder/$program" "$@" || code=$?
done
exit $code"#;
    let mut command = ["/bin/sh", "-c", EACH, "tests"].map(str::to_owned).to_vec();
    command.push(folder.to_owned());
    command.push(programs.len().to_string());
    for program in programs {
        command.push(file_name(program)?);
    }
    command.push("--show-output".to_owned());
    command.extend(arguments.iter().cloned());
    Ok(command)
}

/// Cargo's names of programs have no blanks.
fn file_name(program: &Path) -> Result<String> {
    program
        .file_name()
        .and_then(|name| name.to_str())
        .map(str::to_owned)
        .context("a test program's name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_target_or_the_beginning_of_some() {
        assert!(fits("lsm", "lsm") && fits("lsm", "lsm*") && fits("lsm_files", "lsm*"));
        assert!(!fits("lsm_files", "lsm") && !fits("hooks", "lsm*"));
    }

    #[test]
    fn every_program_runs_with_the_arguments_and_a_failure_is_not_lost() {
        let programs = ["false", "echo"].map(PathBuf::from);
        let command = each("/bin", &programs, &["a name".to_owned()]).unwrap();
        let output = std::process::Command::new(&command[0])
            .args(&command[1..])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("--show-output a name\n"), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
}
