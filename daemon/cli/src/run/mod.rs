//! `custody run`: a command, confined.
//!
//! | module | what |
//! |---|---|
//! | [`environment`] | the command and its environment, made anew |
//! | [`filter`] | what it writes, harmless to the caller's terminal |
//! | `signals`, `terminal`, `pump`, `attend` | the caller's side while it runs |

mod attend;
pub mod environment;
pub mod filter;
mod pump;
mod signals;
mod terminal;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt::Display,
    io::{self, IsTerminal as _},
    os::fd::OwnedFd,
    path::Path,
};

use anyhow::{Context as _, bail};
use custody_wire::{
    operator::{self, Request},
    session::Part,
    supervise::End,
};
use gate::mutant::Mutant;
use nix::{errno::Errno, libc};

use crate::{args, complain, connect::Control, exit::Exit};
use attend::Attendance;
use environment::Command;
use signals::Signals;

/// `custody run`.
///
/// # Errors
/// When the command is not run, or the service goes away.
pub fn run(socket: &Path, run: args::Run) -> anyhow::Result<Exit> {
    let command = Command::new(&run.command, &run.environment, std::env::vars_os())?;
    for name in &command.secretive {
        complain(&format!(
            "warning: the command can read `{name}`; a credential belongs in the vault, and the \
             policy says where it may go"
        ));
    }
    let request = operator::Run {
        policy: run.policy,
        profile: run.profile,
        from: run.from.map(|session| Part {
            session,
            boundary: run.boundary,
            roles: run.only_roles.map(|it| it.0),
            values: run.only_values.map(|it| it.0),
        }),
        workspace: run.workdir.is_some(),
        values: once_each("--value", run.values)?,
        owned: once_each("--owned", run.owned)?,
        scope: run
            .scope
            .map(|file| {
                std::fs::read(&file).with_context(|| format!("cannot read `{}`", file.display()))
            })
            .transpose()?,
        subject: run.subject,
        task: run.task,
        tenant: run.tenant,
        tty: private_pty(),
    };
    let tty = request.tty.is_some();
    let command = command.sealed()?;
    let workspace = run.workdir.as_deref().map(open).transpose()?;
    let given: Vec<OwnedFd> = std::iter::once(command).chain(workspace).collect();

    // Before anything is begun: a signal is for the command from here on.
    let signals = Signals::new().context("signalfd(2)")?;
    let mut control = Control::connect(socket)?;
    control.send(&Request::Run(request))?;
    let end = Attendance {
        control: &mut control,
        given,
        early: Vec::new(),
        signals: &signals,
        tty,
        layers: run.layers,
    }
    .attend()?;
    let program = run.command.first().map(|it| it.to_string_lossy());
    Ok(exit(end, &program.unwrap_or_default()))
}

/// A pty if standard input and output are one; never the caller's own.
fn private_pty() -> Option<custody_wire::launch::WindowSize> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        terminal::size()
    } else {
        None
    }
}

/// The folder, with the caller's own permission, and through no symlink: an agent that had the
/// folder above it may have left one there, which leads the next session elsewhere.
fn open(path: &Path) -> anyhow::Result<OwnedFd> {
    let name = path.display();
    if Mutant::CliWorkdirSymlinks.is_on() {
        return Ok(std::fs::File::open(path)?.into());
    }
    custody_sys::path::folder(path).map_err(|error| {
        let is_link = error.raw_os_error() == Some(libc::ELOOP);
        let error = anyhow::Error::from(error);
        match path.canonicalize() {
            Ok(real) if is_link => error.context(format!(
                "--workdir `{name}` leads through a symlink, and no session begins behind one; if \
                 it is to be there, give the folder's own path: `{}`",
                real.display()
            )),
            Ok(_) | Err(_) => error.context(format!("--workdir `{name}`")),
        }
    })
}

fn once_each<N: Ord + Display, V>(
    option: &str,
    pairs: Vec<(N, V)>,
) -> anyhow::Result<BTreeMap<N, V>> {
    let mut map = BTreeMap::new();
    for (name, value) in pairs {
        match map.entry(name) {
            Entry::Occupied(there) => bail!("{option} `{}` is given twice", there.key()),
            Entry::Vacant(place) => drop(place.insert(value)),
        }
    }
    Ok(map)
}

fn exit(end: End, program: &str) -> Exit {
    match end {
        End::Exited { code } => Exit::Command(code),
        End::Killed { signal } => Exit::killed(signal),
        End::NotExecuted { errno } => {
            let errno = Errno::from_raw(errno);
            if errno == Errno::ENOENT {
                complain(&format!(
                    "`{program}` was not found in the session; the system's folders are there, \
                     and what `read_only` in the policy names"
                ));
                Exit::NotFound
            } else {
                complain(&format!("`{program}` cannot be executed: {}", errno.desc()));
                Exit::NotExecutable
            }
        }
        End::Stopped { why } => {
            complain(&format!("the session was ended: {why}"));
            Exit::Failed
        }
    }
}
