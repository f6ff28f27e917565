//! custody-front: see the library.

use std::{
    os::{fd::OwnedFd, unix::net},
    process::ExitCode,
};

use anyhow::Context as _;
use custody_wire::agent::{CHANNEL_FD, LISTENER_FD};
use tokio::net::{UnixListener, UnixStream};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    // rmcp logs what the agent wrote; that is not for our log.
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("info,rmcp=off"))
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until the gate is gone, which ends the session: custodyd sees this process end.
fn run() -> anyhow::Result<()> {
    custody_sys::process::undumpable().context("prctl(PR_SET_DUMPABLE)")?;
    let gate = inherited(CHANNEL_FD, "the gate's channel")?;
    let listener = inherited(LISTENER_FD, "the session's listener")?;
    let gate = net::UnixStream::from(gate);
    let listener = net::UnixListener::from(listener);
    gate.set_nonblocking(true).context("the gate's channel")?;
    listener
        .set_nonblocking(true)
        .context("the session's listener")?;

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("tokio")?;
    let why = runtime.block_on(async {
        let gate = UnixStream::from_std(gate).context("the gate's channel")?;
        let listener = UnixListener::from_std(listener).context("the session's listener")?;
        anyhow::Ok(custody_front::listen::serve(listener, gate).await)
    })?;
    Err(why).context("the gate is gone")
}

fn inherited(number: i32, what: &'static str) -> anyhow::Result<OwnedFd> {
    custody_sys::fd::take(number)
        .with_context(|| format!("descriptor {number} ({what}); custodyd starts this program"))
}
