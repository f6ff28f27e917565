//! What the process says to its caller.

use std::process::{ExitCode, Termination};

/// How it went. Listed in the help and the man page; never renumbered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    /// What was checked is not good: 1.
    Bad,
    /// What the command of `run` ended with.
    Command(u8),
    /// Done: 0.
    Done,
    /// Custody itself failed, or refused: 125, as env(1) and timeout(1) say of themselves.
    Failed,
    /// The command of `run` was found and could not be executed: 126 (POSIX, sh).
    NotExecutable,
    /// The command of `run` was not found: 127 (POSIX, sh).
    NotFound,
}

impl Exit {
    /// The command was killed: 128 and the signal's number, as shells say it.
    pub fn killed(signal: i32) -> Self {
        let code = u8::try_from(signal).ok().and_then(|it| it.checked_add(128));
        Self::Command(code.unwrap_or(255))
    }

    /// As a number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Bad => 1,
            Self::Command(code) => code,
            Self::Done => 0,
            Self::Failed => 125,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
        }
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_command_is_128_and_its_signal() {
        assert_eq!(Exit::killed(9).code(), 137);
        assert_eq!(Exit::killed(15).code(), 143);
        assert_eq!(Exit::killed(-1).code(), 255);
        assert_eq!(Exit::killed(200).code(), 255);
    }
}
