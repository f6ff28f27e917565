//! Any system call with any arguments, made by a script in the system's Python: no unsafe code is
//! allowed here, and a door is more than what the crates have wrapped.

use std::{
    io::{self, Write as _},
    os::unix::process::ExitStatusExt as _,
    process::{Command, Output, Stdio},
};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::Report;

/// The interpreter: the system's, which every session sees.
pub const PYTHON: &str = "/usr/bin/python3";

const SCRIPT: &str = include_str!("calls.py");

/// One system call.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// What it is called in the report.
    pub step: String,
    /// Its number (syscalls(2)).
    pub number: i64,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// Whether the next one is made although this one was refused.
    #[serde(default)]
    pub go_on: bool,
    /// Whether it is left out of the report: what only sets the stage.
    #[serde(default)]
    pub quiet: bool,
    /// How often it is made again while it succeeds: answers that come in parts.
    #[serde(default)]
    pub again: u32,
    /// Where it returns 0 in a process of its own: how long that one lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_ms: Option<u32>,
    /// What a buffer of it is searched for; it is a step if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finds: Option<String>,
}

/// An argument of a system call.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    /// The address of a buffer that an earlier argument made.
    Address(String),
    /// The address of memory that the call fills: a name and a length.
    Buffer(String, usize),
    /// The address of these bytes.
    #[serde(with = "hex::serde")]
    Bytes(Vec<u8>),
    /// The highest inherited descriptor whose link in `/proc/self/fd` begins so; `tty`: that is a
    /// terminal, whatever its path is here.
    Inherited(String),
    /// The `int` that stands in a buffer at an offset.
    Int(String, usize),
    /// The number itself.
    Number(i64),
    /// What an earlier call returned, counted from 0.
    Result(usize),
    /// The address of 64-bit words.
    Words(Vec<Self>),
}

/// A line of the script's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    step: Option<String>,
    #[serde(default)]
    errno: i32,
    #[serde(default)]
    heard: Option<String>,
}

pub(super) fn make(calls: &[Call], report: &mut Report) -> Option<()> {
    let order = serde_json::json!({ "calls": calls });
    script(SCRIPT, &order, report)
}

/// Runs a script that reads `order` and says its steps, a line each.
pub(super) fn script(script: &str, order: &serde_json::Value, report: &mut Report) -> Option<()> {
    let output = report.step("execve python3", run(script, order))?;
    for line in output.stdout.split(|byte| *byte == b'\n') {
        take(line, report);
    }
    if let Some(number) = output.status.signal() {
        let name =
            Signal::try_from(number).map_or_else(|_| number.to_string(), |it| it.to_string());
        report.words("the caller", format!("killed by {name}"));
    } else if !output.status.success() {
        report.words("the script", String::from_utf8_lossy(&output.stderr).trim());
    }
    Some(())
}

fn run(script: &str, order: &serde_json::Value) -> io::Result<Output> {
    let mut child = Command::new(PYTHON)
        .args(["-I", "-S", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that is gone already says why.
        drop(stdin.write_all(order.to_string().as_bytes()));
    }
    child.wait_with_output()
}

fn take(line: &[u8], report: &mut Report) {
    if line.is_empty() {
        return;
    }
    let Ok(said) = serde_json::from_slice::<Line>(line) else {
        report.heard(line);
        return;
    };
    if let Some(heard) = said.heard {
        report.heard(heard.as_bytes());
    }
    let Some(step) = said.step else { return };
    let done = match said.errno {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    };
    report.step::<(), io::Error>(step, done);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_say_what_the_kernel_answered_and_what_they_read() {
        let number = Argument::Number;
        let calls = [
            Call {
                step: "memfd_create".into(),
                number: nix::libc::SYS_memfd_create,
                arguments: vec![Argument::Bytes(b"x\0".to_vec()), number(0)],
                ..Call::default()
            },
            Call {
                step: "pwrite64".into(),
                number: nix::libc::SYS_pwrite64,
                arguments: vec![
                    Argument::Result(0),
                    Argument::Bytes(b"nine bytes".to_vec()),
                    number(10),
                    number(0),
                ],
                ..Call::default()
            },
            Call {
                step: "pread64".into(),
                number: nix::libc::SYS_pread64,
                arguments: vec![
                    Argument::Result(0),
                    Argument::Buffer("back".into(), 64),
                    number(64),
                    number(0),
                ],
                finds: Some("ne by".into()),
                ..Call::default()
            },
            Call {
                step: "close".into(),
                number: nix::libc::SYS_close,
                arguments: vec![number(-1)],
                ..Call::default()
            },
            Call {
                step: "never".into(),
                number: nix::libc::SYS_getpid,
                ..Call::default()
            },
        ];
        let text = serde_json::to_string(&calls).unwrap();
        let again: Vec<Call> = serde_json::from_str(&text).unwrap();
        let mut report = Report::default();
        make(&again, &mut report).unwrap();
        assert!(report.said.contains("nine bytes"));
        assert!(report.came_past("found ne by"));
        assert_eq!(report.refusals(), ["close: EBADF"]);
        assert!(!report.came_past("never"));
    }
}
