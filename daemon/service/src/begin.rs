//! The first acts of a service, and its last word.

use std::{
    io::Write as _,
    os::fd::{OwnedFd, RawFd},
    process::ExitCode,
};

use anyhow::Context as _;
use custody_sys::{fd, process};

/// Runs `service` with the channel that custodyd left at descriptor `channel`, and says on
/// standard error why it ended, if it failed.
pub fn main(
    program: &str,
    channel: RawFd,
    service: impl FnOnce(OwnedFd) -> anyhow::Result<()>,
) -> ExitCode {
    match begin(channel).and_then(service) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The subscriber may not be there yet, and the last word belongs here in any case.
            let text = format!("{program}: {error:#}\n");
            if std::io::stderr().write_all(text.as_bytes()).is_err() {
                // Nobody listens.
            }
            ExitCode::FAILURE
        }
    }
}

fn begin(channel: RawFd) -> anyhow::Result<OwnedFd> {
    // Before anything else: nobody reads this process, and it leaves no core file (core(5)).
    // custody-launch has limited core files already, and its filters let nobody change that.
    process::undumpable().context("prctl(PR_SET_DUMPABLE)")?;
    let taken = fd::take(channel).with_context(|| {
        format!("descriptor {channel} is not a channel; this program is started by custodyd")
    })?;
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    Ok(taken)
}
