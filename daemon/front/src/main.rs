//! custody-front: see the library.

use std::{os::unix::net, process::ExitCode};

use anyhow::Context as _;
use custody_service::begin;
use custody_wire::agent::{CHANNEL_FD, LISTENER_FD};
use tokio::net::{UnixListener, UnixStream};

fn main() -> ExitCode {
    begin::main("custody-front", serve)
}

/// Serves until the gate is gone, which ends the session: custodyd sees this process end.
fn serve() -> anyhow::Result<()> {
    let gate = begin::inherited(CHANNEL_FD, "the channel to the gate")?;
    let listener = begin::inherited(LISTENER_FD, "the session's listener")?;
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
