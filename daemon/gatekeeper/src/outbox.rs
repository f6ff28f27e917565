//! What control is told unasked. It keeps names alone: what a call looks like is made when it is sent,
//! and a call that waits no longer by then is not sent.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

use custody_wire::session::Over;
use gate::id::SessionId;
use tokio::sync::Notify;

/// The most that waits for control to read it. It reads at once; one that does not is broken.
const ITEMS_MAX: usize = 1 << 16;

/// Something that control is told.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// Everything that waited when the channel was made has been said.
    Current,
    /// A call waits no longer.
    Over(Over),
    /// A call waits.
    Waits(SessionId, u64),
}

/// What waits for control to read it.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    attached: Cell<bool>,
    items: RefCell<VecDeque<Item>>,
    news: Notify,
}

/// Control does not read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stuck;

impl Outbox {
    /// A new channel: what the old one was not told, this one is told from the beginning.
    pub(crate) fn renew(&self, all: VecDeque<Item>) {
        self.attached.set(true);
        *self.items.borrow_mut() = all;
        self.news.notify_one();
    }

    /// The channel is gone: the next one is told everything anyway.
    pub(crate) fn detach(&self) {
        self.attached.set(false);
        self.items.borrow_mut().clear();
    }

    pub(crate) fn push(&self, item: Item) {
        if self.attached.get() {
            self.items.borrow_mut().push_back(item);
            self.news.notify_one();
        }
    }

    /// The next. Cancellation safe.
    pub(crate) async fn next(&self) -> Result<Item, Stuck> {
        loop {
            {
                let mut items = self.items.borrow_mut();
                if items.len() > ITEMS_MAX {
                    return Err(Stuck);
                }
                if let Some(item) = items.pop_front() {
                    return Ok(item);
                }
            }
            self.news.notified().await;
        }
    }
}
