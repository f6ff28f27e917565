//! Sessions, as custodyd said that they are.

use std::{cell::Cell, rc::Rc};

use tokio::sync::Notify;

use crate::{places::Places, policies::Loaded, versions::Versions};

/// A session that custodyd has opened.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) loaded: Rc<Loaded>,
    /// Its streams.
    pub(crate) streams: Places,
    /// What it last read of the things that it may change.
    pub(crate) versions: Versions,
    on_their_way: Cell<u32>,
    ended: Cell<bool>,
    notify: Notify,
}

impl Session {
    /// A session under this policy, which has just begun.
    pub(crate) fn new(loaded: &Rc<Loaded>) -> Self {
        Self {
            loaded: Rc::clone(loaded),
            streams: Places::new(crate::SESSION_STREAMS_MAX),
            versions: Versions::default(),
            on_their_way: Cell::new(0),
            ended: Cell::new(false),
            notify: Notify::new(),
        }
    }

    /// It is over, and whoever waits for that is told.
    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.notify.notify_waiters();
    }

    /// Whether the session is over.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.get()
    }

    /// Ready when the session is over.
    pub(crate) async fn over(&self) {
        loop {
            let notified = self.notify.notified();
            if self.ended.get() {
                return;
            }
            notified.await;
        }
    }
}

/// One of a session's calls on their way.
#[derive(Debug)]
pub(crate) struct InFlight(Rc<Session>);

impl InFlight {
    /// One more call, unless the session has its share already.
    pub(crate) fn enter(session: &Rc<Session>) -> Option<Self> {
        let count = session.on_their_way.get();
        (count < crate::SESSION_CALLS_MAX).then(|| {
            session.on_their_way.set(count.saturating_add(1));
            Self(Rc::clone(session))
        })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let count = self.0.on_their_way.get();
        self.0.on_their_way.set(count.saturating_sub(1));
    }
}
