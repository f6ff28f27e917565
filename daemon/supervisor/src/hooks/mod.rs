//! The eBPF hooks: loaded once, attached to the three groups of cgroups, pinned.
//!
//! | group | IP | AF_UNIX |
//! |---|---|---|
//! | agents | nothing: no role | the listener, `/tmp/`, abstract names |
//! | services | nothing: no role | nothing |
//! | workers | what [`Hooks::admit`] named | nothing |
//!
//! Device nodes, sysctls and setsockopt(2) have a hook each at every group. BPF LSM programs are
//! one for the whole machine, where the kernel takes them ([`lsm`]).
//!
//! | module | what |
//! |---|---|
//! | [`cgroup`] | the programs at a cgroup that aya loads |
//! | [`level`] | how deep a cgroup lies |
//! | [`lsm`] | the LSM programs and their status |
//! | [`object`] | the eBPF object inside this program |
//! | [`objects`] | what no session may touch |
//! | [`offsets`] | where members of the kernel's structs lie |
//! | [`pins`] | links that outlive custodyd |
//! | [`tally`] | what a cgroup did, counted |
//! | [`unix`] | the AF_UNIX programs |
//!
//! **Invariant:** a missing map entry denies. When custodyd is gone the pins hold the links, the
//! links the programs, the programs the maps: nothing opens.

mod cgroup;
mod level;
mod lsm;
mod object;
mod objects;
mod offsets;
mod pins;
mod tally;
mod unix;

use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use agent_ebpf::{
    Counts, Egress, Event, Hook, OFFSETS, Object, address_of, family, global, map, protocol, state,
};
use aya::{
    Btf as AyaBtf, Ebpf, EbpfError, EbpfLoader,
    maps::{
        Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuHashMap, PerCpuValues, RingBuf,
    },
    programs::{ProgramError, RawTracePoint},
    util::nr_cpus,
};
use custody_sys::{
    bpf::{self, Attach, btf::Btf},
    cgroup::Cgroup,
};
use custody_wire::{layer::Status, profile::Profile};

use lsm::Lsm;

pub use cgroup::layers;
pub use pins::{PinError, Pins};
pub use tally::Tally;
pub use unix::UnixHookError;

/// A group of cgroups that share their hooks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Group {
    /// Sessions.
    Agents,
    /// Our programs without a network.
    Services,
    /// Effect workers and the resolver.
    Workers,
}

impl Group {
    /// Every group.
    pub const ALL: [Self; 3] = [Self::Agents, Self::Services, Self::Workers];

    /// Its folder's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Services => "services",
            Self::Workers => "workers",
        }
    }

    const fn reach(self) -> unix::Reach {
        match self {
            Self::Agents => unix::Reach::Agent,
            Self::Services | Self::Workers => unix::Reach::Nothing,
        }
    }
}

/// Why the hooks cannot be had. Then nothing is started.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// bpf(2) refused the attachment.
    #[error("cannot attach hook `{}` to `{cgroup}`", hook.name())]
    Attach {
        /// Which.
        hook: Hook,
        /// To where.
        cgroup: String,
        /// Why.
        source: io::Error,
    },
    /// The object lacks a program or map: it is of another version.
    #[error("the eBPF object has no `{name}`; build it again with `cargo xtask build-ebpf`")]
    Incomplete {
        /// Of what name.
        name: &'static str,
    },
    /// The object does not load.
    #[error("the eBPF object does not load")]
    Load(#[source] EbpfError),
    /// A map cannot be used.
    #[error("eBPF map `{name}`")]
    Map {
        /// Which.
        name: &'static str,
        /// Why.
        source: MapError,
    },
    /// A file or folder that no session may touch cannot be named to the programs.
    #[error("cannot tell the hooks of `{path}`, which no session may touch")]
    Object {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// This program was built without the object.
    #[error(
        "this custodyd was built without its eBPF object and cannot enforce anything; \
         run `cargo xtask build-ebpf` and build it again"
    )]
    NoObject,
    /// A pin cannot be made.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// A program does not load.
    #[error("hook `{}` does not load", hook.name())]
    Program {
        /// Which.
        hook: Hook,
        /// Why.
        source: ProgramError,
    },
    /// System calls cannot be counted.
    #[error("the tracepoint that counts system calls cannot be had")]
    Tracepoint {
        /// Why.
        source: ProgramError,
    },
    /// An AF_UNIX hook could not be made.
    #[error(transparent)]
    Unix(#[from] UnixHookError),
}

/// The loaded programs and their maps.
pub struct Hooks {
    ebpf: Ebpf,
    names: unix::Names,
    lsm: Lsm,
    mark: u32,
    /// Held as long as custodyd lives, beside the pins.
    links: Vec<OwnedFd>,
    counts_fd: OwnedFd,
    dropped_fd: OwnedFd,
    events_fd: OwnedFd,
    counts: PerCpuHashMap<MapData, u64, Counts>,
    dropped: PerCpuArray<MapData, u64>,
    egress: HashMap<MapData, [u8; size_of::<Egress>()], u8>,
    events: RingBuf<MapData>,
    filter: Array<MapData, u64>,
    objects: HashMap<MapData, [u8; size_of::<Object>()], u8>,
    /// What stands in `objects`.
    protected: Vec<Object>,
    /// Where the links are pinned: what no session may touch, either.
    pins: Option<PathBuf>,
    roles: HashMap<MapData, u64, u8>,
    sessions: HashMap<MapData, u64, u8>,
}

// aya's maps have no Debug.
impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Hooks {
    /// SHA-256 of the embedded object, in hexadecimal; none if this build has no object.
    pub fn object() -> Option<&'static str> {
        (!object::BYTES.is_empty()).then_some(object::SHA256)
    }

    /// Loads the programs and makes their maps, empty: everything is denied. `agents` is the
    /// folder of the sessions' cgroups.
    ///
    /// # Errors
    /// See [`HookError`]. That the kernel takes no LSM program is none: [`Hooks::lsm_status`].
    pub fn load(agents: &Cgroup) -> Result<Self, HookError> {
        if object::BYTES.is_empty() {
            return Err(HookError::NoObject);
        }
        let btf = Btf::read().map_err(UnixHookError::from)?;
        let names = unix::Names::look_up(&btf).map_err(UnixHookError::from)?;
        let offsets = offsets::look_up(&btf);
        drop(btf);
        let level = level::of(agents.path()).unwrap_or(None);
        let mark = random_mark().unwrap_or(0);

        let zeros = vec![0; OFFSETS.len()];
        let members = offsets.as_ref().unwrap_or(&zeros);
        let (agents_id, depth) = (agents.id(), level.unwrap_or(0));
        let mut loader = EbpfLoader::new();
        loader
            .override_global(global::AGENTS, &agents_id, true)
            .override_global(global::LEVEL, &depth, true)
            .override_global(global::MARK, &mark, true);
        for ((name, _, _), offset) in OFFSETS.iter().zip(members) {
            loader.override_global(name, offset, true);
        }
        let mut ebpf = loader.load(object::BYTES).map_err(HookError::Load)?;
        cgroup::load(&mut ebpf)?;
        let lsm = match (offsets, level, AyaBtf::from_sys_fs()) {
            (Err(error), _, _) => Lsm::refused(error.to_string(), 0),
            (Ok(_), None, _) => Lsm::refused(
                "custodyd is in a cgroup namespace of its own, and the level of its cgroups is \
                 not known"
                    .into(),
                0,
            ),
            (Ok(_), Some(_), Err(error)) => Lsm::refused(error.to_string(), 0),
            (Ok(_), Some(_), Ok(_)) if mark == 0 => {
                Lsm::refused("read(2) of `/dev/urandom`".into(), 0)
            }
            (Ok(_), Some(_), Ok(btf)) => Lsm::load(&mut ebpf, &btf)?,
        };

        let counts_fd = descriptor(&ebpf, map::COUNTS)?;
        let dropped_fd = descriptor(&ebpf, map::DROPPED)?;
        let events_fd = descriptor(&ebpf, map::EVENTS)?;
        let mut take = |name| ebpf.take_map(name).ok_or(HookError::Incomplete { name });
        Ok(Self {
            counts: take(map::COUNTS)?.try_into().map_err(bad(map::COUNTS))?,
            dropped: take(map::DROPPED)?.try_into().map_err(bad(map::DROPPED))?,
            egress: take(map::EGRESS)?.try_into().map_err(bad(map::EGRESS))?,
            events: take(map::EVENTS)?.try_into().map_err(bad(map::EVENTS))?,
            filter: take(map::FILTER)?.try_into().map_err(bad(map::FILTER))?,
            objects: take(map::OBJECTS)?.try_into().map_err(bad(map::OBJECTS))?,
            protected: Vec::new(),
            pins: None,
            roles: take(map::ROLES)?.try_into().map_err(bad(map::ROLES))?,
            sessions: take(map::SESSIONS)?
                .try_into()
                .map_err(bad(map::SESSIONS))?,
            links: Vec::new(),
            counts_fd,
            dropped_fd,
            ebpf,
            events_fd,
            lsm,
            mark,
            names,
        })
    }

    /// Attaches every hook to the group's folder, and so to all below it, and pins the links.
    /// Called before any process is in it.
    ///
    /// # Errors
    /// See [`HookError`]. What was attached before the failure stays: it only denies.
    pub fn attach(&mut self, group: Group, cgroup: &Cgroup, pins: &Pins) -> Result<(), HookError> {
        let mut links = Vec::new();
        let mut put = |hook: Hook, at: Attach, program: BorrowedFd<'_>| -> Result<(), HookError> {
            let link =
                bpf::attach(program, cgroup.as_fd(), at).map_err(|source| HookError::Attach {
                    hook,
                    cgroup: cgroup.path().display().to_string(),
                    source,
                })?;
            pins.replace(group, hook, link.as_fd())?;
            links.push(link);
            Ok(())
        };
        for cgroup::Program {
            hook, at, function, ..
        } in cgroup::programs(group)
        {
            let program = self
                .ebpf
                .program(function)
                .ok_or(HookError::Incomplete { name: function })?;
            let fd = program
                .fd()
                .map_err(|source| HookError::Program { hook, source })?;
            put(hook, at, fd.as_fd())?;
        }
        let sinks = unix::Sinks {
            counts: self.counts_fd.as_fd(),
            dropped: self.dropped_fd.as_fd(),
            events: self.events_fd.as_fd(),
        };
        for (hook, at) in cgroup::UNIX {
            let program = unix::load(&self.names, sinks, group.reach(), hook, at)?;
            put(hook, at, program.as_fd())?;
        }
        self.links.append(&mut links);
        Ok(())
    }

    /// Attaches the LSM programs that the kernel took, and pins their links. `objects` are the
    /// files and folders that no session may touch, where they are there; the pins themselves are
    /// among them.
    ///
    /// # Errors
    /// See [`HookError`].
    pub fn attach_lsm(&mut self, objects: &[PathBuf], pins: &Pins) -> Result<(), HookError> {
        self.pins = Some(pins.folder().into());
        self.protect(objects)?;
        self.lsm.attach(pins)
    }

    /// Looks the same files and folders up anew: one that was replaced (a credential that was
    /// rotated by rename(2)) is another inode, and its old inode may be anybody's file next. Nothing
    /// where no LSM program is attached.
    ///
    /// # Errors
    /// See [`HookError`]. Where one cannot be looked up, nothing changes.
    pub fn protect_again(&mut self, objects: &[PathBuf]) -> Result<(), HookError> {
        if self.lsm.is_attached() {
            self.protect(objects)
        } else {
            Ok(())
        }
    }

    fn protect(&mut self, paths: &[PathBuf]) -> Result<(), HookError> {
        let of = |path: &Path, source| HookError::Object {
            path: path.into(),
            source,
        };
        let mut now = Vec::new();
        for path in paths.iter().chain(&self.pins) {
            now.extend(objects::find(path).map_err(|source| of(path, source))?);
        }
        let (stale, new) = objects::differ(&self.protected, &now);
        if stale.is_empty() && new.is_empty() {
            return Ok(());
        }
        // The filter first: an object without its bit would be none. What is stale goes next, or the
        // map might be full.
        let filter = now
            .iter()
            .fold(0, |bits, object| bits | Object::bit(object.ino));
        self.filter.set(0, filter, 0).map_err(bad(map::FILTER))?;
        for object in stale {
            or_missing(self.objects.remove(&object.to_bytes()), map::OBJECTS)?;
            self.protected.retain(|other| *other != object);
        }
        for object in new {
            self.objects
                .insert(object.to_bytes(), 1, 0)
                .map_err(bad(map::OBJECTS))?;
            self.protected.push(object);
        }
        Ok(())
    }

    /// What the layer of the LSM programs is worth now.
    pub fn lsm_status(&self, pins: &Pins) -> Status {
        self.lsm.status(pins)
    }

    /// The mark of custodyd's own channels to a session, where LSM programs look at it.
    pub fn mark(&self) -> Option<u32> {
        self.lsm.is_attached().then_some(self.mark)
    }

    /// Counts every system call of every session from now on: for evidence runs, since it taxes
    /// the whole machine. It ends with custodyd.
    ///
    /// # Errors
    /// When the program does not load or attach.
    pub fn count_system_calls(&mut self) -> Result<(), HookError> {
        let name = "custody_sys_enter";
        let failed = |source| HookError::Tracepoint { source };
        let program = self
            .ebpf
            .program_mut(name)
            .ok_or(HookError::Incomplete { name })?;
        let program: &mut RawTracePoint = program.try_into().map_err(failed)?;
        program.load().map_err(failed)?;
        let _link = program.attach("sys_enter").map_err(failed)?; // held by the program
        Ok(())
    }

    /// Counts from now on what the cgroup does.
    ///
    /// # Errors
    /// When the map is full: then it is not counted.
    pub fn count(&mut self, cgroup_id: u64) -> Result<(), HookError> {
        let cpus = nr_cpus().map_err(|(_, error)| bad(map::COUNTS)(MapError::IoError(error)))?;
        let zeros = PerCpuValues::try_from(vec![[0_u64; 128]; cpus])
            .map_err(|error| bad(map::COUNTS)(MapError::IoError(error)))?;
        self.counts
            .insert(cgroup_id, zeros, 0)
            .map_err(bad(map::COUNTS))
    }

    /// What the cgroup did so far; nothing if it was never counted.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub fn tally(&self, cgroup_id: u64) -> Result<Tally, HookError> {
        match self.counts.get(&cgroup_id, 0) {
            Ok(cpus) => Ok(Tally::of(cpus.iter())),
            Err(MapError::KeyNotFound) => Ok(Tally::default()),
            Err(source) => Err(bad(map::COUNTS)(source)),
        }
    }

    /// Lets go of what was counted.
    ///
    /// # Errors
    /// When the map cannot be changed.
    pub fn forget(&mut self, cgroup_id: u64) -> Result<(), HookError> {
        or_missing(self.counts.remove(&cgroup_id), map::COUNTS)
    }

    /// A session's cgroup in which custody-launch is about to work: until [`Hooks::seal`] it may
    /// mount, make nodes and receive descriptors.
    ///
    /// # Errors
    /// When the map is full; then the launch fails.
    pub fn open(&mut self, cgroup_id: u64, profile: Profile) -> Result<(), HookError> {
        self.sessions
            .insert(cgroup_id, state::LAUNCHING | tracing_of(profile), 0)
            .map_err(bad(map::SESSIONS))
    }

    /// Takes back what the launch had. Called before anything of the agent's is executed.
    ///
    /// # Errors
    /// When the map cannot be changed; then nothing of the agent's may be executed.
    pub fn seal(&mut self, cgroup_id: u64, profile: Profile) -> Result<(), HookError> {
        self.sessions
            .insert(cgroup_id, tracing_of(profile), 0)
            .map_err(bad(map::SESSIONS))
    }

    /// The session is over.
    ///
    /// # Errors
    /// When the map cannot be changed.
    pub fn close(&mut self, cgroup_id: u64) -> Result<(), HookError> {
        or_missing(self.sessions.remove(&cgroup_id), map::SESSIONS)
    }

    /// Lets the tasks of one cgroup (not of those below it) make TCP sockets and connect to
    /// `tcp`, make UDP sockets and send to `udp`, and nothing else. Called before a process is
    /// in it.
    ///
    /// # Errors
    /// When a map is full; then the cgroup has less than was asked for.
    pub fn admit(
        &mut self,
        cgroup_id: u64,
        tcp: &[SocketAddr],
        udp: &[SocketAddr],
    ) -> Result<(), HookError> {
        let lists = [
            (tcp, family::TCP, protocol::TCP),
            (udp, family::UDP, protocol::UDP),
        ];
        let mut role = 0;
        for (addresses, bit, protocol) in lists {
            for address in addresses {
                role |= bit;
                self.egress
                    .insert(key(cgroup_id, *address, protocol), 1, 0)
                    .map_err(bad(map::EGRESS))?;
            }
        }
        self.roles
            .insert(cgroup_id, role, 0)
            .map_err(bad(map::ROLES))
    }

    /// Takes back all that [`Hooks::admit`] gave the cgroup.
    ///
    /// # Errors
    /// When a map cannot be read. The role goes first: without one no new socket is made.
    pub fn withdraw(&mut self, cgroup_id: u64) -> Result<(), HookError> {
        or_missing(self.roles.remove(&cgroup_id), map::ROLES)?;
        let of_cgroup: Vec<_> = self
            .egress
            .keys()
            .filter(|key| {
                key.as_ref()
                    .is_ok_and(|key| key.starts_with(&cgroup_id.to_ne_bytes()))
            })
            .collect::<Result<_, _>>()
            .map_err(bad(map::EGRESS))?;
        for key in of_cgroup {
            self.egress.remove(&key).map_err(bad(map::EGRESS))?;
        }
        Ok(())
    }

    /// The next denial, if one waits. Poll [`Hooks::as_fd`](AsFd::as_fd) for more.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let item = self.events.next()?;
            if let Some(event) = Event::from_bytes(&item) {
                return Some(event);
            }
        }
    }

    /// How many denials the ring could not take since the hooks were loaded.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub fn dropped(&self) -> Result<u64, HookError> {
        let counts = self.dropped.get(&0, 0).map_err(bad(map::DROPPED))?;
        Ok(counts.iter().sum())
    }
}

/// Readable when a denial waits.
impl AsFd for Hooks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events_fd.as_fd()
    }
}

fn bad(name: &'static str) -> impl Fn(MapError) -> HookError {
    move |source| HookError::Map { name, source }
}

/// What is not there cannot be removed and need not be.
fn or_missing(removed: Result<(), MapError>, name: &'static str) -> Result<(), HookError> {
    match removed {
        Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
        Err(MapError::SyscallError(error)) if error.io_error.kind() == io::ErrorKind::NotFound => {
            Ok(())
        }
        Err(source) => Err(bad(name)(source)),
    }
}

const fn tracing_of(profile: Profile) -> u8 {
    match profile {
        Profile::Dev => state::TRACING,
        Profile::Hardened | Profile::Standard => 0,
    }
}

/// Drawn anew for each run: nobody else's sockets have it by chance. Never 0.
fn random_mark() -> io::Result<u32> {
    let mut bytes = [0; 4];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u32::from_ne_bytes(bytes) | 1)
}

fn key(cgroup_id: u64, to: SocketAddr, protocol: u32) -> [u8; size_of::<Egress>()] {
    Egress {
        cgroup_id,
        address: address_of(to.ip()),
        protocol,
        port: to.port(),
        zero: 0,
    }
    .to_bytes()
}

fn descriptor(ebpf: &Ebpf, name: &'static str) -> Result<OwnedFd, HookError> {
    match ebpf.map(name) {
        Some(Map::PerCpuArray(data) | Map::PerCpuHashMap(data) | Map::RingBuf(data)) => data
            .fd()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| HookError::Map {
                name,
                source: MapError::IoError(source),
            }),
        Some(_) | None => Err(HookError::Incomplete { name }),
    }
}
