//! Cgroups of a test's own: sessions in an agents' folder, and one outside of it.

use std::{
    ffi::CString,
    fs::{self, File},
    io::{Read as _, Seek as _, Write as _},
    os::fd::{AsFd as _, BorrowedFd},
    path::{Path, PathBuf},
};

use agent_ebpf::{Event, Hook};
use custody_supervisor::hooks::{Hooks, Pins};
use custody_sys::{
    cgroup::{self, Cgroup},
    clone::{Namespaces, Spawn, spawn},
};
use custody_wire::{layer::Status, profile::Profile};
use nix::{
    fcntl::OFlag,
    sys::wait::{WaitStatus, waitpid},
    unistd::pipe2,
};

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
    pub(crate) hooks: Hooks,
    pub(crate) folder: PathBuf,
    agents: Cgroup,
    session: Cgroup,
    below: Cgroup,
    tracing: Cgroup,
    outside: Cgroup,
    pins: Option<Pins>,
}

impl Arena {
    /// None, with the reason on standard output, where LSM programs cannot be had.
    pub(crate) fn new() -> Option<Self> {
        let (mut hooks, folder, agents, pins) = loaded()?;
        let objects = [folder.join("state"), folder.join("credential")];
        fs::create_dir_all(folder.join("state/deep/deeper")).unwrap();
        fs::write(folder.join("state/deep/deeper/file"), "obvious fake").unwrap();
        fs::write(folder.join("credential"), "obvious fake").unwrap();
        hooks.attach_lsm(&objects, &pins).unwrap();
        let cgroup = |name: &str| Cgroup::create(&agents.path().join(name)).unwrap();
        let (session, tracing) = (cgroup("session"), cgroup("tracing"));
        let below = Cgroup::create(&session.path().join("below")).unwrap();
        let outside = Cgroup::create(&agents.path().with_extension("outside")).unwrap();
        hooks.seal(session.id(), Profile::Standard).unwrap();
        hooks.seal(tracing.id(), Profile::Dev).unwrap();
        for id in [session.id(), tracing.id()] {
            hooks.count(id).unwrap();
        }
        let arena = Self {
            hooks,
            folder,
            agents,
            session,
            below,
            tracing,
            outside,
            pins: Some(pins),
        };
        assert_eq!(arena.status(), Status::Full, "attached, and not full");
        Some(arena)
    }

    pub(crate) fn status(&self) -> Status {
        self.hooks.lsm_status(self.pins.as_ref().unwrap())
    }

    pub(crate) fn pins(&mut self) -> &mut Option<Pins> {
        &mut self.pins
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
        let (read, write) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let program = format!("{before}\nos.read(3, 1)\n{after}");
        let id = self.session.id();
        self.hooks.open(id, Profile::Standard).unwrap();
        let Self { hooks, session, .. } = self;
        python(session, &program, &[read.as_fd()], || {
            // The program is there when it waits; what comes before it takes it well below this.
            std::thread::sleep(std::time::Duration::from_millis(1500));
            hooks.seal(id, Profile::Standard).unwrap();
            File::from(write).write_all(b"x").unwrap();
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
        let tally = self.hooks.tally(self.session.id()).unwrap();
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
        std::iter::from_fn(|| self.hooks.next_event()).collect()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let Some(pins) = self.pins.take() {
            pins.remove().unwrap();
        }
        for path in [self.agents.path(), self.outside.path()] {
            cgroup::kill(path).unwrap();
            while !cgroup::is_empty(path).unwrap() {
                std::thread::yield_now();
            }
            cgroup::remove(path).unwrap();
        }
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// Loaded programs, a folder, the agents' cgroup.
pub(crate) fn loaded() -> Option<(Hooks, PathBuf, Cgroup, Pins)> {
    if !nix::unistd::geteuid().is_root() {
        println!("not attempted: needs root");
        return None;
    }
    if Hooks::object().is_none() {
        println!("not attempted: needs the eBPF object (`cargo xtask build-ebpf`)");
        return None;
    }
    let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .find(|root| Cgroup::open(root.as_ref()).is_ok());
    let Some(root) = root else {
        println!("not attempted: needs cgroup2");
        return None;
    };
    let name = format!("custody-lsm-{}", std::process::id());
    let path = Path::new(root).join(&name);
    let cgroup = Cgroup::create(&path).unwrap();
    let pins = Pins::open(&path).unwrap();
    let hooks = Hooks::load(&cgroup).unwrap();
    // Before anything is attached: what the kernel said at the load.
    if let Status::None { step, errno } = hooks.lsm_status(&pins)
        && errno != 0
    {
        println!(
            "not attempted: needs a kernel that takes LSM programs ({step}: {})",
            std::io::Error::from_raw_os_error(errno)
        );
        pins.remove().unwrap();
        cgroup::remove(&path).unwrap();
        return None;
    }
    let folder = Path::new("/var/tmp").join(name);
    fs::create_dir(&folder).unwrap();
    Some((hooks, folder, cgroup, pins))
}

fn python(
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
