//! `bench scan`: our scanner and Verb Authority's on the same exports in the same run: what each says of every
//! argument, a public corpus of both, what may be free in exports that neither was made with, and how long it takes.

mod compare;
mod large;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{python, series};
use crate::{places::Places, say, stage};
use compare::{Authority, Compared, Judged, Verdict, Verdicts};
use series::Series;

/// What `bench scan` alone takes.
#[derive(clap::Args)]
pub(crate) struct ScanArgs {
    /// Another export that both scan (`scan`)
    #[arg(long, value_name = "FILE")]
    also: Vec<PathBuf>,
    /// Every argument that the two differ on, not only how many (`scan`)
    #[arg(long)]
    differences: bool,
}

/// Where the exports lie.
const EXPORTS: [&str; 4] = [
    "fixtures/authority/ours",
    "fixtures/authority/outside/playwright-mcp-0.0.76",
    UNSEEN,
    "fixtures/mcp-schemas",
];

/// The exports that the scanner was not made with, and beside them what may be free in each.
const UNSEEN: &str = "fixtures/authority/outside/unseen";

const CORPUS: &str = "fixtures/authority/outside/verb-authority/schema_corpus.json";

/// What the peer's process runs.
const PEER: &str = include_str!("scan/peer.py");

/// How many whole runs of a scanner are timed, beside the first: it is not counted.
const RUNS: usize = 10;

pub(super) fn run(places: &Places, args: &ScanArgs) -> Result<()> {
    let folder = places.target.join("bench-scan");
    let environment = python::environment(&folder, &[python::VERB_AUTHORITY.1])?;
    let custody = built(places)?;
    let corpus: Value = read(&places.root.join(CORPUS))?;
    let files = files(places, args)?;
    let theirs = Theirs::ask(&folder, &environment, &files, &corpus)?;
    let may_be_free: Expected = read(&places.root.join(UNSEEN).join("expected.json"))?;

    let mut compared = Compared::default();
    let (mut our_score, mut their_score) = (Judged::default(), Judged::default());
    say::step(format_args!(
        "{} exports, and {}",
        files.len(),
        python::VERB_AUTHORITY.0
    ));
    for file in &files {
        let name = short(places, file);
        let ours = ours(&custody, file)?;
        let theirs = match theirs.files.get(file) {
            Some(Scanned::Arguments(all)) => verdicts(all),
            Some(Scanned::Refused(why)) => {
                say::line(format_args!("{name}: refused by the peer: {why}"));
                continue;
            }
            None => return Err(anyhow!("the peer does not speak of {name}")),
        };
        let before = (compared.agree, compared.different(), compared.nested);
        compared.add(&name, &ours, &theirs);
        say::line(format_args!(
            "{name:58} agree {:4}  differ {:3}  inside others {:4}",
            compared.agree - before.0,
            compared.different() - before.1,
            compared.nested - before.2
        ));
        let stem = file.file_stem().map(|it| it.to_string_lossy().into_owned());
        let listed = stem.filter(|_| file.starts_with(places.root.join(UNSEEN)));
        if let Some(listed) = listed.and_then(|it| may_be_free.of(&it)) {
            our_score.add(&name, &ours, &listed);
            their_score.add(&name, &theirs, &listed);
        }
    }
    differences(&compared, args.differences);
    unseen(&our_score, &their_score);
    figures(places, &theirs, &corpus)?;
    speed(&folder, &environment, &custody)
}

/// The program as it is installed, and the corpus's own.
fn built(places: &Places) -> Result<PathBuf> {
    stage::must(places.cargo().args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "custody-cli",
        "--bin",
        "custody",
    ]))?;
    stage::must(places.cargo().args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "custody-scan",
        "--example",
        "corpus",
    ]))?;
    Ok(places.target.join("release/custody"))
}

fn files(places: &Places, args: &ScanArgs) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in EXPORTS {
        let folder = places.root.join(folder);
        let all =
            fs::read_dir(&folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
        for entry in all {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == "json") && is_export(&path)? {
                files.push(path);
            }
        }
    }
    files.sort();
    files.extend(args.also.iter().cloned());
    Ok(files)
}

/// Beside the exports stand what is expected of them, and declarations.
fn is_export(path: &Path) -> Result<bool> {
    let value: Value = read(path)?;
    let holds = |value: &Value| value.get("tools").is_some_and(Value::is_array);
    Ok(holds(&value) || value.get("result").is_some_and(holds))
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("`{}`", path.display()))
}

fn short(places: &Places, file: &Path) -> String {
    let short = file
        .strip_prefix(places.root.join("fixtures"))
        .unwrap_or(file);
    short.display().to_string()
}

/// What may be free, by file, and what was overlooked when that was written.
#[derive(Deserialize)]
struct Expected {
    may_be_free: BTreeMap<String, Vec<String>>,
    #[serde(rename = "added_after_the_first_run")]
    added: Added,
}

#[derive(Deserialize)]
struct Added {
    may_be_free: BTreeMap<String, Vec<String>>,
}

impl Expected {
    fn of(&self, file: &str) -> Option<Vec<String>> {
        let mut listed = self.may_be_free.get(file)?.clone();
        listed.extend(
            self.added
                .may_be_free
                .get(file)
                .into_iter()
                .flatten()
                .cloned(),
        );
        Some(listed)
    }
}

/// What the peer's process answers.
#[derive(Deserialize)]
struct Theirs {
    files: BTreeMap<PathBuf, Scanned>,
    corpus: BTreeMap<String, Judgement>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Scanned {
    Arguments(Vec<Theirs1>),
    Refused(String),
}

/// One argument, as the peer's report has it.
#[derive(Deserialize)]
struct Theirs1 {
    tool: String,
    argument: String,
    authority: Authority,
    #[serde(rename = "type")]
    kind: String,
}

/// One case of the corpus: each argument's authority, each call's decision.
#[derive(Deserialize)]
struct Judgement {
    authority: BTreeMap<String, Authority>,
    decisions: BTreeMap<String, String>,
}

impl Theirs {
    fn ask(folder: &Path, environment: &Path, files: &[PathBuf], corpus: &Value) -> Result<Self> {
        let program = folder.join("peer.py");
        fs::write(&program, PEER).context("cannot write the peer's program")?;
        let asked = folder.join("asked.json");
        fs::write(
            &asked,
            json!({ "files": files, "corpus": corpus }).to_string(),
        )
        .context("cannot write what the peer is asked")?;
        let said = stage::output(Command::new(environment.join("bin/python")).args([
            Path::new("-I"),
            &program,
            &asked,
        ]))?;
        serde_json::from_str(&said).context("the peer's answer")
    }
}

fn verdicts(all: &[Theirs1]) -> Verdicts {
    all.iter()
        .map(|it| {
            let path = format!("/{}", it.argument.replace('~', "~0").replace('/', "~1"));
            let because = format!("their type {}", it.kind);
            let authority = it.authority;
            ((it.tool.clone(), path), Verdict { authority, because })
        })
        .collect()
}

/// What ours says: the report of `custody scan`, as a person gets it.
fn ours(custody: &Path, file: &Path) -> Result<Verdicts> {
    let said = stage::output(
        Command::new(custody)
            .args(["scan", "--format", "json"])
            .arg(file),
    )?;
    let report: Report = serde_json::from_str(&said).context("our report")?;
    let mut verdicts = Verdicts::new();
    for tool in report.documents.into_iter().flat_map(|it| it.tools) {
        for argument in tool.arguments {
            let key = (tool.name.clone(), argument.path);
            let verdict = Verdict {
                authority: argument.authority,
                because: argument.reason,
            };
            verdicts.insert(key, verdict);
        }
    }
    Ok(verdicts)
}

#[derive(Deserialize)]
struct Report {
    documents: Vec<Reported>,
}

#[derive(Deserialize)]
struct Reported {
    tools: Vec<ReportedTool>,
}

#[derive(Deserialize)]
struct ReportedTool {
    name: String,
    arguments: Vec<ReportedArgument>,
}

#[derive(Deserialize)]
struct ReportedArgument {
    path: String,
    authority: Authority,
    reason: String,
}

/// Each kind of difference with its count, the most frequent first.
fn differences(compared: &Compared, each: bool) {
    say::step(format_args!(
        "{} arguments alike, {} differ; {} more stand inside others, where the peer says nothing",
        compared.agree,
        compared.different(),
        compared.nested
    ));
    let word = |authority: Option<Authority>| authority.map_or("not said", Authority::as_str);
    let mut classes: Vec<_> = compared.differ.iter().collect();
    classes.sort_by_key(|(class, places)| (std::cmp::Reverse(places.len()), *class));
    for (class, places) in classes {
        say::line(format_args!(
            "{:4}  theirs {:8}  ours {:8}  {}",
            places.len(),
            word(class.theirs),
            word(class.ours),
            class.because
        ));
        let most = if each { places.len() } else { 2 };
        for place in places.iter().take(most) {
            say::line(format_args!("          {place}"));
        }
    }
}

fn unseen(ours: &Judged, theirs: &Judged) {
    say::step("exports never seen before, against what was written down beforehand");
    for (name, score) in [("custody", ours), (python::VERB_AUTHORITY.0, theirs)] {
        // The peer says nothing of what stands inside others.
        let inside = |place: &&String| {
            place
                .rsplit(' ')
                .next()
                .is_some_and(|it| it.matches('/').count() > 1)
        };
        let locked = &score.needlessly_locked;
        say::line(format_args!(
            "{name:26} wrongly free {:3}  needlessly locked {:3}, and {} inside others",
            score.wrongly_free.len(),
            locked.len() - locked.iter().filter(inside).count(),
            locked.iter().filter(inside).count()
        ));
        for place in &score.wrongly_free {
            say::line(format_args!("          wrongly free: {place}"));
        }
    }
}

/// A scanner's figures on the corpus.
#[derive(Debug, Default, Deserialize)]
struct Figures {
    policies: usize,
    policy_matches: usize,
    policies_wrongly_free: usize,
    policies_wrongly_locked: usize,
    decisions: usize,
    decision_matches: usize,
    wrongly_allowed: usize,
    wrongly_stopped: usize,
}

/// What the corpus's file expects.
#[derive(Deserialize)]
struct Case {
    id: String,
    expected: CaseExpected,
    #[serde(default)]
    calls: Vec<CaseCall>,
}

#[derive(Deserialize)]
struct CaseExpected {
    policy: BTreeMap<String, Authority>,
}

#[derive(Deserialize)]
struct CaseCall {
    id: String,
    expected: String,
}

impl Figures {
    fn of(theirs: &Theirs, corpus: &Value) -> Result<Self> {
        let cases = corpus
            .get("cases")
            .cloned()
            .context("a corpus without cases")?;
        let cases: Vec<Case> = serde_json::from_value(cases).context("the corpus")?;
        let mut figures = Self::default();
        for case in &cases {
            let judged = theirs
                .corpus
                .get(&case.id)
                .context("a case without an answer")?;
            for (argument, expected) in &case.expected.policy {
                let found = judged
                    .authority
                    .get(argument)
                    .context("an argument without an answer")?;
                figures.policy(*expected, *found);
            }
            for call in &case.calls {
                let found = judged
                    .decisions
                    .get(&call.id)
                    .context("a call without an answer")?;
                figures.decision(&call.expected, found);
            }
        }
        Ok(figures)
    }

    fn policy(&mut self, expected: Authority, found: Authority) {
        self.policies += 1;
        match (expected, found) {
            (a, b) if a == b => self.policy_matches += 1,
            (Authority::Locked, _) => self.policies_wrongly_free += 1,
            (_, Authority::Locked) => self.policies_wrongly_locked += 1,
            (_, _) => {}
        }
    }

    fn decision(&mut self, expected: &str, found: &str) {
        self.decisions += 1;
        match (expected, found) {
            (a, b) if a == b => self.decision_matches += 1,
            ("block", _) => self.wrongly_allowed += 1,
            (_, "block") => self.wrongly_stopped += 1,
            (_, _) => {}
        }
    }
}

fn figures(places: &Places, theirs: &Theirs, corpus: &Value) -> Result<()> {
    let program = places.target.join("release/examples/corpus");
    let said = stage::output(Command::new(program).arg(places.root.join(CORPUS)))?;
    let ours: Figures = serde_json::from_str(&said).context("our figures")?;
    say::step(
        "the peer's public corpus; our decisions are those of the gate, under a policy made from the scan",
    );
    say::line(format_args!(
        "{:26} {:>9} {:>13} {:>15} {:>10} {:>15} {:>15}",
        "",
        "policies",
        "wrongly free",
        "wrongly locked",
        "decisions",
        "wrongly allowed",
        "wrongly stopped"
    ));
    for (name, figures) in [
        ("custody", &ours),
        (python::VERB_AUTHORITY.0, &Figures::of(theirs, corpus)?),
    ] {
        say::line(format_args!(
            "{name:26} {:>9} {:>13} {:>15} {:>10} {:>15} {:>15}",
            format!("{}/{}", figures.policy_matches, figures.policies),
            figures.policies_wrongly_free,
            figures.policies_wrongly_locked,
            format!("{}/{}", figures.decision_matches, figures.decisions),
            figures.wrongly_allowed,
            figures.wrongly_stopped
        ));
    }
    ensure!(
        ours.policies_wrongly_free == 0 && ours.wrongly_allowed == 0,
        "ours frees or allows what the corpus locks"
    );
    Ok(())
}

/// Whole runs of both, taken by turns: from the start of the process to the report in a file.
fn speed(folder: &Path, environment: &Path, custody: &Path) -> Result<()> {
    let both = Sizes::write(folder, "half.json", large::TOOLS / 2)?;
    let whole = Sizes::write(folder, "large.json", large::TOOLS)?;
    let report = folder.join("report.json");
    let python = environment.join("bin/python");
    let ours = |export: &Sizes| {
        let mut command = Command::new(custody);
        command
            .arg("scan")
            .arg(&export.path)
            .args(["--format", "json", "--output"]);
        command.arg(&report);
        command
    };
    let theirs = |export: &Sizes| {
        let mut command = Command::new(&python);
        command
            .args(["-I", "-m", "verb_authority", "scan"])
            .arg(&export.path);
        command.args(["--format", "json", "--output"]).arg(&report);
        command
    };
    say::step(format_args!(
        "from start to end, {RUNS} runs each, taken by turns"
    ));
    let mut all = [
        Series::new(format!("custody scan, {both}")),
        Series::new(format!("{}, {both}", python::VERB_AUTHORITY.0)),
        Series::new(format!("custody scan, {whole}")),
        Series::new(format!("{}, {whole}", python::VERB_AUTHORITY.0)),
    ];
    let refused = stage::output(&mut theirs(&whole)).err();
    for run in 0..=RUNS {
        let mut commands = vec![ours(&both), theirs(&both), ours(&whole)];
        if refused.is_none() {
            commands.push(theirs(&whole));
        }
        for (series, command) in all.iter_mut().zip(&mut commands) {
            let begin = Instant::now();
            stage::output(command)?;
            if run > 0 {
                series.push(begin.elapsed());
            }
        }
    }
    let measured = if refused.is_none() {
        all.len()
    } else {
        all.len() - 1
    };
    series::compare(all.get(..measured).unwrap_or_default());
    if let Some(error) = refused {
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default();
        say::line(format_args!(
            "{}, {whole}: refused: {why}",
            python::VERB_AUTHORITY.0
        ));
    }
    Ok(())
}

/// A generated export.
struct Sizes {
    path: PathBuf,
    tools: usize,
}

impl Sizes {
    fn write(folder: &Path, name: &str, tools: usize) -> Result<Self> {
        let path = folder.join(name);
        fs::write(&path, large::export(tools).to_string()).context("cannot write an export")?;
        Ok(Self { path, tools })
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} arguments", self.tools * large::ARGUMENTS)
    }
}
