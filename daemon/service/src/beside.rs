//! Descriptors beside frames: a stream between two of our programs on which a message may bring one.
//!
//! The descriptor goes with the first bytes of its frame (unix(7), SCM_RIGHTS), so it is there when the
//! frame is: the kernel never lets a read reach over it. Whoever reads such a stream in any other way loses
//! what comes beside it.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd as _, OwnedFd},
    pin::Pin,
    task::{Context, Poll, ready},
};

use custody_sys::channel;
use custody_wire::{
    Message,
    frame::{self, FrameError},
};
use tokio::{
    io::{AsyncRead, AsyncWriteExt as _, Interest, ReadBuf},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
};

/// The most descriptors that came and were not asked for. No message of ours brings more than one.
const AHEAD: usize = 8;

/// As much of a frame as its descriptor goes with: its length, which is sent whole or not at all.
const HEAD: usize = 4;

/// The reading end.
#[derive(Debug)]
pub struct Incoming {
    from: OwnedReadHalf,
    came: VecDeque<OwnedFd>,
}

impl Incoming {
    /// Reads `from`, which nobody has read beyond the border of a frame.
    pub const fn new(from: OwnedReadHalf) -> Self {
        Self {
            from,
            came: VecDeque::new(),
        }
    }

    /// The descriptor of the frame that was read last, if it brought one.
    pub fn descriptor(&mut self) -> Option<OwnedFd> {
        self.came.pop_front()
    }
}

impl AsyncRead for Incoming {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let stream = self.from.as_ref();
            ready!(stream.poll_read_ready(cx))?;
            let room = buffer.initialize_unfilled();
            let got = stream.try_io(Interest::READABLE, || channel::recv(stream, room, AHEAD));
            match got {
                Ok((len, fds)) => {
                    buffer.advance(len);
                    self.came.extend(fds);
                    if self.came.len() > AHEAD {
                        let why = "descriptors came that no message names";
                        return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// Writes one frame, with a descriptor beside it if there is one. Not cancellation safe.
///
/// # Errors
/// When the message is too long or the stream fails.
pub async fn write<M: Message>(
    to: &mut OwnedWriteHalf,
    message: &M,
    descriptor: Option<&OwnedFd>,
) -> Result<(), FrameError> {
    let bytes = frame::frame(message)?;
    let rest = match (descriptor, bytes.split_at_checked(HEAD)) {
        (Some(fd), Some((head, rest))) => {
            let stream = to.as_ref();
            let sent = stream
                .async_io(Interest::WRITABLE, || {
                    channel::send(stream, head, &[fd.as_fd()])
                })
                .await;
            sent.map_err(closed)?;
            rest
        }
        (Some(_) | None, _) => &bytes,
    };
    to.write_all(rest).await.map_err(closed)
}

fn closed(error: io::Error) -> FrameError {
    let gone = matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    );
    if gone {
        FrameError::Closed
    } else {
        FrameError::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use custody_wire::agent::Answer;
    use tokio::net::UnixStream;

    /// Where a descriptor leads.
    fn leads_to(fd: &OwnedFd) -> std::path::PathBuf {
        use std::os::fd::AsRawFd as _;
        std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap()
    }

    #[tokio::test]
    async fn each_descriptor_comes_with_its_own_frame_however_they_are_read() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (_, mut to) = ours.into_split();
        let (from, _keep) = theirs.into_split();
        let mut incoming = Incoming::new(from);
        let (one, two) = channel::pair_stream().unwrap();
        let said = |number| Answer::Tools {
            number,
            tools: Vec::new(),
        };
        for (number, fd) in [(1, None), (2, Some(&one)), (3, None), (4, Some(&two))] {
            write(&mut to, &said(number), fd).await.unwrap();
        }
        let mut came = Vec::new();
        for expected in 1..=4 {
            let answer: Answer = frame::read_async(&mut incoming).await.unwrap();
            assert!(matches!(answer, Answer::Tools { number, .. } if number == expected));
            came.push(incoming.descriptor().map(|fd| leads_to(&fd)));
        }
        let expected = [None, Some(leads_to(&one)), None, Some(leads_to(&two))];
        assert_eq!(came, expected);
    }

    #[tokio::test]
    async fn a_frame_longer_than_the_sockets_buffer_comes_whole_behind_its_descriptor() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (_, mut to) = ours.into_split();
        let (from, _keep) = theirs.into_split();
        let mut incoming = Incoming::new(from);
        let (fd, _other) = channel::pair_stream().unwrap();
        let result = vec![b'x'; 1 << 20];
        let long = Answer::Done {
            number: 1,
            call: gate::digest::Digest::ZERO,
            result: result.clone(),
            json: false,
            status: 200,
            verification: gate::record::Verification::UNSUPPORTED,
            freshness: gate::record::Freshness::Unchecked,
        };
        let (written, read) = tokio::join!(
            write(&mut to, &long, Some(&fd)),
            frame::read_async::<Answer>(&mut incoming)
        );
        written.unwrap();
        assert!(matches!(read.unwrap(), Answer::Done { result: it, .. } if it == result));
        assert!(incoming.descriptor().is_some() && incoming.descriptor().is_none());
    }

    #[tokio::test]
    async fn descriptors_that_nobody_names_end_the_channel() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (_, mut to) = ours.into_split();
        let (from, _keep) = theirs.into_split();
        let mut incoming = Incoming::new(from);
        let (fd, _other) = channel::pair_stream().unwrap();
        let answer = Answer::Tools {
            number: 1,
            tools: Vec::new(),
        };
        for _ in 0..=AHEAD {
            write(&mut to, &answer, Some(&fd)).await.unwrap();
        }
        let mut read = 0;
        while frame::read_async::<Answer>(&mut incoming).await.is_ok() {
            read += 1;
        }
        assert_eq!(read, AHEAD);
    }
}
