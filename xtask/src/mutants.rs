//! `mutants`: each rule taken away, in a build that nobody installs, and what notices.
//!
//! One build under `--cfg custody_mutants`, in `<target>/custody-mutants`; which rule is off is said
//! by the variable `CUSTODY_MUTANT`. The attempts that name a mutant are run in an installation of
//! these programs: it is killed where one reaches. For what no attempt comes near, a test of the
//! rule's own package must fail.

mod noticed;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use gate::mutant::{Letter, Mutant};
use serde::{Deserialize, Serialize};

use crate::{
    build,
    places::{self, Places},
    say, stage,
};
use noticed::TESTS;

/// The committed data: `tests/src/evidence/mutants.rs` says it to the rows.
const FILE: &str = "fixtures/mutants.json";

const FORMAT: &str = "custody-mutants/2";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only mutants whose name begins with this; to be written with --tests alone
    #[arg(long, value_name = "PREFIX")]
    only: Option<String>,
    /// Run no attempt, only the tests of the rules' own packages; with --write, what attempts said before
    /// stays as it is
    #[arg(long)]
    tests: bool,
    /// Write what was seen to fixtures/mutants.json, from which the suite's rows say it
    #[arg(long)]
    write: bool,
}

#[derive(Deserialize, Serialize)]
struct File {
    format: String,
    mutants: Vec<Run>,
}

#[derive(Deserialize, Serialize)]
struct Run {
    mutant: String,
    /// Which of the separable properties it is a part of; several by `+` as the mutants.
    letter: String,
    property: String,
    tests: Vec<Test>,
}

#[derive(Deserialize, Serialize)]
struct Test {
    test: String,
    killed: bool,
    saw: String,
}

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    let wrapper = wrapper(places)?;
    let only = args.only.as_deref().unwrap_or_default();
    if args.write && args.only.is_some() && !args.tests {
        bail!(
            "what the attempts say is written for every mutant; leave out --only, or say --tests"
        );
    }
    let mut runs = if args.tests {
        said_before(places)?
    } else {
        by_attempts(places, &wrapper, only)?
    };
    // Of a test there is one word: the newest.
    for run in runs.iter_mut().filter(|it| it.mutant.starts_with(only)) {
        run.tests
            .retain(|it| !TESTS.iter().any(|(.., test)| it.test.ends_with(test)));
    }
    for &(mutant, package, target, test) in TESTS {
        let name = mutant.name();
        if !name.starts_with(only) {
            continue;
        }
        let noticed = cargo_test(places, &wrapper, name, (package, target, test))?;
        match runs.iter_mut().find(|run| run.mutant == name) {
            Some(run) => run.tests.push(noticed),
            None => runs.push(Run {
                mutant: name.into(),
                letter: mutant.letter().as_str().into(),
                property: mutant.property().into(),
                tests: vec![noticed],
            }),
        }
    }
    runs.sort_by(|a, b| a.mutant.cmp(&b.mutant));
    say::line("letter | property | test | mutant | killed");
    for letter in Letter::ALL.into_iter().chain([Letter::None]) {
        let of_it = |run: &&Run| run.letter.split('+').next() == Some(letter.as_str());
        runs.iter().filter(of_it).for_each(print);
    }
    runs_by_letter(&runs);
    let alive = alive(&runs, |mutant| mutant.name().starts_with(only));
    if args.write {
        let file = File {
            format: FORMAT.into(),
            mutants: runs,
        };
        let text = serde_json::to_string_pretty(&file).context("the mutants")?;
        fs::write(places.root.join(FILE), format!("{text}\n"))
            .with_context(|| format!("cannot write `{FILE}`"))?;
    }
    if alive.is_empty() {
        Ok(())
    } else {
        bail!("nothing noticed: {}", alive.join(", "))
    }
}

/// What the attempts say, in an installation of programs in which the rules can be off.
fn by_attempts(places: &Places, wrapper: &Path, only: &str) -> Result<Vec<Run>> {
    let folder = places.target.join("custody-mutants");
    build::build(places, &build::Args::default(), &folder, Some(wrapper))?;
    let mut runs = Vec::new();
    for (mutant, ids) in named(&folder)? {
        match properties(&mutant) {
            Some((letter, property)) if mutant.starts_with(only) => runs.push(Run {
                tests: attempts(places, &folder, &mutant, &ids)?,
                mutant,
                letter,
                property,
            }),
            Some(_) => {}
            None => bail!("`{mutant}`, which attempts name, is no mutant"),
        }
    }
    Ok(runs)
}

/// What was written down before.
fn said_before(places: &Places) -> Result<Vec<Run>> {
    let path = places.root.join(FILE);
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let file: File = serde_json::from_str(&text).with_context(|| format!("`{FILE}`"))?;
    Ok(file.mutants)
}

/// Mutants that lived through everything, alone and with others.
fn alive(runs: &[Run], wanted: impl Fn(Mutant) -> bool) -> Vec<&'static str> {
    let killed = |mutant: &Mutant| {
        runs.iter()
            .filter(|run| run.mutant.split('+').any(|name| name == mutant.name()))
            .any(|run| run.tests.iter().any(|test| test.killed))
    };
    Mutant::ALL
        .iter()
        .copied()
        .filter(|mutant| wanted(*mutant) && !killed(mutant))
        .map(Mutant::name)
        .collect()
}

/// What compiles our own crates: the compiler, with the rules that can be off.
fn wrapper(places: &Places) -> Result<PathBuf> {
    // perl is essential on Debian, and hands on what dash takes for no name: CARGO_BIN_EXE_custody-vault.
    const SCRIPT: &str = "#!/usr/bin/perl\nexec @ARGV, '--cfg', 'custody_mutants';\n";
    let path = places.target.join("custody-mutants.sh");
    // Cargo goes by its time: the same is not written again.
    if fs::read_to_string(&path).ok().as_deref() != Some(SCRIPT) {
        fs::write(&path, SCRIPT).with_context(|| format!("`{}`", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(path)
}

/// The mutants that attempts name, each with the attempts.
fn named(folder: &Path) -> Result<Vec<(String, Vec<String>)>> {
    let mut bypass = Command::new(folder.join("custody-bypass"));
    let text = stage::output(bypass.arg("--list-mutants"))?;
    text.lines()
        .map(|line| {
            let (mutant, ids) = line.split_once('\t').context("a line of the mutants")?;
            Ok((mutant.into(), ids.split(' ').map(String::from).collect()))
        })
        .collect()
}

/// The letters and properties of a mutant, or of several; none where one of them is not there.
fn properties(joined: &str) -> Option<(String, String)> {
    let found: Option<Vec<Mutant>> = joined
        .split('+')
        .map(|name| Mutant::ALL.iter().copied().find(|it| it.name() == name))
        .collect();
    let found = found?;
    let letters: Vec<&str> = found.iter().map(|it| it.letter().as_str()).collect();
    let properties: Vec<&str> = found.iter().map(|it| it.property()).collect();
    Some((letters.join("+"), properties.join("; ")))
}

/// How many mutants each property has, and how many of them something noticed.
fn runs_by_letter(runs: &[Run]) {
    for letter in Letter::ALL {
        let all = || Mutant::ALL.iter().filter(|it| it.letter() == letter);
        let alive = alive(runs, |it| it.letter() == letter).len();
        let count = all().count();
        say::line(format_args!(
            "{}: {} of {count} mutants killed",
            letter.as_str(),
            count.saturating_sub(alive)
        ));
    }
}

/// The attempts that name a mutant, with the rule off.
fn attempts(places: &Places, folder: &Path, mutant: &str, ids: &[String]) -> Result<Vec<Test>> {
    say::step(format!("mutants: {mutant}"));
    let evidence = places.target.join("custody-mutants.json");
    if evidence.exists() {
        fs::remove_file(&evidence).context("the former evidence")?;
    }
    let mut command = places::as_root("env");
    command
        .arg(format!("CUSTODY_MUTANT={mutant}"))
        .arg(folder.join("custody-bypass"))
        .arg("--json")
        .arg(&evidence);
    for id in ids {
        command.args(["--only", id]);
    }
    // That rows do not come as expected is what is wanted: the evidence says which.
    let said = command
        .current_dir(&places.root)
        .stdout(Stdio::null())
        .output()
        .context("cannot start custody-bypass")?;
    let text = fs::read(&evidence).with_context(|| {
        let why = String::from_utf8_lossy(&said.stderr);
        format!("no evidence under {mutant}: {}", why.trim())
    })?;
    let evidence: Evidence = serde_json::from_slice(&text).context("the evidence")?;
    // A beginning takes more in than its own.
    let rows = evidence.attempts.into_iter();
    Ok(rows
        .filter(|row| ids.contains(&row.id))
        .map(|row| Test {
            killed: row.outcome == "reached",
            saw: shortened(&row.proof.or(row.reason).or(row.why).unwrap_or_default()),
            test: row.id,
        })
        .collect())
}

/// The end of what was seen, where a refusal names its rule.
fn shortened(saw: &str) -> String {
    const MOST: usize = 160;
    let said: String = saw.split_whitespace().collect::<Vec<_>>().join(" ");
    let skipped = said.chars().count().saturating_sub(MOST);
    let end: String = said.chars().skip(skipped).collect();
    if skipped == 0 {
        end
    } else {
        format!("… {end}")
    }
}

#[derive(Deserialize)]
struct Evidence {
    attempts: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    id: String,
    outcome: String,
    proof: Option<String>,
    reason: Option<String>,
    why: Option<String>,
}

/// A test with the rule off: it must fail, and pass with it on.
fn cargo_test(
    places: &Places,
    wrapper: &Path,
    mutant: &str,
    (package, target, test): (&str, &str, &str),
) -> Result<Test> {
    say::step(format!("mutants: {mutant}: {package}::{test}"));
    let passes = |chosen: &str| -> Result<bool> {
        let mut cargo = places.cargo();
        cargo
            .args(["test", "--locked", "--package", package, target, "--"])
            .args(["--exact", test])
            .env("RUSTC_WORKSPACE_WRAPPER", wrapper)
            .env(build::OBJECT, places.ebpf_object())
            .env("CUSTODY_MUTANT", chosen)
            .stderr(Stdio::null());
        let output = cargo.output().context("cannot start cargo")?;
        // A name that no test has passes too.
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(output.status.success() && said.contains("1 passed"))
    };
    if !passes("")? {
        bail!("{package}::{test} does not pass with every rule on");
    }
    let killed = !passes(mutant)?;
    let saw = if killed { "it fails" } else { "it passes" };
    Ok(Test {
        test: format!("{package}::{test}"),
        killed,
        saw: saw.into(),
    })
}

/// letter | property | test | mutant | killed, and what was seen.
fn print(run: &Run) {
    for test in &run.tests {
        let killed = if test.killed { "yes" } else { "no" };
        say::line(format_args!(
            "{} | {} | {} | {} | {killed}: {}",
            run.letter, run.property, test.test, run.mutant, test.saw
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noticed(killed: &[bool]) -> Run {
        let test = |killed: &bool| Test {
            test: "family/name".into(),
            killed: *killed,
            saw: "what was seen".into(),
        };
        Run {
            mutant: "gate-authority".into(),
            letter: "B".into(),
            property: "a property".into(),
            tests: killed.iter().map(test).collect(),
        }
    }

    #[test]
    fn a_mutant_that_nothing_notices_is_alive() {
        let authority = |mutant| mutant == Mutant::GateAuthority;
        assert!(alive(&[noticed(&[false, true])], authority).is_empty());
        let runs = [noticed(&[false]), noticed(&[])];
        assert_eq!(alive(&runs, authority), ["gate-authority"]);
        assert_eq!(alive(&[], |_| true).len(), Mutant::ALL.len());
    }

    #[test]
    fn several_mutants_together_are_there_only_where_each_is() {
        let (letters, together) = properties("gate-path-segment+gate-floor").unwrap();
        assert_eq!(letters, "C+E");
        assert!(together.contains("; "), "{together}");
        assert_eq!(properties("gate-path-segment+nothing"), None);
    }
}
