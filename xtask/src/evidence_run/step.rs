//! One step: a command on one kernel, and what it left.

use std::{
    fmt, fs,
    path::Path,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};

use crate::{
    bypass,
    guest::{self, Series},
    places::{self, Places},
    say, stage,
};

/// Where a step runs.
#[derive(Clone, Debug)]
pub(super) enum Ground {
    /// This machine's own kernel.
    Host,
    /// A stock kernel in an emulated machine.
    Guest(Series),
}

/// What a step runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum What {
    /// The suite in this profile, with each layer left out, and each alone.
    Ablation(&'static str),
    /// The tests of LSM programs, and of what a session may use at most.
    LsmTests,
    /// Programs that others wrote, in a session.
    Outsiders,
    /// The suite in this profile.
    Suite(&'static str),
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    ground: Ground,
    what: What,
}

/// A step that was run, or not.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) outcome: Outcome,
    /// As uname(1) says it; empty where it did not come so far.
    pub(super) kernel: String,
    pub(super) command: Vec<String>,
    pub(super) started_unix_ms: u64,
    pub(super) seconds: u64,
}

/// How a step ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// Why.
    Failed(String),
    /// Why.
    NotAttempted(String),
    Passed,
    /// It came to its end, and nothing in it is judged: what it left says what was seen.
    Ran(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::NotAttempted(why) => write!(f, "not attempted: {why}"),
            Self::Passed => f.write_str("passed"),
            Self::Ran(what) => write!(f, "ran: {what}"),
        }
    }
}

impl Step {
    pub(super) const fn new(ground: Ground, what: What) -> Self {
        Self { ground, what }
    }

    /// Also the name of its folder.
    pub(super) fn name(&self) -> String {
        let what = match self.what {
            What::Ablation(_) => "ablation",
            What::LsmTests => "lsm-tests",
            What::Outsiders => "outsiders",
            What::Suite(_) => "suite",
        };
        let (ground, usual) = match &self.ground {
            Ground::Host => ("host".to_owned(), "standard"),
            Ground::Guest(series) => (format!("guest-{series}"), "hardened"),
        };
        match self.profile() {
            Some(profile) if profile != usual => format!("{ground}-{what}-{profile}"),
            Some(_) | None => format!("{ground}-{what}"),
        }
    }

    /// The profile that it is about, where it is about one.
    pub(super) const fn profile(&self) -> Option<&'static str> {
        match self.what {
            What::Ablation(profile) | What::Suite(profile) => Some(profile),
            What::LsmTests | What::Outsiders => None,
        }
    }

    /// Runs it; what it leaves comes into a folder of its own below `folder`.
    pub(super) fn run(&self, places: &Places, folder: &Path, limit: Duration) -> Result<Ran> {
        let own = folder.join(self.name());
        fs::create_dir(&own).with_context(|| format!("`{}`", own.display()))?;
        let mut ran = Ran {
            outcome: Outcome::Passed,
            kernel: String::new(),
            command: Vec::new(),
            started_unix_ms: now(),
            seconds: 0,
        };
        let done = match &self.ground {
            Ground::Host => self.on_host(places, &own, limit, &mut ran),
            Ground::Guest(series) => self.in_guest(places, series, &own, limit, &mut ran),
        };
        ran.outcome = done.unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        ran.seconds = now().saturating_sub(ran.started_unix_ms) / 1000;
        Ok(ran)
    }

    fn on_host(
        &self,
        places: &Places,
        own: &Path,
        limit: Duration,
        ran: &mut Ran,
    ) -> Result<Outcome> {
        let uname = nix::sys::utsname::uname().context("uname")?;
        ran.kernel = uname.release().to_string_lossy().into_owned();
        let mut command = match self.what {
            What::Ablation(_) | What::Suite(_) => {
                let runner = bypass::runner(places).context("custody-bypass was not built")?;
                let mut command = places::as_root(runner);
                command.args(self.suite_arguments(own));
                command
            }
            What::Outsiders => ours(&["outsiders"])?,
            What::LsmTests => {
                let why = "they run on stock kernels".to_owned();
                return Ok(Outcome::NotAttempted(why));
            }
        };
        command.current_dir(&places.root);
        ran.command = words(&command);
        let status = stage::run(&mut command, limit, &own.join("output.log"), |line| {
            say::line(line);
        })?;
        if !status.success() {
            return Ok(Outcome::Failed(status.to_string()));
        }
        Ok(match self.what {
            What::Outsiders => {
                let log = own.join("output.log");
                let text =
                    fs::read_to_string(&log).with_context(|| format!("`{}`", log.display()))?;
                Outcome::Ran(of_outsiders(&text))
            }
            What::Ablation(_) | What::LsmTests | What::Suite(_) => Outcome::Passed,
        })
    }

    fn in_guest(
        &self,
        places: &Places,
        series: &Series,
        own: &Path,
        limit: Duration,
        ran: &mut Ran,
    ) -> Result<Outcome> {
        if let Some(missing) = guest::missing() {
            return Ok(Outcome::NotAttempted(format!("a guest needs {missing}")));
        }
        match guest::prepare(places, series) {
            Ok((kernel, _)) => ran.kernel = kernel.release,
            Err(error) => {
                let why = format!("no kernel {series} can be had: {error:#}");
                return Ok(Outcome::NotAttempted(why));
            }
        }
        let mut options = guest::Options::new(series.clone(), own.to_owned(), Vec::new());
        options.limit = limit;
        match self.what {
            What::Ablation(_) | What::Suite(_) => {
                options.command = vec!["custody-bypass".to_owned()];
                let inside = Path::new("/output");
                options.command.extend(self.suite_arguments(inside));
            }
            What::LsmTests => guest::lsm_tests(places, &mut options)?,
            What::Outsiders => {
                let why = "a guest has no network to fetch them".to_owned();
                return Ok(Outcome::NotAttempted(why));
            }
        }
        ran.command = options.command.clone();
        let outcome = guest::run(places, &options)?;
        if self.what == What::LsmTests {
            guest::all_attempted(&outcome)?;
        }
        Ok(if outcome.code == 0 {
            Outcome::Passed
        } else {
            Outcome::Failed(format!("exit status {}", outcome.code))
        })
    }

    /// custody-bypass's, to leave its evidence in `folder`.
    fn suite_arguments(&self, folder: &Path) -> Vec<String> {
        let of = |profile: &str, name: &str| {
            let file = folder.join(name).display().to_string();
            vec!["--profile".into(), profile.into(), "--json".into(), file]
        };
        match self.what {
            What::Ablation(profile) => {
                let mut words = of(profile, "evidence.json");
                words.push("--ablate".into());
                // They are of no profile: once is enough, where installations start fast.
                if matches!(self.ground, Ground::Host) {
                    words.push("--refused".into());
                }
                words
            }
            What::Suite(profile) => of(profile, "evidence.json"),
            What::LsmTests | What::Outsiders => Vec::new(),
        }
    }
}

/// What can be said of outsiders' programs: what each did is in their log.
fn of_outsiders(log: &str) -> String {
    let not_attempted = log.lines().filter(|line| line.contains("not attempted: "));
    format!(
        "no verdict is ours, its log has what each program did; {} not attempted",
        not_attempted.count()
    )
}

/// Another command of ours.
fn ours(arguments: &[&str]) -> Result<Command> {
    let program = places::own_program()?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

fn words(command: &Command) -> Vec<String> {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_named_by_its_kernel_and_what_it_runs() {
        let guest = Ground::Guest("7.x".parse().unwrap());
        assert_eq!(
            Step::new(guest, What::Suite("hardened")).name(),
            "guest-7.x-suite"
        );
        assert_eq!(
            Step::new(Ground::Host, What::Ablation("standard")).name(),
            "host-ablation"
        );
        assert_eq!(
            Step::new(Ground::Host, What::Suite("dev")).name(),
            "host-suite-dev"
        );
    }

    #[test]
    fn refused_configurations_are_provoked_once_on_the_host() {
        let provokes = |ground: Ground, what| {
            let words = Step::new(ground, what).suite_arguments(Path::new("/x"));
            words.iter().any(|word| word == "--refused")
        };
        assert!(provokes(Ground::Host, What::Ablation("standard")));
        assert!(!provokes(Ground::Host, What::Suite("dev")));
        let guest = Ground::Guest("7.x".parse().unwrap());
        assert!(!provokes(guest, What::Ablation("hardened")));
    }

    #[test]
    fn outsiders_get_no_verdict_and_what_was_not_attempted_is_counted() {
        let log = "fork-bomb   not attempted: it eats what the host has\nmount-proc  bare 0\n\
                   not attempted: vetto is not installed\n";
        let words = of_outsiders(log);
        assert!(words.starts_with("no verdict is ours"), "{words}");
        assert!(words.ends_with("2 not attempted"), "{words}");
    }
}
