//! Group commit: one thread that calls fdatasync(2), for everyone who waits.
//!
//! What was appended is synced within [`DELAY`], and at once when someone waits for it. While one
//! sync runs, whatever is appended waits for the next one, together. A failed sync is final: the
//! kernel may have dropped the pages and report success the next time (fsync(2), BUGS), so nothing
//! after it can be called durable until the chain is opened and read again.

use std::{
    fs::File,
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use gate::chain::Place;

/// The longest that an appended line stays in memory alone (architecture.md, Two chains).
pub const DELAY: Duration = Duration::from_millis(10);

/// Why a line is not on disk.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SyncError {
    /// The writer was dropped, and the line was never appended.
    #[error("the chain was closed before position {position} was appended")]
    Closed {
        /// What was waited for.
        position: u64,
    },
    /// fdatasync(2) failed, now or earlier.
    #[error("fdatasync(2) of the chain failed; open it again to go on")]
    Failed(#[source] Arc<io::Error>),
}

/// Says when a line is on disk. Cheap to clone; it keeps no lock on the chain.
#[derive(Clone, Debug)]
pub struct Durability {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The sync thread waits here.
    work: Condvar,
    /// Blocking waiters wait here.
    done: Condvar,
}

#[derive(Debug)]
struct State {
    file: Arc<File>,
    written: Place,
    synced: Place,
    /// When the oldest line that is not on disk was appended.
    since: Option<Instant>,
    /// Someone waits for this position.
    asked: Option<u64>,
    failed: Option<Arc<io::Error>>,
    closed: bool,
    wakers: Vec<Waker>,
}

/// The writer's side: says what was appended, and ends the thread.
#[derive(Debug)]
pub(crate) struct Syncer {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Syncer {
    /// Starts the thread. Up to `head` everything is on disk already.
    pub(crate) fn start(file: Arc<File>, head: Place) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                file,
                written: head,
                synced: head,
                since: None,
                asked: None,
                failed: None,
                closed: false,
                wakers: Vec::new(),
            }),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("ledger-sync".into())
            .spawn(move || run(&theirs))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// A line was written to the current file.
    pub(crate) fn written(&self, head: Place) {
        let mut state = lock(&self.shared);
        state.written = head;
        if state.since.is_none() {
            state.since = Some(Instant::now());
            self.shared.work.notify_one();
        }
    }

    /// From now on lines go to `file`; everything that was written before is on disk.
    pub(crate) fn rotated(&self, file: Arc<File>) {
        let mut state = lock(&self.shared);
        state.file = file;
        state.since = None;
        let head = state.written;
        state.on_disk(head);
        wake(&self.shared, &mut state);
    }

    /// An earlier sync failed: nothing may be appended.
    pub(crate) fn check(&self) -> Result<(), SyncError> {
        match &lock(&self.shared).failed {
            Some(error) => Err(SyncError::Failed(Arc::clone(error))),
            None => Ok(()),
        }
    }

    pub(crate) fn durability(&self) -> Durability {
        Durability {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        lock(&self.shared).closed = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // It has no way to panic; if it did, the waiters see `Closed`.
            drop(thread.join());
        }
    }
}

impl Durability {
    /// The newest line that is on disk.
    pub fn synced(&self) -> Place {
        lock(&self.shared).synced
    }

    /// Ready when every line up to `position` is on disk. Asking makes it happen now.
    pub fn durable(&self, position: u64) -> Durable {
        Durable {
            shared: Arc::clone(&self.shared),
            position,
        }
    }

    /// Blocks until everything that was appended is on disk.
    ///
    /// # Errors
    /// When fdatasync(2) fails, or failed before.
    pub fn sync(&self) -> Result<(), SyncError> {
        let mut state = lock(&self.shared);
        let written = state.written;
        loop {
            match settled(&mut state, written.position) {
                Some(result) => return result,
                None => {
                    self.shared.work.notify_one();
                    state = self
                        .shared
                        .done
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// Waits for a line to be on disk. Needs no runtime of its own.
#[derive(Debug)]
#[must_use = "nothing is durable until it is awaited"]
pub struct Durable {
    shared: Arc<Shared>,
    position: u64,
}

impl Future for Durable {
    type Output = Result<(), SyncError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.shared);
        match settled(&mut state, self.position) {
            Some(result) => Poll::Ready(result),
            None => {
                if !state.wakers.iter().any(|w| w.will_wake(context.waker())) {
                    state.wakers.push(context.waker().clone());
                }
                self.shared.work.notify_one();
                Poll::Pending
            }
        }
    }
}

/// What is known of `position`; if nothing is yet, it is asked for.
fn settled(state: &mut State, position: u64) -> Option<Result<(), SyncError>> {
    if state.synced.position >= position {
        return Some(Ok(()));
    }
    if let Some(error) = &state.failed {
        return Some(Err(SyncError::Failed(Arc::clone(error))));
    }
    if state.closed && state.written.position < position {
        return Some(Err(SyncError::Closed { position }));
    }
    state.asked = state.asked.max(Some(position));
    None
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    // Nothing panics while the lock is held, and the state is whole between any two statements.
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(shared: &Shared) {
    let mut state = lock(shared);
    loop {
        let Some(since) = state.since else {
            if state.closed {
                return wake(shared, &mut state);
            }
            state = shared
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let head = state.written;
        let wanted = state.closed || state.asked.is_some_and(|asked| asked <= head.position);
        let left = DELAY.saturating_sub(since.elapsed());
        if !wanted && !left.is_zero() {
            (state, _) = shared
                .work
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        // What is appended while the sync runs has a time of its own, and the next sync.
        state.since = None;
        let file = Arc::clone(&state.file);
        drop(state);
        let result = file.sync_data();
        state = lock(shared);
        match result {
            Ok(()) => state.on_disk(head),
            Err(error) => {
                state.failed = Some(Arc::new(error));
                return wake(shared, &mut state);
            }
        }
        wake(shared, &mut state);
    }
}

impl State {
    fn on_disk(&mut self, head: Place) {
        // A rotation may have synced more meanwhile.
        if self.synced.position < head.position {
            self.synced = head;
        }
        self.asked = self.asked.filter(|asked| *asked > head.position);
    }
}

/// Everyone looks again: those whose line is not on disk yet wait on.
fn wake(shared: &Shared, state: &mut State) {
    shared.done.notify_all();
    for waker in state.wakers.drain(..) {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate::digest::{Digest, Domain};
    use std::task::Wake;

    fn place(position: u64) -> Place {
        Place {
            digest: Digest::of(Domain::Line, &position.to_le_bytes()),
            position,
        }
    }

    fn syncer() -> Syncer {
        let file = tempfile::tempfile().unwrap();
        Syncer::start(Arc::new(file), Place::START).unwrap()
    }

    /// fdatasync(2) of a pipe is EINVAL: a disk that fails.
    fn broken() -> Syncer {
        let (_reader, writer) = nix::unistd::pipe().unwrap();
        let file = File::from(writer);
        Syncer::start(Arc::new(file), Place::START).unwrap()
    }

    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn wait(durable: Durable) -> Result<(), SyncError> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut durable = std::pin::pin!(durable);
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < Duration::from_secs(60), "nobody woke it");
            match durable.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park_timeout(Duration::from_secs(10)),
            }
        }
    }

    #[test]
    fn a_line_reaches_the_disk_by_itself() {
        let syncer = syncer();
        let durability = syncer.durability();
        syncer.written(place(1));
        let start = Instant::now();
        while durability.synced().position < 1 {
            assert!(start.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(durability.synced(), place(1));
    }

    #[test]
    fn whoever_waits_is_woken_and_earlier_lines_are_with_it() {
        let syncer = syncer();
        let durability = syncer.durability();
        for position in 1..=3 {
            syncer.written(place(position));
        }
        wait(durability.durable(3)).unwrap();
        assert!(durability.synced().position >= 3);
        wait(durability.durable(1)).unwrap();
        wait(durability.durable(0)).unwrap();
    }

    #[test]
    fn one_may_wait_for_a_line_before_it_is_written() {
        let syncer = syncer();
        let durability = syncer.durability();
        let waiting = thread::spawn(move || wait(durability.durable(2)));
        thread::sleep(Duration::from_millis(20));
        syncer.written(place(1));
        thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        syncer.written(place(2));
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn a_failed_sync_is_final_for_everyone() {
        let syncer = broken();
        let durability = syncer.durability();
        syncer.check().unwrap();
        syncer.written(place(1));
        assert!(matches!(
            wait(durability.durable(1)),
            Err(SyncError::Failed(_))
        ));
        assert!(matches!(durability.sync(), Err(SyncError::Failed(_))));
        assert!(syncer.check().is_err());
        syncer.written(place(2));
        assert!(matches!(
            wait(durability.durable(2)),
            Err(SyncError::Failed(_))
        ));
        assert_eq!(durability.synced(), Place::START);
    }

    #[test]
    fn the_end_of_the_writer_syncs_what_was_written_and_ends_what_was_not() {
        let syncer = syncer();
        let durability = syncer.durability();
        syncer.written(place(1));
        let never = durability.durable(2);
        drop(syncer);
        assert_eq!(durability.synced(), place(1));
        durability.sync().unwrap();
        assert!(matches!(
            wait(never),
            Err(SyncError::Closed { position: 2 })
        ));
    }
}
