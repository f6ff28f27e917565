//! What developers and CI type: `cargo xtask COMMAND`. One file per command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod build;
mod build_ebpf;
mod bypass;
mod demo;
mod evidence_run;
mod forgeries;
mod fuzz;
mod guest;
mod kills;
mod man;
mod mutants;
mod outsiders;
mod places;
mod room;
mod say;
mod setup;
mod stage;
mod test;
mod tidy;

use places::Places;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "What developers and CI type")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// How long it takes, beside what one would use otherwise
    Bench(bench::Args),
    /// The benchmark's agent
    #[command(hide = true)]
    BenchClient(bench::ClientArgs),
    /// The benchmark's loop
    #[command(hide = true)]
    BenchLoop(bench::LoopArgs),
    /// Build every program into `<target>/custody`, root-owned
    Build(build::Args),
    /// Build the eBPF object into `<target>/ebpf/custody.bpf.o`
    BuildEbpf,
    /// Run the bypass suite; it attacks the whole arrangement and records what happened
    Bypass(bypass::Args),
    /// One confined agent, one credential that it never holds, one real effect, one refused
    Demo(demo::Args),
    /// Run all that the claims rest on, here and on stock kernels, and collect it in `evidence/`
    EvidenceRun(evidence_run::Args),
    /// Show each permit, statement, chain and export that is forged, and why it is refused
    Forgeries,
    /// Run the gate's parsers and its index under libFuzzer
    Fuzz(fuzz::Args),
    /// Run a command on a stock Debian kernel, in an emulated machine
    Guest(guest::Args),
    /// Kill every program on a call's way at its system calls, and count at the effect server
    Kills(kills::Args),
    /// Write the man pages of `custody` into `<target>/man`
    Man,
    /// Take each rule away in a build of its own, and see that something notices
    Mutants(mutants::Args),
    /// Run programs that we did not write inside a session, unmodified
    Outsiders(outsiders::Args),
    /// Install what building, testing and the demo need, and say why
    Setup(setup::Args),
    /// Run all checks and tests
    Test(test::Args),
    /// Check the rules of the tree that no compiler checks
    Tidy,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Command::BenchClient(args) = &cli.command {
        return end(bench::client(args)); // inside a session there is no workspace
    }
    if let Command::BenchLoop(args) = &cli.command {
        return end(bench::measuring_loop(args));
    }
    end(Places::find().and_then(|places| match cli.command {
        Command::Bench(args) => bench::run(&places, &args),
        Command::BenchClient(_) | Command::BenchLoop(_) => Ok(()),
        Command::Build(args) => build::run(&places, &args),
        Command::BuildEbpf => build_ebpf::run(&places).map(drop),
        Command::Bypass(args) => bypass::run(&places, &args),
        Command::Demo(args) => demo::run(&places, &args),
        Command::EvidenceRun(args) => evidence_run::run(&places, &args),
        Command::Forgeries => forgeries::run(&places),
        Command::Fuzz(args) => fuzz::run(&places, &args),
        Command::Guest(args) => guest::command(&places, &args),
        Command::Kills(args) => kills::run(&places, &args),
        Command::Man => man::run(&places),
        Command::Mutants(args) => mutants::run(&places, &args),
        Command::Outsiders(args) => outsiders::run(&places, &args),
        Command::Setup(args) => setup::run(&places, &args),
        Command::Test(args) => test::run(&places, &args),
        Command::Tidy => tidy::run(&places),
    }))
}

fn end(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
