//! Channels of launches, ends of programs, and taking apart what they leave.

use std::time::{Duration, Instant};

use custody_sys::{
    cgroup::{self, Cgroup},
    fd::leave_open,
};
use custody_wire::launch::Report;
use nix::sys::{signal::Signal, wait::WaitStatus};

use crate::{hooks::Group, process::ProcessError};

use super::{
    Custodyd, Dying, Mode, Part,
    say::chain,
    services::Service,
    sessions::{Last, Phase, late},
    workers::sealed,
};

/// A cgroup that is not empty after so long is complained of, once.
const DYING_LONG: Duration = Duration::from_secs(10);

/// Between the end of the last session and that of the services: the last words go out.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How long the services may take to end.
const SERVICES_MAX: Duration = Duration::from_secs(3);

/// How long custodyd waits for all of it: a program that hangs in a system call cannot be ended, and
/// its hooks stay.
const ENDING_MAX: Duration = Duration::from_secs(12);

impl Custodyd {
    /// A launch reported, a session said how its command ended, or a channel closed.
    pub(super) fn channel_ready(&mut self, number: u64) {
        let Some((part, process)) = self.processes.get_mut(&number) else {
            return;
        };
        let part = *part;
        if !process.is_launching() {
            match part {
                Part::Session(id) => self.session_said(number, id),
                Part::Front(_) | Part::Service(_) | Part::Spare | Part::Worker { .. } => {
                    self.program_said(number, part);
                }
            }
            return;
        }
        match process.report() {
            Ok(None) => {}
            Ok(Some((report, fds))) => match part {
                Part::Session(id) => self.session_reported(number, id, report, fds),
                Part::Spare => self.spare_failed(number, &format!("{report:?}")),
                Part::Worker { order, run, .. } => {
                    self.worker_reported(number, order, run, &report);
                }
                Part::Front(_) | Part::Service(_) => self.program_reported(number, part, &report),
            },
            Err(error) => {
                process.hang_up();
                self.complain(part, &format!("the launch failed: {}", chain(&error)));
                self.kill_number(number);
                if part == Part::Spare {
                    self.pause_spares();
                }
            }
        }
    }

    /// A service or a front may be executed, or ends here.
    fn program_reported(&mut self, number: u64, part: Part, report: &Report) {
        let network = part == Part::Service(Service::Resolver);
        let group = match part {
            Part::Service(service) => service.group(),
            Part::Front(_) | Part::Session(_) | Part::Spare | Part::Worker { .. } => {
                Group::Services
            }
        };
        let stand = self.hooks_stand(group);
        let Some((_, process)) = self.processes.get_mut(&number) else {
            return;
        };
        let go = sealed(report, network)
            .and(stand)
            .and_then(|()| process.go().map_err(|e| chain(&e)));
        if let Err(why) = go {
            self.complain(part, &why);
            self.kill_number(number);
        }
    }

    /// A program was not executed. Where its session is over already, it was killed on purpose.
    fn complain(&mut self, part: Part, why: &str) {
        if let Part::Front(id) = part
            && let Some(session) = self.sessions.get_mut(&id)
        {
            session.front_why = Some(why.into());
        }
        let over = part.session().is_some_and(|id| {
            let session = self.sessions.get(&id);
            session.is_none_or(|session| matches!(session.phase, Phase::Ending(_)))
        });
        if over {
            tracing::debug!(?part, why, "not executed");
        } else {
            tracing::error!(?part, why, "not executed");
        }
    }

    /// It ended before it was executed: why?
    fn log_last_words(&mut self, number: u64, part: Part) {
        if let Some((_, process)) = self.processes.get_mut(&number)
            && let Ok(Some(report)) = process.last_words()
            && let Err(why) = sealed(&report, true)
        {
            self.complain(part, &why);
        }
    }

    /// The execution closed the channel, or failed and says why.
    fn program_said(&mut self, number: u64, part: Part) {
        let Some((_, process)) = self.processes.get_mut(&number) else {
            return;
        };
        let pid = process.pid();
        let why = match process.last_words() {
            Ok(None) => return,
            Ok(Some(report)) => sealed(&report, true).err(),
            Err(ProcessError::Closed) => {
                if let Part::Service(service) = part
                    && !self.slots.is_executed(service)
                {
                    tracing::info!(service = service.name(), pid, "service runs");
                    self.slots.runs(service);
                }
                return;
            }
            Err(error) => Some(chain(&error)),
        };
        process.hang_up();
        self.complain(part, &why.unwrap_or_default());
        self.kill_number(number);
    }

    /// A pidfd became readable.
    pub(super) fn process_ended(&mut self, number: u64) {
        let Some((part, process)) = self.processes.get(&number) else {
            return;
        };
        let part = *part;
        let status = match process.reap() {
            Ok(None) => return,
            Ok(Some(status)) => status,
            Err(error) => {
                tracing::error!(?part, %error, "waitid(2)");
                return;
            }
        };
        let has_channel = process.channel().is_some();
        // Its last words may still be in the channel.
        if let Part::Session(_) = part {
            self.channel_ready(number);
        } else if has_channel {
            self.log_last_words(number, part);
        }
        if let Some((_, mut process)) = self.processes.remove(&number) {
            process.relay();
            self.bury(part, process.cgroup, process.uid);
        }
        let (signal, code, how) = match status {
            WaitStatus::Exited(_, code) => (None, Some(code), format!("exited with {code}")),
            WaitStatus::Signaled(_, signal, _) => {
                (Some(signal as i32), None, format!("killed by {signal}"))
            }
            WaitStatus::Continued(_)
            | WaitStatus::PtraceEvent(..)
            | WaitStatus::PtraceSyscall(_)
            | WaitStatus::StillAlive
            | WaitStatus::Stopped(..) => (None, None, "ended".into()),
        };
        match part {
            Part::Front(id) => self.front_ended(id),
            Part::Service(service) => self.service_ended(service, &how),
            Part::Session(id) => self.session_ended(id, signal, code),
            Part::Spare => {}
            Part::Worker { order, run, .. } => self.worker_ended(order, run),
        }
    }

    /// Kills what is left in the cgroup of a part that ended, takes back its egress, and removes
    /// the folder when it is empty. Only then is its uid free.
    pub(super) fn bury(&mut self, part: Part, cgroup: Cgroup, uid: u32) {
        if let Err(error) = cgroup.kill() {
            tracing::error!(?part, %error, "cgroup.kill");
        }
        let has_egress = match part {
            Part::Service(service) => service == Service::Resolver,
            Part::Worker { .. } => true,
            Part::Front(_) | Part::Session(_) | Part::Spare => false,
        };
        if has_egress && let Err(error) = self.hooks.withdraw(cgroup.id()) {
            tracing::error!(?part, error = chain(&error), "the egress stays in the map");
        }
        self.dying.push(Dying {
            part,
            cgroup,
            uid,
            since: Instant::now(),
            complained: false,
        });
    }

    pub(super) fn remove_dying(&mut self, now: Instant) {
        for mut dying in std::mem::take(&mut self.dying) {
            let path = dying.cgroup.path();
            let removed = match cgroup::is_empty(path) {
                Ok(true) => cgroup::remove(path),
                Ok(false) => Err(std::io::ErrorKind::ResourceBusy.into()),
                Err(error) => Err(error),
            };
            match removed {
                Ok(()) => {
                    self.read_denials(); // while its name is known
                    self.denials.forget(dying.cgroup.id());
                    self.settle(&dying);
                    match dying.part {
                        Part::Front(_) => self.fronts.give_back(dying.uid),
                        Part::Service(_) => {}
                        // A spare has one where it served nobody with it.
                        Part::Session(_) | Part::Spare => self.agents.give_back(dying.uid),
                        Part::Worker { .. } => self.workers_uids.give_back(dying.uid),
                    }
                }
                Err(error) => {
                    if !dying.complained && now.duration_since(dying.since) > DYING_LONG {
                        tracing::error!(cgroup = %path.display(), %error, "does not go away");
                        dying.complained = true;
                    }
                    self.dying.push(dying);
                }
            }
        }
    }

    /// Kills what has not done its step in time.
    pub(super) fn kill_late(&mut self, now: Instant) {
        let overdue: Vec<u64> = self
            .processes
            .iter()
            .filter(|(_, (_, process))| process.deadline.is_some_and(|at| now >= at))
            .map(|(number, _)| *number)
            .collect();
        for number in overdue {
            // It may have done so while this thread did something else.
            if self
                .processes
                .get(&number)
                .is_some_and(|(_, it)| it.is_launching())
            {
                self.channel_ready(number);
            }
            let Some((part, process)) = self.processes.get_mut(&number) else {
                continue;
            };
            if process.deadline.is_none_or(|at| now < at) {
                continue;
            }
            process.deadline = None;
            if process.is_launching() {
                let part = *part;
                tracing::error!(?part, "custody-launch did not report in time");
                if let Part::Session(id) = part {
                    self.end_session(id, Last::Refused(late()));
                }
            }
            self.kill_number(number);
        }
    }

    pub(super) fn kill_number(&mut self, number: u64) {
        if let Some((part, process)) = self.processes.get(&number) {
            if let Err(error) = process.cgroup.kill() {
                tracing::error!(?part, %error, "cgroup.kill");
            }
            // One that is not in its cgroup ends all the same, and with a pid 1 its whole namespace.
            if let Err(error) = process.signal(Signal::SIGKILL) {
                tracing::debug!(?part, %error, "it has ended");
            }
        }
    }

    pub(super) fn kill_part(&mut self, wanted: Part) {
        for number in self.numbers_of(|part| part == wanted) {
            self.kill_number(number);
        }
    }

    pub(super) fn begin_end(&mut self) {
        if matches!(self.mode, Mode::Serving | Mode::Starting) {
            notify(&[sd_notify::NotifyState::Stopping]);
            self.stop_starting();
            self.mode = Mode::EndingSessions;
            self.end_by = Some(Instant::now() + ENDING_MAX);
            self.kill_part(Part::Spare);
            self.end_all_sessions("custodyd ends");
        }
    }

    pub(super) fn advance_mode(&mut self, now: Instant) {
        match self.mode {
            Mode::Starting if self.slots.all_serve() => {
                self.mode = Mode::Serving;
                tracing::info!(
                    socket = %self.places.runtime.join("control.sock").display(),
                    policies = self.checked.policies.len(),
                    "ready"
                );
                notify(&[sd_notify::NotifyState::Ready]);
            }
            Mode::EndingSessions if self.sessions.is_empty() => {
                self.mode = Mode::EndingServices {
                    kill_at: now + LAST_WORDS,
                };
            }
            Mode::EndingServices { kill_at } if now >= kill_at => {
                for service in Service::ALL {
                    self.kill_part(Part::Service(service));
                }
                self.mode = Mode::EndingServices {
                    kill_at: now + SERVICES_MAX,
                };
            }
            Mode::EndingServices { .. } | Mode::EndingSessions | Mode::Serving | Mode::Starting => {
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        if self.end_by.is_some_and(|at| Instant::now() >= at) {
            return true;
        }
        matches!(self.mode, Mode::EndingServices { .. })
            && self.processes.is_empty()
            && self.dying.is_empty()
    }

    /// Ends everything at once, whatever went before, and leaves nothing: no process, no cgroup,
    /// no pin. What cannot be removed stays closed.
    pub(super) fn take_down(mut self) {
        for number in self.numbers_of(|_| true) {
            self.kill_number(number);
        }
        let deadline = Instant::now() + SERVICES_MAX;
        while !(self.processes.is_empty() && self.dying.is_empty()) && Instant::now() < deadline {
            for number in self.numbers_of(|_| true) {
                let reaped = self.processes.get(&number).map(|(_, p)| p.reap());
                if let Some(Ok(Some(_))) = reaped
                    && let Some((part, mut process)) = self.processes.remove(&number)
                {
                    process.relay();
                    self.bury(part, process.cgroup, process.uid);
                }
            }
            self.remove_dying(Instant::now());
            std::thread::sleep(super::DYING_EVERY);
        }
        self.read_denials();
        self.heads.note();
        if let Err(error) = self.places.unlisten() {
            tracing::warn!(error = chain(&error), "the operators' socket stays");
        }
        // Who is in its queue has sent what he likes: an exit closes without lingering
        // (inet_release(), net/ipv4/af_inet.c), close(2) does not.
        leave_open(self.listener.into());
        if !(self.processes.is_empty() && self.dying.is_empty()) {
            tracing::error!("not everything ended; the hooks stay attached");
            return;
        }
        // First the folders, which must be empty; the hooks hold until then.
        match self.cgroups.remove() {
            Err(error) => tracing::error!(error = chain(&error), "the hooks stay attached"),
            Ok(()) => {
                if let Err(error) = self.pins.remove() {
                    tracing::error!(error = chain(&error), "pins stay");
                }
            }
        }
        tracing::info!("ended");
    }
}

fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "sd_notify");
    }
}
