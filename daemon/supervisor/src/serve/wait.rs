//! Waiting: what became readable, or which timer runs out next.

use std::{
    os::fd::{AsFd as _, BorrowedFd},
    time::{Duration, Instant},
};

use gate::id::SessionId;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};

use super::{Custodyd, DYING_EVERY, Mode, ServeError, services::Service};

/// How rarely a cgroup is looked at that has not become empty for long.
const DYING_RARELY: Duration = Duration::from_secs(1);

/// What became readable.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ready {
    /// Somebody in a session that has no front yet connects to it.
    Called(SessionId),
    Channel(u64),
    Denials,
    Ended(u64),
    Looked,
    Orders(Service),
    Signals,
    Words(u64),
}

/// SIGTERM and SIGINT end custodyd, at SIGHUP it reads reviewers' keys again.
pub(super) fn signals() -> Result<SignalFd, ServeError> {
    let failed = |errno: Errno| ServeError::Loop {
        call: "signalfd",
        source: errno.into(),
    };
    let mask = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    mask.thread_block().map_err(failed)?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).map_err(failed)
}

impl Custodyd {
    /// Waits until something is readable or a timer runs out.
    pub(super) fn wait(&self, signals: &SignalFd) -> Result<Vec<Ready>, ServeError> {
        let mut what = vec![Ready::Signals, Ready::Denials, Ready::Looked];
        let mut fds = vec![
            readable(signals.as_fd()),
            readable(self.hooks.as_fd()),
            readable(self.looking.as_fd()),
        ];
        for service in Service::ALL {
            if let Some(channel) = self.slots.channel(service) {
                what.push(Ready::Orders(service));
                fds.push(readable(channel));
            }
        }
        for (number, (_, process)) in &self.processes {
            if let Some(channel) = process.channel() {
                what.push(Ready::Channel(*number));
                fds.push(readable(channel));
            }
            if let Some(words) = process.words() {
                what.push(Ready::Words(*number));
                fds.push(readable(words));
            }
            what.push(Ready::Ended(*number));
            fds.push(readable(process.pidfd()));
        }
        for (id, session) in &self.sessions {
            if let Some(listener) = session.without_front() {
                what.push(Ready::Called(*id));
                fds.push(readable(listener));
            }
        }
        let timeout = self.next_timer().map_or(PollTimeout::NONE, |at| {
            let rest = at.saturating_duration_since(Instant::now());
            // A rounded-down timer would be polled for again and again until it runs out.
            PollTimeout::try_from(rest + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => {
                return Err(ServeError::Loop {
                    call: "poll",
                    source: errno.into(),
                });
            }
        }
        Ok(what
            .into_iter()
            .zip(&fds)
            .filter(|(_, fd)| fd.any().unwrap_or(false))
            .map(|(what, _)| what)
            .collect())
    }

    fn next_timer(&self) -> Option<Instant> {
        let launches = self.processes.values().filter_map(|(_, p)| p.deadline);
        let now = Instant::now();
        let dying = self.dying.iter().map(|it| now + pause(now - it.since));
        let ending = match self.mode {
            Mode::EndingServices { kill_at } => Some(kill_at),
            Mode::EndingSessions | Mode::Serving | Mode::Starting => None,
        };
        launches
            .chain(dying)
            .chain(ending)
            .chain(self.end_by)
            .chain(self.slots.next_start())
            .chain(self.heads.next())
            .chain(self.spares.rests_until(now))
            .chain([self.next_tick])
            .min()
    }
}

/// Until what has been dying for so long is looked at again: most goes at once, and what hangs in a
/// system call may stay for hours.
fn pause(dying: Duration) -> Duration {
    (dying / 8).clamp(DYING_EVERY, DYING_RARELY)
}

fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::new(fd, PollFlags::POLLIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_die_is_looked_at_ever_more_rarely() {
        assert_eq!(pause(Duration::ZERO), DYING_EVERY);
        let later = pause(Duration::from_secs(1));
        assert!(later > DYING_EVERY && later < DYING_RARELY);
        assert_eq!(pause(Duration::from_secs(3600)), DYING_RARELY);
    }
}
