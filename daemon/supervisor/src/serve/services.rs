//! Control, gate, vault and resolver, and the reviewers' page where there is one: started in this order
//! of need, linked to each other by pairs made here, started again when they end.
//!
//! When the gate or control ends, every session ends: taint is not guessed. When the vault ends,
//! sessions go on; its outstanding permits are void. Nothing else rests on the page: it is started again
//! as often as it ends.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::{Duration, Instant},
};

use custody_sys::channel::{self, Rights};
use custody_wire::supervise::{ControlNotice, GateNotice, VaultNotice};

use super::{Custodyd, Mode, Part, ServeError, channels::borrow, closing, say::chain};
use crate::{
    checks::{
        credentials, resolver,
        reviewers::{self, Reviewers},
    },
    hooks::Group,
    process::{Process, nonblocking},
};

/// A program that runs as long as custodyd.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Service {
    Control,
    Gate,
    /// custody-review, which browsers speak to.
    Page,
    Resolver,
    Vault,
}

impl Service {
    /// In the order of need: control talks to the gate, the resolver to the vault, the page to control.
    pub(super) const ALL: [Self; 5] = [
        Self::Gate,
        Self::Vault,
        Self::Resolver,
        Self::Control,
        Self::Page,
    ];

    /// Whether operators are answered without it.
    const fn is_optional(self) -> bool {
        match self {
            Self::Page => true,
            Self::Control | Self::Gate | Self::Resolver | Self::Vault => false,
        }
    }

    pub(super) const fn group(self) -> Group {
        match self {
            Self::Resolver => Group::Workers,
            Self::Control | Self::Gate | Self::Page | Self::Vault => Group::Services,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Gate => "gate",
            Self::Page => "review",
            Self::Resolver => "resolver",
            Self::Vault => "vault",
        }
    }
}

/// Shorter than this is not staying up.
const STAYED_UP: Duration = Duration::from_secs(30);

/// The first pause before a service is started again; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// So many ends in a row, none after [`STAYED_UP`], and custodyd gives up: with the pauses that
/// is some ten seconds of trying.
const FAILURES_MAX: u32 = 8;

/// One service's state.
#[derive(Debug)]
struct Slot {
    channel: Option<OwnedFd>,
    /// When it is to be started; none while it runs.
    start_at: Option<Instant>,
    started: Instant,
    failures: u32,
    executed: bool,
    /// Its first message was there.
    serves: bool,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Slots {
    all: [Slot; 5],
    /// Whether control was told that every service serves.
    told: bool,
}

impl Slots {
    /// To be started at once, those that are `wanted`.
    pub(super) fn new(wanted: impl Fn(Service) -> bool) -> Self {
        let all = [(); 5].map(|()| Slot {
            channel: None,
            start_at: None,
            started: Instant::now(),
            failures: 0,
            executed: false,
            serves: false,
        });
        let mut slots = Self { all, told: false };
        for service in Service::ALL.into_iter().filter(|it| wanted(*it)) {
            slots.slot_mut(service).start_at = Some(Instant::now());
        }
        slots
    }

    fn slot(&self, service: Service) -> &Slot {
        let [control, gate, page, resolver, vault] = &self.all;
        match service {
            Service::Control => control,
            Service::Gate => gate,
            Service::Page => page,
            Service::Resolver => resolver,
            Service::Vault => vault,
        }
    }

    fn slot_mut(&mut self, service: Service) -> &mut Slot {
        let [control, gate, page, resolver, vault] = &mut self.all;
        match service {
            Service::Control => control,
            Service::Gate => gate,
            Service::Page => page,
            Service::Resolver => resolver,
            Service::Vault => vault,
        }
    }

    pub(super) fn channel(&self, service: Service) -> Option<BorrowedFd<'_>> {
        self.slot(service).channel.as_ref().map(AsFd::as_fd)
    }

    /// Orders that control gave and nobody took have operators' connections beside them.
    pub(super) fn close(&mut self, service: Service) {
        match self.slot_mut(service).channel.take() {
            Some(channel) if service == Service::Control => closing::elsewhere(channel),
            channel => drop(channel),
        }
    }

    pub(super) fn next_start(&self) -> impl Iterator<Item = Instant> {
        self.all.iter().filter_map(|slot| slot.start_at)
    }

    /// custody-launch has executed it.
    pub(super) fn runs(&mut self, service: Service) {
        self.slot_mut(service).executed = true;
    }

    pub(super) fn is_executed(&self, service: Service) -> bool {
        self.slot(service).executed
    }

    /// It said something, so it works.
    pub(super) fn serves(&mut self, service: Service) {
        let slot = self.slot_mut(service);
        // Not one that was given up meanwhile.
        slot.serves = slot.channel.is_some();
    }

    /// Whether its first message was there.
    pub(super) fn has_spoken(&self, service: Service) -> bool {
        self.slot(service).serves
    }

    pub(super) fn is_serving(&self, service: Service) -> bool {
        let slot = self.slot(service);
        slot.executed && slot.serves
    }

    pub(super) fn all_serve(&self) -> bool {
        let mut needed = Service::ALL.iter().filter(|it| !it.is_optional());
        needed.all(|service| self.is_serving(*service))
    }

    /// It ended: it is to be started again after a pause.
    fn ended(&mut self, service: Service, now: Instant) -> u32 {
        if service == Service::Control {
            self.told = false;
        }
        self.close(service);
        let slot = self.slot_mut(service);
        slot.executed = false;
        slot.serves = false;
        if now.duration_since(slot.started) >= STAYED_UP {
            slot.failures = 0;
        }
        slot.failures = slot.failures.saturating_add(1);
        let doubled = PAUSE.saturating_mul(1_u32.checked_shl(slot.failures).unwrap_or(u32::MAX));
        slot.start_at = Some(now + doubled.min(PAUSE_MAX));
        slot.failures
    }

    fn never_again(&mut self) {
        for slot in &mut self.all {
            slot.start_at = None;
        }
    }
}

impl Custodyd {
    /// Tells a new control that it may answer operators, when everything that an answer rests on is
    /// there.
    pub(super) fn let_serve(&mut self) {
        if self.mode == Mode::Serving && !self.slots.told && self.slots.all_serve() {
            self.slots.told = true;
            self.tell(Service::Control, &ControlNotice::Serve, &[]);
        }
    }

    /// Starts what is due.
    pub(super) fn start_due(&mut self) -> Result<(), ServeError> {
        let now = Instant::now();
        for service in Service::ALL {
            let due = self
                .slots
                .slot(service)
                .start_at
                .is_some_and(|at| now >= at);
            if due && self.has_partner(service) {
                self.start_service(service, now);
            }
            let times = self.slots.slot(service).failures;
            if times >= FAILURES_MAX && !service.is_optional() {
                return Err(ServeError::Service {
                    service: service.name(),
                    times,
                });
            }
        }
        Ok(())
    }

    /// Whether the service that it is linked to at its start is there.
    fn has_partner(&self, service: Service) -> bool {
        match service {
            Service::Control => self.slots.channel(Service::Gate).is_some(),
            Service::Page => self.slots.channel(Service::Control).is_some(),
            Service::Resolver => self.slots.channel(Service::Vault).is_some(),
            Service::Gate | Service::Vault => true,
        }
    }

    fn start_service(&mut self, service: Service, now: Instant) {
        let slot = self.slots.slot_mut(service);
        slot.start_at = None;
        slot.started = now;
        match self.try_start_service(service) {
            Ok(()) => {}
            Err(why) => {
                tracing::error!(service = service.name(), why, "the service does not start");
                self.slots.ended(service, now);
            }
        }
    }

    fn try_start_service(&mut self, service: Service) -> Result<(), String> {
        let said = |error: &dyn std::error::Error| chain(error);
        let seqpacket = || channel::pair_seqpacket().map_err(|error| said(&error));
        let stream = || channel::pair_stream().map_err(|error| said(&error));
        let ids = self.ids(service).ok_or("it has no user")?;
        // Ours, if there is one, and what the service gets from 3 up.
        let (ours, theirs) = match service {
            Service::Gate | Service::Vault => {
                let (ours, theirs) = seqpacket()?;
                (Some(ours), vec![theirs])
            }
            Service::Page => {
                let page = self.page.as_ref().ok_or("there is no `[page]`")?;
                let listener = page.try_clone().map_err(|error| said(&error))?;
                let (to_control, to_page) = stream()?;
                self.give(Service::Control, &ControlNotice::Page, &[to_page]);
                (None, vec![listener.into(), to_control])
            }
            Service::Control => {
                let (ours, theirs) = seqpacket()?;
                let (to_gate, to_control) = stream()?;
                self.give(Service::Gate, &GateNotice::Control, &[to_control]);
                let listener = self.listener.try_clone().map_err(|error| said(&error))?;
                (Some(ours), vec![theirs, listener.into(), to_gate])
            }
            Service::Resolver => {
                let (ours, theirs) = seqpacket()?;
                let (to_vault, to_resolver) = stream()?;
                self.give(Service::Vault, &VaultNotice::Resolver, &[to_resolver]);
                (Some(ours), vec![to_vault, theirs])
            }
        };
        if let Some(ours) = &ours {
            nonblocking(ours).map_err(|error| said(&error))?;
            if service != Service::Control {
                // They give none: what would come is hostile.
                channel::set_rights(ours, Rights::Refused).map_err(|error| said(&error))?;
            }
        }
        let cgroup = self
            .cgroups
            .fresh(service.group(), service.name())
            .map_err(|error| said(&error))?;
        self.know(cgroup.id(), format!("custody-{}", service.name()));
        if service == Service::Resolver {
            let servers = resolver::servers(Path::new("/etc/resolv.conf"))
                .map_err(|error| format!("cannot read `/etc/resolv.conf`: {error}"))?;
            self.hooks
                .admit(cgroup.id(), &servers, &servers)
                .map_err(|error| said(&error))?;
        }
        let plan = self.service_plan(service, ids, theirs.len());
        let uid = plan.uid;
        let part = Part::Service(service);
        let name = format!("custody-{}", service.name());
        let fds = borrow(&theirs);
        let started = Process::start(&self.checked.programs, cgroup, &name, plan, &fds, None);
        match started {
            Ok(process) => {
                self.register(part, process);
            }
            Err((cgroup, error)) => {
                self.bury(part, cgroup, uid);
                return Err(said(&error));
            }
        }
        self.slots.slot_mut(service).channel = ours;
        match service {
            Service::Gate => self.link_gate_and_vault(),
            Service::Vault => self.brief_vault()?,
            Service::Control | Service::Page | Service::Resolver => {}
        }
        Ok(())
    }

    /// A pair for the two, whichever came last.
    fn link_gate_and_vault(&mut self) {
        let both = [Service::Gate, Service::Vault]
            .iter()
            .all(|service| self.slots.channel(*service).is_some());
        if !both {
            return;
        }
        match channel::pair_stream() {
            Ok((to_gate, to_vault)) => {
                self.give(Service::Vault, &VaultNotice::Gate, &[to_gate]);
                self.give(Service::Gate, &GateNotice::Vault, &[to_vault]);
            }
            Err(error) => tracing::error!(%error, "cannot link gate and vault"),
        }
    }

    /// Tells the vault whose signatures count, from now on. Where that cannot be known, nobody's do.
    pub(super) fn brief_reviewers(&mut self) {
        let folder = self.checked.config.paths.reviewers.clone();
        let found = reviewers::open(&folder).unwrap_or_else(|error| {
            tracing::error!(error = chain(&error), "no reviewer's signature counts");
            Reviewers::default()
        });
        for (name, fd) in found.keys {
            self.give(Service::Vault, &VaultNotice::Reviewer { name }, &[fd]);
        }
        if let Some(fd) = found.revoked {
            self.give(Service::Vault, &VaultNotice::RevokedKeys, &[fd]);
        }
        self.tell(Service::Vault, &VaultNotice::Reviewers, &[]);
    }

    /// Tells a new vault everything that an old one knew: credentials, sessions, the gate.
    fn brief_vault(&mut self) -> Result<(), String> {
        self.vault_run = self.vault_run.saturating_add(1);
        self.tell_what_is_not_used();
        let credentials = self.checked.config.credentials.clone();
        for (label, source) in credentials {
            let fd = credentials::open(&label, &source).map_err(|error| chain(&error))?;
            self.give(Service::Vault, &VaultNotice::Credential { label }, &[fd]);
        }
        self.brief_reviewers();
        self.tell(Service::Vault, &VaultNotice::Ready, &[]);
        for (session, policy) in self.open_sessions() {
            self.tell(
                Service::Vault,
                &VaultNotice::Opened { session, policy },
                &[],
            );
        }
        self.link_gate_and_vault();
        Ok(())
    }

    /// What a service's end means for the rest.
    pub(super) fn service_ended(&mut self, service: Service, how: &str) {
        let ending = matches!(
            self.mode,
            Mode::EndingSessions | Mode::EndingServices { .. }
        );
        if ending {
            self.slots.close(service);
            self.slots.slot_mut(service).executed = false;
            return;
        }
        tracing::error!(
            service = service.name(),
            how,
            "the service ended; it is started again"
        );
        self.slots.ended(service, Instant::now());
        match service {
            Service::Control => {
                self.end_all_sessions("custody-control ended");
                // Its channel to control was made at its start.
                self.kill_part(Part::Service(Service::Page));
            }
            Service::Gate => {
                self.end_all_sessions("custody-gate ended");
                // Its channel to the gate was made at its start.
                self.slots.close(Service::Control);
                self.kill_part(Part::Service(Service::Control));
            }
            Service::Vault => {
                self.end_all_workers();
                self.kill_part(Part::Service(Service::Resolver));
            }
            Service::Page | Service::Resolver => {}
        }
    }

    /// From now on nothing is started.
    pub(super) fn stop_starting(&mut self) {
        self.slots.never_again();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_keeps_ending_is_started_later_and_later_and_one_that_stayed_up_at_once() {
        let mut slots = Slots::new(|_| true);
        let now = Instant::now();
        let mut pauses = Vec::new();
        for failures in 1..=FAILURES_MAX {
            assert_eq!(slots.ended(Service::Gate, now), failures);
            pauses.push(slots.slot(Service::Gate).start_at.unwrap() - now);
        }
        assert!(pauses.is_sorted());
        assert_eq!(pauses.last(), Some(&PAUSE_MAX));
        assert_eq!(slots.ended(Service::Gate, now + STAYED_UP), 1);
    }
    #[test]
    fn operators_are_answered_with_or_without_the_page_and_it_is_started_only_where_there_is_one() {
        let wanted = |service: Service| service != Service::Page;
        let mut slots = Slots::new(wanted);
        assert_eq!(slots.next_start().count(), 4);
        assert!(!slots.all_serve());
        for service in Service::ALL.into_iter().filter(|it| wanted(*it)) {
            let slot = slots.slot_mut(service);
            (slot.executed, slot.serves) = (true, true);
        }
        assert!(slots.all_serve());
        slots.slot_mut(Service::Vault).serves = false;
        assert!(!slots.all_serve());
        assert_eq!(Slots::new(|_| true).next_start().count(), 5);
    }
}
