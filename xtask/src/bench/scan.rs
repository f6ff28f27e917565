//! `bench scan`: our scanner and Verb Authority's on the same exports in the same run: what each says of every
//! argument, a public corpus of both, what may be free in exports that neither was made with, and how long it takes.

mod answers;
mod compare;
mod corpus;
mod large;
mod speed;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow};
use serde::Deserialize;
use serde_json::Value;

use super::python;
use crate::{places::Places, say, stage};
use answers::{Scanned, Theirs};
use compare::{Authority, Compared, Judged};

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

pub(super) fn run(places: &Places, args: &ScanArgs) -> Result<()> {
    let folder = places.target.join("bench-scan");
    let environment = python::environment(&folder, &[python::VERB_AUTHORITY.1])?;
    let custody = built(places)?;
    let corpus: Value = read(&places.root.join(corpus::FILE))?;
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
        let ours = answers::ours(&custody, file)?;
        let theirs = match theirs.files.get(file) {
            Some(Scanned::Arguments(all)) => answers::verdicts(all),
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
    corpus::print(places, &theirs, &corpus)?;
    speed::compare(&folder, &environment, &custody)
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
