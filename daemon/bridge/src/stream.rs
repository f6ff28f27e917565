//! One stream of the session, copied to standard output.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write},
    os::unix::net::UnixStream,
    path::Path,
};

/// Why a stream did not come whole.
#[derive(Debug)]
pub enum StreamError {
    /// The socket does not answer.
    Connect(io::Error),
    /// The connection ended before anything said how the stream did.
    Cut,
    /// It ended early.
    Ended(String),
    /// The service has no such stream for us.
    Refused(String),
    /// Reading failed.
    Read(io::Error),
    /// Standard output failed.
    Write(io::Error),
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "cannot connect to the session's service: {error}"),
            Self::Cut => f.write_str("the stream was cut"),
            Self::Ended(why) => write!(f, "the stream is not whole: {why}"),
            Self::Refused(why) => f.write_str(why),
            Self::Read(error) => write!(f, "cannot read the stream: {error}"),
            Self::Write(error) => write!(f, "cannot write to standard output: {error}"),
        }
    }
}

impl std::error::Error for StreamError {}

/// The longest line of the service.
const LINE_MAX: u64 = 16 << 10;

/// As much as is copied at once.
const ROOM: usize = 64 << 10;

/// Copies the stream that is called `name` to `output`, each piece as it comes.
///
/// # Errors
/// When it is not there, or did not come whole.
pub fn stream(path: &Path, name: &str, output: &mut impl Write) -> Result<(), StreamError> {
    let mut socket = UnixStream::connect(path).map_err(StreamError::Connect)?;
    socket
        .write_all(format!("custody-stream {name}\n").as_bytes())
        .map_err(StreamError::Connect)?;
    let mut from = BufReader::new(socket);
    let said = line(&mut from)?;
    match said.as_str() {
        "ok" => {}
        other => {
            let why = other.strip_prefix("no: ").unwrap_or(other);
            return Err(StreamError::Refused(why.into()));
        }
    }
    let mut room = vec![0; ROOM];
    loop {
        let mut length = [0; 4];
        from.read_exact(&mut length).map_err(ended)?;
        let mut left = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if left == 0 {
            break;
        }
        while left > 0 {
            let most = left.min(ROOM);
            let part = room.get_mut(..most).unwrap_or_default();
            let len = from.read(part).map_err(ended)?;
            if len == 0 {
                return Err(StreamError::Cut);
            }
            let read = part.get(..len).unwrap_or_default();
            output.write_all(read).map_err(StreamError::Write)?;
            left = left.saturating_sub(len);
        }
        output.flush().map_err(StreamError::Write)?;
    }
    let last = line(&mut from)?;
    match last.as_str() {
        "whole" => Ok(()),
        other => {
            let why = other.strip_prefix("cut: ").unwrap_or(other);
            Err(StreamError::Ended(why.into()))
        }
    }
}

fn line(from: &mut BufReader<UnixStream>) -> Result<String, StreamError> {
    let mut line = String::new();
    let read = from
        .by_ref()
        .take(LINE_MAX)
        .read_line(&mut line)
        .map_err(ended)?;
    if read == 0 || !line.ends_with('\n') {
        return Err(StreamError::Cut);
    }
    Ok(line.trim_end().into())
}

fn ended(error: io::Error) -> StreamError {
    let gone = matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
    );
    if gone {
        StreamError::Cut
    } else {
        StreamError::Read(error)
    }
}
