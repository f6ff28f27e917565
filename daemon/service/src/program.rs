//! A program of the operator's: it is run with next to nothing, and waited for no longer than it may take.

use std::{
    ffi::OsStr,
    io,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Between two looks whether it is done.
const STEP: Duration = Duration::from_millis(2);

/// `program` with its standard input to be written to, two variables and nothing else; what it prints is dropped.
pub fn command(program: impl AsRef<OsStr>, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs([("LANG", "C.UTF-8"), ("PATH", "/usr/bin:/bin")])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// How it ended; none, and it is killed, where it takes longer than `patience`.
///
/// # Errors
/// When it cannot be waited for, or not be killed.
pub fn ended(child: &mut Child, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(Some(status)),
            None if begun.elapsed() >= patience => {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            None => thread::sleep(STEP),
        }
    }
}
