//! `custody doctor`: can a profile be had on this host, and if not, what stands against it?
//!
//! | module | what |
//! |---|---|
//! | [`host`] | what anybody can see of the host |
//! | [`report`] | what is said, as text and as JSON |
//! | [`session`] | a throwaway session, and what it could do |
//!
//! It attempts: nothing here reads a plan or a configuration.

pub mod host;
pub mod report;
pub mod session;

use std::path::Path;

use custody_wire::profile::Profile;

use crate::{args, complain, connect::Control, exit::Exit, say};
use report::{Report, Verdict};

/// `custody doctor`.
///
/// # Errors
/// When the service goes away in between.
pub fn doctor(socket: &Path, wanted: &args::Doctor) -> anyhow::Result<Exit> {
    let mut report = Report {
        wanted: wanted.profile,
        host: host::look(),
        service: None,
        profiles: Vec::new(),
    };
    match Control::connect(socket) {
        // The host half is worth having without it.
        Err(error) => report.service = Some(format!("{error:#}")),
        Ok(connected) => {
            drop(connected);
            for profile in Profile::ALL {
                report.profiles.push(Verdict {
                    profile,
                    tried: session::try_out(socket, profile)?,
                });
            }
        }
    }
    if wanted.json {
        say(&report.json().to_string());
    } else {
        for line in report.lines() {
            say(&line);
        }
    }
    Ok(match report.can_be_had(wanted.profile) {
        Some(true) => Exit::Done,
        Some(false) => Exit::Bad,
        None => {
            complain("no session could be tried; what is said is of the host alone");
            Exit::Failed
        }
    })
}
