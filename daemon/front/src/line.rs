//! One line at a time, none longer than its cap.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// What reading a line gave.
#[derive(Debug)]
pub enum Line {
    /// The other end closed the stream; an unfinished line is dropped.
    End,
    /// A whole line, without its end.
    Whole(Vec<u8>),
    /// The line is longer than the cap; what was read of it is dropped.
    TooLong,
}

/// Reads lines. Never holds more than the cap and one buffer.
#[derive(Debug)]
pub struct Lines<R> {
    read: BufReader<R>,
    begun: Vec<u8>,
    cap: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Lines of `read` of at most `cap` bytes each, the line's end not counted.
    pub fn new(read: R, cap: usize) -> Self {
        Self {
            read: BufReader::new(read),
            begun: Vec::new(),
            cap,
        }
    }

    /// The stream; what was read of it beyond a line is dropped.
    pub fn into_inner(self) -> R {
        self.read.into_inner()
    }

    /// The next line. Cancellation safe: what was read stays for the next call, for there is no
    /// await between taking bytes from the buffer and keeping them.
    ///
    /// # Errors
    /// When the stream fails.
    pub async fn next(&mut self) -> io::Result<Line> {
        loop {
            let buffered = self.read.fill_buf().await?;
            if buffered.is_empty() {
                return Ok(Line::End);
            }
            let end = buffered.iter().position(|byte| *byte == b'\n');
            let part = buffered.get(..end.unwrap_or(buffered.len())).unwrap_or(&[]);
            // One more for a carriage return that is not counted.
            if self.begun.len().saturating_add(part.len()) > self.cap.saturating_add(1) {
                self.begun = Vec::new();
                return Ok(Line::TooLong);
            }
            self.begun.extend_from_slice(part);
            let taken = part.len().saturating_add(usize::from(end.is_some()));
            self.read.consume(taken);
            if end.is_some() {
                let mut line = std::mem::take(&mut self.begun);
                if line.last() == Some(&b'\r') {
                    line.truncate(line.len().saturating_sub(1));
                }
                return Ok(if line.len() > self.cap {
                    Line::TooLong
                } else {
                    Line::Whole(line)
                });
            }
        }
    }

    /// Reads and drops up to `most` bytes until the other end stops sending, so that it is not cut
    /// off in the middle of a write before it read why.
    ///
    /// # Errors
    /// When the stream fails.
    pub async fn drain(&mut self, most: usize) -> io::Result<()> {
        let mut left = most;
        while left > 0 {
            let dropped = self.read.fill_buf().await?.len();
            if dropped == 0 {
                break;
            }
            self.read.consume(dropped);
            left = left.saturating_sub(dropped);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8], cap: usize) -> Vec<String> {
        let mut lines = Lines::new(bytes, cap);
        let mut seen = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                Line::End => return seen,
                Line::TooLong => {
                    seen.push("too long".into());
                    return seen;
                }
                Line::Whole(line) => seen.push(String::from_utf8(line).unwrap()),
            }
        }
    }

    #[tokio::test]
    async fn lines_come_whole_and_the_last_unfinished_one_does_not() {
        assert_eq!(all(b"a\nbc\r\n\nd", 8).await, ["a", "bc", ""]);
    }

    #[tokio::test]
    async fn a_line_of_the_cap_passes_and_one_more_byte_does_not() {
        assert_eq!(all(b"abcd\r\nabcd\n", 4).await, ["abcd", "abcd"]);
        assert_eq!(all(b"abcde\n", 4).await, ["too long"]);
        assert_eq!(all(&[b'x'; 100_000], 4).await, ["too long"]);
    }

    #[tokio::test]
    async fn a_line_that_trickles_in_survives_cancelled_reads() {
        let (mut far, near) = tokio::io::duplex(16);
        let mut lines = Lines::new(near, 64);
        for byte in b"slow line" {
            tokio::io::AsyncWriteExt::write_all(&mut far, &[*byte])
                .await
                .unwrap();
            let cancelled =
                tokio::time::timeout(std::time::Duration::from_millis(1), lines.next()).await;
            assert!(cancelled.is_err());
        }
        tokio::io::AsyncWriteExt::write_all(&mut far, b"\n")
            .await
            .unwrap();
        let line = lines.next().await.unwrap();
        assert!(matches!(line, Line::Whole(line) if line == b"slow line"));
    }
}
