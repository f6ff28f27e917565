//! The eBPF hooks: loaded once, attached to the three groups of cgroups, pinned.
//!
//! | group | IP | AF_UNIX |
//! |---|---|---|
//! | agents | nothing: no role | the listener, `/tmp/`, abstract names |
//! | services | nothing: no role | nothing |
//! | workers | what [`Hooks::admit`] named | nothing |
//!
//! **Invariant:** a missing map entry denies. When custodyd is gone the pins hold the links, the
//! links the programs, the programs the maps: nothing opens.

mod object;
mod pins;
mod unix;

use std::{
    fmt, io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use agent_ebpf::{Egress, Event, Hook, address_of, family, map, protocol};
use aya::{
    Ebpf, EbpfError,
    maps::{HashMap, Map, MapData, MapError, PerCpuArray, RingBuf},
    programs::{CgroupSock, CgroupSockAddr, ProgramError},
};
use custody_sys::{
    bpf::{self, Attach},
    cgroup::Cgroup,
};

pub use pins::{PinError, Pins};
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
    /// An AF_UNIX hook could not be made.
    #[error(transparent)]
    Unix(#[from] UnixHookError),
}

/// The loaded programs and their maps.
pub struct Hooks {
    ebpf: Ebpf,
    names: unix::Names,
    dropped_fd: OwnedFd,
    events_fd: OwnedFd,
    dropped: PerCpuArray<MapData, u64>,
    egress: HashMap<MapData, [u8; size_of::<Egress>()], u8>,
    events: RingBuf<MapData>,
    roles: HashMap<MapData, u64, u8>,
}

/// The IP hooks: where each is attached, and the function that does it.
const INET: [(Hook, Attach, &str); 7] = [
    (Hook::SockCreate, Attach::SockCreate, "custody_sock_create"),
    (Hook::Bind4, Attach::Bind4, "custody_bind4"),
    (Hook::Bind6, Attach::Bind6, "custody_bind6"),
    (Hook::Connect4, Attach::Connect4, "custody_connect4"),
    (Hook::Connect6, Attach::Connect6, "custody_connect6"),
    (Hook::SendMsg4, Attach::SendMsg4, "custody_sendmsg4"),
    (Hook::SendMsg6, Attach::SendMsg6, "custody_sendmsg6"),
];

const UNIX: [(Hook, Attach); 2] = [
    (Hook::ConnectUnix, Attach::ConnectUnix),
    (Hook::SendMsgUnix, Attach::SendMsgUnix),
];

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

    /// Loads the programs and makes their maps, empty: everything is denied.
    ///
    /// # Errors
    /// See [`HookError`].
    pub fn load() -> Result<Self, HookError> {
        if object::BYTES.is_empty() {
            return Err(HookError::NoObject);
        }
        let mut ebpf = Ebpf::load(object::BYTES).map_err(HookError::Load)?;
        for (hook, _, function) in INET {
            let failed = |source| HookError::Program { hook, source };
            let program = ebpf
                .program_mut(function)
                .ok_or(HookError::Incomplete { name: function })?;
            if hook == Hook::SockCreate {
                let program: &mut CgroupSock = program.try_into().map_err(failed)?;
                program.load().map_err(failed)?;
            } else {
                let program: &mut CgroupSockAddr = program.try_into().map_err(failed)?;
                program.load().map_err(failed)?;
            }
        }
        let names = unix::Names::look_up().map_err(UnixHookError::from)?;
        let dropped_fd = descriptor(&ebpf, map::DROPPED)?;
        let events_fd = descriptor(&ebpf, map::EVENTS)?;
        let mut take = |name| ebpf.take_map(name).ok_or(HookError::Incomplete { name });
        Ok(Self {
            dropped: take(map::DROPPED)?.try_into().map_err(bad(map::DROPPED))?,
            egress: take(map::EGRESS)?.try_into().map_err(bad(map::EGRESS))?,
            events: take(map::EVENTS)?.try_into().map_err(bad(map::EVENTS))?,
            roles: take(map::ROLES)?.try_into().map_err(bad(map::ROLES))?,
            dropped_fd,
            ebpf,
            events_fd,
            names,
        })
    }

    /// Attaches every hook to the group's folder, and so to all below it, and pins the links.
    /// Called before any process is in it.
    ///
    /// # Errors
    /// See [`HookError`]. What was attached before the failure stays: it only denies.
    pub fn attach(&self, group: Group, cgroup: &Cgroup, pins: &Pins) -> Result<(), HookError> {
        let put = |hook: Hook, at: Attach, program: BorrowedFd<'_>| -> Result<(), HookError> {
            let link =
                bpf::attach(program, cgroup.as_fd(), at).map_err(|source| HookError::Attach {
                    hook,
                    cgroup: cgroup.path().display().to_string(),
                    source,
                })?;
            pins.replace(group, hook, link.as_fd())?;
            Ok(())
        };
        for (hook, at, function) in INET {
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
            dropped: self.dropped_fd.as_fd(),
            events: self.events_fd.as_fd(),
        };
        for (hook, at) in UNIX {
            let program = unix::load(&self.names, sinks, group.reach(), hook, at)?;
            put(hook, at, program.as_fd())?;
        }
        Ok(())
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
        match self.roles.remove(&cgroup_id) {
            Ok(()) | Err(MapError::KeyNotFound) => {}
            Err(MapError::SyscallError(error)) if is_missing(&error.io_error) => {}
            Err(source) => return Err(bad(map::ROLES)(source)),
        }
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

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
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
        Some(Map::PerCpuArray(data) | Map::RingBuf(data)) => data
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
