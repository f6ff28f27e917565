//! A service that does what a test tells it to, at a socket of its own.

use std::{
    ffi::OsString,
    io::Read as _,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::{
            ffi::OsStringExt as _,
            net::{UnixListener, UnixStream},
        },
    },
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use custody_sys::{channel, memfd};
use custody_wire::{
    frame,
    launch::COMMAND_CAP,
    layer::{Layer, Report, Status},
    operator::{Answer, BESIDE, Request, Run},
    profile::Profile,
    supervise::End,
};
use gate::id::SessionId;

pub(crate) const SESSION: SessionId = SessionId(0x00c0_ffee_00c0_ffee);

/// The socket of a service.
pub(crate) struct Service {
    listener: UnixListener,
    folder: tempfile::TempDir,
}

impl Service {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("control.sock")).unwrap();
        Self { listener, folder }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// `custody` with these arguments, asking here.
    pub(crate) fn custody(&self, arguments: &[&str]) -> Command {
        let mut command = custody(arguments);
        command.env("CUSTODY_SOCKET", self.socket());
        command
    }

    pub(crate) fn accept(&self) -> Connection {
        Connection(self.listener.accept().unwrap().0)
    }

    /// Answers the one request of one connection, and gives back what was asked.
    pub(crate) fn answer_one(&self, arguments: &[&str], answer: &Answer) -> (Request, Output) {
        let child = self
            .custody(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut connection = self.accept();
        let (request, _) = connection.hear();
        connection.say(answer, &[]);
        (request, child.wait_with_output().unwrap())
    }
}

pub(crate) fn custody(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_custody"));
    command.args(arguments);
    command
}

/// One client of the service.
pub(crate) struct Connection(UnixStream);

impl Connection {
    pub(crate) fn hear(&mut self) -> (Request, Vec<OwnedFd>) {
        self.next().expect("a request")
    }

    /// The next request, or nothing at the end.
    pub(crate) fn next(&mut self) -> Option<(Request, Vec<OwnedFd>)> {
        let mut head = [0; 4];
        let (len, fds) = channel::recv(&self.0, &mut head, 4).unwrap();
        if len < 4 {
            return None;
        }
        assert!(fds.is_empty(), "none before the request is known");
        let mut body = vec![0; frame::body_len::<Request>(head).unwrap()];
        self.0.read_exact(&mut body).unwrap();
        let request = frame::parse(&body).unwrap();
        let is_doctors = matches!(&request, Request::Run(run)
            if run.policy.as_ref().is_some_and(|it| it.as_str() == custody_wire::doctor::POLICY));
        let fds = if matches!(request, Request::Run(_)) && !is_doctors {
            self.say(&Answer::Give, &[]);
            let mut byte = [1];
            let (_, fds) = channel::recv(&self.0, &mut byte, 4).unwrap();
            assert_eq!(byte, [BESIDE]);
            fds
        } else {
            Vec::new()
        };
        Some((request, fds))
    }

    pub(crate) fn say(&mut self, answer: &Answer, fds: &[BorrowedFd<'_>]) {
        channel::send(&self.0, &frame::frame(answer).unwrap(), fds).unwrap();
    }

    /// The request to run, the command as the session gets it, and the workspace.
    pub(crate) fn hear_run(&mut self) -> (Run, Vec<OsString>, Vec<OwnedFd>) {
        let (request, mut fds) = self.hear();
        let Request::Run(run) = request else {
            panic!("{request:?}");
        };
        let bytes = memfd::read(fds.remove(0), COMMAND_CAP).unwrap();
        let strings = bytes
            .split(|byte| *byte == 0)
            .map(|it| OsString::from_vec(it.to_vec()))
            .collect();
        (run, strings, fds)
    }

    pub(crate) fn started(&mut self, fds: &[BorrowedFd<'_>]) {
        self.started_weak(Vec::new(), fds);
    }

    /// It starts, and the service says what is weak about it.
    pub(crate) fn started_weak(&mut self, weaknesses: Vec<String>, fds: &[BorrowedFd<'_>]) {
        let answer = Answer::Started {
            session: SESSION,
            profile: Profile::Dev,
            weaknesses,
            layers: vec![Report {
                layer: Layer::Landlock,
                status: Status::Full,
            }],
        };
        self.say(&answer, fds);
    }

    /// The command gets pipes; what comes back are its ends of them.
    pub(crate) fn started_with_pipes(&mut self) -> Pipes {
        self.started_with_pipes_weak(Vec::new())
    }

    /// The same with something weak.
    pub(crate) fn started_with_pipes_weak(&mut self, weaknesses: Vec<String>) -> Pipes {
        let (stdin, their_in) = nix::unistd::pipe().unwrap();
        let (their_out, stdout) = nix::unistd::pipe().unwrap();
        let (their_err, stderr) = nix::unistd::pipe().unwrap();
        let theirs = [their_in.as_fd(), their_out.as_fd(), their_err.as_fd()];
        self.started_weak(weaknesses, &theirs);
        Pipes {
            stdin: stdin.into(),
            stdout: stdout.into(),
            stderr: stderr.into(),
        }
    }

    pub(crate) fn leave(&mut self) {
        self.0.shutdown(std::net::Shutdown::Both).unwrap();
    }

    pub(crate) fn ended(&mut self, end: End) {
        self.say(&Answer::Ended { end }, &[]);
    }
}

/// The command's ends.
pub(crate) struct Pipes {
    pub(crate) stdin: std::fs::File,
    pub(crate) stdout: std::fs::File,
    pub(crate) stderr: std::fs::File,
}
