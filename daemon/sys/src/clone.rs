//! clone3(2): a child that is born in its cgroup and its namespaces, with a pidfd, and executes.

// UNSAFETY: neither std nor nix offers clone3 with CLONE_INTO_CGROUP; the child of a raw clone3
// may only make system calls until it executes.
#![expect(
    unsafe_code,
    reason = "clone3(2) and what its child may do before execve(2)"
)]

use std::{
    ffi::{CStr, CString},
    io::{self, Read as _},
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    ptr,
};

use nix::{
    fcntl::OFlag,
    libc,
    sched::CloneFlags,
    unistd::{Pid, pipe2},
};

/// The namespaces of a child of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Namespaces {
    /// None: as the caller.
    Inherited,
    /// Those of [`Namespaces::Own`] that are named here, and no others.
    Only(CloneFlags),
    /// cgroup, ipc, mount, network, pid and uts namespaces of its own (namespaces(7)).
    Own,
}

/// What the child is.
#[derive(Debug)]
pub struct Child {
    /// Its pid in the caller's namespace.
    pub pid: Pid,
    /// Its pidfd: readable when it has ended (pidfd_open(2)).
    pub pidfd: OwnedFd,
}

/// What to start, and in what.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The program and its arguments; the first is also its path.
    pub argv: &'a [CString],
    /// The environment, whole.
    pub envp: &'a [CString],
    /// The descriptors that it gets as 0, 1, 2, …; every other one is closed.
    pub fds: &'a [BorrowedFd<'a>],
    /// The cgroup2 folder that it is born in.
    pub cgroup: BorrowedFd<'a>,
    /// Its namespaces.
    pub namespaces: Namespaces,
}

/// `struct clone_args`, CLONE_ARGS_SIZE_VER2 (Linux 5.7).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

const CLONE_PIDFD: u64 = 0x1000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
const OWN: libc::c_int = libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUTS;

/// Starts `what`, and returns when it executes or could not. The caller must have one thread.
///
/// # Errors
/// When clone3(2) or, in the child, execve(2) fails.
pub fn spawn(what: &Spawn<'_>) -> io::Result<Child> {
    let argv = pointers(what.argv);
    let envp = pointers(what.envp);
    let program = what
        .argv
        .first()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let (mut failed, report) = pipe2(OFlag::O_CLOEXEC).map(|(r, w)| (std::fs::File::from(r), w))?;
    // Above every target, so that placing one never overwrites another that is still needed.
    let floor = RawFd::try_from(what.fds.len()).map_err(io::Error::other)?;
    let lifted = what
        .fds
        .iter()
        .map(|fd| lift(*fd, floor))
        .collect::<io::Result<Vec<OwnedFd>>>()?;
    let report = lift_owned(report, floor)?;
    let raw: Vec<RawFd> = lifted.iter().map(|fd| fd.as_raw_fd()).collect();

    let mut pidfd: RawFd = -1;
    let args = CloneArgs {
        flags: CLONE_PIDFD
            | CLONE_INTO_CGROUP
            | match what.namespaces {
                Namespaces::Inherited => 0,
                Namespaces::Only(some) => {
                    u64::try_from(some.bits() & OWN).map_err(io::Error::other)?
                }
                Namespaces::Own => u64::try_from(OWN).map_err(io::Error::other)?,
            },
        pidfd: ptr::from_mut(&mut pidfd).addr() as u64,
        exit_signal: u64::try_from(libc::SIGCHLD).map_err(io::Error::other)?,
        cgroup: u64::try_from(what.cgroup.as_raw_fd()).map_err(io::Error::other)?,
        ..CloneArgs::default()
    };
    // SAFETY: clone3(2) reads `args`, which has the kernel's layout and its true size, and writes
    // the pidfd to `pidfd`, which outlives the call. Without CLONE_VM the child has a copy of
    // all memory, as after fork(2), and runs on a copy of this stack.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid == 0 {
        execute(program, &argv, &envp, &raw, report.as_raw_fd());
    }
    drop(report);
    // SAFETY: clone3(2) succeeded with CLONE_PIDFD, so it stored a new descriptor there.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let pid = Pid::from_raw(i32::try_from(pid).map_err(io::Error::other)?);
    let mut errno = [0; 4];
    match failed.read_exact(&mut errno) {
        // The pipe was closed by a successful execve(2).
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Child { pid, pidfd }),
        Err(error) => Err(error),
        Ok(()) => {
            // It has ended: reap it here, nobody else knows it.
            let reaped = nix::sys::wait::waitpid(pid, None);
            let error = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
            Err(reaped.map_or_else(io::Error::from, |_status| error))
        }
    }
}

fn lift(fd: BorrowedFd<'_>, floor: RawFd) -> io::Result<OwnedFd> {
    let raw = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(floor))?;
    // SAFETY: fcntl(2) with F_DUPFD_CLOEXEC returns a new descriptor that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn lift_owned(fd: OwnedFd, floor: RawFd) -> io::Result<OwnedFd> {
    use std::os::fd::AsFd as _;
    lift(fd.as_fd(), floor)
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr())
        .chain([ptr::null()])
        .collect()
}

/// In the child: system calls only, no allocation. Never returns.
fn execute(
    program: &CStr,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    fds: &[RawFd],
    report: RawFd,
) -> ! {
    let errno = try_execute(program, argv, envp, fds);
    let bytes = errno.to_ne_bytes();
    // SAFETY: write(2) reads four bytes of a local array. If it fails the parent sees the end
    // of the pipe and then the end of the child.
    unsafe { libc::write(report, bytes.as_ptr().cast(), bytes.len()) };
    // SAFETY: _exit(2) runs no destructor or handler of the parent's copy.
    unsafe { libc::_exit(127) }
}

fn try_execute(
    program: &CStr,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    fds: &[RawFd],
) -> i32 {
    for (target, fd) in (0..).zip(fds) {
        // SAFETY: dup2(2) takes two numbers; every `fd` lies above every target, so none is lost.
        // The copy has no close-on-exec flag.
        if unsafe { libc::dup2(*fd, target) } < 0 {
            return last();
        }
    }
    let Ok(first) = libc::c_uint::try_from(fds.len()) else {
        return libc::EINVAL;
    };
    // SAFETY: close_range(2) with CLOSE_RANGE_CLOEXEC closes nothing now; on execve(2) only
    // 0, 1, … of `fds` stay.
    let marked = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if marked < 0 {
        return last();
    }
    // The caller blocks signals for its signalfd; a blocked mask would survive execve(2).
    // SAFETY: an all-zero sigset_t is a valid value on Linux; sigemptyset(3) sets it anyway.
    let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: sigemptyset(3) writes to a local set.
    unsafe { libc::sigemptyset(&raw mut none) };
    // SAFETY: sigprocmask(2) reads a local set and writes nothing.
    if unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()) } < 0 {
        return last();
    }
    // Rust's start-up ignores SIGPIPE, which would survive execve(2) too.
    // SAFETY: signal(2) to the default sets no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    // SAFETY: execve(2): the path is NUL-ended; argv and envp point to NUL-ended strings of the
    // caller, whose copy lives in this process, and end with a null pointer.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    last()
}

fn last() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::{self, Cgroup};
    use nix::sys::wait::{WaitStatus, waitpid};
    use std::{
        fs::{self, File},
        os::fd::AsFd as _,
        path::PathBuf,
    };

    /// A cgroup of the test's own, removed at its end.
    struct Own(Cgroup);

    impl Own {
        fn new(name: &str) -> Option<Self> {
            if !nix::unistd::geteuid().is_root() {
                println!("not attempted: needs root");
                return None;
            }
            let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
                .into_iter()
                .find(|root| Cgroup::open(root.as_ref()).is_ok());
            let Some(root) = root else {
                println!("not attempted: needs cgroup2");
                return None;
            };
            let path = PathBuf::from(root).join(format!("custody-clone-{name}-{}", Pid::this()));
            Some(Self(Cgroup::create(&path).unwrap()))
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            cgroup::kill(self.0.path()).unwrap();
            while !self.0.is_empty().unwrap() {
                std::thread::yield_now();
            }
            cgroup::remove(self.0.path()).unwrap();
        }
    }

    fn strings(all: &[&str]) -> Vec<CString> {
        all.iter().map(|s| CString::new(*s).unwrap()).collect()
    }

    fn run(own: &Own, argv: &[&str], fds: &[BorrowedFd<'_>], namespaces: Namespaces) -> i32 {
        let child = spawn(&Spawn {
            argv: &strings(argv),
            envp: &strings(&["PATH=/usr/bin:/bin"]),
            fds,
            cgroup: own.0.as_fd(),
            namespaces,
        })
        .unwrap();
        let status = waitpid(child.pid, None).unwrap();
        let WaitStatus::Exited(_, code) = status else {
            panic!("{status:?}")
        };
        code
    }

    #[test]
    fn a_child_is_born_in_its_cgroup_with_its_descriptors_and_no_other() {
        let Some(own) = Own::new("fds") else { return };
        let null = File::open("/dev/null").unwrap();
        let mut out = tempfile::tempfile().unwrap();
        let leak = lift(null.as_fd(), 50).unwrap();
        nix::fcntl::fcntl(
            &leak,
            nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
        )
        .unwrap();
        let fds = [null.as_fd(), out.as_fd(), out.as_fd(), null.as_fd()];
        let script = "grep ^0:: /proc/self/cgroup; ls /proc/self/fd; echo $$";
        let code = run(&own, &["/bin/sh", "-c", script], &fds, Namespaces::Own);
        assert_eq!(code, 0);
        use std::io::Seek as _;
        out.rewind().unwrap();
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        assert!(!text.contains("50"), "{text}");
        assert!(text.contains("\n3\n"), "{text}");
        assert!(text.ends_with("\n1\n"), "pid 1 of its namespace: {text}");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_with_its_errno_and_leaves_no_zombie() {
        let Some(own) = Own::new("enoent") else {
            return;
        };
        let error = spawn(&Spawn {
            argv: &strings(&["/no/such/program"]),
            envp: &[],
            fds: &[],
            cgroup: own.0.as_fd(),
            namespaces: Namespaces::Inherited,
        })
        .unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        assert!(own.0.is_empty().unwrap());
    }

    #[test]
    fn a_killed_cgroup_takes_the_whole_tree() {
        let Some(own) = Own::new("kill") else { return };
        let null = File::open("/dev/null").unwrap();
        let fds = [null.as_fd(), null.as_fd(), null.as_fd()];
        let child = spawn(&Spawn {
            argv: &strings(&[
                "/bin/sh",
                "-c",
                "setsid sleep 60 & setsid sleep 60 & sleep 60",
            ]),
            envp: &strings(&["PATH=/usr/bin:/bin"]),
            fds: &fds,
            cgroup: own.0.as_fd(),
            namespaces: Namespaces::Inherited,
        })
        .unwrap();
        let procs = own.0.path().join("cgroup.procs");
        while fs::read_to_string(&procs).unwrap().lines().count() < 4 {
            std::thread::yield_now();
        }
        own.0.kill().unwrap();
        assert!(matches!(
            waitpid(child.pid, None).unwrap(),
            WaitStatus::Signaled(..)
        ));
    }
}
