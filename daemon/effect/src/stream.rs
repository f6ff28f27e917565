//! An answer that is handed on as it comes: scrubbed, counted, hashed, and never more than its lease.
//!
//! **Invariant:** what the scrubber keeps back is released at the body's own end alone. Where a stream
//! is cut, by its size too, it is dropped: whoever can choose the cut would else read the credential's
//! beginning from the last bytes.

use std::{io, sync::Arc, time::Duration};

use custody_wire::perform::{Answer, Http, Passed};
use gate::{
    digest::{Digest, Running},
    mutant::Mutant,
    record::Ended,
};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use tokio::{
    io::AsyncWriteExt as _,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Notify,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    http::{Begun, Connector, PerformError, Sent},
    scrub::Scrubber,
};

/// How long the vault waits for a word on what was handed on: what a cut may leave uncounted.
const WORD: Duration = Duration::from_millis(5);

/// Who is told how a stream goes.
pub trait Tell {
    /// Tells the vault.
    fn tell(&self, answer: Answer) -> impl Future<Output = ()> + Send;
}

/// What is streamed.
#[derive(Clone, Copy, Debug)]
pub struct Lease<'a> {
    /// Numbered by the vault.
    pub number: u64,
    /// The request; its times and sizes are the lease's.
    pub http: &'a Http,
    /// What ends it.
    pub cut: &'a Notify,
}

impl Connector {
    /// Performs one request, and hands its answer's body on to `to`. Says so to `vault` as it goes.
    pub async fn stream(&self, lease: Lease<'_>, to: UnixStream, vault: &(impl Tell + Sync)) {
        let Lease { number, http, cut } = lease;
        let (mut sent, mut began) = (Sent::No, 0);
        let deadline = Instant::now() + Duration::from_millis(u64::from(http.timeout_ms));
        let begun = tokio::select! {
            biased;
            () = cut.notified() => Err(PerformError::Cut),
            begun = timeout_at(deadline, self.begin(http, &mut sent, &mut began)) => match begun {
                Ok(begun) => begun,
                Err(_late) => Err(PerformError::Timeout {
                    ms: http.timeout_ms,
                }),
            },
        };
        let Begun {
            connection,
            ending,
            response,
        } = match begun {
            Ok(begun) => begun,
            Err(error) => {
                let failed = Answer::Failed {
                    number,
                    why: self.reason(&error),
                    sent: sent == Sent::Maybe,
                };
                return vault.tell(failed).await;
            }
        };
        let status = response.status().as_u16();
        vault.tell(Answer::Opened { number, status }).await;
        let (reader, to) = to.into_split();
        let mut passing = Passing {
            body: response.into_body(),
            cut,
            hash: Running::default(),
            left: usize::try_from(http.answer_cap).unwrap_or(usize::MAX),
            number,
            out: Vec::new(),
            passed: Passed {
                bytes: 0,
                scrubbed: 0,
                sha256: Digest::ZERO,
            },
            reader,
            scrubber: Some(Scrubber::new(Arc::clone(&self.credential))),
            to,
            word: None,
        };
        let ended = match passing.pass(deadline, vault).await {
            Ok(ended) => ended,
            Err(error) => Ended::Server {
                why: self.reason(&PerformError::Exchange(error)).as_str().into(),
            },
        };
        if ended == Ended::Whole {
            ending.keep();
            self.connections.keep(http, connection);
        }
        let passed = passing.passed();
        // The reader sees the end no later than the vault.
        drop(passing);
        vault
            .tell(Answer::Streamed {
                number,
                passed,
                ended,
            })
            .await;
    }
}

/// A body on its way.
struct Passing<'a> {
    body: Incoming,
    cut: &'a Notify,
    hash: Running,
    /// How many bytes more may be read.
    left: usize,
    number: u64,
    out: Vec<u8>,
    passed: Passed,
    /// Nothing is read from it but its end.
    reader: OwnedReadHalf,
    scrubber: Option<Scrubber>,
    to: OwnedWriteHalf,
    /// When the vault is to be told of what it does not know yet.
    word: Option<Instant>,
}

/// What came next.
enum Next {
    Chunk(Bytes),
    Ended(Ended),
    Word,
}

impl Passing<'_> {
    /// Until the end. An error is the server's.
    async fn pass(&mut self, deadline: Instant, vault: &impl Tell) -> Result<Ended, hyper::Error> {
        loop {
            let next = tokio::select! {
                biased;
                () = self.cut.notified() => Next::Ended(cut()),
                () = left(&self.reader) => Next::Ended(Ended::Reader),
                () = sleep_until(deadline) => Next::Ended(Ended::Time),
                () = at(self.word) => Next::Word,
                frame = self.body.frame() => match frame {
                    None => Next::Ended(Ended::Whole),
                    // Trailers are not passed on.
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(chunk) => Next::Chunk(chunk),
                        Err(_trailers) => continue,
                    },
                    Some(Err(error)) => return Err(error),
                },
            };
            match next {
                Next::Chunk(chunk) => {
                    let fits = chunk.get(..self.left).unwrap_or(&chunk);
                    self.left = self.left.saturating_sub(fits.len());
                    if let Some(scrubber) = &mut self.scrubber {
                        scrubber.push(fits, &mut self.out);
                    }
                    let over = fits.len() < chunk.len();
                    if let Err(ended) = self.write(deadline, vault).await {
                        return Ok(ended);
                    }
                    if over {
                        if Mutant::EffectStreamCut.is_on() {
                            let _written = self.release(deadline, vault).await;
                        }
                        return Ok(Ended::Size);
                    }
                }
                Next::Ended(Ended::Whole) => {
                    return Ok(match self.release(deadline, vault).await {
                        Ok(()) => Ended::Whole,
                        Err(ended) => ended,
                    });
                }
                Next::Ended(ended) => return Ok(ended),
                Next::Word => self.tell(vault).await,
            }
        }
    }

    /// Hands on what was kept back: the body is at its end.
    async fn release(&mut self, deadline: Instant, vault: &impl Tell) -> Result<(), Ended> {
        if let Some(scrubber) = self.scrubber.take() {
            self.passed.scrubbed = scrubber.finish(&mut self.out);
        }
        self.write(deadline, vault).await
    }

    /// Hands on what the scrubber let go of.
    async fn write(&mut self, deadline: Instant, vault: &impl Tell) -> Result<(), Ended> {
        let mut written = 0;
        while let Some(rest) = self.out.get(written..).filter(|rest| !rest.is_empty()) {
            let wrote = tokio::select! {
                biased;
                () = self.cut.notified() => return Err(cut()),
                () = left(&self.reader) => return Err(Ended::Reader),
                () = sleep_until(deadline) => return Err(Ended::Time),
                () = at(self.word) => {
                    self.tell(vault).await;
                    continue;
                }
                wrote = self.to.write(rest) => wrote,
            };
            let Ok(len @ 1..) = wrote else {
                return Err(Ended::Reader);
            };
            // Counted as it goes: what was written was handed on, whatever stops the rest.
            self.hash.update(rest.get(..len).unwrap_or_default());
            self.passed.bytes = self
                .passed
                .bytes
                .saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
            written = written.saturating_add(len);
            let _told_later = self.word.get_or_insert_with(|| Instant::now() + WORD);
        }
        self.out.clear();
        Ok(())
    }

    async fn tell(&mut self, vault: &impl Tell) {
        self.word = None;
        let (number, passed) = (self.number, self.passed());
        vault.tell(Answer::Streaming { number, passed }).await;
    }

    fn passed(&self) -> Passed {
        let scrubbed = self.scrubber.as_ref().map(Scrubber::count);
        Passed {
            bytes: self.passed.bytes,
            scrubbed: scrubbed.unwrap_or(self.passed.scrubbed),
            sha256: self.hash.so_far(),
        }
    }
}

/// The vault knows why, and says it in the receipt.
fn cut() -> Ended {
    Ended::Cut {
        why: "the vault cut it".into(),
    }
}

/// Ready when the other end is gone. It never writes; if it does, it is no reader of ours.
async fn left(reader: &OwnedReadHalf) {
    loop {
        let waits = reader.readable().await.is_ok()
            && reader
                .try_read(&mut [0])
                .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        if !waits {
            return;
        }
    }
}

async fn at(word: Option<Instant>) {
    match word {
        Some(word) => sleep_until(word).await,
        None => std::future::pending().await,
    }
}
