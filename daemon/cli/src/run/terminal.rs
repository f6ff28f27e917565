//! The caller's terminal: raw while the command runs, and back on every way out.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
};

use custody_wire::launch::WindowSize;
use nix::sys::termios::{FlushArg, SetArg, Termios, cfmakeraw, tcflush, tcgetattr, tcsetattr};

use crate::complain;

/// A terminal in raw mode. It is put back when this goes, a panic included; no signal that can
/// be caught ends this process before (`signals`).
#[derive(Debug)]
pub(super) struct Raw {
    terminal: OwnedFd,
    before: Termios,
}

impl Raw {
    /// Standard input, which is a terminal.
    pub(super) fn new() -> io::Result<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        let before = tcgetattr(&terminal)?;
        let raw = Self { terminal, before };
        raw.on()?;
        Ok(raw)
    }

    /// Raw: every byte goes to the command, which makes of Ctrl-C what its own terminal does.
    pub(super) fn on(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        cfmakeraw(&mut raw);
        Ok(tcsetattr(&self.terminal, SetArg::TCSADRAIN, &raw)?)
    }

    /// As it was before.
    pub(super) fn off(&self) -> io::Result<()> {
        Ok(tcsetattr(&self.terminal, SetArg::TCSANOW, &self.before)?)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // An answer of the terminal that nobody waits for any more is not typed into the shell.
        let flushed = tcflush(&self.terminal, FlushArg::TCIFLUSH).map_err(io::Error::from);
        if let Err(error) = flushed.and_then(|()| self.off()) {
            complain(&format!(
                "the terminal was not put back: {error}; type `reset`"
            ));
        }
    }
}

/// Rows and columns of standard output, if it is a terminal.
pub(super) fn size() -> Option<WindowSize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(WindowSize {
        rows: size.ws_row,
        columns: size.ws_col,
    })
}
