//! `custody`: what operators type.
//!
//! | module | what |
//! |---|---|
//! | [`args`] | the command line |
//! | [`audit`] | what a ledger's traffic says of its policies |
//! | [`connect`] | the connection to custody-control |
//! | [`doctor`] | whether a profile can be had here |
//! | [`exit`] | what the process says to its caller |
//! | [`import_live`] | the tools of a server that is run for it, outside of any session |
//! | [`ledger`], [`policy`], [`replay`], [`scan`], [`why`] | what needs no service |
//! | [`list`] | ps, status, stop, tell |
//! | [`quickstart`] | the whole idea in a second |
//! | [`review`] | calls that wait for a person |
//! | [`run`] | a command, confined |
//! | [`whole`] | files that are written whole or not at all |
//!
//! **Invariant:** it holds nothing and decides nothing; it is the caller's own process. No secret
//! is taken from the command line.
#![forbid(unsafe_code)]

pub mod args;
pub mod audit;
pub mod connect;
pub mod diff;
pub mod doctor;
pub mod exit;
pub mod import_live;
pub mod ledger;
pub mod list;
pub mod policy;
pub mod quickstart;
pub mod replay;
pub mod review;
pub mod revoke;
pub mod run;
pub mod scan;
pub mod whole;
pub mod why;

use std::io::{self, Write as _};

use clap::{CommandFactory as _, Parser as _};

use custody_shown::inert;

use args::{Arguments, PolicyWhat, What};
use exit::Exit;
use policy::fmt::Wanted;

/// The whole command line: for man pages and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Does what the command line says.
pub fn main() -> Exit {
    let Arguments { socket, what } = Arguments::parse();
    let done = match what {
        What::Audit(what) => audit::audit(&what),
        What::Approve(what) => review::answer::approve(&socket, &what),
        What::Diff(wanted) => diff::diff(&wanted),
        What::Doctor(wanted) => doctor::doctor(&socket, &wanted),
        What::ImportLive(wanted) => import_live::import(&wanted),
        What::Ledger { what } => ledger::run(what),
        What::Policy { what } => match what {
            PolicyWhat::Check { file, config } => policy::check::check(&file, config.as_deref()),
            PolicyWhat::Fmt { file, check: true } => policy::fmt::fmt(&file, Wanted::Check),
            PolicyWhat::Fmt { file, check: false } => policy::fmt::fmt(&file, Wanted::Write),
            PolicyWhat::Init(wanted) => policy::init::init(&wanted),
        },
        What::Pending { all, json } => review::list::pending(&socket, all, json),
        What::Ps { json } => list::ps(&socket, json),
        What::Quickstart => quickstart::quickstart(),
        What::Refuse(what) => review::answer::refuse(&socket, &what),
        What::Replay {
            policy,
            traces,
            json,
        } => replay::replay(&policy, &traces, json),
        What::Review { web: true, .. } => review::list::web(&socket),
        What::Review { key, web: false } => review::walk::walk(&socket, key.as_deref()),
        What::Revoke { kind, name } => revoke::revoke(&socket, &kind, &name),
        What::Run(run) => run::run(&socket, run),
        What::Scan(wanted) => scan::scan(&wanted),
        What::Show { call, json } => review::list::show(&socket, call.pending, call.session, json),
        What::Status => list::status(&socket),
        What::Stop { sessions } => list::stop(&socket, &sessions),
        What::Tell { session, what } => list::tell(&socket, session, &what),
        What::Unlock { tool } => revoke::unlock(&socket, tool),
        What::Why { policy, call, json } => why::why(&policy, &call, json),
    };
    done.unwrap_or_else(|error| {
        complain(&format!("{error:#}"));
        Exit::Failed
    })
}

/// A line on standard output. Whoever closed it does not want it.
fn say(line: &str) {
    drop(writeln!(io::stdout(), "{line}"));
}

/// A whole text on standard output. Whoever closed it does not want it.
fn print(text: &str) {
    drop(io::stdout().write_all(text.as_bytes()));
}

/// A line on standard error, after our name. It may quote foreign text: nothing in it acts.
fn complain(line: &str) {
    drop(writeln!(io::stderr(), "custody: {}", inert::line(line)));
}

/// A line beside a complaint, on standard error: a part of a file that is quoted. Nothing in it acts.
fn beside(line: &str) {
    drop(writeln!(io::stderr(), "{}", inert::line(line)));
}
