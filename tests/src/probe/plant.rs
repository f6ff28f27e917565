//! The twin: plant a thing where the attack may find it, then run the very same attack.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixListener},
    process::{Child, Command, Stdio},
    thread,
};

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{Attack, Report, local};

/// The argument by which the probe becomes a process that holds what it reads on standard input.
const HOLD: &str = "hold";

pub(super) fn twin(of: &Attack, plant: &str, report: &mut Report) -> Option<()> {
    match of {
        Attack::Memory {
            by,
            everyone,
            effect,
            ..
        } => {
            let holder = report.step("start a holder", Holder::start(plant))?;
            let on = |pids, everyone| Attack::Memory {
                by: *by,
                pids,
                everyone,
                effect: effect.clone(),
            };
            report.absorb(super::run(&on(vec![holder.pid()], *everyone)));
            // In profile `hardened` nothing attaches to another process, not even of its session.
            // The same steps find the plant in the memory of who takes them.
            if !report.found.contains(plant) {
                let own = i32::try_from(std::process::id()).unwrap_or(0);
                report.absorb(super::run(&on(vec![own], false)));
            }
            Some(())
        }
        Attack::Descriptors { .. } | Attack::Environment => {
            let seen = report.step("start the probe again", again(of, plant))?;
            report.absorb(seen);
            Some(())
        }
        Attack::File { .. } => {
            let folder = report.step("mkdir", tempfile::tempdir_in("/tmp"))?;
            let path = folder.path().join("planted");
            report.step("write", fs::write(&path, plant))?;
            report.absorb(super::run(&Attack::File { path }));
            Some(())
        }
        Attack::Passed { effect, .. } => {
            let folder = report.step("mkdir", tempfile::tempdir_in("/tmp"))?;
            let by = folder.path().join("giver.sock");
            let giver = report.step("bind", UnixListener::bind(&by))?;
            let _detached = thread::spawn(move || local::give(&giver));
            let effect = effect.clone();
            report.absorb(super::run(&Attack::Passed { by, effect }));
            Some(())
        }
        Attack::Acts { .. }
        | Attack::Calls { .. }
        | Attack::DriveConnector { .. }
        | Attack::ForgePermit { .. }
        | Attack::ForgePlan { .. }
        | Attack::Knock { .. }
        | Attack::Linger { .. }
        | Attack::Local { .. }
        | Attack::Message { .. }
        | Attack::Oracle { .. }
        | Attack::Program { .. }
        | Attack::Tcp { .. }
        | Attack::Twin { .. } => {
            report.absorb(super::run(of));
            Some(())
        }
    }
}

/// Runs the probe as its own child, with `plant` in its environment and in a descriptor.
fn again(attack: &Attack, plant: &str) -> io::Result<Report> {
    let planted = memfd_create(c"planted", MFdFlags::empty())?;
    fs::write(format!("/proc/self/fd/{}", planted.as_raw_fd()), plant)?;
    let mut child = Command::new(std::env::current_exe()?)
        .env("PLANTED", plant)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&serde_json::to_vec(attack).map_err(io::Error::other)?)?;
    }
    let output = child.wait_with_output()?;
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}

/// A child that holds a canary in its heap, its environment and a descriptor.
struct Holder(Child);

impl Holder {
    fn start(plant: &str) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(HOLD)
            .env("PLANTED", plant)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(stdin) = child.stdin.as_mut() {
            stdin.write_all(plant.as_bytes())?;
            stdin.write_all(b"\n")?;
        }
        if let Some(stdout) = child.stdout.as_mut() {
            let mut ready = [0; 6];
            stdout.read_exact(&mut ready)?;
        }
        Ok(Self(child))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap_or(0)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Gone already is as good.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Holds the first line of standard input in the heap and in a memfd until standard input ends.
///
/// # Errors
/// When standard input or output fails.
pub fn hold() -> io::Result<()> {
    let mut line = String::new();
    let mut stdin = BufReader::new(io::stdin());
    stdin.read_line(&mut line)?;
    let held = line.trim().to_owned();
    let file = memfd_create(c"held", MFdFlags::empty())?;
    fs::write(format!("/proc/self/fd/{}", file.as_raw_fd()), &held)?;
    io::stdout().write_all(b"ready\n")?;
    io::stdout().flush()?;
    // Held for as long as the other end wants it.
    stdin.read_line(&mut line)?;
    drop((held, file));
    Ok(())
}
