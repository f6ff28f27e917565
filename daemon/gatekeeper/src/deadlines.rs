//! When each call that waits lapses: one map and one sleeper for all, so that a call that waits costs
//! no task of its own, and one that waits no longer costs nothing.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::{Rc, Weak},
    time::Duration,
};

use custody_service::clock::Clock;
use tokio::{sync::Notify, time::sleep};

use crate::session::Session;

/// How many lapse before anybody else has a turn.
const AT_ONCE: usize = 64;

/// The longest sleep: the sleeper's clock stands still while the host is suspended, and the boot clock
/// does not (clock_gettime(2)).
const NAP: Duration = Duration::from_secs(60);

/// By time, in milliseconds of the boot clock, and position.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    at: RefCell<BTreeMap<(u64, u64), Weak<Session>>>,
    sooner: Notify,
}

impl Deadlines {
    pub(crate) fn add(&self, at_ms: u64, position: u64, session: &Rc<Session>) {
        let mut all = self.at.borrow_mut();
        let first = all.keys().next().copied();
        drop(all.insert((at_ms, position), Rc::downgrade(session)));
        if first.is_none_or(|first| (at_ms, position) < first) {
            self.sooner.notify_one();
        }
    }

    pub(crate) fn remove(&self, at_ms: u64, position: u64) {
        drop(self.at.borrow_mut().remove(&(at_ms, position)));
    }

    /// Waits until something is due, and takes it out. Cancellation safe.
    pub(crate) async fn due(&self, clock: &dyn Clock) -> Vec<(u64, Rc<Session>)> {
        loop {
            let first = self.at.borrow().keys().next().copied();
            let now = clock.boot_ns() / 1_000_000;
            match first {
                Some((at, _)) if at <= now => return self.take(now),
                Some((at, _)) => {
                    let rest = Duration::from_millis(at.saturating_sub(now)).min(NAP);
                    tokio::select! {
                        () = sleep(rest) => {}
                        () = self.sooner.notified() => {}
                    }
                }
                None => self.sooner.notified().await,
            }
        }
    }

    fn take(&self, now: u64) -> Vec<(u64, Rc<Session>)> {
        let mut all = self.at.borrow_mut();
        let mut due = Vec::new();
        while due.len() < AT_ONCE
            && let Some(entry) = all.first_entry()
            && entry.key().0 <= now
        {
            let ((_, position), session) = entry.remove_entry();
            // One that ended lapsed its calls itself.
            due.extend(Weak::upgrade(&session).map(|session| (position, session)));
        }
        due
    }
}
