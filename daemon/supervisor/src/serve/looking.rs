//! Workspaces are looked through by threads of their own: what lies in one is its owner's to say, a
//! cold disk takes as long as it takes, and the loop has other sessions.
//!
//! Each user has one thread, which takes his orders one after the other: who orders many sessions keeps
//! himself waiting. An order waits here with its descriptors until its look is over; one that is
//! stopped meanwhile is forgotten, and what is found for it then is nobody's.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    os::fd::{AsFd, BorrowedFd},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

use custody_wire::refused::Refused;
use gate::id::SessionId;

use crate::refused::Finding;

/// The most orders that wait: each has three descriptors open. One user has at most 64 connections to
/// control, and an order for each.
const ORDERS_MAX: usize = 256;

/// Why an order does not wait.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookingError {
    #[error("{ORDERS_MAX} workspaces are being looked through; try again")]
    Many,
    #[error("no thread to look through the workspace")]
    Thread(#[source] io::Error),
}

/// A look, as its thread does it.
type Look = Box<dyn FnOnce() -> Vec<Finding> + Send>;

/// Orders whose workspaces are looked through. `T` is such an order.
#[derive(Debug)]
pub(super) struct Looking<T> {
    orders: BTreeMap<u64, (SessionId, T)>,
    next: u64,
    threads: Threads,
    found: Receiver<(u64, Vec<Finding>)>,
    /// One byte for each that was found: the loop polls it.
    bell: PipeReader,
}

impl<T> Looking<T> {
    /// With nothing to look at.
    ///
    /// # Errors
    /// When pipe(2) fails.
    pub(super) fn new() -> io::Result<Self> {
        let (say, found) = mpsc::channel();
        let (bell, rope) = io::pipe()?;
        Ok(Self {
            orders: BTreeMap::new(),
            next: 0,
            threads: Threads {
                waiting: Arc::default(),
                say,
                rope: Arc::new(rope),
            },
            found,
            bell,
        })
    }

    /// Keeps `order` of user `uid` until `look` has been made.
    ///
    /// # Errors
    /// When too many wait, or no thread can be made.
    pub(super) fn begin(
        &mut self,
        uid: u32,
        session: SessionId,
        order: T,
        look: impl FnOnce() -> Vec<Finding> + Send + 'static,
    ) -> Result<(), LookingError> {
        if self.orders.len() >= ORDERS_MAX {
            return Err(LookingError::Many);
        }
        self.next = self.next.saturating_add(1);
        self.threads.take(uid, self.next, Box::new(look))?;
        self.orders.insert(self.next, (session, order));
        Ok(())
    }

    /// Whether an order for `session` waits.
    pub(super) fn has(&self, session: SessionId) -> bool {
        self.orders.values().any(|(of, _)| *of == session)
    }

    /// Forgets the order for `session`. Whether there was one.
    pub(super) fn forget(&mut self, session: SessionId) -> bool {
        !self.forget_those(|of| of == session).is_empty()
    }

    /// Forgets every order.
    pub(super) fn forget_all(&mut self) -> Vec<SessionId> {
        self.forget_those(|_any| true)
    }

    /// Of a look that is not begun nothing stays: who orders and stops, again and again, holds no more
    /// open than one that is.
    fn forget_those(&mut self, wanted: impl Fn(SessionId) -> bool) -> Vec<SessionId> {
        let gone = self.orders.extract_if(.., |_, (of, _)| wanted(*of));
        let (numbers, sessions): (Vec<u64>, Vec<SessionId>) =
            gone.map(|(number, (of, _))| (number, of)).unzip();
        self.threads.forget(&numbers);
        sessions
    }

    /// The next order whose look is over, and what was found; none if it was forgotten. To be called
    /// when [`Looking::as_fd`] is readable.
    pub(super) fn next(&mut self) -> Option<(T, Vec<Finding>)> {
        let mut byte = [0];
        if let Err(error) = self.bell.read_exact(&mut byte) {
            tracing::error!(%error, "the pipe of those who look through workspaces");
        }
        let (number, findings) = self.found.try_recv().ok()?;
        let (_, order) = self.orders.remove(&number)?;
        Some((order, findings))
    }
}

impl<T> AsFd for Looking<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// What waits for the thread of each user.
type Waiting = HashMap<u32, VecDeque<(u64, Look)>>;

#[derive(Clone)]
struct Threads {
    waiting: Arc<Mutex<Waiting>>,
    say: Sender<(u64, Vec<Finding>)>,
    rope: Arc<PipeWriter>,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

impl Threads {
    /// Leaves `look` to the thread of `uid`, which is made where he has none.
    fn take(&self, uid: u32, number: u64, look: Look) -> Result<(), LookingError> {
        let mut waiting = self.waiting();
        if let Some(his) = waiting.get_mut(&uid) {
            his.push_back((number, look));
            return Ok(());
        }
        let threads = self.clone();
        let work = move || {
            while let Some((number, look)) = threads.next(uid) {
                let looked = catch_unwind(AssertUnwindSafe(look));
                threads.report(number, looked.unwrap_or_else(|_panic| unlooked()));
            }
        };
        // It waits for the lock before it looks whether there is something.
        let thread = thread::Builder::new().name("looking".into()).spawn(work);
        thread.map_err(LookingError::Thread)?;
        waiting.insert(uid, VecDeque::from([(number, look)]));
        Ok(())
    }

    /// The next look of `uid`; with none his thread ends.
    fn next(&self, uid: u32) -> Option<(u64, Look)> {
        let mut waiting = self.waiting();
        let next = waiting.get_mut(&uid).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(&uid);
        }
        next
    }

    fn forget(&self, numbers: &[u64]) {
        for his in self.waiting().values_mut() {
            his.retain(|(number, _)| !numbers.contains(number));
        }
    }

    fn report(&self, number: u64, findings: Vec<Finding>) {
        let rung = self.say.send((number, findings)).is_ok() && (&*self.rope).write(&[0]).is_ok();
        if !rung {
            tracing::debug!("custodyd ends; nobody hears what was found");
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Each change is one push, pop, insert or remove: the map is whole after any panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is not known counts as found.
fn unlooked() -> Vec<Finding> {
    let which = Refused::WorkspaceCredential;
    vec![Finding::unseen(which, "it", &"a fault of custodyd's")]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    /// Blocks until there is one.
    fn next(looking: &mut Looking<&'static str>) -> Option<(&'static str, Vec<Finding>)> {
        let mut fds = [PollFd::new(looking.as_fd(), PollFlags::POLLIN)];
        let ready = poll(&mut fds, PollTimeout::from(20_000_u16)).unwrap();
        assert_eq!(ready, 1, "nothing is found");
        looking.next()
    }

    #[test]
    fn a_workspace_that_takes_for_ever_keeps_its_owner_waiting_and_nobody_else() {
        let (go, gone) = mpsc::channel::<()>();
        let found = vec![Finding::new(Refused::WorkspaceFifo, "`f`")];
        let his = found.clone();
        let mut looking = Looking::new().unwrap();
        // Were it this thread that looks, it would not come back from the first.
        let slow = move || {
            gone.recv_timeout(Duration::from_secs(20))
                .map_or_else(|_late| Vec::new(), |()| his)
        };
        looking.begin(1, SessionId(1), "slow", slow).unwrap();
        looking.begin(1, SessionId(2), "after", Vec::new).unwrap();
        looking.begin(2, SessionId(3), "other", Vec::new).unwrap();
        assert_eq!(next(&mut looking).unwrap().0, "other");
        assert!(looking.has(SessionId(1)) && !looking.has(SessionId(3)));
        go.send(()).unwrap();
        assert_eq!(next(&mut looking).unwrap(), ("slow", found));
        assert_eq!(next(&mut looking).unwrap(), ("after", Vec::new()));
    }

    #[test]
    fn an_order_that_is_stopped_meanwhile_is_not_found_again() {
        let (go, gone) = mpsc::channel::<()>();
        let (kept, dropped) = mpsc::channel::<()>();
        let mut looking = Looking::new().unwrap();
        let (begun, is_begun) = mpsc::channel();
        let slow = move || {
            begun.send(()).unwrap();
            gone.recv().map_or_else(|_| Vec::new(), |()| Vec::new())
        };
        looking.begin(1, SessionId(1), "begun", slow).unwrap();
        is_begun.recv_timeout(Duration::from_secs(20)).unwrap();
        let never = move || kept.send(()).map_or_else(|_| Vec::new(), |()| Vec::new());
        looking.begin(1, SessionId(2), "waits", never).unwrap();
        looking.begin(1, SessionId(3), "other", Vec::new).unwrap();
        // Nothing of it stays, though it was not begun.
        assert!(looking.forget(SessionId(2)));
        assert_eq!(dropped.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        assert!(looking.forget(SessionId(1)));
        assert!(!looking.forget(SessionId(1)));
        go.send(()).unwrap();
        let found = [next(&mut looking), next(&mut looking)];
        let found: Vec<_> = found.into_iter().flatten().map(|it| it.0).collect();
        assert_eq!(found, ["other"]);
    }

    #[test]
    fn a_look_that_panics_is_no_good_look() {
        let mut looking = Looking::new().unwrap();
        let panics = || -> Vec<Finding> { std::panic::resume_unwind(Box::new(())) };
        looking.begin(1, SessionId(1), "x", panics).unwrap();
        let (_, findings) = next(&mut looking).unwrap();
        assert!(!findings[0].is_rest && findings[0].which == Refused::WorkspaceCredential);
    }

    #[test]
    fn no_more_wait_than_there_is_room_for() {
        let (_go, gone) = mpsc::channel::<()>();
        let mut looking = Looking::new().unwrap();
        let slow = move || gone.recv().map_or_else(|_| Vec::new(), |()| Vec::new());
        looking.begin(1, SessionId(0), "x", slow).unwrap();
        for number in 1..ORDERS_MAX {
            let session = SessionId(u64::try_from(number).unwrap());
            looking.begin(1, session, "x", Vec::new).unwrap();
        }
        let more = looking.begin(1, SessionId(u64::MAX), "x", Vec::new);
        assert!(matches!(more, Err(LookingError::Many)));
        assert_eq!(looking.forget_all().len(), ORDERS_MAX);
        looking.begin(1, SessionId(0), "x", Vec::new).unwrap();
    }
}
