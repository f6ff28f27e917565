//! Sessions, as custodyd said that they are.

use std::{cell::Cell, rc::Rc};

use custody_service::places::Places;
use tokio::sync::Notify;

use crate::{policies::Loaded, versions::Versions};

/// A session that custodyd has opened.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its calls on their way.
    pub(crate) calls: Places,
    pub(crate) loaded: Rc<Loaded>,
    /// Its streams.
    pub(crate) streams: Places,
    /// What it last read of the things that it may change.
    pub(crate) versions: Versions,
    ended: Cell<bool>,
    notify: Notify,
}

impl Session {
    /// A session under this policy, which has just begun.
    pub(crate) fn new(loaded: &Rc<Loaded>) -> Self {
        Self {
            calls: Places::new(crate::SESSION_CALLS_MAX),
            loaded: Rc::clone(loaded),
            streams: Places::new(crate::SESSION_STREAMS_MAX),
            versions: Versions::default(),
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
