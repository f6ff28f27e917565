//! `demo`: one confined agent, one credential that it never holds, one real effect, one refused.
//!
//! Everything is real: custodyd and its programs, an HTTP service in a process of its own that
//! wants a bearer token and keeps its own record, an agent that is an MCP client from PyPI. What
//! counts at the end is the service's record and the ledger, not what the agent says of itself.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};

use crate::{
    build, bypass,
    places::{self, Places},
    room::{
        self, Room,
        daemon::{self, Daemon},
        service::{Effect, Service},
    },
    say, setup, stage,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// With optimisations
    #[arg(long)]
    release: bool,
    /// Everything is installed and built: only run it (as root)
    #[arg(long, hide = true)]
    built: bool,
}

/// For anything that the demo waits for.
const PATIENCE: Duration = Duration::from_secs(300);

/// For the whole suite, which waits more than it computes: six minutes on an idle machine.
const SUITE: Duration = Duration::from_secs(1_800);

/// After so many attempts it is said that they go on.
const EVERY: usize = 20;

/// Whom the application named; the note names someone else.
const CUSTOMER: &str = "alice@customer.example";

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    if !args.built {
        setup::run(places, &setup::Args::default())?;
        build::run(
            places,
            &build::Args {
                release: args.release,
                ..build::Args::default()
            },
        )?;
    }
    if !places::is_root() {
        // The rest needs cgroups, namespaces and user ids.
        return stage::must(&mut places.again_as_root(["demo", "--built"])?);
    }
    stage::interrupted(); // from here on, Ctrl-C cleans up
    let started = Instant::now();
    let told = tell(places);
    match &told {
        Ok(()) => say::line(format_args!(
            "\nDone in {:.1} s. Nothing of it is left on this host.",
            started.elapsed().as_secs_f32()
        )),
        Err(_) => say::line(format_args!(
            "\nIt did not come out as promised. Everything was cleaned up; the logs are in `{}`.",
            places.target.join("demo/logs").display()
        )),
    }
    told
}

fn tell(places: &Places) -> Result<()> {
    let room = Room::make(places)?;
    let service = Service::start(places, &room)?;
    room.write_policy(places, service.address())?;
    let daemon = Daemon::start(&room)?;
    let vault = daemon.vault()?;

    say::line(format_args!(
        "\n1. A service on {} wants a bearer token. custody-vault (process {}, uid {}) holds it.",
        service.address(),
        vault,
        daemon::uid_of(vault)?
    ));
    say::line(format_args!(
        "   An operator without privileges starts an agent and names the customer: {CUSTOMER}\n"
    ));
    let mut agent = daemon.cli();
    agent
        .args(["run", "--policy", "demo"])
        .args(["--value", &format!("customer={CUSTOMER}")])
        .args(["--owned", "notes=inbox-1", "--owned", "pages=status"])
        .args(["--task", "Tell the customer that the order is on its way."])
        .arg("--")
        .arg(room.agent().join("venv/bin/python"))
        .arg("-B") // it cannot write beside its packages
        .arg(room.agent().join("agent.py"))
        .args(["--customer", CUSTOMER])
        .args(["--service", &service.address().to_string()])
        .arg("--credential")
        .arg(room.credential())
        .args(["--vault-pid", &vault.to_string()]);
    let agent = watch(&mut agent, &room)?;

    say::line("\n2. What the service itself recorded:");
    let effects = service.effects()?;
    for effect in &effects {
        say::line(format_args!("    effect   {effect}"));
    }
    let rejected = service.rejected()?;
    say::line(format_args!(
        "    rejected {rejected} requests without the token"
    ));

    say::line("\n3. The ledger, verified offline:");
    // Whoever may read the files can: the service's users, root, or anyone with a copy.
    let mut verify = Command::new(room.programs().join("custody"));
    let verified = stage::output(verify.args(["ledger", "verify"]).arg(room.state()))?;
    for line in verified.lines() {
        say::line(format_args!("    {line}"));
    }

    ensure!(agent, "the agent saw something that was not promised");
    let recorded: Vec<&str> = effects.iter().map(Effect::target).collect();
    ensure!(
        recorded == ["/v1/pages/status/publish", "/v1/messages"],
        "the service recorded other effects than those that were allowed"
    );
    ensure!(
        effects.iter().all(|effect| !effect.carries("outsider")),
        "something reached the outsider"
    );
    ensure!(
        rejected == 0,
        "something reached the service without the token"
    );

    daemon.stop()?;
    e_row(places, &room)
}

/// Runs the agent, its output indented below the story. Says whether it exited with 0.
fn watch(agent: &mut Command, room: &Room) -> Result<bool> {
    let log = room.log("agent");
    let status = stage::run(agent, PATIENCE, &log, |line| say::line(line))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => bail!("the agent did not run to its end: {status}"),
    }
}

/// The suite's own word on property E, from a run of it now.
fn e_row(places: &Places, room: &Room) -> Result<()> {
    say::line(
        "\n4. Property E, by the bypass suite on an installation of its own (whole: some six minutes):",
    );
    let Some(runner) = bypass::runner(places) else {
        bail!("custody-bypass was not built");
    };
    let mut summary = false;
    let mut attempts = 0;
    let mut more = 0;
    let status = stage::run(
        Command::new(runner).current_dir(&places.root),
        SUITE,
        &room.log("bypass"),
        |line| {
            summary |= line.starts_with("E: ");
            let detail = ["  scope: ", "  limit: ", "  caveat: "];
            if detail.iter().any(|word| line.starts_with(word)) {
                more += 1;
            } else if summary {
                say::line(format_args!("    {line}"));
            } else {
                attempts += 1;
                if attempts % EVERY == 0 {
                    say::line(format_args!("    {attempts} attempts"));
                }
            }
        },
    );
    room::sweep()?;
    let status = status?;
    say::line(format_args!(
        "    and {more} lines of scope, limits and caveats, which belong to it: `cargo xtask bypass`"
    ));
    ensure!(
        status.success(),
        "the bypass suite did not come out as expected ({status})"
    );
    Ok(())
}
