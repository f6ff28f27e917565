//! custodyd: see the library.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::Parser as _;
use custody_config::{Config, PATH};
use custody_supervisor::{
    checks::{check, kernel, root},
    hooks::Hooks,
    kept,
    refused::start,
    serve::serve,
};
use nix::sys::{
    resource::{Resource, getrlimit, setrlimit},
    stat::{Mode, umask},
};
use tracing_subscriber::EnvFilter;

/// Keeps credentials out of AI agents: confines them, and starts what acts for them
#[derive(clap::Parser, Debug)]
#[command(version, name = "custodyd")]
struct Arguments {
    /// The configuration [default: /etc/custody/custodyd.toml if it is there]
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Check the kernel, the configuration, policies and credentials' files, and exit
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Whatever the log's filter says: the reason belongs on stderr.
            let refused = start::named(&error)
                .map(|it| format!("refused configuration {}: ", it.id()))
                .unwrap_or_default();
            let text = format!("custodyd: {refused}{error:#}\n");
            if std::io::stderr().write_all(text.as_bytes()).is_err() {
                // Nobody listens.
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    // Before anything is opened.
    let kept = kept::take();
    root()?;
    // The services read it, too, from another folder.
    let named = arguments.config.map(std::path::absolute).transpose()?;
    let (config, path) = configuration(named)?;
    let checked = check(config)?;
    start::look(&checked.config)?;
    if kernel::has_own_mounts() {
        tracing::warn!(
            "custodyd is in a mount namespace of its own: workspaces will be refused, and hooks \
             may go with it; start it in the host's"
        );
    }
    if arguments.check {
        say(&format!(
            "custodyd {} would start: {} policies, {} credentials, eBPF object {}\n",
            env!("CARGO_PKG_VERSION"),
            checked.policies.len(),
            checked.config.credentials.len(),
            Hooks::object().unwrap_or("none"),
        ))?;
        return Ok(());
    }
    custody_sys::process::undumpable().context("prctl(PR_SET_DUMPABLE)")?;
    umask(Mode::from_bits_truncate(0o022));
    // A few descriptors for each session: as many as we may have.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("getrlimit(RLIMIT_NOFILE)")?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("setrlimit(RLIMIT_NOFILE)")?;
    serve(checked, path, kept)?;
    Ok(())
}

/// The configuration, and where it was read: nowhere, if it is the embedded one.
fn configuration(named: Option<PathBuf>) -> anyhow::Result<(Config, Option<PathBuf>)> {
    let path = match named {
        Some(path) => path,
        None if Path::new(PATH).symlink_metadata().is_ok() => PATH.into(),
        None => {
            tracing::warn!(
                path = PATH,
                "there is no configuration; the embedded one counts: no credential, root alone"
            );
            return Ok((Config::embedded(), None));
        }
    };
    Ok((Config::read(&path)?, Some(path)))
}

/// To stderr, where a service manager takes it into the journal with a time of its own.
fn log() {
    let filter =
        EnvFilter::try_from_env("CUSTODY_LOG").unwrap_or_else(|_unset| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_target(false)
        .with_writer(std::io::stderr);
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        log.without_time().init();
    } else {
        log.init();
    }
}

fn say(text: &str) -> std::io::Result<()> {
    std::io::stdout().write_all(text.as_bytes())
}
