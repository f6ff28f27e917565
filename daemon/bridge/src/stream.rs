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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::net::UnixListener, thread};

    /// What comes of a service that answers with `said`.
    fn heard(said: &[u8]) -> (Result<(), StreamError>, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let said = said.to_vec();
        let service = thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            let mut from = BufReader::new(socket);
            let mut asked = String::new();
            from.read_line(&mut asked).unwrap();
            from.get_mut().write_all(&said).unwrap();
            asked
        });
        let mut output = Vec::new();
        let ended = stream(&path, "7", &mut output);
        assert_eq!(service.join().unwrap(), "custody-stream 7\n");
        (ended, output)
    }

    #[test]
    fn only_a_stream_that_is_said_to_be_whole_is_and_its_bytes_come_as_they_are() {
        let (ended, output) = heard(b"ok\n\x05\0\0\0a\0b\xff\n\x01\0\0\0z\0\0\0\0whole\n");
        assert!(ended.is_ok(), "{ended:?}");
        assert_eq!(output, b"a\0b\xff\nz");
        let (ended, output) = heard(b"ok\n\x01\0\0\0a\0\0\0\0cut: its reader left\n");
        assert!(matches!(ended, Err(StreamError::Ended(why)) if why == "its reader left"));
        assert_eq!(output, b"a");
        let (ended, output) = heard(b"no: this session has no stream 7\n");
        assert!(matches!(ended, Err(StreamError::Refused(why)) if why.starts_with("this session")));
        assert!(output.is_empty());
    }

    #[test]
    fn an_end_without_a_word_is_a_cut_wherever_it_comes() {
        let whole = b"ok\n\x05\0\0\0hello\0\0\0\0whole\n";
        for len in 0..whole.len() {
            let (ended, output) = heard(whole.get(..len).unwrap());
            assert!(matches!(ended, Err(StreamError::Cut)), "{len}: {ended:?}");
            assert!(b"hello".starts_with(&output), "{len}: {output:?}");
        }
    }
}
