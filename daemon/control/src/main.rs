//! custody-control: see the library.

use std::{net::SocketAddr, os::unix::net, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use clap::Parser as _;
use custody_config::Config;
use custody_control::{
    custodyd::Custodyd,
    opening::Gate,
    reviews::{self, Desk},
    serve::{Service, THREADS_MAX, serve},
    sessions::Sessions,
};
use custody_service::begin;
use custody_wire::supervise::{CHANNEL_FD, ControlOrder};
use tokio::net::{UnixListener, UnixStream};

/// The operators' listener.
const LISTENER_FD: i32 = 4;

/// The channel to the gate.
const GATE_FD: i32 = 5;

/// What custodyd says on the command line.
#[derive(clap::Parser, Debug)]
#[command(
    version,
    about = "The operator's face of the service; custodyd starts it"
)]
struct Arguments {
    /// The configuration; without it, the embedded one
    #[arg(long)]
    config: Option<PathBuf>,
    /// The folder where approvals are kept
    #[arg(long)]
    approvals: PathBuf,
    /// Where the reviewers' page listens, if there is one
    #[arg(long, value_name = "ADDRESS")]
    page: Option<SocketAddr>,
    /// The folder of the compiled policies
    #[arg(long)]
    policies: PathBuf,
}

fn main() -> ExitCode {
    begin::main("custody-control", run)
}

/// Serves until custodyd or the gate is gone, which ends every session.
fn run() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let channel = begin::inherited(CHANNEL_FD, "the channel to custodyd")?;
    let listener = begin::inherited(LISTENER_FD, "the operators' listener")?;
    let gate = begin::inherited(GATE_FD, "the channel to the gate")?;
    let config = match &arguments.config {
        Some(path) => Config::read(path)?,
        None => Config::embedded(),
    };
    let listener = net::UnixListener::from(listener);
    listener
        .set_nonblocking(true)
        .context("the operators' listener")?;
    let gate = net::UnixStream::from(gate);
    gate.set_nonblocking(true)
        .context("the channel to the gate")?;

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(THREADS_MAX)
        .build()
        .context("tokio")?;
    // Never dropped: that would wait for threads that wait for clients, and close their connections
    // here. A process that exits closes without lingering (inet_release(), net/ipv4/af_inet.c).
    let runtime: &'static _ = Box::leak(Box::new(runtime));
    runtime.block_on(async {
        let (custodyd, pages) = Custodyd::new(channel).context("the channel to custodyd")?;
        let listener = UnixListener::from_std(listener).context("the operators' listener")?;
        let gate = UnixStream::from_std(gate).context("the channel to the gate")?;
        let (gate, unasked, gate_carried) = Gate::connect(gate);
        // One daemon has one runtime folder: custodyd holds a lock in it.
        let instance = arguments.policies.display().to_string();
        let (desk, telling) = Desk::open(&arguments.approvals, instance, &config, arguments.page);
        drop(tokio::spawn(telling));
        let service = Arc::new(Service {
            access: config.access,
            uids: config.uids,
            review: config.review,
            desk,
            policies: arguments.policies,
            custodyd: custodyd.clone(),
            gate,
            sessions: Sessions::default(),
        });
        custodyd
            .order(&ControlOrder::Ready, &[])
            .await
            .context("the channel to custodyd")?;
        let desk = reviews::carry(Arc::clone(&service), unasked);
        drop(tokio::spawn(reviews::prune(Arc::clone(&service))));
        let page = reviews::serve_pages(Arc::clone(&service), pages);
        tokio::select! {
            () = desk => anyhow::bail!("the gate is gone"),
            () = page => anyhow::bail!("custodyd is gone"),
            why = custodyd.carry() => Err(why).context("custodyd is gone"),
            why = gate_carried => Err(why).context("the gate is gone"),
            // Until then whoever connects waits in the listener's queue.
            never = async {
                custodyd.serves().await;
                serve(service, listener).await
            } => match never {},
        }
    })
}
