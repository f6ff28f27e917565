//! Launchers that are ready before there is a session: born in a fresh cgroup, with namespaces of
//! their own, they have built what every session needs and wait for a plan.
//!
//! A spare was told of no session. It serves one, or ends unused; nothing of it is used twice. No
//! more than [`MOST`] wait. They are made while nothing else is launched and, as long as one is left,
//! not in the moment after a launch ([`REST`]): a command that starts or ends at once does not wait
//! for the next one's launcher.

use std::{
    fs::File,
    os::fd::{AsFd as _, BorrowedFd},
    time::{Duration, Instant},
};

use custody_sys::cgroup::Cgroup;
use custody_wire::{
    launch::{Plan, Ready},
    profile::Profile,
    supervise::StartRefusal,
};
use gate::id::SessionId;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Custodyd, Mode, Part, say::chain};
use crate::{hooks::Group, process::Process};

/// Two persons may start a session in the same moment; each spare is a process of 1 MB and a
/// network namespace.
const MOST: usize = 2;

/// After a session's command was let go.
const REST: Duration = Duration::from_millis(20);

/// After a spare could not be started or ended by itself.
const PAUSE: Duration = Duration::from_secs(30);

/// The mounts of this thread, which is custodyd's only one.
const MOUNTS: &str = "/proc/thread-self/mountinfo";

/// What is known of the spares besides the processes themselves.
#[derive(Debug, Default)]
pub(super) struct Spares {
    /// [`MOUNTS`], which says once that the host's mounts have changed: a spare knows
    /// those of its birth.
    mounts: Option<File>,
    not_before: Option<Instant>,
    rests_until: Option<Instant>,
}

impl Spares {
    /// A command was let go a moment ago.
    pub(super) fn rest(&mut self) {
        self.rests_until = Some(Instant::now() + REST);
    }

    /// Until when, if that is to come.
    pub(super) fn rests_until(&self, now: Instant) -> Option<Instant> {
        self.rests_until.filter(|until| now < *until)
    }

    /// Whether the mounts are still those of the last question.
    fn are_mounts_the_same(&mut self) -> bool {
        if self.mounts.is_none() {
            self.mounts = File::open(MOUNTS).ok();
            return false;
        }
        let Some(mounts) = &self.mounts else {
            return false;
        };
        // proc(5): a change is an error and a priority event.
        let mut fds = [PollFd::new(mounts.as_fd(), PollFlags::POLLPRI)];
        let same = matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0));
        if !same {
            // To be opened again, whatever it was.
            self.mounts = File::open(MOUNTS).ok();
        }
        same
    }
}

impl Custodyd {
    /// Gives the session's plan to a spare, if there is one that has what the host has now, and says
    /// which. The uid is given back where the session is refused.
    pub(super) fn serve_by_spare(
        &mut self,
        id: SessionId,
        profile: Profile,
        plan: &Plan,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Option<u64>, StartRefusal> {
        self.retire_outdated();
        for number in self.numbers_of(|part| part == Part::Spare) {
            let quiet = self.processes.get(&number).filter(|(_, it)| is_quiet(it));
            let Some(cgroup_id) = quiet.map(|(_, process)| process.cgroup.id()) else {
                continue;
            };
            self.know(cgroup_id, format!("session {id}"));
            if let Err(refusal) = self.open_session_hooks(cgroup_id, profile) {
                self.agents.give_back(plan.uid);
                return Err(refusal);
            }
            let Some((part, process)) = self.processes.get_mut(&number) else {
                continue;
            };
            match process.serve(plan, fds) {
                Ok(()) => {
                    *part = Part::Session(id);
                    return Ok(Some(number));
                }
                Err(error) => self.spare_failed(number, &chain(&error)),
            }
        }
        Ok(None)
    }

    /// A spare that was born under other mounts would not show those of today, and keeps those that
    /// are gone.
    pub(super) fn retire_outdated(&mut self) {
        if !self.spares.are_mounts_the_same() {
            for number in self.numbers_of(|part| part == Part::Spare) {
                self.retire(number);
            }
        }
    }

    /// Makes one, if one is missing and nobody waits for this thread.
    pub(super) fn refill(&mut self, now: Instant) {
        let waits = self.spares.not_before.is_some_and(|at| now < at);
        let launches =
            |(part, process): &(Part, Process)| *part != Part::Spare && process.is_launching();
        let there = self.numbers_of(|part| part == Part::Spare).len();
        if waits
            || self.mode != Mode::Serving
            || there >= MOST
            || (there > 0 && self.spares.rests_until(now).is_some())
            || self.processes.values().any(launches)
        {
            return;
        }
        self.retire_outdated();
        if let Err(why) = self.start_spare() {
            tracing::warn!(why, "no launcher is kept ready");
            self.spares.not_before = Some(now + PAUSE);
        }
    }

    fn start_spare(&mut self) -> Result<(), String> {
        let cgroup = self
            .cgroups
            .fresh(Group::Agents, "spare")
            .map_err(|error| chain(&error))?;
        // Until the plan says which profile it is.
        if let Err(error) = self.hooks.open(cgroup.id(), Profile::Hardened) {
            return Err(self.give_up(cgroup, chain(&error)));
        }
        let ready = Ready {
            programs: self.checked.programs.session(),
        };
        let mark = self.hooks.mark();
        match Process::ready(&self.checked.programs, cgroup, &ready, mark) {
            Ok(process) => {
                self.register(Part::Spare, process);
                Ok(())
            }
            Err((cgroup, error)) => Err(self.give_up(cgroup, chain(&error))),
        }
    }

    fn give_up(&mut self, cgroup: Cgroup, why: String) -> String {
        self.bury(Part::Spare, cgroup, 0);
        why
    }

    /// Ends a spare that serves no session: its end is seen like any other's.
    fn retire(&mut self, number: u64) {
        if let Some((_, process)) = self.processes.get_mut(&number) {
            process.hang_up();
        }
        self.kill_number(number);
    }

    /// Ends a spare that has the plan of a session which another launcher is to serve. The uid is free
    /// when it is gone.
    pub(super) fn disown(&mut self, number: u64) {
        if let Some((part, _)) = self.processes.get_mut(&number) {
            *part = Part::Spare;
        }
        self.retire(number);
    }

    /// A spare said something or ended: neither is asked of it.
    pub(super) fn spare_failed(&mut self, number: u64, why: &str) {
        tracing::warn!(why, "a ready launcher ended by itself");
        self.pause_spares();
        self.retire(number);
    }

    /// What failed now would fail again at once.
    pub(super) fn pause_spares(&mut self) {
        self.spares.not_before = Some(Instant::now() + PAUSE);
    }
}

/// Nothing came of it: it neither failed nor ended.
fn is_quiet(process: &Process) -> bool {
    let Some(channel) = process.channel() else {
        return false;
    };
    let mut fds = [
        PollFd::new(channel, PollFlags::POLLIN),
        PollFd::new(process.pidfd(), PollFlags::POLLIN),
    ];
    matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0))
}

#[cfg(test)]
mod tests {
    use nix::{
        mount::{MsFlags, mount},
        sched::{CloneFlags, unshare},
    };

    use super::*;

    #[test]
    fn a_mount_that_comes_or_goes_is_noticed_once() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        // In mounts of this thread's own.
        std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let none = None::<&str>;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            let mut spares = Spares::default();
            assert!(!spares.are_mounts_the_same(), "nobody has looked before");
            assert!(spares.are_mounts_the_same());
            let folder = tempfile::tempdir().unwrap();
            mount(
                Some("x"),
                folder.path(),
                Some("tmpfs"),
                MsFlags::empty(),
                none,
            )
            .unwrap();
            assert!(!spares.are_mounts_the_same(), "one came");
            assert!(spares.are_mounts_the_same());
            nix::mount::umount(folder.path()).unwrap();
            assert!(!spares.are_mounts_the_same(), "one went");
        })
        .join()
        .unwrap();
    }
}
