//! A uid that comes round: what an earlier holder left in the kernel, and what the kernel grants to
//! a uid and not to a session.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use custody_wire::layer::Layer;

use super::{
    Arm, Attempt, Leg, Need, Place, Promised, Proof, TwinShows, Workspace, calls, holders,
    workspace::{at_nonce, installation, later, left, open_to_all, place},
};
use crate::{
    evidence::row::Class,
    probe::{Attack, Effect, PYTHON},
    standin,
    suite::{
        earlier::{self, Kind},
        scene::{SHARED_UID, Scene},
    },
};

const LIMITS: &str = include_str!("limits.py");

const UID_IS_THE_SAME: &str = "the uid is no leg: it is the earlier holder's in every arm, and custodyd \
                               gives one out again only when its whole range was used";

const KNOCKS: &str = "the thing is laid out by a process of the session's own uid outside: no \
                      session can leave a key, and what else it leaves goes with its namespace";

/// What an earlier holder of the uid left. The twin makes calls that are allowed.
macro_rules! earlier {
    ($id:literal, $mechanism:literal, $question:literal, $kind:expr, $promised:expr, $source:literal,
     $calls:expr) => {
        Attempt {
            id: $id,
            class: Class::SharedProcessCredential,
            mechanism: $mechanism,
            question: $question,
            needs: &[Need::Program(PYTHON)],
            promised: Promised::Layers($promised),
            source: $source,
            workspace: Workspace::Shared,
            attack: |scene, arm, effect| {
                let calls: fn(&str) -> Attack = $calls;
                let then = calls(&earlier::name(&effect.nonce));
                if arm != Arm::Confined {
                    return then;
                }
                let (door, opens) = knocks(scene, &effect.nonce);
                Attack::Knock {
                    door,
                    opens,
                    then: Box::new(then),
                }
            },
            twin: calls::other,
            twin_shows: TwinShows::Step("found twin"),
            proof: Proof::Outside(|_, at| earlier::clear($kind, at).map(|()| None)),
            before: |scene, at| {
                let (door, opens) = knocks(scene, &at.nonce);
                earlier::leave($kind, scene, at, (&door, &opens))
            },
            apart: Some("what was left is kept for one arm"),
            notes: &[UID_IS_THE_SAME, KNOCKS],
            ..Attempt::BASE
        }
    };
}

/// What the kernel counts for a uid. The twin takes one.
macro_rules! counted {
    ($id:literal, $mechanism:literal, $question:literal, $source:literal, $what:literal, $count:literal) => {
        Attempt {
            id: $id,
            mechanism: $mechanism,
            question: $question,
            needs: &[Need::Program(PYTHON)],
            promised: Promised::Layers(APART),
            source: $source,
            workspace: Workspace::Shared,
            attack: |scene, _, effect| take(scene, &effect, $what, $count),
            twin: |scene, effect| take(scene, &effect, $what, 1),
            twin_shows: TwinShows::Said("took 1\n"),
            proof: Proof::Outside(|scene, at| is_taken(scene, at)),
            before: |scene, at| await_taken(scene, at, $what),
            apart: Some("they have one uid, of which all is taken"),
            notes: &[
                "the other holder of the uid is a program outside: custodyd gives no uid to two \
                 sessions, nor one that a process has",
                "the run with every layer but the uid is root without a capability: it cannot become \
                 the other holder, and shows no second lock",
            ],
            ..Attempt::BASE
        }
    };
}

/// Longer than what was taken is kept (`SECONDS` of `limits.py`).
const GOES: Duration = Duration::from_secs(60);

/// The kernel counts by uid, in every namespace.
const APART: &[Leg] = &[&[Layer::Uid]];

pub(super) const ALL: &[Attempt] = &[
    earlier!(
        "uid/earlier-key",
        "a key that an earlier holder of the uid left",
        "Does a session find a key in the keyring of its uid, from before it?",
        Kind::Key,
        &[&[Layer::Seccomp]],
        "kernel.md section 3: a user keyring outlives the processes of its uid (security/keys/process_keys.c)",
        |name| calls::attack(holders::keyring(name))
    ),
    earlier!(
        "uid/earlier-shared-memory",
        "System V shared memory that an earlier holder of the uid left",
        "Does a session find shared memory of its uid, from before it?",
        Kind::SharedMemory,
        &[&[Layer::IpcNamespace]],
        "shmget(2): a segment lives until it is removed, whoever is gone",
        |name| calls::attack(holders::system_v(standin::shm_key(name)))
    ),
    earlier!(
        "uid/earlier-queue",
        "a message queue that an earlier holder of the uid left",
        "Does a session find a message queue of its uid, from before it?",
        Kind::Queue,
        // A queue is a file that no rule names.
        &[&[Layer::IpcNamespace], &[Layer::Landlock]],
        "mq_overview(7): a queue lives until it is removed, whoever is gone",
        |name| calls::attack(holders::queue(name))
    ),
    counted!(
        "uid/processes",
        "RLIMIT_NPROC",
        "Can a session use up the processes that another holder of its uid may have?",
        "getrlimit(2): counted by the real uid, in every pid namespace",
        "processes",
        170
    ),
    counted!(
        "uid/signals",
        "RLIMIT_SIGPENDING",
        "Can it use up the signals that may wait for the uid?",
        "getrlimit(2): counted by the real uid; a timer takes one (timer_create(2))",
        "signals",
        80
    ),
    Attempt {
        twin: |scene, effect| take(scene, &effect, "processes", 1),
        notes: &[
            "a session opens no queue at all, for Landlock has no rule that names one: the twin takes \
                 a process, by the same script",
        ],
        ..counted!(
            "uid/queues",
            "RLIMIT_MSGQUEUE",
            "Can it use up the bytes of message queues of the uid, from another ipc namespace?",
            "getrlimit(2): counted by the real uid; mq_overview(7)",
            "queues",
            8
        )
    },
    counted!(
        "uid/watches",
        "inotify instances",
        "Can it use up the uid's instances of inotify, without which editors and builds do not see a change?",
        "inotify(7): /proc/sys/fs/inotify/max_user_instances",
        "watches",
        900
    ),
    counted!(
        "uid/pipes",
        "pages of pipes",
        "Can it use up the pages that pipes of the uid may have?",
        "pipe(7): /proc/sys/fs/pipe-user-pages-soft; above it a pipe has two pages",
        "pipes",
        200
    ),
];

/// Where an earlier holder is asked to leave its thing, and how he says that it is there.
fn knocks(scene: &Scene, nonce: &str) -> (PathBuf, PathBuf) {
    let door = at_nonce(scene, nonce, "door");
    let opens = door.with_extension("open");
    (door, opens)
}

fn take(scene: &Scene, effect: &Effect, what: &str, count: u32) -> Attack {
    let folder = place(scene, effect, "taken");
    Attack::Program {
        program: PYTHON.into(),
        arguments: ["-I", "-S", "-c", LIMITS, what]
            .into_iter()
            .map(String::from)
            .chain([count.to_string(), SHARED_UID.to_string()])
            .chain(["all", "go"].map(|name| folder.join(name).display().to_string()))
            .collect(),
        input: String::new(),
    }
}

/// Lays out where the attack says that it took all, and tries then whether something is left for
/// another holder of the stand-in's uid.
fn await_taken(scene: &Scene, at: &Place, what: &'static str) -> anyhow::Result<()> {
    // What an arm that was killed has taken, goes by itself.
    let end = Instant::now() + GOES;
    while ask(what)? != "free" {
        anyhow::ensure!(
            Instant::now() < end,
            "nothing is left for the stand-in's uid before the arm"
        );
        thread::sleep(Duration::from_millis(50));
    }
    let folder = at_nonce(scene, &at.nonce, "taken");
    fs::create_dir(&folder)?;
    open_to_all(scene, &folder, 0o777)?;
    let result = result(scene, &at.nonce);
    later(folder.join("all"), move || {
        let found = ask(what)?;
        fs::write(result, found)?;
        fs::write(folder.join("go"), "")
    });
    Ok(())
}

/// Whether there was nothing left while the arm ran.
fn is_taken(scene: &Scene, at: &Place) -> anyhow::Result<Option<String>> {
    left(scene, at, "taken", |_| Ok(None))?;
    let result = result(scene, &at.nonce);
    let found = match fs::read_to_string(&result) {
        Ok(found) => found,
        // Alone, some layers refuse to say that all is taken.
        Err(_) if at.arm == Arm::Isolated => return Ok(None),
        Err(error) => return Err(error).context("nobody asked while the arm ran"),
    };
    fs::remove_file(result)?;
    Ok((found == "taken").then(|| "another holder of the uid was refused one".into()))
}

/// Outside of the workspace, where no session writes.
fn result(scene: &Scene, nonce: &str) -> PathBuf {
    installation(scene).join(format!("found-{nonce}"))
}

/// One more, for the stand-in's uid.
fn ask(what: &str) -> io::Result<String> {
    let uid = SHARED_UID.to_string();
    let output = Command::new(PYTHON)
        .args(["-I", "-S", "-c", LIMITS, what, "1", &uid])
        .current_dir(Path::new("/"))
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().into())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(said.into_owned()))
    }
}
