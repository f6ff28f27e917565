//! Frames: `u32` length (little endian) of what follows, version, kind, postcard.
//!
//! A datagram is the same without the length.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};

/// The version of the protocol. Programs of one installation speak one version; another one is
/// refused, never guessed at.
pub const VERSION: u8 = 1;

/// Version and kind.
const HEAD: usize = 2;

/// What may be sent: one enum for each direction of each border.
pub trait Message: Serialize + DeserializeOwned {
    /// The most bytes that a message takes, head included. More is refused before it is read.
    const CAP: usize;
    /// Which enum this is, so that a frame of another border does not parse by accident.
    const KIND: u8;
}

/// Why bytes are not a message, or a message does not fit.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other end is gone.
    #[error("the other end closed the channel")]
    Closed,
    /// Reading or writing failed.
    #[error("the channel failed")]
    Io(#[source] io::Error),
    /// A message of another border.
    #[error("message kind {found} where {expected} was expected")]
    Kind {
        /// What was expected here.
        expected: u8,
        /// What came.
        found: u8,
    },
    /// The bytes are not the message.
    #[error("the message does not parse")]
    Parse(#[source] postcard::Error),
    /// Too few bytes to hold version and kind.
    #[error("a message has {len} bytes; at least {HEAD} are needed")]
    Short {
        /// How many it has.
        len: usize,
    },
    /// More bytes than the message's cap.
    #[error("a message has {len} bytes; at most {cap} are allowed")]
    TooLong {
        /// How many it has.
        len: usize,
        /// How many are allowed.
        cap: usize,
    },
    /// Bytes behind the message.
    #[error("{extra} bytes follow the message")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// Another version of the protocol.
    #[error("protocol version {found}; this program speaks {VERSION}")]
    Version {
        /// What came.
        found: u8,
    },
}

/// The message as a datagram: version, kind, postcard.
///
/// # Errors
/// When it is longer than its cap.
pub fn datagram<M: Message>(message: &M) -> Result<Vec<u8>, FrameError> {
    let bytes = postcard::to_extend(message, vec![VERSION, M::KIND]).map_err(FrameError::Parse)?;
    if bytes.len() > M::CAP {
        return Err(FrameError::TooLong {
            len: bytes.len(),
            cap: M::CAP,
        });
    }
    Ok(bytes)
}

/// Parses a datagram, whole.
///
/// # Errors
/// When it is of another version or kind, too long, or not exactly one message.
pub fn parse<M: Message>(bytes: &[u8]) -> Result<M, FrameError> {
    if bytes.len() > M::CAP {
        return Err(FrameError::TooLong {
            len: bytes.len(),
            cap: M::CAP,
        });
    }
    let [version, kind, body @ ..] = bytes else {
        return Err(FrameError::Short { len: bytes.len() });
    };
    if *version != VERSION {
        return Err(FrameError::Version { found: *version });
    }
    if *kind != M::KIND {
        return Err(FrameError::Kind {
            expected: M::KIND,
            found: *kind,
        });
    }
    let (message, rest) = postcard::take_from_bytes(body).map_err(FrameError::Parse)?;
    if rest.is_empty() {
        Ok(message)
    } else {
        Err(FrameError::Trailing { extra: rest.len() })
    }
}

/// The message as a frame for a stream.
///
/// # Errors
/// When it is longer than its cap.
pub fn frame<M: Message>(message: &M) -> Result<Vec<u8>, FrameError> {
    let body = datagram(message)?;
    let len = u32::try_from(body.len()).map_err(|_too_long| FrameError::TooLong {
        len: body.len(),
        cap: M::CAP,
    })?;
    let mut bytes = Vec::with_capacity(body.len().saturating_add(4));
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

/// The length of a frame's body from its first four bytes, if the message allows it.
///
/// # Errors
/// When it is over the message's cap, so that nothing is allocated for it.
pub fn body_len<M: Message>(head: [u8; 4]) -> Result<usize, FrameError> {
    let len = usize::try_from(u32::from_le_bytes(head)).unwrap_or(usize::MAX);
    if len > M::CAP {
        return Err(FrameError::TooLong { len, cap: M::CAP });
    }
    Ok(len)
}

/// Reads one frame, blocking.
///
/// # Errors
/// [`FrameError::Closed`] at the end of the stream, otherwise as [`parse`].
pub fn read<M: Message>(from: &mut impl Read) -> Result<M, FrameError> {
    let mut head = [0; 4];
    from.read_exact(&mut head).map_err(closed)?;
    let mut body = vec![0; body_len::<M>(head)?];
    from.read_exact(&mut body).map_err(closed)?;
    parse(&body)
}

/// Writes one frame, blocking.
///
/// # Errors
/// When the message is too long or the stream fails.
pub fn write<M: Message>(to: &mut impl Write, message: &M) -> Result<(), FrameError> {
    to.write_all(&frame(message)?).map_err(closed)
}

/// Reads one frame. Not cancellation safe: a reader that is dropped half-way loses the frame,
/// so give it a task of its own.
///
/// # Errors
/// As [`read`].
#[cfg(feature = "tokio")]
pub async fn read_async<M: Message>(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
) -> Result<M, FrameError> {
    use tokio::io::AsyncReadExt as _;

    let mut head = [0; 4];
    from.read_exact(&mut head).await.map_err(closed)?;
    let mut body = vec![0; body_len::<M>(head)?];
    from.read_exact(&mut body).await.map_err(closed)?;
    parse(&body)
}

/// Writes one frame. Not cancellation safe.
///
/// # Errors
/// As [`write()`].
#[cfg(feature = "tokio")]
pub async fn write_async<M: Message>(
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    message: &M,
) -> Result<(), FrameError> {
    use tokio::io::AsyncWriteExt as _;

    to.write_all(&frame(message)?).await.map_err(closed)
}

fn closed(error: io::Error) -> FrameError {
    let gone = matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof
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
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    struct Note(String);

    impl Message for Note {
        const CAP: usize = 16;
        const KIND: u8 = 200;
    }

    #[derive(Debug, Deserialize, Serialize)]
    struct Other(String);

    impl Message for Other {
        const CAP: usize = 16;
        const KIND: u8 = 201;
    }

    #[test]
    fn a_message_survives_its_frame() {
        let bytes = frame(&Note("hello".into())).unwrap();
        assert_eq!(
            read::<Note>(&mut bytes.as_slice()).unwrap(),
            Note("hello".into())
        );
    }

    #[test]
    fn a_message_over_its_cap_is_neither_sent_nor_read() {
        assert!(matches!(
            frame(&Note("x".repeat(20))),
            Err(FrameError::TooLong { .. })
        ));
        let mut huge = u32::MAX.to_le_bytes().to_vec();
        huge.push(VERSION);
        assert!(matches!(
            read::<Note>(&mut huge.as_slice()),
            Err(FrameError::TooLong { .. })
        ));
    }

    #[test]
    fn another_version_kind_or_a_tail_is_refused() {
        let good = datagram(&Note("a".into())).unwrap();
        let mut version = good.clone();
        version[0] = 9;
        assert!(matches!(
            parse::<Note>(&version),
            Err(FrameError::Version { found: 9 })
        ));
        assert!(matches!(
            parse::<Other>(&good),
            Err(FrameError::Kind { found: 200, .. })
        ));
        let mut tail = good;
        tail.push(0);
        assert!(matches!(
            parse::<Note>(&tail),
            Err(FrameError::Trailing { extra: 1 })
        ));
    }

    #[test]
    fn a_stream_that_ends_inside_a_frame_is_closed_not_a_message() {
        let bytes = frame(&Note("hello".into())).unwrap();
        for cut in 0..bytes.len() {
            let got = read::<Note>(&mut bytes.get(..cut).unwrap());
            assert!(
                matches!(got, Err(FrameError::Closed)),
                "cut at {cut}: {got:?}"
            );
        }
    }
}
