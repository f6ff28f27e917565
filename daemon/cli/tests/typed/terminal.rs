//! `custody run` on a terminal: private pty, raw mode and back, size, filter.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use custody_sys::pty::{self, Pty, resize};
use custody_wire::supervise::End;
use nix::{
    sys::{
        signal::{Signal, kill},
        termios::{LocalFlags, tcgetattr},
    },
    unistd::Pid,
};

use crate::service::{Connection, Service};

/// A terminal with `custody run` in it, and the pty of its command.
struct Typed {
    child: Child,
    connection: Connection,
    /// The caller's terminal as he sees it, and its inner side.
    screen: File,
    terminal: OwnedFd,
    /// The command's terminal as the command has it.
    command: File,
}

fn start() -> Typed {
    let service = Service::new();
    // Close-on-exec, unlike openpty(3): a copy in another test's child would keep it alive.
    let Pty { master, slave } = pty::open(Path::new("/dev")).unwrap();
    resize(&master, 30, 90).unwrap();
    let stdio = || Stdio::from(slave.try_clone().unwrap());
    let child = service
        .custody(&["run", "--", "vi"])
        .stdin(stdio())
        .stdout(stdio())
        .stderr(stdio())
        .spawn()
        .unwrap();
    let mut connection = service.accept();
    let (run, ..) = connection.hear_run();
    let size = run.tty.expect("a private pty");
    assert_eq!((size.rows, size.columns), (30, 90));
    let theirs = pty::open(Path::new("/dev")).unwrap();
    connection.started(&[theirs.master.as_fd()]);
    Typed {
        child,
        connection,
        screen: master.into(),
        terminal: slave,
        command: theirs.slave.into(),
    }
}

fn is_raw(terminal: &OwnedFd) -> bool {
    !tcgetattr(terminal)
        .unwrap()
        .local_flags
        .contains(LocalFlags::ICANON)
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < until, "not within five seconds: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads until `part` was seen, and gives back everything.
fn read_until(from: &mut File, part: &[u8]) -> Vec<u8> {
    let mut seen = Vec::new();
    let mut bytes = [0; 4096];
    while !seen.windows(part.len()).any(|window| window == part) {
        let len = from.read(&mut bytes).unwrap();
        seen.extend_from_slice(&bytes[..len]);
    }
    seen
}

#[test]
fn keys_and_text_go_through_and_the_terminal_is_put_back() {
    let mut typed = start();
    eventually("raw mode", || is_raw(&typed.terminal));
    // First: a terminal that edits lines would take Ctrl-Z for itself when it comes.
    nix_raw(&typed.command);
    // Ctrl-Z and all: a byte for the command's own terminal.
    typed.screen.write_all(b":q\x1a\r").unwrap();
    let got = read_until(&mut typed.command, b":q\x1a");
    assert!(got.starts_with(b":q"), "{got:?}");
    typed
        .command
        .write_all(b"\x1b[?1049h\x1b[31mhello")
        .unwrap();
    read_until(&mut typed.screen, b"\x1b[?1049h\x1b[31mhello");

    drop(typed.command);
    typed.connection.ended(End::Exited { code: 4 });
    assert_eq!(typed.child.wait().unwrap().code(), Some(4));
    assert!(!is_raw(&typed.terminal));
    // Left in the alternate screen by the command, and brought back.
    read_until(&mut typed.screen, b"\x1b[?1049l");
}

/// The command's terminal without line editing, as vi has it.
fn nix_raw(terminal: &File) {
    use nix::sys::termios::{SetArg, cfmakeraw, tcsetattr};

    let mut settings = tcgetattr(terminal).unwrap();
    cfmakeraw(&mut settings);
    tcsetattr(terminal, SetArg::TCSANOW, &settings).unwrap();
}

#[test]
fn what_would_act_on_the_callers_terminal_does_not_reach_it() {
    let mut typed = start();
    nix_raw(&typed.command);
    typed
        .command
        .write_all(b"a\x1b]52;c;cm0gLXJmIH4=\x07\x1b[c\x1bP$qm\x1b\\\x05\x1b[21tz")
        .unwrap();
    let seen = read_until(&mut typed.screen, b"z");
    assert_eq!(seen, b"az");
    drop(typed.command);
    typed.connection.ended(End::Exited { code: 0 });
    typed.child.wait().unwrap();
}

#[test]
fn another_window_size_reaches_the_command() {
    let mut typed = start();
    eventually("raw mode", || is_raw(&typed.terminal));
    resize(&typed.screen, 50, 132).unwrap();
    // No controlling terminal here, so the kernel does not tell it.
    let pid = Pid::from_raw(i32::try_from(typed.child.id()).unwrap());
    kill(pid, Signal::SIGWINCH).unwrap();
    eventually("the new size", || {
        let size = rustix::termios::tcgetwinsize(&typed.command).unwrap();
        (size.ws_row, size.ws_col) == (50, 132)
    });
    drop(typed.command);
    typed.connection.ended(End::Exited { code: 0 });
    typed.child.wait().unwrap();
}

#[test]
fn the_terminal_is_put_back_when_the_service_goes_away() {
    let mut typed = start();
    eventually("raw mode", || is_raw(&typed.terminal));
    typed.connection.leave();
    assert_eq!(typed.child.wait().unwrap().code(), Some(125));
    assert!(!is_raw(&typed.terminal));
}

#[test]
fn a_signal_is_the_commands_and_the_terminal_is_put_back_after_it() {
    let mut typed = start();
    eventually("raw mode", || is_raw(&typed.terminal));
    let pid = Pid::from_raw(i32::try_from(typed.child.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    typed.connection.hear();
    assert!(typed.child.try_wait().unwrap().is_none());
    drop(typed.command);
    typed.connection.ended(End::Killed { signal: 15 });
    assert_eq!(typed.child.wait().unwrap().code(), Some(143));
    assert!(!is_raw(&typed.terminal));
}

#[test]
fn a_callers_terminal_that_is_gone_hangs_up_the_commands() {
    let mut typed = start();
    eventually("raw mode", || is_raw(&typed.terminal));
    drop((typed.screen, typed.terminal));
    // Its master is closed by all: end of file for whoever reads.
    typed.command.write_all(b"is anybody there?").unwrap();
    eventually("the command's terminal is hung up", || {
        typed.command.write(b"x").is_err()
    });
    drop(typed.command);
    typed.connection.ended(End::Killed { signal: 1 });
    assert_eq!(typed.child.wait().unwrap().code(), Some(129));
}

#[test]
fn suspended_it_gives_the_terminal_back_and_takes_it_again() {
    let mut typed = start();
    eventually("raw mode", || is_raw(&typed.terminal));
    let pid = Pid::from_raw(i32::try_from(typed.child.id()).unwrap());
    kill(pid, Signal::SIGTSTP).unwrap();
    eventually("the terminal is back", || !is_raw(&typed.terminal));
    eventually("it is stopped", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        status.contains(") T ")
    });
    kill(pid, Signal::SIGCONT).unwrap();
    eventually("raw mode again", || is_raw(&typed.terminal));
    drop(typed.command);
    typed.connection.ended(End::Exited { code: 0 });
    typed.child.wait().unwrap();
}
