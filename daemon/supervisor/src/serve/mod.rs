//! The loop: one thread, `poll`, a signalfd, pidfds and channels.
//!
//! | module | what |
//! |---|---|
//! | [`callers`] | whose order it is: the kernel's word, not control's |
//! | [`channels`] | orders in, notices out; a service that breaks the protocol is killed |
//! | [`closing`] | what may take long to close |
//! | [`counted`] | what the hooks counted, said to control |
//! | [`end`] | what happens when a program ends, and taking apart what it leaves |
//! | [`fronts`] | a session's front |
//! | [`hooked`] | what the eBPF hooks are worth, and what they counted |
//! | [`heads`] | the newest lines of the two chains, in the journal |
//! | [`instance`] | the instance's word for the keys of the two chains |
//! | [`launched`] | what custody-launch reported of a session |
//! | [`looking`] | workspaces that are looked through before their sessions start |
//! | [`orders`] | from control's order to a launcher that has the plan |
//! | [`over`] | a session of which nothing is left |
//! | [`plans`] | what each of our programs may see |
//! | [`refusing`] | configurations that a session's profile refuses |
//! | [`revoking`] | what an operator takes back, and tools that go on |
//! | [`say`] | errors and names in the words of messages |
//! | [`services`] | control, gate, vault, resolver, page: started, linked, started again |
//! | [`sessions`] | a session to its killing |
//! | [`spares`] | launchers that are ready before there is a session |
//! | [`standing`] | whether the layers of a session suffice |
//! | [`wait`] | what became readable, or which timer runs out |
//! | [`workers`] | effect workers |

mod callers;
mod channels;
mod closing;
mod counted;
mod end;
mod fronts;
mod heads;
mod hooked;
mod instance;
mod launched;
mod looking;
mod orders;
mod over;
mod plans;
mod refusing;
mod revoking;
mod say;
mod services;
mod sessions;
mod spares;
mod standing;
mod wait;
mod workers;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    path::PathBuf,
    time::{Duration, Instant},
};

use custody_sys::{cgroup::Cgroup, clock};
use gate::id::{PolicyName, SessionId, ToolName};
use nix::sys::{signal::Signal, signalfd::SignalFd};

use crate::{
    cgroups::{CgroupError, Cgroups},
    checks::Checked,
    denials::Denials,
    hooks::{Group, HookError, Hooks, PinError, Pins},
    places::{PlaceError, Places},
    process::Process,
    revoked::{Revocations, RevokedError},
    uids::Pool,
};

use heads::Heads;
use looking::Looking;
use orders::Ordered;
use say::chain;
use services::{Service, Slots};
use sessions::Session;
use spares::Spares;
use wait::{Ready, signals};
use workers::Worker;

/// Why custodyd ends with a failure.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The cgroups.
    #[error(transparent)]
    Cgroups(#[from] CgroupError),
    /// The hooks.
    #[error(transparent)]
    Hooks(#[from] HookError),
    /// A system call that the loop rests on.
    #[error("{call}")]
    Loop {
        /// Which.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The pins.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// The instance's public key cannot be published.
    #[error("cannot publish the instance's key in `{folder}`")]
    Instance {
        /// Where.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The page's listener.
    #[error("cannot listen at {listen}, where `[page]` of custodyd.toml says; give another port")]
    Page {
        /// Where.
        listen: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The folders.
    #[error(transparent)]
    Places(#[from] PlaceError),
    /// What was taken back.
    #[error(transparent)]
    Revoked(#[from] RevokedError),
    /// A service does not stay up.
    #[error("custody-{service} ended {times} times in a row; see its last words above")]
    Service {
        /// Which.
        service: &'static str,
        /// How often.
        times: u32,
    },
}

/// What a started program is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Front(SessionId),
    Service(Service),
    Session(SessionId),
    /// A launcher that waits for a session.
    Spare,
    /// The vault numbers its orders, each run of it anew.
    Worker {
        session: SessionId,
        order: u64,
        run: u32,
    },
}

impl Part {
    /// The session that it belongs to.
    const fn session(self) -> Option<SessionId> {
        match self {
            Self::Front(session) | Self::Session(session) | Self::Worker { session, .. } => {
                Some(session)
            }
            Self::Service(_) | Self::Spare => None,
        }
    }
}

/// A program that has ended, whose cgroup is to be removed.
#[derive(Debug)]
struct Dying {
    part: Part,
    cgroup: Cgroup,
    uid: u32,
    since: Instant,
    complained: bool,
}

/// Whether custodyd takes orders or takes itself down.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    /// Until every service runs.
    Starting,
    Serving,
    /// Sessions first.
    EndingSessions,
    /// Then, when the last words have gone out, the services.
    EndingServices {
        kill_at: Instant,
    },
}

/// custodyd at work.
#[derive(Debug)]
struct Custodyd {
    checked: Checked,
    config_path: Option<PathBuf>,
    places: Places,
    pins: Pins,
    hooks: Hooks,
    cgroups: Cgroups,
    denials: Denials,
    listener: UnixListener,
    /// Where browsers of reviewers connect, if there is a page. Nobody accepts here.
    page: Option<TcpListener>,
    agents: Pool,
    fronts: Pool,
    workers_uids: Pool,
    processes: BTreeMap<u64, (Part, Process)>,
    next_process: u64,
    dying: Vec<Dying>,
    slots: Slots,
    sessions: BTreeMap<SessionId, Session>,
    /// Orders of sessions to be.
    looking: Looking<Ordered>,
    workers: BTreeMap<u64, Worker>,
    revocations: Revocations,
    locks: BTreeSet<(PolicyName, ToolName)>,
    vault_run: u32,
    heads: Heads,
    mode: Mode,
    /// When custodyd ends whatever is left.
    end_by: Option<Instant>,
    next_tick: Instant,
    spares: Spares,
}

/// How often windows of denials are closed.
const TICK: Duration = Duration::from_secs(5);

/// How soon a cgroup that is not empty yet is looked at again.
const DYING_EVERY: Duration = Duration::from_millis(2);

/// Runs until a signal asks for the end. `kept` is the operators' listener of an earlier run.
///
/// # Errors
/// See [`ServeError`]. Everything that was started has ended by then.
pub fn serve(
    checked: Checked,
    config_path: Option<PathBuf>,
    kept: Option<UnixListener>,
) -> Result<(), ServeError> {
    let places = Places::lock(&checked.config.paths.runtime, &checked.config.paths.state)?;
    places.make(&checked.users)?;
    if let Some(key) = &checked.instance {
        let folder = checked.config.paths.state.join("public");
        instance::publish(&folder, &key.verifying_key())
            .map_err(|source| ServeError::Instance { folder, source })?;
    }
    let revocations = Revocations::open(&checked.config.paths.state)?;
    places.write(&checked.policies)?;
    let cgroups = Cgroups::make(&checked.cgroup)?;
    let mut hooks = Hooks::load(cgroups.group(Group::Agents))?;
    let pins = Pins::open(&checked.cgroup)?;
    for group in Group::ALL {
        hooks.attach(group, cgroups.group(group), &pins)?;
    }
    hooks.attach_lsm(&hooked::objects(&checked, config_path.as_ref()), &pins)?;
    if checked.config.observation.syscalls {
        hooks.count_system_calls()?;
        tracing::warn!("system calls are counted, which slows down the whole machine");
    }
    tracing::info!(
        cgroup = %checked.cgroup.display(),
        object = Hooks::object().unwrap_or("none"),
        lsm = say::status(&hooks.lsm_status(&pins)),
        "hooks are attached"
    );
    let signals = signals()?;
    let uids = checked.config.uids;
    let seed = clock::boot_ns() / 1_000_000;
    let page = checked.config.page.map(|page| listen(page.listen));
    let page = page.transpose()?;
    let mut custodyd = Custodyd {
        listener: places.listen(kept)?,
        agents: Pool::new(uids.agents, seed),
        fronts: Pool::new(uids.fronts, seed),
        workers_uids: Pool::new(uids.workers, seed),
        checked,
        config_path,
        places,
        pins,
        hooks,
        cgroups,
        denials: Denials::default(),
        processes: BTreeMap::new(),
        next_process: 0,
        dying: Vec::new(),
        slots: Slots::new(|service| service != Service::Page || page.is_some()),
        page,
        sessions: BTreeMap::new(),
        looking: Looking::new().map_err(|source| ServeError::Loop {
            call: "pipe",
            source,
        })?,
        workers: BTreeMap::new(),
        revocations,
        locks: BTreeSet::new(),
        vault_run: 0,
        heads: Heads::default(),
        mode: Mode::Starting,
        end_by: None,
        next_tick: Instant::now(),
        spares: Spares::default(),
    };
    let result = custodyd.run(&signals);
    custodyd.take_down();
    result
}

/// The page's listener: made here, since the page itself can make no socket of the network.
fn listen(listen: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(listen).map_err(|source| ServeError::Page { listen, source })
}

/// Denials that are read before the other channels are looked at again.
const DENIALS_A_TURN: usize = 1_024;

impl Custodyd {
    fn run(&mut self, signals: &SignalFd) -> Result<(), ServeError> {
        loop {
            self.start_due()?;
            self.advance();
            if self.is_over() {
                return Ok(());
            }
            for ready in self.wait(signals)? {
                match ready {
                    Ready::Called(id) => self.front_called(id),
                    Ready::Channel(number) => self.channel_ready(number),
                    Ready::Denials => self.read_denials(),
                    Ready::Ended(number) => self.process_ended(number),
                    Ready::Looked => self.workspace_looked(),
                    Ready::Orders(service) => self.take_orders(service),
                    Ready::Signals => self.read_signals(signals),
                    Ready::Words(number) => {
                        if let Some((_, process)) = self.processes.get_mut(&number) {
                            process.relay();
                        }
                    }
                }
            }
        }
    }

    /// Everything that time alone moves on.
    fn advance(&mut self) {
        let now = Instant::now();
        self.kill_late(now);
        self.remove_dying(now);
        self.finish_sessions();
        self.heads.note_if_due(now);
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            match self.hooks.dropped() {
                Ok(dropped) => self.denials.tick(now, dropped),
                Err(error) => tracing::warn!(error = chain(&error), "the count of lost denials"),
            }
            self.look_again();
            self.say_counts();
            self.retire_outdated();
            if let Err(error) = self.protect_again() {
                tracing::warn!(error = chain(&error), "what no session may touch");
            }
        }
        self.refill(now);
        self.advance_mode(now);
        self.let_serve();
    }

    fn read_denials(&mut self) {
        let now = Instant::now();
        // An agent that is denied faster than this thread reads must not keep it: the ring stays
        // readable, and everyone else has his turn first.
        for event in std::iter::from_fn(|| self.hooks.next_event()).take(DENIALS_A_TURN) {
            self.denials.note(&event, now);
        }
    }

    fn read_signals(&mut self, signals: &SignalFd) {
        while let Ok(Some(info)) = signals.read_signal() {
            let signal = i32::try_from(info.ssi_signo)
                .ok()
                .and_then(|number| Signal::try_from(number).ok());
            match signal {
                Some(Signal::SIGHUP) => {
                    tracing::warn!(
                        "SIGHUP: reviewers' keys are read again, and nothing else is while running; \
                         for that restart custodyd"
                    );
                    self.brief_reviewers();
                }
                Some(signal) => {
                    tracing::info!(signal = signal.as_str(), "ending");
                    self.begin_end();
                }
                None => {}
            }
        }
    }

    /// A number for a process that starts.
    fn register(&mut self, part: Part, process: Process) -> u64 {
        self.next_process = self.next_process.saturating_add(1);
        self.processes.insert(self.next_process, (part, process));
        self.next_process
    }

    fn numbers_of(&self, wanted: impl Fn(Part) -> bool) -> Vec<u64> {
        self.processes
            .iter()
            .filter(|(_, (part, _))| wanted(*part))
            .map(|(number, _)| *number)
            .collect()
    }
}
