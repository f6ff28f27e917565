//! The command and its environment: parsed from the sealed memfd, constructed, never inherited.

use std::{
    collections::BTreeMap,
    ffi::CString,
    os::{fd::OwnedFd, unix::ffi::OsStringExt as _},
};

use custody_sys::memfd;
use custody_wire::{
    launch::{COMMAND_CAP, PROGRAMS},
    layer::Layer,
};

use crate::{
    failure::{Failure, Step as _},
    plan::Without,
    session::{HOME, USER},
};

/// Names and their values.
pub(crate) type Variables = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a session runs.
#[derive(Debug)]
pub(crate) struct Command {
    /// The program and its arguments.
    pub(crate) arguments: Vec<CString>,
    /// `NAME=VALUE`, each name once.
    pub(crate) environment: Vec<CString>,
}

/// What every session has, unless the command brings the name itself.
fn defaults() -> [(&'static str, String); 8] {
    [
        ("HOME", HOME.into()),
        ("LANG", "C.UTF-8".into()),
        ("LOGNAME", USER.into()),
        ("PATH", format!("/usr/local/bin:/usr/bin:/bin:{PROGRAMS}")),
        ("SHELL", "/bin/bash".into()),
        ("TERM", "dumb".into()),
        ("TMPDIR", "/tmp".into()),
        ("USER", USER.into()),
    ]
}

impl Command {
    /// Where the plan leaves out the layer, the launcher's own environment lies below.
    pub(crate) fn read(fd: OwnedFd, without: Without<'_>) -> Result<Self, Failure> {
        let bytes = memfd::read(&fd, COMMAND_CAP).step(|| "the command's memory file".into())?;
        let below = if without.keeps(Layer::Environment) {
            BTreeMap::new()
        } else {
            inherited()
        };
        Self::parse(&bytes, below)
    }

    /// Parses the count of arguments in decimal, the arguments, then `NAME=VALUE`, each ended
    /// by NUL.
    fn parse(bytes: &[u8], mut environment: Variables) -> Result<Self, Failure> {
        let refused = |why: &str| Failure::refused(None, format!("the command {why}"));
        let strings = bytes
            .strip_suffix(b"\0")
            .ok_or_else(|| refused("does not end in NUL"))?;
        let mut strings = strings.split(|byte| *byte == 0);
        let count = strings
            .next()
            .and_then(|count| std::str::from_utf8(count).ok())
            .filter(|count| !count.starts_with('+'))
            .and_then(|count| count.parse::<usize>().ok())
            .ok_or_else(|| refused("does not begin with a count"))?;
        let arguments: Vec<CString> = strings.by_ref().take(count).map(c_string).collect();
        if arguments.len() != count {
            return Err(refused("has fewer arguments than it says"));
        }
        if arguments.first().is_none_or(|program| program.is_empty()) {
            return Err(refused("is empty"));
        }
        for (name, value) in defaults() {
            environment.insert(name.into(), value.into());
        }
        for variable in strings {
            let split = variable.iter().position(|byte| *byte == b'=');
            let (name, value) = split
                .and_then(|at| variable.split_at_checked(at))
                .filter(|(name, _value)| !name.is_empty())
                .ok_or_else(|| refused("has a variable without a name"))?;
            let value = value.strip_prefix(b"=").unwrap_or(value);
            environment.insert(name.into(), value.into());
        }
        let environment = environment
            .iter()
            .map(|(name, value)| c_string(&[name.as_slice(), b"=", value].concat()))
            .collect();
        Ok(Self {
            arguments,
            environment,
        })
    }
}

/// What custodyd, or the bypass suite, gave this process.
pub(crate) fn inherited() -> Variables {
    std::env::vars_os()
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .collect()
}

/// `bytes` came from a split at NUL: there is none in them.
fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Command, Failure> {
        Command::parse(bytes, Variables::new())
    }

    fn text(strings: &[CString]) -> Vec<&str> {
        strings.iter().map(|s| s.to_str().unwrap()).collect()
    }

    #[test]
    fn arguments_and_variables_come_apart_and_the_last_value_wins() {
        let command = parse(b"2\0ls\0-l\0TERM=xterm\0A=b=c\0TERM=screen\0E=\0").unwrap();
        assert_eq!(text(&command.arguments), ["ls", "-l"]);
        let environment = text(&command.environment);
        for wanted in [
            "TERM=screen",
            "A=b=c",
            "E=",
            "HOME=/home/agent",
            "USER=agent",
        ] {
            assert!(environment.contains(&wanted), "{wanted} in {environment:?}");
        }
        assert_eq!(
            environment
                .iter()
                .filter(|v| v.starts_with("TERM="))
                .count(),
            1
        );
    }

    #[test]
    fn an_empty_argument_is_an_argument() {
        let command = parse(b"3\0a\0\0b\0").unwrap();
        assert_eq!(text(&command.arguments), ["a", "", "b"]);
    }

    #[test]
    fn nothing_of_the_launchers_own_environment_is_kept() {
        let command = parse(b"1\0a\0").unwrap();
        assert_eq!(command.environment.len(), defaults().len());
    }

    #[test]
    fn what_is_inherited_lies_below_what_is_constructed() {
        let below = [("LEAK", "1"), ("HOME", "/root"), ("TERM", "x")]
            .map(|(name, value)| (name.into(), value.into()));
        let command = Command::parse(b"1\0a\0TERM=y\0", below.into()).unwrap();
        let environment = text(&command.environment);
        for wanted in ["LEAK=1", "HOME=/home/agent", "TERM=y"] {
            assert!(environment.contains(&wanted), "{wanted} in {environment:?}");
        }
    }

    #[test]
    fn a_command_that_is_not_whole_is_refused() {
        for bad in [
            &b""[..],
            b"\0",
            b"1\0a",
            b"0\0",
            b"1\0",
            b"1\0\0",
            b"+1\0a\0",
            b"-1\0a\0",
            b"2\0a\0",
            b"99999999999999999999\0a\0",
            b"x\0a\0",
            b"1\0a\0NOVALUE\0",
            b"1\0a\0=value\0",
        ] {
            assert!(parse(bad).is_err(), "{:?}", String::from_utf8_lossy(bad));
        }
    }
}
