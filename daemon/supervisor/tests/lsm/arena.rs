//! Cgroups of a test's own: sessions in an agents' folder, and one outside of it.

use std::{
    ffi::CString,
    fs::File,
    io::{Read as _, Seek as _, Write as _},
    os::fd::{AsFd as _, BorrowedFd},
    path::PathBuf,
    sync::MutexGuard,
};

use agent_ebpf::{Event, Hook};
use custody_supervisor::hooks::Hooks;
use custody_sys::{
    cgroup::{self, Cgroup},
    clone::{Namespaces, Spawn, spawn},
};
use custody_wire::profile::Profile;
use nix::{
    fcntl::OFlag,
    poll::{PollFd, PollFlags, poll},
    sys::wait::{WaitStatus, waitpid},
    unistd::pipe2,
};

use crate::programs::{self, Programs};

/// In milliseconds: many times what a program takes that waits to be sealed, in an emulated machine.
const BEFORE: u16 = 60_000;

/// Where a program runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// A cgroup below a session's.
    Below,
    /// In no session.
    Outside,
    /// In a session of profile `standard`.
    Session,
    /// In a session of profile `dev`.
    Tracing,
}

pub(crate) struct Arena {
    pub(crate) programs: MutexGuard<'static, Programs>,
    session: Cgroup,
    below: Cgroup,
    tracing: Cgroup,
    outside: Cgroup,
}

impl Arena {
    /// None, with the reason on standard output, where LSM programs cannot be had.
    pub(crate) fn new() -> Option<Self> {
        let mut programs = programs::shared()?;
        programs.tidy_files();
        let agents = programs.agents.path().to_owned();
        let cgroup = |name: &str| Cgroup::create(&agents.join(name)).unwrap();
        let (session, tracing) = (cgroup("session"), cgroup("tracing"));
        let below = Cgroup::create(&session.path().join("below")).unwrap();
        let outside = Cgroup::create(&agents.with_extension("outside")).unwrap();
        let hooks = &mut programs.hooks;
        hooks.seal(session.id(), Profile::Standard).unwrap();
        hooks.seal(tracing.id(), Profile::Dev).unwrap();
        for id in [session.id(), tracing.id()] {
            hooks.count(id).unwrap();
        }
        Some(Self {
            programs,
            session,
            below,
            tracing,
            outside,
        })
    }

    pub(crate) fn hooks(&self) -> &Hooks {
        &self.programs.hooks
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.programs.folder.clone()
    }

    pub(crate) fn id(&self, place: Place) -> u64 {
        match place {
            Place::Below | Place::Session => self.session.id(),
            Place::Outside => self.outside.id(),
            Place::Tracing => self.tracing.id(),
        }
    }

    fn cgroup(&self, place: Place) -> &Cgroup {
        match place {
            Place::Below => &self.below,
            Place::Outside => &self.outside,
            Place::Session => &self.session,
            Place::Tracing => &self.tracing,
        }
    }

    /// Runs a Python program; what it prints is the answer. `fds` are 3 and up.
    pub(crate) fn run(&self, place: Place, program: &str, fds: &[BorrowedFd<'_>]) -> String {
        python(self.cgroup(place), program, fds, || {})
    }

    /// The same; `before` runs while custody-launch would be at work, `after` when the session is
    /// sealed.
    pub(crate) fn run_sealed_between(&mut self, before: &str, after: &str) -> String {
        let pipe = || pipe2(OFlag::O_CLOEXEC).unwrap();
        let ((sealed, seal), (ready, done)) = (pipe(), pipe());
        let program = format!("{before}\nos.write(4, b'x')\nos.read(3, 1)\n{after}");
        let id = self.session.id();
        let Self {
            programs, session, ..
        } = self;
        programs.hooks.open(id, Profile::Standard).unwrap();
        python(session, &program, &[sealed.as_fd(), done.as_fd()], || {
            // A program that failed says so at its end; that it waits is not worth a hang.
            let mut fds = [PollFd::new(ready.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, BEFORE).unwrap();
            programs.hooks.seal(id, Profile::Standard).unwrap();
            File::from(seal).write_all(b"x").unwrap();
        })
    }

    /// The program is let through outside, and refused in a session and below it, with an event.
    pub(crate) fn refused(&mut self, hook: Hook, program: &str) {
        self.refused_with(hook, program, &[]);
    }

    pub(crate) fn refused_with(&mut self, hook: Hook, program: &str, fds: &[BorrowedFd<'_>]) {
        let outside = self.run(Place::Outside, program, fds);
        assert_ne!(outside, "EPERM", "outside, {hook:?}: {program}");
        for place in [Place::Session, Place::Below] {
            let _before = self.events();
            let inside = self.run(place, program, fds);
            assert!(
                ["EPERM", "EACCES"].contains(&inside.as_str()),
                "{place:?}, {hook:?}: {inside}: {program}"
            );
            let id = self.session.id();
            let events = self.events();
            assert!(
                events
                    .iter()
                    .any(|event| event.hook() == Some(hook) && event.cgroup_id == id),
                "no event of {hook:?} in {events:?}"
            );
        }
        let tally = self.hooks().tally(self.session.id()).unwrap();
        assert!(tally.refused.get(&hook).is_some_and(|count| *count >= 2));
    }

    /// The program is let through everywhere.
    pub(crate) fn reached(&self, program: &str) {
        for place in [Place::Outside, Place::Session, Place::Below] {
            assert_eq!(
                self.run(place, program, &[]),
                "reached",
                "{place:?}: {program}"
            );
        }
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.programs.hooks.next_event()).collect()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for cgroup in [&self.session, &self.tracing, &self.outside] {
            let path = cgroup.path();
            cgroup::kill(path).unwrap();
            while !cgroup::is_empty(path).unwrap() {
                std::thread::yield_now();
            }
            cgroup::remove(path).unwrap();
            self.programs.hooks.close(cgroup.id()).unwrap();
            self.programs.hooks.forget(cgroup.id()).unwrap();
        }
    }
}

/// Runs a Python program in the cgroup; what it prints is the answer.
pub(crate) fn python(
    cgroup: &Cgroup,
    program: &str,
    fds: &[BorrowedFd<'_>],
    meanwhile: impl FnOnce(),
) -> String {
    let prelude = include_str!("prelude.py");
    let argv = [
        "/usr/bin/python3",
        "-I",
        "-S",
        "-c",
        &format!("{prelude}\n{program}"),
    ]
    .map(|s| CString::new(s).unwrap());
    let null = File::open("/dev/null").unwrap();
    let mut out = tempfile::tempfile().unwrap();
    let mut all = vec![null.as_fd(), out.as_fd(), out.as_fd()];
    all.extend(fds);
    let child = spawn(&Spawn {
        argv: &argv,
        envp: &[],
        fds: &all,
        cgroup: cgroup.as_fd(),
        namespaces: Namespaces::Inherited,
    })
    .unwrap();
    meanwhile();
    let status = waitpid(child.pid, None).unwrap();
    out.rewind().unwrap();
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    assert!(
        matches!(status, WaitStatus::Exited(_, 0)),
        "{program}: {text}"
    );
    text.trim().into()
}
