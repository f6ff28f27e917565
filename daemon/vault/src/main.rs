//! custody-vault: see the library. It is started by custodyd and speaks to it on descriptor 3.
#![forbid(unsafe_code)]

use std::{process::ExitCode, rc::Rc};

use anyhow::Context as _;
use custody_sys::{fd, process};
use custody_vault::{Config, args::Args, clock::BootClock};
use custody_wire::supervise::CHANNEL_FD;
use tokio::task::LocalSet;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
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
    let args = Args::parse(std::env::args_os().skip(1))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    let config = Config::new(args, Rc::new(BootClock));
    LocalSet::new()
        .block_on(&runtime, custody_vault::serve(config, channel))
        .map_err(Into::into)
}

fn last_word(error: &anyhow::Error) {
    use std::io::Write as _;

    let text = format!("custody-vault: {error:#}\n");
    if std::io::stderr().write_all(text.as_bytes()).is_err() {
        // Nobody listens.
    }
}
