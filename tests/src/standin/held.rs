//! What the kernel keeps for a uid: a key, shared memory, a message queue, with the canary in it.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

use crate::probe::PYTHON;

const SCRIPT: &str = include_str!("held.py");

/// Starts who holds `canary` under `name`; it takes everything away when its input ends, so it
/// goes with this process. None where there is no interpreter: the attempts need one too.
pub(super) fn start(name: &str, canary: &str) -> io::Result<Option<Child>> {
    if !std::path::Path::new(PYTHON).exists() {
        return Ok(None);
    }
    let mut child = Command::new(PYTHON)
        .args(["-I", "-S", "-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let order = serde_json::json!({
        "name": name,
        "canary": canary,
        "add_key": nix::libc::SYS_add_key,
        "keyctl": nix::libc::SYS_keyctl,
        "shm_key": shm_key(name),
    });
    if let Some(stdin) = child.stdin.as_mut() {
        writeln!(stdin, "{order}")?;
    }
    let mut ready = String::new();
    if let Some(stdout) = child.stdout.as_mut() {
        BufReader::new(stdout).read_line(&mut ready)?;
    }
    match ready.trim() {
        "ready" => Ok(Some(child)),
        _ => Err(io::Error::other("nobody holds a key")),
    }
}

/// The key of the shared memory (shmget(2)): of the name's last digits, never IPC_PRIVATE.
pub fn shm_key(name: &str) -> i32 {
    let digits = name.chars().rev().take(7).filter_map(|it| it.to_digit(16));
    let number = digits.fold(0_u32, |number, digit| number << 4 | digit);
    i32::try_from(number).unwrap_or(0) | 1
}
