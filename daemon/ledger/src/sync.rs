//! Group commit: one thread that signs a checkpoint and calls fdatasync(2), for everyone who waits.
//!
//! What was appended is signed and synced within [`DELAY`], and at once when someone waits for it. While
//! one sync runs, whatever is appended waits for the next one, together: one signature for all of it. A failed sync is final: the
//! kernel may have dropped the pages and report success the next time (fsync(2), BUGS), so nothing
//! after it can be called durable until the chain is opened and read again.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use gate::{
    chain::{Place, keys::Certificate},
    record::Body,
};

use crate::{pen::Pen, writer::AppendError};

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
    /// No checkpoint could be written, now or earlier.
    #[error("a checkpoint could not be written; open the chain again to go on")]
    Unsigned(#[source] Arc<AppendError>),
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
    pen: Pen,
    synced: Place,
    /// When the oldest line that is not on disk was appended.
    since: Option<Instant>,
    /// Someone waits for this position.
    asked: Option<u64>,
    failed: Option<SyncError>,
    closed: bool,
    wakers: Vec<Waker>,
}

/// The writer's side: appends, and ends the thread.
#[derive(Debug)]
pub(crate) struct Syncer {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Syncer {
    /// Starts the thread. Everything that `pen` has is signed and on disk already.
    pub(crate) fn start(pen: Pen) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                synced: pen.tip.head,
                pen,
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

    /// The newest record.
    pub(crate) fn head(&self) -> Place {
        lock(&self.shared).pen.tip.head
    }

    /// Which of the chain's keys signs.
    pub(crate) fn epoch(&self) -> u64 {
        lock(&self.shared).pen.epoch
    }

    /// Appends a record, unless the file would grow over `file_bytes`: then none, and nothing was written
    /// but maybe a checkpoint.
    pub(crate) fn append<B: Body>(
        &self,
        body: &B,
        file_bytes: u64,
    ) -> Result<Option<Place>, AppendError> {
        let mut state = self.usable()?;
        let (line, tip) = state.pen.line(body)?;
        let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if state.pen.len > 0 && state.pen.len.saturating_add(bytes) > file_bytes {
            return Ok(None);
        }
        state.pen.record(&line, tip)?;
        self.written(&mut state);
        Ok(Some(tip.head))
    }

    /// Appends a certificate.
    pub(crate) fn certificate(&self, certificate: Certificate) -> Result<(), AppendError> {
        let mut state = self.usable()?;
        state.pen.certificate(certificate)?;
        self.written(&mut state);
        Ok(())
    }

    /// From now on lines go to the next file; everything that was written before is on disk.
    pub(crate) fn next_file(&self) -> Result<(), AppendError> {
        let mut state = self.usable()?;
        state.pen.next_file()?;
        self.written(&mut state);
        Ok(())
    }

    fn written(&self, state: &mut State) {
        if state.since.is_none() {
            state.since = Some(Instant::now());
            self.shared.work.notify_one();
        }
    }

    /// Nothing may be appended when an earlier sync failed.
    fn usable(&self) -> Result<MutexGuard<'_, State>, AppendError> {
        let state = lock(&self.shared);
        match &state.failed {
            Some(error) => Err(AppendError::Sync(error.clone())),
            None => Ok(state),
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
    /// The newest record that is signed and on disk.
    pub fn synced(&self) -> Place {
        lock(&self.shared).synced
    }

    /// Ready when every record up to `position` is signed and on disk. Asking makes it happen now.
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
        let written = state.pen.tip.head;
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
        return Some(Err(error.clone()));
    }
    if state.closed && state.pen.tip.head.position < position {
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
                close(&mut state);
                return wake(shared, &mut state);
            }
            state = shared
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let head = state.pen.tip.head;
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
        if !state.pen.is_signed()
            && let Err(error) = state.pen.checkpoint(None)
        {
            state.failed = Some(SyncError::Unsigned(Arc::new(error)));
            return wake(shared, &mut state);
        }
        let file = Arc::clone(&state.pen.file);
        drop(state);
        let result = file.sync_data();
        state = lock(shared);
        match result {
            Ok(()) => state.on_disk(head),
            Err(error) => {
                state.failed = Some(SyncError::Failed(Arc::new(error)));
                return wake(shared, &mut state);
            }
        }
        wake(shared, &mut state);
    }
}

/// A last checkpoint says that everything was on disk: no power cut then explains what is missing. It is
/// no more than that, so that it may fail.
fn close(state: &mut State) {
    let State { pen, failed, .. } = state;
    if failed.is_none() && pen.synced > pen.said_synced && pen.checkpoint(None).is_ok() {
        pen.trim();
        if pen.file.sync_data().is_err() {}
    } else {
        pen.trim();
    }
}

impl State {
    fn on_disk(&mut self, head: Place) {
        if self.synced.position < head.position {
            self.synced = head;
            self.pen.synced = head.position;
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
    use std::fs::File;
    use std::task::Wake;

    fn pen(file: File) -> Pen {
        Pen {
            folder: "/".into(),
            chain: gate::chain::ChainName::Decisions,
            key: ed25519_dalek::SigningKey::from_bytes(&[1; 32]),
            epoch: 1,
            file: Arc::new(file),
            number: 1,
            len: 0,
            // A pipe takes no reservation.
            reserved: u64::MAX,
            tip: gate::chain::Tip::START,
            group: Vec::new(),
            unsigned: false,
            since: 0,
            synced: 0,
            said_synced: 0,
            broken: false,
        }
    }

    fn syncer() -> Syncer {
        Syncer::start(pen(tempfile::tempfile().unwrap())).unwrap()
    }

    /// fdatasync(2) of a pipe is EINVAL: a disk that fails.
    fn broken() -> (Syncer, impl Sized) {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        (Syncer::start(pen(File::from(writer))).unwrap(), reader)
    }

    fn write(syncer: &Syncer) -> Place {
        let record = gate::record::Decision::Closed {
            at: 1,
            session: gate::id::SessionId(1),
            why: "test".into(),
        };
        syncer.append(&record, u64::MAX).unwrap().unwrap()
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
        let first = write(&syncer);
        let start = Instant::now();
        while durability.synced().position < 1 {
            assert!(start.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(durability.synced(), first);
    }

    #[test]
    fn whoever_waits_is_woken_and_earlier_lines_are_with_it() {
        let syncer = syncer();
        let durability = syncer.durability();
        for _ in 1..=3 {
            let _place = write(&syncer);
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
        let _first = write(&syncer);
        thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        let _second = write(&syncer);
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn a_failed_sync_is_final_for_everyone() {
        let (syncer, _reader) = broken();
        let durability = syncer.durability();
        let _first = write(&syncer);
        assert!(matches!(
            wait(durability.durable(1)),
            Err(SyncError::Failed(_))
        ));
        assert!(matches!(durability.sync(), Err(SyncError::Failed(_))));
        assert!(syncer.usable().is_err());
        assert_eq!(durability.synced(), Place::START);
    }

    #[test]
    fn the_end_of_the_writer_syncs_what_was_written_and_ends_what_was_not() {
        let syncer = syncer();
        let durability = syncer.durability();
        let first = write(&syncer);
        let never = durability.durable(2);
        drop(syncer);
        assert_eq!(durability.synced(), first);
        durability.sync().unwrap();
        assert!(matches!(
            wait(never),
            Err(SyncError::Closed { position: 2 })
        ));
    }
}
