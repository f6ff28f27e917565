//! A session: from its launch to its end. Its order is in [`orders`](super::orders), what its launcher
//! reports in [`launched`](super::launched), the front beside it in [`fronts`](super::fronts).
//!
//! ```text
//! Start ─▶ Launching ─ sealed, layers suffice ─▶ Running ─▶ Ending ─▶ (gone)
//!              └──────────── anything else ──────────────────▲
//! ```
//!
//! **Invariant:** nothing of the command is executed before the layers were found to suffice;
//! control hears of an end only when nothing of the session is left.

use std::{
    collections::VecDeque,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

use custody_wire::{
    launch::Outcome,
    profile::Profile,
    supervise::{Counts, End, StartRefusal},
};
use gate::id::{PolicyName, SessionId};
use nix::sys::signal::Signal;

use super::{
    Custodyd, Part,
    say::{chain, errno_of},
    workers::sealed,
};
use crate::{
    hooks::Tally,
    process::{LAUNCH_MAX, ProcessError, Said},
    refused::Finding,
};

/// The signals that the CLI forwards (signal(7)); SIGKILL is `Stop`.
const FORWARDED: [Signal; 9] = [
    Signal::SIGCONT,
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGTSTP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

/// How long pid 1 may live on after it said how the command ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A session that lives.
#[derive(Debug)]
pub(super) struct Session {
    /// The session that it was delegated from: it does not outlive it.
    pub(super) from: Option<SessionId>,
    pub(super) policy: PolicyName,
    pub(super) uid: u32,
    pub(super) profile: Profile,
    pub(super) phase: Phase,
    pub(super) workspace: Option<Kept>,
    pub(super) placeholders: Vec<PathBuf>,
    pub(super) listener: Option<OwnedFd>,
    /// Somebody in it has connected: from then on it has a front.
    pub(super) is_called: bool,
    pub(super) front_ends: VecDeque<Instant>,
    /// What was found before the launch and its profile permits.
    pub(super) findings: Vec<Finding>,
    /// Why its front ended last, where that is known.
    pub(super) front_why: Option<String>,
    /// What the hooks counted of programs of it that are gone.
    pub(super) tally: Tally,
    /// What control was told of it.
    pub(super) counted: Option<Counts>,
    pub(super) said: Option<Said>,
}

/// The workspace, for cleaning up in it and for messages.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) folder: OwnedFd,
    pub(super) path: String,
}

#[derive(Debug)]
pub(super) enum Phase {
    Ending(Last),
    Launching,
    Running,
}

/// What control is told at the end.
#[derive(Debug)]
pub(super) enum Last {
    Ended(End),
    Refused(StartRefusal),
}

impl Session {
    pub(super) const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    /// Its listener, as long as no front was asked for.
    pub(super) fn without_front(&self) -> Option<BorrowedFd<'_>> {
        let listener = self.listener.as_ref()?;
        (self.is_running() && !self.is_called).then(|| listener.as_fd())
    }
}

impl Custodyd {
    /// The session's pid 1 said something, or closed the channel.
    pub(super) fn session_said(&mut self, number: u64, id: SessionId) {
        let Some((_, process)) = self.processes.get_mut(&number) else {
            return;
        };
        match process.said() {
            Ok(None) => {}
            Ok(Some(said)) => {
                process.hang_up();
                process.deadline = Some(Instant::now() + LAST_WORDS);
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.said = Some(said);
                }
            }
            // Its end says how.
            Err(ProcessError::Closed) => {}
            Err(error) => {
                tracing::warn!(session = %id, error = chain(&error), "the session's channel");
                process.hang_up();
            }
        }
    }

    /// The session's pid 1 ended, and with it its pid namespace.
    pub(super) fn session_ended(&mut self, id: SessionId, signal: Option<i32>, code: Option<i32>) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let exited = |code: i32| End::Exited {
            code: u8::try_from(code).unwrap_or(u8::MAX),
        };
        let last = match (&session.phase, &session.said) {
            (Phase::Launching, _) => {
                let how = match (signal, code) {
                    (Some(signal), _) => format!("was killed by {}", named(signal)),
                    (None, Some(code)) => format!("ended with status {code}"),
                    (None, None) => "ended".into(),
                };
                Last::Refused(StartRefusal::Failed {
                    step: format!("custody-launch {how} before it reported"),
                    errno: 0,
                })
            }
            (_, Some(Said::Outcome(Outcome::Exited { code }))) => Last::Ended(exited(*code)),
            (_, Some(Said::Outcome(Outcome::Killed { signal }))) => {
                Last::Ended(End::Killed { signal: *signal })
            }
            (_, Some(Said::Outcome(Outcome::NotExecuted { errno }))) => {
                Last::Ended(End::NotExecuted { errno: *errno })
            }
            (_, Some(Said::Failed(report))) => {
                let why = sealed(report, false).err().unwrap_or_default();
                Last::Ended(End::Stopped {
                    why: format!("its command was not executed: {why}"),
                })
            }
            (_, None) => Last::Ended(match (signal, code) {
                (Some(signal), _) => End::Killed { signal },
                (None, code) => exited(code.unwrap_or(1)),
            }),
        };
        self.end_session(id, last);
    }

    pub(super) fn signal_session(&mut self, id: SessionId, number: i32) {
        let signal = Signal::try_from(number)
            .ok()
            .filter(|signal| FORWARDED.contains(signal));
        let Some(signal) = signal else {
            tracing::warn!(session = %id, number, "a signal that is not forwarded");
            return;
        };
        if !self.sessions.get(&id).is_some_and(Session::is_running) {
            return;
        }
        for number in self.numbers_of(|part| part == Part::Session(id)) {
            if let Some((_, process)) = self.processes.get(&number)
                && let Err(error) = process.signal(signal)
            {
                tracing::debug!(session = %id, %error, "the signal came too late");
            }
        }
    }

    /// Ends the session, and with it those that were delegated from it.
    pub(super) fn stop_session(&mut self, id: SessionId, why: &str) {
        self.stop_one(id, why);
        self.stop_below(id);
    }

    fn stop_below(&mut self, id: SessionId) {
        for below in self.below(id) {
            self.stop_one(below, "a session that it was delegated from is over");
        }
    }

    fn stop_one(&mut self, id: SessionId, why: &str) {
        if self.looking.forget(id) {
            self.refuse(id, before_it_started(why));
            return;
        }
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let last = match session.phase {
            Phase::Launching => Last::Refused(before_it_started(why)),
            Phase::Running => Last::Ended(End::Stopped { why: why.into() }),
            Phase::Ending(_) => return,
        };
        self.end_one(id, last);
    }

    pub(super) fn end_all_sessions(&mut self, why: &str) {
        for id in self.looking.forget_all() {
            self.refuse(id, before_it_started(why));
        }
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.stop_session(id, why);
        }
    }

    /// Kills everything of the session, and then of those that were delegated from it. The first reason
    /// counts.
    pub(super) fn end_session(&mut self, id: SessionId, last: Last) {
        self.end_one(id, last);
        self.stop_below(id);
    }

    /// The sessions that were delegated from this one, or from one that was; the nearest first.
    pub(super) fn below(&self, id: SessionId) -> Vec<SessionId> {
        let mut found = vec![id];
        let mut next = 0;
        while let Some(above) = found.get(next).copied() {
            next = next.saturating_add(1);
            let more = self.sessions.iter();
            found.extend(
                more.filter(|(_, it)| it.from == Some(above))
                    .map(|(id, _)| *id),
            );
        }
        found.split_off(1)
    }

    fn end_one(&mut self, id: SessionId, last: Last) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if matches!(session.phase, Phase::Ending(_)) {
            return;
        }
        session.phase = Phase::Ending(last);
        session.listener = None;
        for number in self.numbers_of(|part| part.session() == Some(id)) {
            self.kill_number(number);
        }
    }

    /// The sessions that a new vault must know.
    pub(super) fn open_sessions(&self) -> Vec<(SessionId, PolicyName)> {
        self.sessions
            .iter()
            .filter(|(_, session)| session.is_running())
            .map(|(id, session)| (*id, session.policy.clone()))
            .collect()
    }
}

fn before_it_started(why: &str) -> StartRefusal {
    StartRefusal::Order {
        why: format!("the session was ended before it started: {why}"),
    }
}

/// `SIGKILL`, or the number of a real-time signal.
fn named(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |it| it.to_string())
}

/// custody-launch did not report in time.
pub(super) fn late() -> StartRefusal {
    StartRefusal::Failed {
        step: format!(
            "custody-launch took longer than {} s; a disk that hangs?",
            LAUNCH_MAX.as_secs()
        ),
        errno: 0,
    }
}

pub(super) fn failed(step: &str, error: &(dyn std::error::Error + 'static)) -> StartRefusal {
    StartRefusal::Failed {
        step: format!("{step}: {}", chain(error)),
        errno: errno_of(error),
    }
}
