//! No program that is installed has a rule that can be taken away.
//!
//! What a build of mutants has and no other is the variable's name (`gate::mutant`). The suite's
//! own programs, which are never started by the service, are not looked at.

use custody_supervisor::checks::programs;
use custody_tests::host;

/// Put together here, so that this test does not find itself.
fn variable() -> String {
    ["CUSTODY", "MUTANT"].join("_")
}

/// What custodyd starts and shows to a session, itself, and what an operator types.
fn programs() -> impl Iterator<Item = &'static str> {
    programs::NAMES.into_iter().chain(["custody", "custodyd"])
}

#[cfg(test)]
fn has_mutants(path: &std::path::Path) -> bool {
    let bytes = std::fs::read(path).unwrap();
    let name = variable();
    bytes
        .windows(name.len())
        .any(|part| part == name.as_bytes())
}

#[test]
fn no_program_that_is_installed_knows_a_mutant() {
    let folder = match host::programs_folder() {
        Ok(folder) => folder,
        Err(missing) => {
            println!("not attempted: {missing}");
            return;
        }
    };
    for program in programs() {
        assert!(!has_mutants(&folder.join(program)), "{program}");
    }
}

#[test]
fn a_program_of_a_build_of_mutants_is_told_by_the_same_look() {
    let built = host::programs_folder().map(|folder| folder.with_file_name("custody-mutants"));
    let Some(folder) = built.ok().filter(|it| it.join("custody-gate").is_file()) else {
        println!("not attempted: there is no build of mutants: run `cargo xtask mutants`");
        return;
    };
    for program in ["custody-gate", "custody-vault", "custody-effect", "custody"] {
        assert!(has_mutants(&folder.join(program)), "{program}");
    }
}
