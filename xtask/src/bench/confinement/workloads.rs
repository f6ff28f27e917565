//! Work that agents do, inside a session with a workspace and bare in the same folder.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::resource::UsageWho;

use super::super::{
    launch::cpu_of,
    series::{Series, compare},
};
use crate::{
    room::{Room, User, daemon::Daemon},
    say, stage,
};

/// As many as a build allows.
const TURNS_MAX: usize = 15;

const FILES: usize = 40_000;
const A_FOLDER: usize = 200;

/// One kind of work, as a shell script that begins in its folder.
struct Work {
    name: &'static str,
    script: String,
}

/// The compiler, where the operator and his sessions can read it: it may lie in root's home.
fn toolchain(room: &Room) -> Result<PathBuf> {
    let own = stage::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    room.show("toolchain", Path::new(&own))?;
    Ok(room.agent().join("toolchain"))
}

pub(super) fn run(room: &Room, daemon: &Daemon<'_>, turns: usize) -> Result<()> {
    let mut all = Vec::new();
    let toolchain = toolchain(room);
    match &toolchain {
        Ok(toolchain) => all.push(Work {
            name: "cargo build of a small crate",
            script: format!(
                "cd crate && rm -rf target && PATH={bin}:$PATH CARGO_HOME=$PWD/home \
                 {bin}/cargo build --quiet --offline",
                bin = toolchain.join("bin").display()
            ),
        }),
        Err(error) => say::line(format_args!("not attempted: a build: {error:#}")),
    }
    for (name, script) in SCRIPTS {
        all.push(Work {
            name,
            script: script.into(),
        });
    }
    let bare = lay_out(room, "work-bare")?;
    let inside = lay_out(room, "work-inside")?;
    let start = Work {
        name: "nothing: what starting a session adds to each of the following",
        script: "true".into(),
    };
    let turns = turns.min(TURNS_MAX);
    let arms = [bare.as_path(), &inside];
    let start = one(room, daemon, arms, &start, turns)?;
    for work in &all {
        let whole = one(room, daemon, arms, work, turns)?;
        less(&whole, &start);
    }
    Ok(())
}

const SCRIPTS: [(&str, &str); 3] = [
    (
        "a Python test suite",
        "PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m unittest -q test_work 2>/dev/null",
    ),
    (
        "git status in a tree of 40,000 files",
        "cd files && /usr/bin/git status --porcelain >/dev/null",
    ),
    (
        "reading 40,000 small files",
        "exec /usr/bin/python3 -c \"import os\nfor d, _, n in os.walk('files'):\n \
         if '.git' not in d:\n  for f in n: open(os.path.join(d, f), 'rb').read()\"",
    ),
];

/// One folder for each: git's index keeps the owner's uid, which is another inside, and a shared
/// index would be read anew by each in turn.
fn lay_out(room: &Room, name: &str) -> Result<PathBuf> {
    let folder = room.open_folder(name)?;
    a_crate(&folder.join("crate"))?;
    fs::write(folder.join("test_work.py"), TESTS).context("the tests")?;
    let files = folder.join("files");
    small_files(&files)?;
    room.give_to_operator(&folder)?;
    let mut git = room.command_of(
        User::Operator,
        &files,
        &["/bin/sh", "-c", GIT].map(OsString::from),
    );
    stage::output(&mut git)?;
    Ok(folder)
}

/// A tree that git knows, without anybody's name in it.
const GIT: &str = "PATH=/usr/bin:$PATH; git init -q . && git add -A && \
    git -c user.name=bench -c user.email=bench@example.org commit -qm bench && git status >/dev/null";

fn one(
    room: &Room,
    daemon: &Daemon<'_>,
    [outside, shared]: [&Path; 2],
    work: &Work,
    turns: usize,
) -> Result<[Series; 2]> {
    let argv = ["/bin/sh", "-c", work.script.as_str()].map(OsString::from);
    let bare = || room.command_of(User::Operator, outside, &argv);
    let inside = || {
        let mut command = daemon.cli();
        command
            .args(["run", "--policy", "demo", "--workdir"])
            .arg(shared)
            .arg("--")
            .args(&argv);
        command
    };
    let (mut outer, mut inner) = (Series::new("bare"), Series::new("in a session"));
    // Once each for nothing: the page cache is warm for both.
    timed(bare())?;
    timed(inside())?;
    let before = daemon.cpu();
    for turn in 0..turns {
        // Either finds the caches as the other left them, by turns.
        if turn % 2 == 0 {
            measured(bare(), &mut outer)?;
            measured(inside(), &mut inner)?;
        } else {
            measured(inside(), &mut inner)?;
            measured(bare(), &mut outer)?;
        }
        if stage::interrupted() {
            bail!("interrupted");
        }
    }
    // The service's, and with it what ran in the sessions.
    inner.add_cpu(daemon.cpu().saturating_sub(before));
    say::line(format_args!("\n{}:", work.name));
    let both = [outer, inner];
    compare(&both);
    Ok(both)
}

fn measured(command: Command, series: &mut Series) -> Result<()> {
    let before = cpu_of(UsageWho::RUSAGE_CHILDREN)?;
    series.push(timed(command)?);
    series.add_cpu(cpu_of(UsageWho::RUSAGE_CHILDREN)?.saturating_sub(before));
    Ok(())
}

/// The work alone: a session starts once, whatever is done in it.
fn less([bare, inside]: &[Series; 2], [bare_start, start]: &[Series; 2]) {
    let middle = |whole: &Series, start: &Series| {
        let time = whole.percentile(50).saturating_sub(start.percentile(50));
        time.as_secs_f64()
    };
    let cpu = |whole: &Series, start: &Series| {
        let time = |of: &Series| of.cpu_each().unwrap_or_default();
        time(whole).saturating_sub(time(start)).as_secs_f64()
    };
    say::line(format_args!(
        "less what `true` takes in each: ×p50 {:.3}, ×CPU {:.3}",
        middle(inside, start) / middle(bare, bare_start),
        cpu(inside, start) / cpu(bare, bare_start),
    ));
}

fn timed(mut command: Command) -> Result<Duration> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let started = Instant::now();
    let output = command.output().context("cannot start the work")?;
    let time = started.elapsed();
    ensure!(
        output.status.success(),
        "{} failed: {}: {}",
        stage::Shown(&command),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(time)
}

fn a_crate(folder: &Path) -> Result<()> {
    let source = folder.join("src");
    fs::create_dir_all(&source).context("a crate")?;
    fs::write(
        folder.join("Cargo.toml"),
        "[package]\nname = \"work\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n",
    )
    .context("a manifest")?;
    let mut main = String::new();
    for number in 0..20 {
        main.push_str(&format!("mod m{number};\n"));
        fs::write(
            source.join(format!("m{number}.rs")),
            format!(
                "use std::collections::BTreeMap;\n#[derive(Clone, Debug, Default, PartialEq)]\npub struct S \
                 {{ pub map: BTreeMap<String, Vec<u64>>, pub n: u64 }}\nimpl S {{\n    pub fn add(&mut self, \
                 key: &str) -> u64 {{\n        self.map.entry(key.into()).or_default().push({number});\n        \
                 self.map.values().flatten().sum::<u64>() + self.n\n    }}\n}}\n"
            ),
        )
        .context("a module")?;
    }
    main.push_str("fn main() {\n");
    for number in 0..20 {
        main.push_str(&format!(
            "    println!(\"{{}}\", m{number}::S::default().add(\"a\"));\n"
        ));
    }
    main.push_str("}\n");
    fs::write(source.join("main.rs"), main).context("a program")
}

fn small_files(folder: &Path) -> Result<()> {
    for number in 0..FILES {
        let below = folder.join(format!("d{}", number / A_FOLDER));
        if number % A_FOLDER == 0 {
            fs::create_dir_all(&below).context("a folder")?;
        }
        fs::write(
            below.join(format!("f{number}")),
            format!("small file {number}\n"),
        )
        .context("a file")?;
    }
    Ok(())
}

const TESTS: &str = r#"import hashlib, json, re, sqlite3, tempfile, unittest

class Work(unittest.TestCase):
    pass

def make(n):
    def test(self):
        data = {str(i): list(range(n % 50)) for i in range(200)}
        self.assertEqual(json.loads(json.dumps(data)), data)
        self.assertEqual(len(hashlib.sha256(json.dumps(data).encode()).hexdigest()), 64)
        self.assertTrue(re.match(r"(\w+\s?)+$", "some words " * 5))
        with tempfile.TemporaryFile() as file:
            file.write(b"x" * 4096)
            file.seek(0)
            self.assertEqual(len(file.read()), 4096)
        base = sqlite3.connect(":memory:")
        base.execute("create table t (n integer)")
        base.executemany("insert into t values (?)", [(i,) for i in range(100)])
        self.assertEqual(base.execute("select count(*) from t").fetchone(), (100,))
    return test

for n in range(300):
    setattr(Work, f"test_{n}", make(n))
"#;
