//! Standard streams of a session: a private pty or pipes, made here. The caller's own never enter.

use std::os::fd::OwnedFd;

use custody_wire::launch::{Role, WindowSize};
use nix::{fcntl::OFlag, unistd::pipe2};

use crate::{
    dev,
    failure::{Failure, Step as _},
    root::Root,
};

/// The session's three, and our ends.
#[derive(Debug)]
pub(crate) struct Streams {
    /// 0, 1 and 2 of the session.
    pub(crate) inside: [OwnedFd; 3],
    /// What goes back in the report.
    pub(crate) outside: Vec<(Role, OwnedFd)>,
}

impl Streams {
    /// A pty of the session's own devpts.
    pub(crate) fn terminal(root: &Root, size: WindowSize, uid: u32) -> Result<Self, Failure> {
        let pty = dev::terminal(root, size, uid)?;
        let copy = || pty.slave.try_clone().step(|| "fcntl(2) of the pty".into());
        Ok(Self {
            inside: [copy()?, copy()?, copy()?],
            outside: vec![(Role::Master, pty.master)],
        })
    }

    /// Three pipes.
    pub(crate) fn pipes(uid: u32, gid: u32) -> Result<Self, Failure> {
        let pipe = || pipe2(OFlag::O_CLOEXEC).step(|| "pipe2(2)".into());
        let (stdin, to) = pipe()?;
        let (from, stdout) = pipe()?;
        let (errors, stderr) = pipe()?;
        let inside = [stdin, stdout, stderr];
        for end in &inside {
            dev::own(end, uid, gid)?;
        }
        Ok(Self {
            inside,
            outside: vec![
                (Role::Stdin, to),
                (Role::Stdout, from),
                (Role::Stderr, errors),
            ],
        })
    }
}
