//! custody-effect: see the library. `custody-effect` is a worker, `custody-effect --resolve` the
//! resolver; both speak to the vault on descriptor 3.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use custody_effect::{resolve, worker};
use custody_sys::{fd, process};
use custody_wire::perform::CHANNEL_FD;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The subscriber may not be there yet, and the last word belongs on stderr in any case.
            last_word(&error);
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    // Before anything else: nobody reads this process, and it leaves no core file (core(5)).
    // custody-launch has limited core files already, and its filters let nobody change that.
    process::undumpable().context("prctl(PR_SET_DUMPABLE)")?;
    let channel = fd::take(CHANNEL_FD)
        .context("descriptor 3 is not a channel; this program is started by custodyd")?;
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();

    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let role = match arguments.as_slice() {
        [] => Role::Worker,
        [only] if only == "--resolve" => Role::Resolver,
        _ => bail!("usage: custody-effect [--resolve]"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(resolve::AT_ONCE)
        .build()
        .context("the runtime cannot be started")?;
    let done = match role {
        Role::Resolver => runtime
            .block_on(resolve::serve(channel))
            .map_err(Into::into),
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

fn last_word(error: &anyhow::Error) {
    use std::io::Write as _;

    let text = format!("custody-effect: {error:#}\n");
    if std::io::stderr().write_all(text.as_bytes()).is_err() {
        // Nobody listens.
    }
}
