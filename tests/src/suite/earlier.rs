//! What an earlier holder of a uid left in the kernel, for the next one to find.
//!
//! No session could leave it: where a session would, the filters refuse. So it is laid out by a
//! process outside that has the very uid and is gone afterwards, as an earlier holder would be.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use nix::unistd::Pid;

use super::{
    interfere::running,
    isolate::APART_UID,
    scene::{SHARED_UID, Scene},
};
use crate::{
    attempts::{Arm, Place},
    probe::PYTHON,
    standin,
};

const SCRIPT: &str = include_str!("earlier.py");

/// How long is waited for a session.
const PATIENCE: Duration = Duration::from_secs(20);

/// What lies there now, and is to be taken away.
static LEFT: Mutex<Vec<Thing>> = Mutex::new(Vec::new());

/// What the kernel keeps for a uid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A key in the keyring of the uid (user-keyring(7)).
    Key,
    /// A message queue (mq_overview(7)).
    Queue,
    /// System V shared memory (shmget(2)).
    SharedMemory,
}

#[derive(Clone, Debug)]
struct Thing {
    kind: Kind,
    uid: u32,
    name: String,
    canary: String,
}

/// The name that an arm's thing has.
pub fn name(nonce: &str) -> String {
    format!("custody-bypass-{nonce}")
}

/// Leaves a thing with the canary for whoever the arm runs as. A session's uid is known only when
/// it runs: it knocks at `door`, finds `opens`, and goes on.
///
/// # Errors
/// When it cannot be laid out.
pub fn leave(
    kind: Kind,
    scene: &Scene,
    at: &Place,
    (door, opens): (&Path, &Path),
) -> anyhow::Result<()> {
    let thing = |uid| Thing {
        kind,
        uid,
        name: name(&at.nonce),
        canary: scene.carried().into(),
    };
    let Arm::Confined = at.arm else {
        return uids(kind, at.arm)
            .iter()
            .try_for_each(|uid| thing(*uid).lay());
    };
    let (door, opens) = (door.to_owned(), opens.to_owned());
    let probe = scene.program("custody-probe");
    let thing = thing(0);
    // Where it fails nothing is left, which the end says.
    let _detached = thread::spawn(move || -> anyhow::Result<()> {
        until(|| door.exists())?;
        let uid = running(&probe).into_iter().find_map(uid_of);
        let uid = uid.context("the session's process")?;
        anyhow::ensure!(uid != SHARED_UID && uid != 0, "uid {uid} is no session's");
        Thing { uid, ..thing }.lay()?;
        fs::write(&opens, "")?;
        until(|| !door.exists())?;
        Ok(fs::remove_file(opens)?)
    });
    Ok(())
}

/// Under which uids an arm outside of a session may run. A key has no name that two uids share; of
/// the rest root finds every one, and is what an isolating run is without its uid.
const fn uids(kind: Kind, arm: Arm) -> &'static [u32] {
    match (arm, kind) {
        (Arm::Confined | Arm::Twin, _) => &[],
        (Arm::Isolated, Kind::Key) => &[SHARED_UID, APART_UID],
        (Arm::Isolated, Kind::Queue | Kind::SharedMemory) => &[APART_UID],
        (Arm::Reach, _) => &[SHARED_UID],
    }
}

/// Takes away what was left.
///
/// # Errors
/// When nothing was left for an arm that must find it, or it cannot be taken away.
pub fn clear(kind: Kind, at: &Place) -> anyhow::Result<()> {
    let left = core::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    let expected = match at.arm {
        Arm::Confined => 1,
        Arm::Isolated | Arm::Reach | Arm::Twin => uids(kind, at.arm).len(),
    };
    left.iter().try_for_each(|thing| thing.run(true))?;
    anyhow::ensure!(
        left.len() == expected,
        "{} things were left for the arm to find, not {expected}",
        left.len()
    );
    Ok(())
}

impl Thing {
    fn lay(self) -> anyhow::Result<()> {
        self.run(false)?;
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        left.push(self);
        Ok(())
    }

    /// By a process that has the uid, and ends.
    fn run(&self, clear: bool) -> anyhow::Result<()> {
        let order = serde_json::json!({
            "uid": self.uid,
            "kind": match self.kind {
                Kind::Key => "key",
                Kind::Queue => "queue",
                Kind::SharedMemory => "shared_memory",
            },
            "name": self.name,
            "canary": self.canary,
            "shm_key": standin::shm_key(&self.name),
            "add_key": nix::libc::SYS_add_key,
            "keyctl": nix::libc::SYS_keyctl,
            "clear": clear,
        });
        let mut child = Command::new(PYTHON)
            .args(["-I", "-S", "-c", SCRIPT])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(order.to_string().as_bytes())?;
        }
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{:?}: {}", self.kind, said.trim());
        Ok(())
    }
}

fn until(what: impl Fn() -> bool) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    while !what() {
        anyhow::ensure!(Instant::now() < end, "nobody came, or nobody went");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The real uid of a process (proc_pid_status(5)).
fn uid_of(pid: Pid) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}
