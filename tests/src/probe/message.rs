//! Through the front door: lines of JSON-RPC on the session's socket.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::Report;

/// How long one answer may take: an allowed call goes all the way to the service and back.
const PATIENCE: Duration = Duration::from_secs(20);

/// One line that is said.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The line, without its end; it need not be JSON.
    pub text: String,
    /// Whether an answer is waited for.
    pub answered: bool,
}

pub(super) fn speak(socket: &Path, lines: &[Line], report: &mut Report) -> Option<()> {
    let stream = report.step("connect", UnixStream::connect(socket))?;
    report.step("setsockopt", stream.set_read_timeout(Some(PATIENCE)))?;
    let mut writer = report.step("dup", stream.try_clone())?;
    let mut reader = BufReader::new(stream);
    for line in lines {
        let bytes = [line.text.as_bytes(), b"\n"].concat();
        report.step("send", writer.write_all(&bytes))?;
        if line.answered {
            let mut answer = Vec::new();
            let read = report.step("recv", reader.read_until(b'\n', &mut answer))?;
            report.heard(&answer);
            if read == 0 {
                report.words("recv", "the other end closed the connection");
                return None;
            }
        }
    }
    Some(())
}
