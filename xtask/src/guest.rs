//! `guest`: a command on a stock Debian kernel, in an emulated machine.
//!
//! | module | what |
//! |---|---|
//! | [`archive`] | the host's own Debian archive, asked about other releases |
//! | [`cache`] | where kernels and images are kept |
//! | [`disk`] | a folder as an ext4 image |
//! | [`fast`] | what runs with every change |
//! | [`image`] | the root file system of all guests |
//! | [`kernel`] | Debian's cloud kernels |
//! | [`machine`] | QEMU's command line |
//! | [`outcome`] | exit status and files that come back |
//! | [`payload`] | programs, tests and the command that go in |
//! | [`test_programs`] | test programs for a guest |
//! | [`tools`] | the host's programs that all this needs |
//! | [`vmlinux`] | the uncompressed kernel |
//!
//! **Invariant:** a run that does not bring back a result has failed, whatever QEMU says.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};

use crate::{build, places::Places, say, setup, stage};

mod archive;
mod cache;
mod disk;
mod fast;
mod image;
mod kernel;
mod machine;
mod outcome;
mod payload;
mod test_programs;
mod tools;
mod vmlinux;

pub(crate) use cache::remove;
pub(crate) use fast::{all_attempted, lsm_tests};
pub(crate) use kernel::{Kernel, Series};
pub(crate) use machine::Boot;
pub(crate) use outcome::Outcome;
use test_programs::Scope;
pub(crate) use tools::missing;

/// What the programs, the suite and the tests were seen to need, twice.
const MEMORY_MIB: u32 = 2048;

/// Some times what the whole suite takes in profile `hardened`, where others use the processors, too.
const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

#[derive(clap::Args)]
#[command(after_help = "\
The command runs as root in /payload, with the programs of `cargo xtask build` on PATH. What it
leaves in /output is brought back. Exit status: the command's; a guest that brings back no result
has failed. See xtask/docs/guest.md.

  cargo xtask guest -- uname -r
  cargo xtask guest --kernel 7.x -- custody-bypass --json /output/evidence.json
  cargo xtask guest --tests -- 'custody-supervisor::lsm*' -- --test-threads=1")]
pub(crate) struct Args {
    /// Debian's cloud kernel: a series (`6.12`), or `7.x` for the newest of 7
    #[arg(long, default_value = "6.12", value_name = "SERIES")]
    kernel: Series,
    /// Boot systemd, and run the command as a unit
    #[arg(long)]
    systemd: bool,
    /// In MiB
    #[arg(long, default_value_t = MEMORY_MIB, value_name = "MIB")]
    memory: u32,
    /// The guest is ended after so many seconds, and has failed
    #[arg(long, default_value_t = LIMIT.as_secs(), value_name = "SECONDS")]
    timeout: u64,
    /// Where what it leaves is put [default: `<target>/guest/output`, emptied before]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Programs with optimisations: the suite takes a third of the time
    #[arg(long, conflicts_with = "no_build")]
    release: bool,
    /// Take the programs as they were built last
    #[arg(long)]
    no_build: bool,
    /// What follows `--` are test programs (`PACKAGE::TARGET`, `PACKAGE::START*`, `PACKAGE::lib`),
    /// and after another `--` arguments for each
    #[arg(long)]
    tests: bool,
    /// Only fetch and make what a guest needs
    #[arg(long, conflicts_with_all = ["fast", "tests", "command"])]
    prepare: bool,
    /// Where they cannot be had, say so, and do not fail
    #[arg(long, requires = "prepare")]
    optional: bool,
    /// What `cargo xtask test` runs in a guest, with the programs as they were built last
    #[arg(long, conflicts_with_all = ["tests", "command"])]
    fast: bool,
    /// The command
    #[arg(last = true, required_unless_present_any = ["fast", "prepare"])]
    command: Vec<String>,
}

/// A run in a guest.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) kernel: Series,
    pub(crate) boot: Boot,
    pub(crate) memory_mib: u32,
    pub(crate) limit: Duration,
    /// Made if it is not there. `serial.log` and what the command left in `/output` come into it.
    pub(crate) output: PathBuf,
    /// Test programs, for `/payload/tests`.
    pub(crate) tests: Vec<PathBuf>,
    pub(crate) command: Vec<String>,
}

impl Options {
    /// `command` on a kernel of `series`, started by the script; what it leaves comes to `output`.
    pub(crate) fn new(series: Series, output: PathBuf, command: Vec<String>) -> Self {
        Self {
            kernel: series,
            boot: Boot::Script,
            memory_mib: MEMORY_MIB,
            limit: LIMIT,
            output,
            tests: Vec::new(),
            command,
        }
    }
}

/// The command line.
pub(crate) fn command(places: &Places, args: &Args) -> Result<()> {
    if args.fast {
        return fast::command(places);
    }
    if missing().is_some() {
        setup::run(places, &setup::Args::default())?;
    }
    if args.prepare {
        return match prepare(places, &args.kernel) {
            Ok((kernel, _)) => {
                say::line(format_args!("    kernel {} is ready", kernel.release));
                Ok(())
            }
            Err(error) if args.optional => {
                say::line(format_args!("    no guest can be made: {error:#}"));
                Ok(())
            }
            Err(error) => Err(error),
        };
    }
    if !args.no_build {
        build::run(
            places,
            &build::Args {
                release: args.release,
                ..build::Args::default()
            },
        )?;
    }
    let output = match &args.output {
        Some(folder) => std::path::absolute(folder)?,
        None => emptied(places.target.join("guest/output"))?,
    };
    let mut options = Options {
        boot: if args.systemd {
            Boot::Systemd
        } else {
            Boot::Script
        },
        memory_mib: args.memory,
        limit: Duration::from_secs(args.timeout),
        ..Options::new(args.kernel.clone(), output, args.command.clone())
    };
    if args.tests {
        let mut parts = args.command.splitn(2, |word| word == "--");
        let names = parts.next().unwrap_or_default();
        options.tests = test_programs::build(places, names, Scope::Package)?;
        options.command = test_programs::command(&options.tests, parts.next().unwrap_or_default())?;
    }
    let outcome = run(places, &options)?;
    say::line(format_args!(
        "    kernel {}: exit status {}; what it left is in `{}`",
        outcome.kernel,
        outcome.code,
        outcome.output.display()
    ));
    if outcome.code != 0 {
        bail!(
            "the command's exit status in the guest was {}",
            outcome.code
        );
    }
    Ok(())
}

/// Runs a command in a guest; what it says is shown line by line.
pub(crate) fn run(places: &Places, options: &Options) -> Result<Outcome> {
    run_with(places, options, |line| say::line(line))
}

/// Runs a command in a guest; each line that it says, and its kernel, is handed to `each`.
pub(crate) fn run_with(
    places: &Places,
    options: &Options,
    mut each: impl FnMut(&str),
) -> Result<Outcome> {
    if let Some(missing) = missing() {
        bail!("a guest needs {missing}");
    }
    let (kernel, image) = prepare(places, &options.kernel)?;
    say::step(format_args!(
        "guest: kernel {}, {} MiB, emulated",
        kernel.release, options.memory_mib
    ));
    fs::create_dir_all(&options.output)
        .with_context(|| format!("`{}`", options.output.display()))?;
    let runs = places.target.join("guest");
    fs::create_dir_all(&runs).with_context(|| format!("`{}`", runs.display()))?;
    let run = Run(tempfile::Builder::new()
        .prefix("run-")
        .tempdir_in(&runs)
        .context("a folder for the run")?
        .keep());
    let payload = payload::make(places, &options.command, &options.tests, &run.0)?;
    let machine = machine::Machine {
        kernel: &kernel,
        image: &image,
        payload: &payload,
        boot: options.boot,
        memory_mib: options.memory_mib,
        run: &run.0,
    };
    let serial = options.output.join("serial.log");
    // QEMU's own status says nothing: see `outcome`.
    stage::run(&mut machine.command(), options.limit, &serial, |line| {
        each(line.trim_end_matches('\r'));
    })?;
    Outcome::read(&machine, &options.output)
        .with_context(|| format!("the guest's serial line is in `{}`", serial.display()))
}

/// Fetches and makes what a guest needs, where the cache has it not.
pub(crate) fn prepare(places: &Places, series: &Series) -> Result<(Kernel, PathBuf)> {
    let cache = cache::Cache::open(places)?;
    let source = archive::Source::of_host()?;
    let kernel = kernel::obtain(series, &source, &cache)?;
    let image = image::obtain(&source, &cache)?;
    Ok((kernel, image))
}

/// The folder of one run, which holds files of root's.
struct Run(PathBuf);

impl Drop for Run {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            say::error(format_args!("left behind: {error:#}"));
        }
    }
}

fn emptied(folder: PathBuf) -> Result<PathBuf> {
    remove(&folder)?;
    Ok(folder)
}
