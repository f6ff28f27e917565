//! Streams of the session, and the connections that read them.
//!
//! A connection whose first line is `custody-stream ID` reads one: the answer is a line, `ok` or `no: ` and
//! why; behind `ok` come pieces, each a length (u32, little endian) and so many bytes, and behind a length of
//! 0 a line that says how it ended: `whole`, or `cut: ` and why. A connection that ends without it was cut.
//!
//! **Invariant:** a stream is read once. When something of ours cuts it, nothing more of it is written, not
//! even what is here already.

use std::{
    collections::BTreeMap,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gate::record::Ended;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest, Ready},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    time::{sleep, timeout},
};

/// With what the first line of a connection that reads a stream begins.
pub const ASKS: &str = "custody-stream ";

/// The most streams that are known at once: those that are open, of which the gate gives four, and those that
/// are over. Of these the oldest goes first.
const KNOWN_MAX: usize = 32;

/// As much of a stream as is held here.
const ROOM: usize = 64 << 10;

/// How long the gate may take to say how a stream ended whose bytes are all here.
const LAST_WORD: Duration = Duration::from_secs(5);

/// How often a reader that closed its writing half is looked after.
const LOOK: Duration = Duration::from_millis(200);

/// How long the line that says how a stream ended may take to be written.
const FAREWELL: Duration = Duration::from_millis(500);

/// The streams of this session, by what they are called.
#[derive(Clone, Debug, Default)]
pub struct Streams(Arc<Mutex<BTreeMap<u64, Known>>>);

#[derive(Debug)]
struct Known {
    /// Until somebody reads it.
    bytes: Option<UnixStream>,
    /// How it ended, once it has.
    ended: watch::Sender<Option<Ended>>,
}

/// A stream that one connection reads.
#[derive(Debug)]
struct Taken {
    bytes: UnixStream,
    ended: watch::Receiver<Option<Ended>>,
}

impl Streams {
    /// The gate opens one.
    pub fn opened(&self, stream: u64, descriptor: OwnedFd) {
        let bytes = std::os::unix::net::UnixStream::from(descriptor);
        let bytes = bytes
            .set_nonblocking(true)
            .and_then(|()| UnixStream::from_std(bytes));
        match bytes {
            Ok(bytes) => {
                let known = Known {
                    bytes: Some(bytes),
                    ended: watch::Sender::new(None),
                };
                let mut all = self.all();
                drop(all.insert(stream, known));
                if all.len() > KNOWN_MAX {
                    let over = |it: &Known| it.ended.borrow().is_some();
                    let oldest = all.iter().find(|(_, it)| over(it)).map(|(name, _)| *name);
                    // None of so many is over: more than any gate gives.
                    drop(all.remove(&oldest.unwrap_or(stream)));
                }
            }
            // Closed, which ends it.
            Err(error) => tracing::error!(%error, "a stream's descriptor is not usable"),
        }
    }

    /// The gate says how one ended.
    pub fn over(&self, stream: u64, ended: Ended) {
        let mut all = self.all();
        let Some(known) = all.get_mut(&stream) else {
            return;
        };
        if matches!(ended, Ended::Cut { .. }) {
            drop(known.bytes.take());
        }
        let _was = known.ended.send_replace(Some(ended));
    }

    /// The gate is gone: everything is cut.
    pub fn cut_all(&self) {
        let open: Vec<u64> = self.all().keys().copied().collect();
        for stream in open {
            let why = "the gate is gone".into();
            self.over(stream, Ended::Cut { why });
        }
    }

    fn take(&self, name: &str) -> Result<Taken, String> {
        let stream: u64 = name
            .parse()
            .map_err(|_not_one| "a stream is called by a number".to_owned())?;
        let mut all = self.all();
        let known = all
            .get_mut(&stream)
            .ok_or_else(|| format!("this session has no stream {stream}"))?;
        match known.bytes.take() {
            Some(bytes) => Ok(Taken {
                bytes,
                ended: known.ended.subscribe(),
            }),
            None => Err(match &*known.ended.borrow() {
                Some(ended @ Ended::Cut { .. }) => {
                    format!("stream {stream} was cut: {}", ended.in_words())
                }
                Some(_) | None => format!("stream {stream} is read once, and somebody did or does"),
            }),
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Known>> {
        // A map is whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves a connection that asked for the stream `name`.
pub async fn serve(streams: &Streams, name: &str, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let taken = match streams.take(name.trim()) {
        Ok(taken) => taken,
        Err(why) => {
            let said = format!("no: {why}\n");
            drop(timeout(FAREWELL, to.write_all(said.as_bytes())).await);
            return;
        }
    };
    let Taken { bytes, mut ended } = taken;
    let cut = {
        let mut ended = ended.clone();
        async move {
            let is_cut = |it: &Option<Ended>| matches!(it, Some(Ended::Cut { .. }));
            // One that nobody can cut any more is not cut.
            if ended.wait_for(is_cut).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    // Where it is cut the connection ends as it is: in the middle of a piece there is no place for a word.
    let copied = tokio::select! {
        biased;
        () = cut => false,
        () = left(&mut from) => false,
        copied = copy(bytes, &mut to) => copied,
    };
    if !copied {
        return;
    }
    let said = timeout(LAST_WORD, ended.wait_for(Option::is_some)).await;
    let last = match said.ok().and_then(Result::ok).and_then(|it| it.clone()) {
        Some(Ended::Whole) => "whole".into(),
        Some(ended) => format!("cut: {}", ended.in_words()),
        None => "cut: nobody says how it ended".into(),
    };
    let end = [&0_u32.to_le_bytes(), last.as_bytes(), b"\n"].concat();
    drop(timeout(FAREWELL, to.write_all(&end)).await);
}

/// Copies to the end of the stream; false if the agent does not read.
async fn copy(bytes: UnixStream, to: &mut OwnedWriteHalf) -> bool {
    if to.write_all(b"ok\n").await.is_err() {
        return false;
    }
    // Held whole: its writing half closed would be its reader's leaving.
    let mut bytes = bytes;
    let mut piece = vec![0; ROOM];
    loop {
        let (head, room) = piece.split_at_mut(size_of::<u32>());
        let Ok(len @ 1..) = bytes.read(room).await else {
            return true;
        };
        let Ok(length) = u32::try_from(len) else {
            return true;
        };
        head.copy_from_slice(&length.to_le_bytes());
        let end = len.saturating_add(size_of::<u32>());
        if to
            .write_all(piece.get(..end).unwrap_or_default())
            .await
            .is_err()
        {
            return false;
        }
    }
}

/// Ready when the agent closed its end, not only its writing half. What it writes meanwhile is nobody's.
async fn left(from: &mut OwnedReadHalf) {
    let mut ignored = [0; 64];
    while matches!(from.read(&mut ignored).await, Ok(1..)) {}
    let stream = from.as_ref();
    loop {
        let gone = stream.ready(Interest::WRITABLE).await;
        if gone.is_err() || gone.is_ok_and(Ready::is_write_closed) {
            return;
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use custody_sys::channel;

    /// A stream `7`, its worker's end, and a connection that asked for it.
    async fn asked(streams: &Streams, name: &'static str) -> UnixStream {
        let (near, far) = UnixStream::pair().unwrap();
        let streams = streams.clone();
        drop(tokio::spawn(async move {
            let (from, to) = near.into_split();
            serve(&streams, name, from, to).await;
        }));
        far
    }

    fn opened(streams: &Streams, stream: u64) -> UnixStream {
        let (ours, theirs) = channel::pair_stream().unwrap();
        streams.opened(stream, theirs);
        let ours = std::os::unix::net::UnixStream::from(ours);
        ours.set_nonblocking(true).unwrap();
        UnixStream::from_std(ours).unwrap()
    }

    async fn all(mut from: UnixStream) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = timeout(Duration::from_secs(10), from.read_to_end(&mut bytes));
        let _read = read.await.unwrap().unwrap();
        bytes
    }

    fn piece(bytes: &[u8]) -> Vec<u8> {
        [&u32::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat()
    }

    #[tokio::test]
    async fn a_stream_is_read_once_by_whoever_comes_first_and_to_its_end() {
        let streams = Streams::default();
        let mut worker = opened(&streams, 7);
        let reader = asked(&streams, "7").await;
        worker.write_all(b"line").await.unwrap();
        sleep(Duration::from_millis(50)).await;
        let second = all(asked(&streams, "7").await).await;
        assert!(
            second.starts_with(b"no: stream 7 is read once"),
            "{second:?}"
        );
        for (name, why) in [
            ("8", "no: this session has no stream 8"),
            ("x", "no: a stream is"),
        ] {
            let said = String::from_utf8(all(asked(&streams, name).await).await).unwrap();
            assert!(said.starts_with(why), "{said}");
        }
        drop(worker);
        streams.over(7, Ended::Whole);
        let expected = [
            b"ok\n".to_vec(),
            piece(b"line"),
            piece(b""),
            b"whole\n".to_vec(),
        ];
        assert_eq!(all(reader).await, expected.concat());
    }

    #[tokio::test]
    async fn what_is_over_before_anybody_reads_is_read_all_the_same_unless_it_was_cut() {
        let streams = Streams::default();
        for (stream, ended) in [
            (7, Ended::Size),
            (
                8,
                Ended::Cut {
                    why: "revoked".into(),
                },
            ),
        ] {
            let mut worker = opened(&streams, stream);
            worker.write_all(b"line").await.unwrap();
            drop(worker);
            streams.over(stream, ended);
        }
        let said = all(asked(&streams, "7").await).await;
        let expected = [b"ok\n".to_vec(), piece(b"line"), piece(b"")].concat();
        assert!(
            said.starts_with(&expected) && said.ends_with(b"than its lease\n"),
            "{said:?}"
        );
        let said = all(asked(&streams, "8").await).await;
        assert_eq!(said, b"no: stream 8 was cut: revoked\n");
    }

    #[tokio::test]
    async fn of_a_stream_that_is_cut_nothing_more_comes_not_even_what_is_here() {
        let streams = Streams::default();
        let mut worker = opened(&streams, 7);
        let mut reader = asked(&streams, "7").await;
        let mut ok = [0; 3];
        let _read = reader.read_exact(&mut ok).await.unwrap();
        // More than the reader's socket takes: the rest waits here, and in the worker's.
        let feed =
            tokio::spawn(async move { while worker.write_all(&[b'.'; 65_536]).await.is_ok() {} });
        sleep(Duration::from_millis(100)).await;
        streams.cut_all();
        timeout(Duration::from_secs(5), feed)
            .await
            .unwrap()
            .unwrap();
        let mut sent = 0;
        let mut room = vec![0; 65_536];
        while let Ok(len @ 1..) = reader.read(&mut room).await {
            sent += len;
        }
        // What is read now was in the reader's own socket when it was cut.
        assert!(sent < 1 << 20, "{sent}");
    }

    #[tokio::test]
    async fn a_reader_that_leaves_closes_the_stream_and_one_that_only_wrote_its_last_does_not() {
        let streams = Streams::default();
        let mut worker = opened(&streams, 7);
        let mut reader = asked(&streams, "7").await;
        reader.shutdown().await.unwrap();
        sleep(Duration::from_millis(300)).await;
        worker.write_all(b"line").await.unwrap();
        let mut said = [0; 11];
        let _read = reader.read_exact(&mut said).await.unwrap();
        assert!(said.ends_with(b"line"));
        drop(reader);
        // Nothing is written: that it left is seen all the same.
        let mut end = [0];
        let left = timeout(Duration::from_secs(5), worker.read(&mut end)).await;
        assert_eq!(left.unwrap().unwrap(), 0);
    }

    #[tokio::test]
    async fn streams_that_are_over_do_not_pile_up_and_none_that_is_open_is_forgotten() {
        let streams = Streams::default();
        let mut first = opened(&streams, 1);
        for stream in 2..200 {
            drop(opened(&streams, stream));
            streams.over(stream, Ended::Whole);
        }
        assert!(streams.all().len() <= KNOWN_MAX);
        let mut reader = asked(&streams, "1").await;
        first.write_all(b"line").await.unwrap();
        let mut said = [0; 11];
        let _read = reader.read_exact(&mut said).await.unwrap();
        assert!(said.ends_with(b"line"));
    }
}
