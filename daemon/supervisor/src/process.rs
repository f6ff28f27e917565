//! One program that custodyd started: through custody-launch, in a cgroup of its own.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    time::{Duration, Instant},
};

use custody_sys::{
    cgroup::Cgroup,
    channel::{self, Rights},
    clone::{Child, Namespaces, Spawn, spawn},
    pidfd,
};
use custody_wire::{
    Message,
    frame::{self, FrameError},
    launch::{Go, Kind, Outcome, Plan, Ready, Report, Role},
};
use nix::sys::{
    signal::Signal,
    socket::{setsockopt, sockopt},
    wait::WaitStatus,
};

use crate::{
    checks::programs::Programs,
    words::{Stream, Words},
};

/// How long custody-launch may take: a session's is a few milliseconds; only a hung disk takes
/// longer.
pub const LAUNCH_MAX: Duration = Duration::from_secs(10);

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The channel to custody-launch.
    #[error("the channel to custody-launch")]
    Channel(#[source] io::Error),
    /// It ended without a report.
    #[error("custody-launch ended without a report")]
    Closed,
    /// A message that is none.
    #[error("the channel to custody-launch")]
    Frame(#[from] FrameError),
    /// clone3(2) or execve(2).
    #[error("cannot start custody-launch")]
    Spawn(#[source] io::Error),
}

/// What a session says after [`Process::go`].
#[derive(Clone, Debug)]
pub enum Said {
    /// custody-init was not executed: what stopped custody-launch.
    Failed(Report),
    /// How the command ended.
    Outcome(Outcome),
}

/// A message as it came, with the descriptors beside it.
type Datagram = (Vec<u8>, Vec<OwnedFd>);

/// A started program.
#[derive(Debug)]
pub struct Process {
    /// Its cgroup, which nothing else is in.
    pub cgroup: Cgroup,
    /// Its uid.
    pub uid: u32,
    /// When it is killed, unless the step that it is at is over by then.
    pub deadline: Option<Instant>,
    launching: bool,
    channel: Option<OwnedFd>,
    child: Child,
    words: Option<Words>,
}

impl Process {
    /// Starts custody-launch in `cgroup` and hands it the plan. It builds and reports; nothing of
    /// the plan is executed before [`Process::go`]. A program of ours gets a standard error that
    /// is written to our log as from `name`. A session's end of the channel gets `mark`, by which
    /// the LSM programs know a socket of ours.
    ///
    /// # Errors
    /// See [`ProcessError`]; the cgroup comes back to be removed.
    pub fn start(
        programs: &Programs,
        cgroup: Cgroup,
        name: &str,
        plan: Plan,
        fds: &[BorrowedFd<'_>],
        mark: Option<u32>,
    ) -> Result<Self, (Cgroup, ProcessError)> {
        let uid = plan.uid;
        match Self::try_start(programs, &cgroup, name, plan, fds, mark) {
            Ok((child, channel, words)) => Ok(Self {
                cgroup,
                uid,
                deadline: Some(Instant::now() + LAUNCH_MAX),
                launching: true,
                channel: Some(channel),
                child,
                words,
            }),
            Err(error) => Err((cgroup, error)),
        }
    }

    fn try_start(
        programs: &Programs,
        cgroup: &Cgroup,
        name: &str,
        mut plan: Plan,
        fds: &[BorrowedFd<'_>],
        mark: Option<u32>,
    ) -> Result<(Child, OwnedFd, Option<Words>), ProcessError> {
        let (ours, theirs) = pair(mark)?;
        let namespaces = match plan.kind {
            Kind::Session(_) => Namespaces::Own,
            Kind::Service(_) => Namespaces::Inherited,
        };
        let words = match plan.kind {
            Kind::Session(_) => None,
            Kind::Service(_) => Some(Words::pipe(name.into()).map_err(ProcessError::Spawn)?),
        };
        let mut fds = fds.to_vec();
        if let Some((_, stderr)) = &words {
            plan.fds.push(Role::Stderr);
            fds.push(stderr.as_fd());
        }
        // Before it starts: the buffer keeps the plan until it is read.
        channel::send(&ours, &frame::datagram(&plan)?, &fds).map_err(ProcessError::Channel)?;
        let child = spawn_launcher(programs, cgroup, &theirs, namespaces)?;
        Ok((child, ours, words.map(|(words, _theirs)| words)))
    }

    /// Starts custody-launch for a session that is not there yet. It gets its plan by
    /// [`Process::serve`].
    ///
    /// # Errors
    /// See [`ProcessError`]; the cgroup comes back to be removed.
    pub fn ready(
        programs: &Programs,
        cgroup: Cgroup,
        ready: &Ready,
        mark: Option<u32>,
    ) -> Result<Self, (Cgroup, ProcessError)> {
        let start = || {
            let (ours, theirs) = pair(mark)?;
            channel::send(&ours, &frame::datagram(ready)?, &[]).map_err(ProcessError::Channel)?;
            let child = spawn_launcher(programs, &cgroup, &theirs, Namespaces::Own)?;
            Ok((child, ours))
        };
        match start() {
            Ok((child, channel)) => Ok(Self {
                cgroup,
                uid: 0,
                deadline: None,
                launching: true,
                channel: Some(channel),
                child,
                words: None,
            }),
            Err(error) => Err((cgroup, error)),
        }
    }

    /// Hands the plan of a session to a launcher that was ready.
    ///
    /// # Errors
    /// When it is gone.
    pub fn serve(&mut self, plan: &Plan, fds: &[BorrowedFd<'_>]) -> Result<(), ProcessError> {
        let channel = self.channel.as_ref().ok_or(ProcessError::Closed)?;
        channel::send(channel, &frame::datagram(plan)?, fds).map_err(ProcessError::Channel)?;
        self.uid = plan.uid;
        self.deadline = Some(Instant::now() + LAUNCH_MAX);
        Ok(())
    }

    /// The pid in our namespace.
    pub const fn pid(&self) -> i32 {
        self.child.pid.as_raw()
    }

    /// Readable when it has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.child.pidfd.as_fd()
    }

    /// Whether it has ended, reaped or not, or does so within `patience`.
    pub fn ends_within(&self, patience: Duration) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

        let mut fds = [PollFd::new(self.pidfd(), PollFlags::POLLIN)];
        let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
        poll(&mut fds, patience).is_ok_and(|ready| ready > 0)
    }

    /// Its channel, as long as there is one.
    pub fn channel(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(AsFd::as_fd)
    }

    /// Its standard error, as long as it is open.
    pub fn words(&self) -> Option<BorrowedFd<'_>> {
        self.words.as_ref().map(AsFd::as_fd)
    }

    /// Writes what it said to our log.
    pub fn relay(&mut self) {
        if let Some(words) = &mut self.words
            && words.relay() == Stream::Closed
        {
            self.words = None;
        }
    }

    /// Closes the channel: nothing more is expected.
    pub fn hang_up(&mut self) {
        self.channel = None;
    }

    /// Whether custody-launch has still to report.
    pub const fn is_launching(&self) -> bool {
        self.launching
    }

    /// The report of custody-launch with its descriptors, if it is there.
    ///
    /// # Errors
    /// See [`ProcessError`].
    pub fn report(&mut self) -> Result<Option<(Report, Vec<OwnedFd>)>, ProcessError> {
        let Some((bytes, fds)) = self.receive(Report::CAP)? else {
            return Ok(None);
        };
        self.deadline = None;
        self.launching = false;
        // From here on it is, or may become, a program that gives nothing.
        if let Some(channel) = &self.channel {
            channel::set_rights(channel, Rights::Refused).map_err(ProcessError::Channel)?;
        }
        Ok(Some((frame::parse(&bytes)?, fds)))
    }

    /// What custody-launch says after [`Process::go`], which is nothing but why the program was not
    /// executed: the execution itself closes the channel, and that is [`ProcessError::Closed`].
    ///
    /// # Errors
    /// See [`ProcessError`].
    pub fn last_words(&mut self) -> Result<Option<Report>, ProcessError> {
        let Some((bytes, _fds)) = self.receive(Report::CAP)? else {
            return Ok(None);
        };
        Ok(Some(frame::parse(&bytes)?))
    }

    /// What a session says after [`Process::go`], if it is there.
    ///
    /// # Errors
    /// See [`ProcessError`].
    pub fn said(&mut self) -> Result<Option<Said>, ProcessError> {
        let Some((bytes, _fds)) = self.receive(Report::CAP)? else {
            return Ok(None);
        };
        match frame::parse(&bytes) {
            Ok(outcome) => Ok(Some(Said::Outcome(outcome))),
            Err(FrameError::Kind { .. }) => Ok(Some(Said::Failed(frame::parse(&bytes)?))),
            Err(error) => Err(error.into()),
        }
    }

    /// The next message, if one is there. At the channel's end the channel is closed.
    fn receive(&mut self, cap: usize) -> Result<Option<Datagram>, ProcessError> {
        let channel = self.channel.as_ref().ok_or(ProcessError::Closed)?;
        let mut bytes = vec![0; cap];
        match channel::recv(channel, &mut bytes, channel::MAX_FDS) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => {
                self.channel = None;
                Err(ProcessError::Channel(error))
            }
            Ok((0, _)) => {
                self.channel = None;
                Err(ProcessError::Closed)
            }
            Ok((len, fds)) => {
                bytes.truncate(len);
                Ok(Some((bytes, fds)))
            }
        }
    }

    /// Lets custody-launch execute the program.
    ///
    /// # Errors
    /// When it is gone.
    pub fn go(&self) -> Result<(), ProcessError> {
        let channel = self.channel.as_ref().ok_or(ProcessError::Closed)?;
        channel::send(channel, &frame::datagram(&Go)?, &[]).map_err(ProcessError::Channel)
    }

    /// Sends a signal to it, and to it alone.
    ///
    /// # Errors
    /// When it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        pidfd::signal(self.pidfd(), signal)
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When waitid(2) fails.
    pub fn reap(&self) -> io::Result<Option<WaitStatus>> {
        pidfd::reap(self.pidfd())
    }
}

/// A channel to custody-launch: our end does not block, its end has the mark.
fn pair(mark: Option<u32>) -> Result<(OwnedFd, OwnedFd), ProcessError> {
    let (ours, theirs) = channel::pair_seqpacket().map_err(ProcessError::Spawn)?;
    nonblocking(&ours).map_err(ProcessError::Channel)?;
    if let Some(mark) = mark {
        setsockopt(&theirs, sockopt::Mark, &mark)
            .map_err(|errno| ProcessError::Channel(errno.into()))?;
    }
    Ok((ours, theirs))
}

fn spawn_launcher(
    programs: &Programs,
    cgroup: &Cgroup,
    theirs: &OwnedFd,
    namespaces: Namespaces,
) -> Result<Child, ProcessError> {
    let path = programs.path("custody-launch");
    let program =
        CString::new(path.as_os_str().as_bytes()).map_err(|nul| ProcessError::Spawn(nul.into()))?;
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(ProcessError::Spawn)?;
    spawn(&Spawn {
        argv: &[program],
        envp: &chosen(),
        fds: &[null.as_fd(), null.as_fd(), null.as_fd(), theirs.as_fd()],
        cgroup: cgroup.as_fd(),
        namespaces,
    })
    .map_err(ProcessError::Spawn)
}

/// The launcher's environment: nothing.
#[cfg(not(custody_mutants))]
const fn chosen() -> [CString; 0] {
    []
}

/// The launcher's environment: what is off.
#[cfg(custody_mutants)]
fn chosen() -> Vec<CString> {
    let named = std::env::var(gate::mutant::VARIABLE).ok();
    let variable = named.map(|name| format!("{}={name}", gate::mutant::VARIABLE));
    variable
        .and_then(|it| CString::new(it).ok())
        .into_iter()
        .collect()
}

/// Sets O_NONBLOCK.
///
/// # Errors
/// When fcntl(2) fails.
pub fn nonblocking(fd: impl AsFd) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
    let _was = fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
