//! custody-effect: see the library. `custody-effect` is a worker, `custody-effect --resolve` the
//! resolver, `custody-effect --check PROGRAM…` a verifier; all speak to the vault on descriptor 3.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use custody_effect::{check, resolve, worker};
use custody_service::begin;
use custody_sys::channel;
use custody_wire::{
    frame,
    perform::CHANNEL_FD,
    supervise::{RESOLVER_FD, Serves},
};

fn main() -> ExitCode {
    begin::main("custody-effect", serve)
}

fn serve() -> anyhow::Result<()> {
    let channel = begin::inherited(CHANNEL_FD, "the channel to the vault")?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let role = match arguments.as_slice() {
        [] => Role::Worker,
        [only] if only == "--resolve" => Role::Resolver,
        [first, program @ ..] if first == "--check" => {
            return check::serve(channel, program).map_err(Into::into);
        }
        _ => bail!("usage: custody-effect [--resolve | --check PROGRAM [ARGUMENT…]]"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(resolve::AT_ONCE)
        .build()
        .context("the runtime cannot be started")?;
    let done = match role {
        Role::Resolver => {
            let custodyd = begin::inherited(RESOLVER_FD, "the channel to custodyd")?;
            let serves = frame::datagram(&Serves).context("the word to custodyd")?;
            channel::send(&custodyd, &serves, &[]).context("the channel to custodyd")?;
            // Held as long as this process lives: its end would be taken for that of the resolver.
            let done = runtime.block_on(resolve::serve(channel));
            drop(custodyd);
            done.map_err(Into::into)
        }
        Role::Worker => runtime.block_on(worker::serve(channel)).map_err(Into::into),
    };
    // A lookup that hangs does not hold up the end.
    runtime.shutdown_background();
    done
}

enum Role {
    Resolver,
    Worker,
}
