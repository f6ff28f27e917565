//! custody-review: see the library.

use std::{net, os::fd::OwnedFd, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use clap::Parser as _;
use custody_review::{
    control::Control,
    serve::{Page, serve},
};
use custody_service::begin;
use tokio::net::TcpListener;

/// The listener, made by whoever starts this program: it makes no socket of the network itself.
const LISTENER_FD: i32 = 3;

/// What the starter says on the command line.
#[derive(clap::Parser, Debug)]
#[command(version, about = "The reviewers' page; custodyd starts it")]
struct Arguments {
    /// The operators' socket
    #[arg(long)]
    socket: PathBuf,
}

fn main() -> ExitCode {
    begin::main("custody-review", run)
}

fn run() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let listener: OwnedFd = begin::inherited(LISTENER_FD, "the page's listener")?;
    let listener = net::TcpListener::from(listener);
    listener.set_nonblocking(true).context("the listener")?;
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
        let page = Arc::new(Page {
            control: Control::new(arguments.socket),
            authority: address.to_string(),
        });
        match serve(page, listener).await {}
    })
}
