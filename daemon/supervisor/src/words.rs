//! What our programs say on standard error: line by line into our own log, neutralised and
//! bounded. They never get custodyd's own standard error, which may be somebody's terminal.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use gate::mutant::Mutant;
use nix::{fcntl::OFlag, unistd::pipe2};

use crate::process::nonblocking;

/// The longest line; what is over it becomes a line of its own.
const LINE_MAX: usize = 1024;

/// Lines of one program in one window; the rest is counted.
const LINES_MAX: u32 = 200;
const WINDOW: Duration = Duration::from_secs(10);

/// Our end of a program's standard error.
#[derive(Debug)]
pub struct Words {
    from: String,
    pipe: File,
    rest: Vec<u8>,
    since: Instant,
    written: u32,
    suppressed: u64,
}

/// Whether there may be more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stream {
    /// The program has closed it.
    Closed,
    /// It may say more.
    Open,
}

impl Words {
    /// A pipe: our end, and the end that `from` gets.
    ///
    /// # Errors
    /// When pipe2(2) fails.
    pub fn pipe(from: String) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pipe2(OFlag::O_CLOEXEC)?;
        nonblocking(&ours)?;
        let words = Self {
            from,
            pipe: ours.into(),
            rest: Vec::new(),
            since: Instant::now(),
            written: 0,
            suppressed: 0,
        };
        Ok((words, theirs))
    }

    /// Writes the lines that are there.
    pub fn relay(&mut self) -> Stream {
        let now = Instant::now();
        let mut bytes = [0; 4096];
        // A bounded turn: a program that never stops talking holds up nobody.
        for _ in 0..4 {
            match self.pipe.read(&mut bytes) {
                Ok(0) => return Stream::Closed,
                Ok(len) => {
                    for line in self.lines(bytes.get(..len).unwrap_or_default()) {
                        self.write(&line, now);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return Stream::Closed,
            }
        }
        Stream::Open
    }

    /// The whole lines that `bytes` completes, escaped.
    fn lines(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for byte in bytes {
            if *byte == b'\n' || self.rest.len() >= LINE_MAX {
                let line = neutral(&std::mem::take(&mut self.rest));
                lines.extend((!line.is_empty()).then_some(line));
            }
            if *byte != b'\n' {
                self.rest.push(*byte);
            }
        }
        lines
    }

    fn write(&mut self, line: &str, now: Instant) {
        if now.duration_since(self.since) >= WINDOW {
            if self.suppressed > 0 {
                let suppressed = self.suppressed;
                tracing::warn!(from = self.from, suppressed, "more lines, not written");
            }
            self.since = now;
            self.written = 0;
            self.suppressed = 0;
        }
        if self.written >= LINES_MAX {
            self.suppressed = self.suppressed.saturating_add(1);
            return;
        }
        self.written = self.written.saturating_add(1);
        let from = &self.from;
        match split(line) {
            ("ERROR", line) => tracing::error!(from, "{line}"),
            ("WARN", line) => tracing::warn!(from, "{line}"),
            (_, line) => tracing::info!(from, "{line}"),
        }
    }
}

impl AsFd for Words {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// The level that `tracing` put before a line, and the line without it and its time: ours has its
/// own.
fn split(line: &str) -> (&str, &str) {
    let is_time =
        |word: &str| word.ends_with('Z') && word.starts_with(|c: char| c.is_ascii_digit());
    let rest = match line.split_once(' ') {
        Some((first, rest)) if is_time(first) => rest.trim_start(),
        Some(_) | None => line,
    };
    match rest.split_once(' ') {
        Some((level @ ("DEBUG" | "ERROR" | "INFO" | "TRACE" | "WARN"), rest)) => (level, rest),
        Some(_) | None => ("", line),
    }
}

/// UTF-8 stays; control characters and other bytes are escaped.
fn neutral(line: &[u8]) -> String {
    String::from_utf8_lossy(line)
        .trim()
        .chars()
        .flat_map(|c| {
            let steers = c.is_control() && !Mutant::SupervisorLogEscapes.is_on();
            let escape = steers.then(|| c.escape_default());
            let plain = escape.is_none().then_some(c);
            escape.into_iter().flatten().chain(plain)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn lines_are_put_together_and_cannot_steer_a_terminal() {
        let (mut words, _theirs) = Words::pipe("x".into()).unwrap();
        assert_eq!(words.lines(b"half a "), Vec::<String>::new());
        assert_eq!(
            words.lines("line \u{e4}\n\n\x1b[2J\r\u{9b}x\nrest".as_bytes()),
            ["half a line \u{e4}", "\\u{1b}[2J\\r\\u{9b}x"]
        );
    }

    #[test]
    fn the_level_and_time_of_a_line_are_taken_from_it() {
        let line = "2026-11-30T04:25:57.667687Z  WARN custody_vault: x y";
        assert_eq!(split(line), ("WARN", "custody_vault: x y"));
        assert_eq!(split("INFO a b"), ("INFO", "a b"));
        for plain in ["custody-gate: prctl", "ERROR", "2026Z x", ""] {
            assert_eq!(split(plain), ("", plain));
        }
    }

    #[test]
    fn a_line_without_end_is_cut_and_kept_in_bounds() {
        let (mut words, _theirs) = Words::pipe("x".into()).unwrap();
        let lines = words.lines(&[b'a'; 10 * LINE_MAX]);
        assert!(lines.iter().all(|line| line.len() <= LINE_MAX));
        assert!(words.rest.len() <= LINE_MAX);
    }

    #[test]
    fn a_flood_is_counted_and_the_end_is_seen() {
        let (mut words, theirs) = Words::pipe("x".into()).unwrap();
        let mut theirs = File::from(theirs);
        theirs.write_all("a\n".repeat(1000).as_bytes()).unwrap();
        assert_eq!(words.relay(), Stream::Open);
        assert_eq!((words.written, words.suppressed), (LINES_MAX, 800));
        drop(theirs);
        assert_eq!(words.relay(), Stream::Closed);
    }
}
