//! A pty of a devpts instance of one's own (pts(4), ioctl_tty(2)).

// UNSAFETY: TIOCGPTPEER, TIOCSPTLCK, TIOCSWINSZ and TIOCSCTTY have no safe form.
#![expect(unsafe_code, reason = "ioctl_tty(2), CommandExt::pre_exec")]

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    path::Path,
    process::Command,
};

use nix::{fcntl::OFlag, sys::stat::Mode};

/// Both sides of a pty.
#[derive(Debug)]
pub struct Pty {
    /// The side that the relay holds.
    pub master: OwnedFd,
    /// The side that the command sees.
    pub slave: OwnedFd,
}

/// Opens a new pty of the devpts instance mounted at `pts`. The slave is opened through the
/// master (TIOCGPTPEER), so that no path is resolved.
///
/// # Errors
/// When `ptmx` cannot be opened or an ioctl fails.
pub fn open(pts: &Path) -> io::Result<Pty> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = nix::fcntl::open(&pts.join("ptmx"), flags, Mode::empty())?;
    let unlocked: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int.
    let result = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) };
    check(result)?;
    // SAFETY: TIOCGPTPEER takes open flags as its argument and returns a new descriptor.
    let slave = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags.bits()) };
    check(slave)?;
    // SAFETY: the call above made this descriptor; nobody else has it.
    let slave = unsafe { OwnedFd::from_raw_fd(slave) };
    Ok(Pty { master, slave })
}

/// Sets rows and columns; the foreground process group gets SIGWINCH.
///
/// # Errors
/// When TIOCSWINSZ fails.
pub fn resize(pty: impl AsFd, rows: u16, columns: u16) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCSWINSZ reads one `winsize`.
    let result = unsafe { libc::ioctl(pty.as_fd().as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    check(result)
}

/// Makes the command lead a session of its own whose controlling terminal is its standard input.
pub fn control_stdin(command: &mut Command) {
    // SAFETY: `control` runs in the child after fork(2), where only async-signal-safe functions
    // are allowed (signal-safety(7)): it calls setsid(2) and ioctl(2), allocates nothing and takes
    // no lock; `From<Errno>` and `last_os_error` do not allocate either.
    unsafe { command.pre_exec(control) };
}

fn control() -> io::Result<()> {
    nix::unistd::setsid()?;
    // SAFETY: TIOCSCTTY takes a number; 0 does not steal another session's terminal.
    let result = unsafe { libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0) };
    check(result)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs::File, io::Read as _, process::Stdio};

    #[test]
    fn a_command_gets_the_pty_as_its_controlling_terminal() {
        let pty = open(Path::new("/dev/pts")).or_else(|_mode_000| {
            // The host's own ptmx, where the instance's is closed (ptmxmode=000).
            let folder = tempfile::tempdir()?;
            std::os::unix::fs::symlink("/dev/ptmx", folder.path().join("ptmx"))?;
            open(folder.path())
        });
        let pty = pty.unwrap();
        resize(&pty.master, 33, 77).unwrap();
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "stty size </dev/tty"])
            .stdin(Stdio::from(pty.slave.try_clone().unwrap()))
            .stdout(Stdio::from(pty.slave))
            .stderr(Stdio::null());
        control_stdin(&mut command);
        let mut child = command.spawn().unwrap();
        drop(command);
        assert!(child.wait().unwrap().success());
        let mut text = [0; 64];
        let len = File::from(pty.master).read(&mut text).unwrap();
        assert_eq!(&text[..len], b"33 77\r\n");
    }
}
