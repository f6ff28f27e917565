//! The first acts of a service, and its last word.

use std::{
    io::Write as _,
    os::fd::{OwnedFd, RawFd},
    process::ExitCode,
};

use anyhow::Context as _;
use custody_sys::{fd, process};
use tracing_subscriber::EnvFilter;

/// What is logged: rmcp logs what the agent wrote, and that is not for our log.
const LOGGED: &str = "info,rmcp=off";

/// Runs `service`, and says on standard error why it ended, if it failed.
pub fn main(program: &str, service: impl FnOnce() -> anyhow::Result<()>) -> ExitCode {
    match begin().and_then(|()| service()) {
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

/// Takes the descriptor that custodyd left under `number`.
///
/// # Errors
/// When there is none: the program was started by someone else.
pub fn inherited(number: RawFd, what: &str) -> anyhow::Result<OwnedFd> {
    fd::take(number).with_context(|| {
        format!("descriptor {number} is not {what}; this program is started by custodyd")
    })
}

fn begin() -> anyhow::Result<()> {
    // Before anything else: nobody reads this process, and it leaves no core file (core(5)).
    // custody-launch has limited core files already, and its filters let nobody change that.
    process::undumpable().context("prctl(PR_SET_DUMPABLE)")?;
    // custodyd says when, and to which session a line belongs.
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(LOGGED))
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    Ok(())
}
