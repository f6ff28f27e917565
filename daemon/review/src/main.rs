//! custody-review: see the library.

use std::{
    net,
    os::{fd::OwnedFd, unix},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context as _;
use custody_review::{
    control::Control,
    serve::{Page, serve},
};
use custody_service::begin;
use tokio::net::{TcpListener, UnixStream};

/// The listener, made by custodyd: this program makes no socket of the network.
const LISTENER_FD: i32 = 3;

/// The channel to control, made by custodyd too.
const CONTROL_FD: i32 = 4;

fn main() -> ExitCode {
    begin::main("custody-review", run)
}

/// Serves until control is gone: custodyd starts another page with another control.
fn run() -> anyhow::Result<()> {
    let listener: OwnedFd = begin::inherited(LISTENER_FD, "the page's listener")?;
    let control: OwnedFd = begin::inherited(CONTROL_FD, "the channel to control")?;
    let listener = net::TcpListener::from(listener);
    listener.set_nonblocking(true).context("the listener")?;
    let control = unix::net::UnixStream::from(control);
    control
        .set_nonblocking(true)
        .context("the channel to control")?;
    let address = listener.local_addr().context("the listener")?;
    anyhow::ensure!(
        address.ip().is_loopback(),
        "the page listens at {address}, which others than this host reach"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("tokio")?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).context("the listener")?;
        let control = UnixStream::from_std(control).context("the channel to control")?;
        let (control, carried) = Control::connect(control);
        let page = Arc::new(Page {
            control,
            authority: address.to_string(),
        });
        tracing::info!(%address, "serving");
        tokio::select! {
            never = serve(page, listener) => match never {},
            why = carried => Err(why).context("control is gone"),
        }
    })
}
