//! Names of a workspace that change while programs outside go by them: a folder and a symlink,
//! exchanged in bursts.

use std::{
    fs, io,
    os::unix::fs::{chown, symlink},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{
    Arm, Attempt, Need, Owner, Place, Promised, Proof, TwinShows, Workspace, planted_file,
};
use crate::{
    evidence::row::Class,
    probe::{Attack, PYTHON},
    suite::{interfere, scene::Scene},
};

/// How many sessions are started while the names change.
const STARTS: usize = 15;

/// How many are tried at most until one is up: what is a symlink just then is refused.
const STARTS_MAX: usize = 150;

/// So many exchanges follow each other without a pause. Odd: each pause finds the other one there.
const BURST: usize = 65;

/// Between two bursts, in milliseconds: about what the start of a session takes, and each time another. Were it
/// always the same, starts that take as long as two of them would find the same one there every time.
const PAUSES: [u64; 7] = [2, 5, 3, 8, 4, 7, 6];

/// A session that begins during the exchange would be refused more often than not: the program says
/// by this file, in the workspace, that it runs.
const RUNS: &str = "runs";

/// How long nothing is exchanged without its word.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that looks first whether it is a link, and opens it then.
const CARELESS: &str = "import os, sys
open(sys.argv[2], 'w').close()
for _ in range(300000):
    try:
        if os.path.islink(sys.argv[1]):
            continue
        with open(os.path.join(sys.argv[1], 'secret')) as file:
            text = file.read()
    except OSError:
        continue
    if text != 'own':
        sys.exit(print(text))
";

macro_rules! exchanged {
    ($id:literal, $mechanism:literal, $question:literal, $source:literal, $name:expr, $starts:expr) => {
        Attempt {
            id: $id,
            class: Class::SharedProcessCredential,
            mechanism: $mechanism,
            question: $question,
            needs: &[Need::Program(PYTHON)],
            promised: Promised::Quietly {
                by: "workspace_setup",
                mutant: "none: every part of a path is opened without links",
            },
            source: $source,
            owner: Owner::Operator,
            workspace: Workspace::Shared,
            attack: |scene, _, _| Attack::Program {
                program: PYTHON.into(),
                arguments: ["-I", "-S", "-c", CARELESS]
                    .into_iter()
                    .map(String::from)
                    .chain([$name, RUNS].map(|it| scene.workspace().join(it).display().to_string()))
                    .collect(),
                input: String::new(),
            },
            twin: planted_file,
            twin_shows: TwinShows::Planted,
            before: |scene, at| begin(scene, at, $name),
            proof: Proof::Protected(|scene, at| end(scene, at, $name, $starts)),
            notes: &[
                "the reach arm is a program that looks first and opens then, as many do; in a \
                 session the same program finds nothing, and fifteen more sessions are started \
                 meanwhile, or more until one is up: the run fails unless one at least was",
                "at its end nothing of ours looks into a workspace",
            ],
            ..Attempt::BASE
        }
    };
}

pub(super) const ALL: &[Attempt] = &[
    exchanged!(
        "workspace/exchange-protected",
        "a protected folder, exchanged with a symlink",
        "Does the mount that holds `.git` lead out of the workspace where `.git` is now a folder, now a symlink?",
        "CVE-2021-30465 and CVE-2025-31133: a runtime mounts what was exchanged for a symlink meanwhile",
        ".git",
        |scene| scene.workspace().to_owned()
    ),
    exchanged!(
        "workspace/exchange-workdir",
        "the next workspace, exchanged with a symlink",
        "Is a session given a folder outside where its workspace is now a folder, now a symlink?",
        "CVE-2026-39861's class, between the look and the use",
        "next",
        |scene| scene.workspace().join("next")
    ),
];

/// The exchange that is under way. There is one at most.
static UNDER_WAY: Mutex<Option<(Arc<AtomicBool>, JoinHandle<usize>)>> = Mutex::new(None);

/// A folder `name` with a file of its own, a symlink to a folder with the canary, and their
/// exchange, as another session in the same workspace could do it.
fn begin(scene: &Scene, at: &Place, name: &'static str) -> anyhow::Result<()> {
    if at.arm == Arm::Twin {
        return Ok(());
    }
    let owner = Some(scene.operator());
    let (folder, link, outside) = (
        scene.workspace().join(name),
        link(scene),
        private(scene, &at.nonce),
    );
    for (place, text) in [(&folder, "own"), (&outside, scene.carried())] {
        fs::create_dir(place)?;
        fs::write(place.join("secret"), text)?;
        chown(place, owner, owner)?;
        chown(place.join("secret"), owner, owner)?;
    }
    symlink(&outside, &link)?;
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&over);
    let runs = scene.workspace().join(RUNS);
    let done = thread::spawn(move || {
        let end = Instant::now() + PATIENCE;
        while !runs.exists() && !stop.load(Ordering::Relaxed) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        let mut times = 0_usize;
        while !stop.load(Ordering::Relaxed) {
            for pause in PAUSES {
                for _ in 0..BURST {
                    let done = renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE);
                    times = times.saturating_add(usize::from(done.is_ok()));
                }
                thread::sleep(Duration::from_millis(pause));
            }
        }
        times
    });
    *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner) = Some((over, done));
    Ok(())
}

/// Starts sessions meanwhile, ends the exchange, and takes all of it away.
fn end(
    scene: &Scene,
    at: &Place,
    name: &str,
    workspace: fn(&Scene) -> PathBuf,
) -> anyhow::Result<Option<String>> {
    if at.arm == Arm::Twin {
        return Ok(None);
    }
    let started = match at.arm {
        Arm::Confined => starts(scene, &workspace(scene), name),
        Arm::Isolated | Arm::Reach | Arm::Twin => Ok(None),
    };
    let under_way = UNDER_WAY
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let (over, done) = under_way.context("nothing was exchanged")?;
    over.store(true, Ordering::Relaxed);
    let times = done.join();
    let times = times.map_err(|_panic| anyhow::anyhow!("the exchange panicked"))?;
    for path in [scene.workspace().join(name), link(scene)] {
        remove(&path)?;
    }
    // Not there where the program did not begin.
    match fs::remove_file(scene.workspace().join(RUNS)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        Err(_) | Ok(()) => {}
    }
    fs::remove_dir_all(private(scene, &at.nonce))?;
    anyhow::ensure!(
        times > STARTS,
        "the names were exchanged {times} times only"
    );
    started
}

/// What sessions that are started meanwhile find under the name.
fn starts(scene: &Scene, workspace: &Path, name: &str) -> anyhow::Result<Option<String>> {
    let secret = scene.workspace().join(name).join("secret");
    let mut own = 0_usize;
    let mut last = String::new();
    for number in 0..STARTS_MAX {
        if number >= STARTS && own > 0 {
            break;
        }
        let output = interfere::session(scene, &scene.recipient)
            .arg("--workdir")
            .arg(workspace)
            .args(["--", "/bin/cat"])
            .arg(&secret)
            .stdin(Stdio::null())
            .output()?;
        if let Some(whose) = scene.canary_in(&output.stdout) {
            return Ok(Some(format!(
                "a session that was started meanwhile read {whose}"
            )));
        }
        if output.stdout == b"own" {
            own = own.saturating_add(1);
        } else {
            last = String::from_utf8_lossy(&output.stderr).into_owned();
        }
    }
    anyhow::ensure!(own > 0, "no session was started meanwhile: {}", last.trim());
    Ok(None)
}

fn link(scene: &Scene) -> PathBuf {
    scene.workspace().join("link")
}

/// A folder of the owner's that no session is to see.
fn private(scene: &Scene, nonce: &str) -> PathBuf {
    scene.workspace().with_file_name(format!("private-{nonce}"))
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}
