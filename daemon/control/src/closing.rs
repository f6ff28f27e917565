//! Connections that were not let in, on their way to be closed.
//!
//! What a client sent and nobody received is released by whoever closes the connection, and that may
//! take as long as the client likes: where the kernel lets everyone send descriptors (before 6.16, see
//! [`custody_sys::channel::set_rights`]) one of them may be a socket that lingers (SO_LINGER, socket(7)).
//! So the one thread that serves everybody closes none. Each operator has one thread of the pool for
//! those of his, all strangers together have one; what waits for it is bounded by [`Closers::room`].

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use nix::sys::resource::{Resource, getrlimit};
use tokio::{
    net::UnixStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
};

use crate::caller::Standing;

/// For whom a thread closes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Whose {
    Operator(u32),
    Strangers,
}

/// What waits to be closed.
type Waiting = VecDeque<(UnixStream, Room)>;

/// The threads that close.
#[derive(Clone, Debug)]
pub(crate) struct Closers {
    waiting: Arc<Mutex<HashMap<Whose, Waiting>>>,
    room: Arc<Semaphore>,
}

/// Room for one connection more, given back when it is closed or let in.
pub(crate) type Room = Option<OwnedSemaphorePermit>;

impl Closers {
    /// Half of the files that may be open: sessions have the others.
    pub(crate) fn new() -> Self {
        let (soft, _hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        let half = usize::try_from(soft / 2).unwrap_or(Semaphore::MAX_PERMITS);
        Self::with_room_for(half.min(Semaphore::MAX_PERMITS))
    }

    fn with_room_for(count: usize) -> Self {
        Self {
            waiting: Arc::default(),
            room: Arc::new(Semaphore::new(count)),
        }
    }

    /// Waits until one connection more may wait here.
    pub(crate) async fn room(&self) -> Room {
        // It is never closed.
        Arc::clone(&self.room).acquire_owned().await.ok()
    }

    /// Closes `stream` of a client of this standing and uid, some time.
    pub(crate) fn close(&self, standing: Standing, uid: u32, stream: UnixStream, room: Room) {
        let whose = match standing {
            Standing::Operator | Standing::Root => Whose::Operator(uid),
            Standing::Stranger => Whose::Strangers,
        };
        let mut waiting = self.waiting();
        if let Some(his) = waiting.get_mut(&whose) {
            his.push_back((stream, room));
            return;
        }
        waiting.insert(whose, VecDeque::from([(stream, room)]));
        drop(waiting);
        let closers = self.clone();
        // Nobody waits for it: that is the point.
        drop(spawn_blocking(move || {
            while let Some(next) = closers.next(whose) {
                drop(next);
            }
        }));
    }

    /// The next to be closed; with none the thread ends.
    fn next(&self, whose: Whose) -> Option<(UnixStream, Room)> {
        let mut waiting = self.waiting();
        let next = waiting.get_mut(&whose).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(&whose);
        }
        next
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<Whose, Waiting>> {
        // Each change is one push, pop, insert or remove: the map is whole after any panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{io::AsyncReadExt as _, time::timeout};

    use super::*;

    #[test]
    fn what_is_closed_gives_its_room_back_and_no_more_may_wait_than_there_is_room_for() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let closers = Closers::with_room_for(1);
            for _ in 0..3 {
                let room = closers.room().await;
                assert!(room.is_some());
                let full = timeout(Duration::from_millis(20), closers.room()).await;
                assert!(full.is_err(), "two have room for one");
                let (here, mut there) = UnixStream::pair().unwrap();
                closers.close(Standing::Stranger, 7, here, room);
                assert_eq!(there.read(&mut [0]).await.unwrap(), 0);
            }
            drop(closers.room().await);
            while !closers.waiting().is_empty() {
                tokio::task::yield_now().await;
            }
        });
    }
}
