//! custody-vault: see the library. It is started by custodyd and speaks to it on descriptor 3.
#![forbid(unsafe_code)]

use std::{process::ExitCode, rc::Rc};

use anyhow::Context as _;
use custody_service::{begin, clock::BootClock, folders::Folders};
use custody_vault::Config;
use custody_wire::supervise::CHANNEL_FD;
use tokio::task::LocalSet;

fn main() -> ExitCode {
    begin::main("custody-vault", serve)
}

fn serve() -> anyhow::Result<()> {
    let channel = begin::inherited(CHANNEL_FD, "the channel to custodyd")?;
    let folders = Folders::parse(std::env::args_os().skip(1))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    let config = Config::new(folders, Rc::new(BootClock));
    LocalSet::new()
        .block_on(&runtime, custody_vault::serve(config, channel))
        .map_err(Into::into)
}
