//! custody-launch and custody-init: seal one process, then run it.
//!
//! custodyd makes a process with clone3(2), in its cgroup and, for a session, in namespaces of its
//! own, and executes custody-launch in it with a channel as descriptor 3. What happens then is
//! written in [`custody_wire::launch`]; the order inside is the only one that works:
//!
//! 1. [`observe`]: compare with the parent, while the host's /proc is there.
//! 2. [`root`], [`etc`], [`dev`], [`workspace`]: a new root; pivot_root(2).
//! 3. [`stdio`]: a private pty or pipes; close every other descriptor.
//! 4. [`identity`]: limits, capabilities, ids, no_new_privs.
//! 5. [`rules`]: Landlock. 6. [`filter`]: seccomp(2), last.
//! 7. Read back, report, wait for the word, execve(2).
//!
//! custody-init then is pid 1 and [`init`] says how the command ended.
//!
//! **Invariant:** one thread, no async runtime, no credential, no decision: a step fails or is
//! done, and nothing runs that is less than the plan. Whoever is confined here gets nothing of this
//! process's memory, environment or descriptors.
#![forbid(unsafe_code)]

mod ahead;
mod command;
mod dev;
mod etc;
mod failure;
mod filter;
mod identity;
pub mod init;
mod listener;
mod observe;
mod plan;
mod protected;
mod root;
mod rules;
mod service;
mod session;
mod share;
mod stdio;
mod workspace;

use std::{os::fd::OwnedFd, process::ExitCode};

use custody_sys::fd;
use custody_wire::launch::{CHANNEL_FD, Kind, Plan};

use ahead::Ahead;
use failure::Failure;
use plan::{Descriptors, First, Without};

pub use protected::tidy;

/// The exit status when nothing was executed. custodyd has the report.
const FAILED: u8 = 125;

/// Runs custody-launch. Comes back only when nothing was executed.
pub fn main() -> ExitCode {
    let Ok(channel) = fd::take(CHANNEL_FD) else {
        return ExitCode::from(FAILED);
    };
    let (failure, channel) = match receive(&channel) {
        Err(failure) => (failure, Some(channel)),
        Ok((ahead, plan, descriptors)) => match (&plan.kind, ahead) {
            (Kind::Session(session), ahead) => {
                session::run(&plan, session, descriptors, ahead, channel)
            }
            (Kind::Service(service), None) => service::run(&plan, service, descriptors, channel),
            (Kind::Service(_), Some(_)) => {
                let why = "a service's plan came to a launcher that was ready for a session";
                (Failure::refused(None, why.into()), Some(channel))
            }
        },
    };
    if let Some(channel) = channel {
        // Nobody is left to be told that telling failed.
        match plan::report(&channel, &failure.report(), &[]) {
            Ok(()) | Err(_) => {}
        }
    }
    ExitCode::from(FAILED)
}

/// The plan, and what was done before it was there.
fn receive(channel: &OwnedFd) -> Result<(Option<Ahead>, Plan, Descriptors), Failure> {
    match plan::receive(channel)? {
        First::Plan(plan, descriptors) => Ok((None, *plan, descriptors)),
        First::Ready(ready) => {
            let ahead = Ahead::build(&ready.programs, Without(&[]))?;
            let (plan, descriptors) = plan::receive_plan(channel)?;
            Ok((Some(ahead), plan, descriptors))
        }
    }
}
