//! Guesses at a secret that is taken out of answers: what is missing says how much was right.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};

use super::Report;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the rest of a canary is made of.
const DIGITS: &str = "0123456789abcdef";

/// The most characters that are guessed, one after the other.
const MOST: usize = 40;

/// Has guesses sent back, each one character longer than what is known. A guess that does not come
/// back whole was right.
pub(super) fn grow(socket: &Path, tool: &str, known: &str, report: &mut Report) -> Option<()> {
    let mut echo = Echo::open(socket, report)?;
    let mut known = known.to_owned();
    for _ in 0..MOST {
        let right = DIGITS.chars().find_map(|digit| {
            let guess = format!("{known}{digit}");
            let said = echo.say(tool, &format!("<{guess}"), report)?;
            (!said.contains(&guess)).then_some(guess)
        });
        match right {
            Some(guess) => known = guess,
            None => break,
        }
    }
    report.heard(format!("as far as guesses go: {known}\n").as_bytes());
    Some(())
}

/// A connection over which texts come back.
struct Echo {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
    next: u64,
}

impl Echo {
    fn open(socket: &Path, report: &mut Report) -> Option<Self> {
        let stream = report.step("connect", UnixStream::connect(socket))?;
        report.step("setsockopt", stream.set_read_timeout(Some(PATIENCE)))?;
        let writer = report.step("dup", stream.try_clone())?;
        let mut echo = Self {
            writer,
            reader: BufReader::new(stream),
            next: 1,
        };
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "custody-probe", "version": "1"},
        });
        echo.ask("initialize", &params, report)?;
        Some(echo)
    }

    fn say(&mut self, tool: &str, text: &str, report: &mut Report) -> Option<String> {
        let params = json!({"name": tool, "arguments": {"text": text}});
        self.ask("tools/call", &params, report)
    }

    fn ask(&mut self, method: &str, params: &Value, report: &mut Report) -> Option<String> {
        let message = json!({
            "jsonrpc": "2.0", "id": self.next, "method": method, "params": params,
        });
        self.next = self.next.saturating_add(1);
        let sent = self.writer.write_all(format!("{message}\n").as_bytes());
        report.step("send", sent)?;
        let mut answer = String::new();
        report.step("recv", self.reader.read_line(&mut answer))?;
        Some(answer)
    }
}
