//! A deputy: forwards any HTTP request to the witness with a token of its own.

use std::{
    io::{self, BufReader, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

use super::is_passing;
use crate::witness::http::{self, Answer, Request};

/// A way to the witness, with a token.
pub struct Upstream {
    witness: SocketAddr,
    token: String,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream")
            .field("witness", &self.witness)
            .finish_non_exhaustive()
    }
}

impl Upstream {
    /// To `witness`, with `token`.
    pub const fn new(witness: SocketAddr, token: String) -> Self {
        Self { witness, token }
    }

    /// The same way with another token.
    pub(super) fn with_token(&self, token: &str) -> Self {
        Self::new(self.witness, token.into())
    }

    /// The token, for what keeps it badly.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Asks the witness; the answer's bytes as they came.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn ask(&self, method: &str, target: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(self.witness)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: witness\r\nauthorization: Bearer {}\r\n\
             content-length: {}\r\n\r\n",
            self.token,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        // The witness answers what it has read and then sees the end.
        stream.shutdown(Shutdown::Write)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn forward(&self, request: &Request) -> io::Result<Vec<u8>> {
        self.ask(&request.method, &request.target, &request.body)
    }
}

pub(super) fn stream<S>(stream: &S, upstream: &Upstream) -> io::Result<()>
where
    for<'s> &'s S: io::Read + io::Write,
{
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        match http::read_request(&mut reader) {
            Ok(request) => writer.write_all(&upstream.forward(&request)?)?,
            Err(http::HttpError::Malformed(why)) => {
                let answer = Answer::json(400, &serde_json::json!({"error": why}));
                return http::write_answer(&mut writer, &answer);
            }
            Err(http::HttpError::Io(error)) if is_passing(&error) => {}
            Err(http::HttpError::Closed | http::HttpError::Io(_)) => return Ok(()),
        }
    }
}

pub(super) fn datagrams(
    receive: impl Fn(&mut [u8]) -> io::Result<usize>,
    upstream: &Upstream,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = match receive(&mut bytes) {
            Ok(read) => read,
            // Or the answer to a datagram that nobody took (udp(7)).
            Err(error)
                if error.kind() == io::ErrorKind::ConnectionRefused || is_passing(&error) =>
            {
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Ok(request) = http::read_request(&mut bytes.get(..read).unwrap_or_default()) {
            // What fails once is that one's alone: the next attempt needs the deputy too.
            drop(upstream.forward(&request));
        }
    }
}
