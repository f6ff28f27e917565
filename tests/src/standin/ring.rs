//! Rings that are made for others (io_uring_setup(2)): by the script that uses them too.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use serde::Deserialize;

use crate::{probe::PYTHON, suite::detour::SCRIPT};

/// What the script says of a ring.
#[derive(Deserialize)]
struct Made {
    fd: i32,
    layout: String,
}

/// Where the parts of a ring lie (struct io_uring_params), hexadecimal.
///
/// # Errors
/// When none can be made.
pub fn layout() -> io::Result<String> {
    let (mut child, made) = start("layout")?;
    child.wait()?;
    Ok(made.layout)
}

/// A ring that is nobody's any more: its maker ends.
///
/// # Errors
/// When none can be made or taken.
pub fn make() -> io::Result<OwnedFd> {
    let (mut child, made) = start("make")?;
    let taken = take(&child, made.fd);
    // Gone already is as good.
    drop(child.kill());
    child.wait()?;
    taken
}

fn take(from: &Child, number: i32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(from.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the maker of a ring has no pid"))?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let ring = rustix::process::pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty())?;
    Ok(ring)
}

fn start(way: &str) -> io::Result<(Child, Made)> {
    let mut child = Command::new(PYTHON)
        .args(["-I", "-S", "-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(serde_json::json!({"way": way}).to_string().as_bytes())?;
    }
    let mut line = String::new();
    if let Some(stdout) = child.stdout.as_mut() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    let made = serde_json::from_str(&line).map_err(io::Error::other)?;
    Ok((child, made))
}
