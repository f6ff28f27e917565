//! As much of HTTP/1.1 (RFC 9112) as the witness needs, strict where leniency would hide an attack.
//!
//! Bare LF, a folded header, two lengths or a transfer coding end the connection: what two parsers
//! could read differently is never read here.

use std::io::{self, BufRead, Read, Write};

/// The most bytes of a head: what common servers allow.
const HEAD_CAP: usize = 64 << 10;

/// The most bytes of a body that the witness keeps.
const BODY_CAP: usize = 8 << 20;

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method, as sent.
    pub method: String,
    /// Path and query, as sent.
    pub target: String,
    /// Header fields: name in lower case, value.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a header field that stands there exactly once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(n, _)| n == name);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => Some(value),
            (None | Some(_), _) => None,
        }
    }

    /// The path without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// One answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The media type.
    pub media_type: &'static str,
    /// Further header fields.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A JSON answer.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self {
            status,
            media_type: "application/json",
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        }
    }
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The other end is gone between two requests.
    #[error("the connection was closed")]
    Closed,
    /// Reading or writing failed.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// Not a request that we read.
    #[error("{0}")]
    Malformed(&'static str),
}

/// Reads one request.
///
/// # Errors
/// When the connection ends or the bytes are not strictly a request.
pub fn read_request(from: &mut impl BufRead) -> Result<Request, HttpError> {
    let mut head_len = 0;
    let first = read_line(from, &mut head_len)?.ok_or(HttpError::Closed)?;
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(HttpError::Malformed("a request line has three words"));
    };
    if !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
        return Err(HttpError::Malformed("the version is not HTTP/1.1"));
    }
    let (method, target) = (method.to_owned(), target.to_owned());
    let mut headers = Vec::new();
    loop {
        let line = read_line(from, &mut head_len)?.ok_or(HttpError::Malformed("the head ends"))?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line
            .split_once(':')
            .ok_or(HttpError::Malformed("a header field has no colon"))?;
        if name.is_empty() || name.contains([' ', '\t']) {
            return Err(HttpError::Malformed("a header field's name has a blank"));
        }
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request {
        method,
        target,
        headers,
        body: Vec::new(),
    };
    request.body = read_body(from, &request)?;
    Ok(request)
}

fn read_body(from: &mut impl BufRead, request: &Request) -> Result<Vec<u8>, HttpError> {
    if request
        .headers
        .iter()
        .any(|(n, _)| n == "transfer-encoding")
    {
        return Err(HttpError::Malformed("a transfer coding is not read"));
    }
    let lengths = request
        .headers
        .iter()
        .filter(|(n, _)| n == "content-length");
    if lengths.clone().count() > 1 {
        return Err(HttpError::Malformed("two lengths"));
    }
    let Some(length) = request.header("content-length") else {
        return Ok(Vec::new());
    };
    if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
        return Err(HttpError::Malformed("the length is not a number"));
    }
    let length = length
        .parse::<usize>()
        .ok()
        .filter(|len| *len <= BODY_CAP)
        .ok_or(HttpError::Malformed("the body is too long"))?;
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(body)
}

/// One line without its CRLF; none at the end of the stream.
fn read_line(from: &mut impl BufRead, head_len: &mut usize) -> Result<Option<String>, HttpError> {
    let room = HEAD_CAP.saturating_sub(*head_len);
    let mut line = Vec::new();
    let limit = u64::try_from(room).unwrap_or(0);
    let read = from.by_ref().take(limit).read_until(b'\n', &mut line)?;
    *head_len = head_len.saturating_add(read);
    if read == 0 {
        return if room == 0 {
            Err(HttpError::Malformed("the head is too long"))
        } else {
            Ok(None)
        };
    }
    let line = line
        .strip_suffix(b"\r\n")
        .ok_or(HttpError::Malformed("a line does not end in CRLF"))?;
    if line.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
        return Err(HttpError::Malformed("a control byte in the head"));
    }
    String::from_utf8(line.to_vec())
        .map(Some)
        .map_err(|_not_text| HttpError::Malformed("the head is not UTF-8"))
}

/// Writes one answer.
///
/// # Errors
/// When the connection fails.
pub fn write_answer(to: &mut impl Write, answer: &Answer) -> io::Result<()> {
    let mut bytes = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: {}\r\ncontent-length: {}\r\n",
        answer.status,
        reason(answer.status),
        answer.media_type,
        answer.body.len()
    );
    for (name, value) in &answer.headers {
        bytes.push_str(name);
        bytes.push_str(": ");
        bytes.push_str(value);
        bytes.push_str("\r\n");
    }
    bytes.push_str("\r\n");
    let mut bytes = bytes.into_bytes();
    bytes.extend_from_slice(&answer.body);
    to.write_all(&bytes)?;
    to.flush()
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        302 => "Found",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Request, HttpError> {
        read_request(&mut text.as_bytes())
    }

    #[test]
    fn a_request_is_read_whole_and_the_next_one_is_left() {
        let mut two: &[u8] =
            b"POST /v1/a?b=c HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiGET / HTTP/1.1\r\n\r\n";
        let first = read_request(&mut two).unwrap();
        assert_eq!((first.path(), first.body.as_slice()), ("/v1/a", &b"hi"[..]));
        assert_eq!(read_request(&mut two).unwrap().method, "GET");
        assert!(matches!(read_request(&mut two), Err(HttpError::Closed)));
    }

    #[test]
    fn what_two_parsers_could_read_differently_is_not_read() {
        for text in [
            "GET / HTTP/1.1\n\n",
            "GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\na",
            "GET / x HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nA : b\r\n\r\n",
        ] {
            assert!(
                matches!(read(text), Err(HttpError::Malformed(_))),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_head_without_end_is_cut_off() {
        let long = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(HEAD_CAP));
        assert!(matches!(read(&long), Err(HttpError::Malformed(_))));
    }
}
