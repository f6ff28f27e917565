//! The attempts: each is data and a function, one file for each class of §12.2.

mod aftermath;
mod authenticated_client;
mod calls;
mod consoles;
mod covert;
mod custody;
mod descriptors;
mod exchange;
mod extracted_callable;
mod families;
mod frames;
mod gate;
mod guesses;
mod handles;
mod holders;
mod lifecycle;
mod namespaces;
mod network;
mod pins;
mod privilege;
mod processes;
pub mod refused_configurations;
mod rings;
mod setid;
mod shared_process_credential;
mod sockets;
mod stdio;
mod surface;
mod terminal;
mod uids;
mod unregistered_tool;
mod without_authorization;
mod workspace;

use custody_wire::layer::Layer;

use crate::{
    evidence::{expected::Kernel, row::Class},
    probe::{Attack, Effect, Report},
    suite::scene::Scene,
};

/// One attempt.
#[derive(Debug)]
pub struct Attempt {
    /// `family/name`, stable.
    pub id: &'static str,
    /// Its class.
    pub class: Class,
    /// The trick. IPv4 and IPv6 of one trick are one mechanism.
    pub mechanism: &'static str,
    /// The question it asks, in one sentence.
    pub question: &'static str,
    /// What it needs from the host.
    pub needs: &'static [Need],
    /// What is promised to refuse it.
    pub promised: Promised,
    /// The incident or paper that it comes from.
    pub source: &'static str,
    /// Who owns the target: in the reach arm the attack runs under the same uid.
    pub owner: Owner,
    /// What the caller carries into every arm, for the attack to find.
    pub carries: Carries,
    /// Whether its sessions have the shared workspace.
    pub workspace: Workspace,
    /// The attack, for one arm.
    pub attack: fn(&Scene, Arm, Effect) -> Attack,
    /// The same code path against what is allowed.
    pub twin: fn(&Scene, Effect) -> Attack,
    /// By what the twin is seen to have succeeded.
    pub twin_shows: TwinShows,
    /// By what it is seen to have reached: the witness and the canaries count always.
    pub proof: Proof,
    /// What is laid out on the host before each arm.
    pub before: fn(&Scene, &Place) -> anyhow::Result<()>,
    /// The architectural reason, where the attempt is known to reach. The run fails when the gap
    /// closes, so that the claim moves with the fact.
    pub known_gap: Option<&'static str>,
    /// Why a known gap that reaches a protected effect lies outside the declared zone: what its own
    /// proof finds then is no bypass inside it. The evidence's scope says so, and
    /// `fixtures/non-claims.toml` has it. Without this a gap that reaches one is a failure.
    pub beyond: Option<&'static str>,
    /// Why its isolating runs are made one after the other, where they would meet each other: in one
    /// thing of the host's that has no name of an arm's own. [`Attempt::alone`] has what follows of
    /// itself.
    pub apart: Option<&'static str>,
    /// What else a reader of the row must know.
    pub notes: &'static [&'static str],
}

impl Attempt {
    /// The mutant that takes its rule away, or several joined by `+`; none where layers refuse, or
    /// where there is no rule to take away.
    pub fn mutant(&self) -> Option<&'static str> {
        match self.promised {
            Promised::Gate { mutant, .. } | Promised::Quietly { mutant, .. } => {
                (!mutant.starts_with("none: ")).then_some(mutant)
            }
            Promised::Layers(_) => None,
        }
    }

    /// Why none of its isolating runs is made beside another.
    pub fn alone(&self) -> Option<&'static str> {
        match self.carries {
            Carries::Nothing => self.apart,
            Carries::Connection
            | Carries::Console
            | Carries::Environment
            | Carries::File
            | Carries::Folder
            | Carries::Pidfd
            | Carries::Ring
            | Carries::Tcp
            | Carries::Terminal
            | Carries::Udp => Some(
                "a descriptor without close-on-exec comes to every program that is started meanwhile",
            ),
        }
    }

    /// What most attempts have: `Attempt { id: …, ..Attempt::BASE }`.
    pub const BASE: Self = Self {
        id: "",
        class: Class::Confinement,
        mechanism: "",
        question: "",
        needs: &[],
        promised: Promised::Layers(&[]),
        source: "",
        owner: Owner::Standin,
        carries: Carries::Nothing,
        workspace: Workspace::None,
        attack: |_, _, _| Attack::Environment,
        twin: own_listener,
        twin_shows: TwinShows::Effect,
        proof: Proof::Effect,
        before: |_, _| Ok(()),
        known_gap: None,
        beyond: None,
        apart: None,
        notes: &[],
    };
}

/// By what an attempt is seen to have reached.
#[derive(Clone, Copy, Debug)]
pub enum Proof {
    /// Nothing but what counts always: the witness saw the nonce, or a canary was read.
    Effect,
    /// What the probe heard of a credential, in a form that the search for canaries does not know.
    Heard(fn(&Scene, &Place, &Report) -> Option<String>),
    /// What the attack left on the host: looked at from outside, after the arm. A door, unless the
    /// witness saw the arm's nonce by then.
    Outside(fn(&Scene, &Place) -> anyhow::Result<Option<String>>),
    /// The same look, where what it finds is a protected effect or a credential's bytes.
    Protected(fn(&Scene, &Place) -> anyhow::Result<Option<String>>),
    /// What came to the terminal that the arm's standard error is: with this proof it is one.
    Shown(fn(&str) -> Option<String>),
    /// What stands at the end in the file that the arm's standard error is, with this proof: the
    /// operator writes a line before the arm and a line after it, by the same open file.
    Written(fn(&str) -> Option<String>),
    /// The door itself: the probe came past this step. For what the kernel alone can answer, where
    /// no effect could be had without harm to the host.
    Step(&'static str),
}

/// One arm, as what is laid out and looked at on the host knows it.
#[derive(Clone, Debug)]
pub struct Place {
    /// Which arm.
    pub arm: Arm,
    /// The nonce of the arm's effect: what is laid out carries it in its name.
    pub nonce: String,
}

/// What an attempt needs from the host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    /// A virtual console (CONFIG_VT), which most guests and containers have not.
    Console,
    /// A kernel with the 32-bit entry (int 0x80).
    Ia32,
    /// A kernel that makes rings (io_uring_setup(2)).
    IoUring,
    /// IPv6 on loopback.
    Ipv6,
    /// A kernel from this version on.
    Kernel(&'static str),
    /// A kernel that lets whoever is not root count events of his own processes.
    PerfEvents,
    /// The interpreter, by its path.
    Program(&'static str),
    /// A file system for the installation on which set-user-ID bits count.
    SetUserId,
    /// A kind of socket: name, family, type and protocol.
    Socket(&'static str, i32, i32, i32),
    /// A kernel with the system calls of x32 (CONFIG_X86_X32_ABI).
    X32,
}

impl Need {
    /// What is missing here; none if nothing is.
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Console => crate::suite::arms::console()
                .is_err()
                .then(|| "a virtual console".into()),
            // Only a kernel with that entry has this (linux/arch/x86/entry/vdso/vdso32-setup.c).
            Self::Ia32 => (!std::path::Path::new("/proc/sys/abi/vsyscall32").exists())
                .then(|| "the 32-bit entry of the kernel".into()),
            Self::IoUring => {
                // 1 and 2 refuse whom they concern (sysctl kernel.io_uring_disabled).
                let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
                (!disabled.is_ok_and(|text| text.trim() == "0")).then(|| "io_uring".into())
            }
            Self::Ipv6 => std::net::UdpSocket::bind((std::net::Ipv6Addr::LOCALHOST, 0))
                .is_err()
                .then(|| "IPv6 on loopback".into()),
            Self::Kernel(from) => {
                let running = std::fs::read_to_string("/proc/sys/kernel/osrelease");
                let running: Option<Kernel> = running.ok().and_then(|text| text.parse().ok());
                (running < from.parse().ok()).then(|| format!("a kernel from {from} on"))
            }
            Self::PerfEvents => {
                // 3 refuses everybody without a capability, where the kernel has it (Debian's).
                let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
                let level: Option<i32> = paranoid.ok().and_then(|text| text.trim().parse().ok());
                level
                    .is_none_or(|level| level >= 3)
                    .then(|| "kernel.perf_event_paranoid below 3".into())
            }
            Self::Socket(name, family, kind, protocol) => {
                (!makes_socket(family, kind, protocol)).then(|| format!("sockets of {name}"))
            }
            Self::Program(path) => (!std::path::Path::new(path).exists()).then(|| path.into()),
            Self::SetUserId => {
                // ST_NOSUID (statvfs(3)), as systemd mounts `/run` and many mount `/tmp`.
                let place = rustix::fs::statvfs(crate::host::PLACE).ok();
                place
                    .is_none_or(|it| it.f_flag.contains(rustix::fs::StatVfsMountFlags::NOSUID))
                    .then(|| format!("`{}` without nosuid", crate::host::PLACE))
            }
            Self::X32 => (!answers_x32()).then(|| "the system calls of x32".into()),
        }
    }
}

/// Whether the kernel knows getpid(2) by its number of x32: without them it is ENOSYS.
fn answers_x32() -> bool {
    const SCRIPT: &str = "import ctypes, sys
sys.exit(ctypes.CDLL(None).syscall(0x40000000 | 39) == -1)";
    std::process::Command::new(crate::probe::PYTHON)
        .args(["-I", "-S", "-c", SCRIPT])
        .status()
        .is_ok_and(|status| status.success())
}

/// Whether the kernel has such sockets, asked as root.
fn makes_socket(family: i32, kind: i32, protocol: i32) -> bool {
    use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType};
    let raw = |number: i32| u32::try_from(number).unwrap_or(u32::MAX);
    let family = AddressFamily::from_raw(u16::try_from(family).unwrap_or(u16::MAX));
    let protocol = core::num::NonZeroU32::new(raw(protocol)).map(Protocol::from_raw);
    let kind = SocketType::from_raw(raw(kind));
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, protocol).is_ok()
}

/// A layer, or layers that are nothing apart.
pub type Leg = &'static [Layer];

/// What is promised to refuse an attempt.
#[derive(Debug)]
pub enum Promised {
    /// A rule of the gate: not ablated; the mutant that takes it away.
    Gate {
        /// What the refusal says, any of these.
        says: &'static [&'static str],
        /// The mutant's name.
        mutant: &'static str,
    },
    /// Legs of confinement, each tried alone: a layer, or layers that are nothing apart (a pid
    /// namespace without its own `/proc` shows the host's).
    Layers(&'static [Leg]),
    /// A rule that says nothing to the agent: what it takes out is just not there. Not ablated.
    Quietly {
        /// Whose rule.
        by: &'static str,
        /// The mutant's name.
        mutant: &'static str,
    },
}

/// Who owns an attempt's target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Owner {
    /// The operator: the service's own socket.
    Operator,
    /// Root: the credential's file.
    Root,
    /// The stand-in.
    Standin,
}

/// Whether the sessions of an attempt have a workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Workspace {
    /// None.
    None,
    /// One that programs outside the session use too.
    Shared,
}

/// What the caller carries into every arm.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Carries {
    /// A connection to a deputy, as an open descriptor.
    Connection,
    /// A virtual console.
    Console,
    /// A canary in the environment.
    Environment,
    /// A canary in an open file.
    File,
    /// An open folder, with a canary in a file of it.
    Folder,
    /// Nothing.
    Nothing,
    /// A pidfd of the stand-in (pidfd_open(2)).
    Pidfd,
    /// A ring (io_uring_setup(2)).
    Ring,
    /// A terminal, open (pts(4)).
    Terminal,
    /// A socket for TCP that is not connected yet.
    Tcp,
    /// A socket for UDP.
    Udp,
}

/// In which arm an attack runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arm {
    /// In full confinement, through the real service.
    Confined,
    /// In a run of custody-launch with a plan of the suite's.
    Isolated,
    /// With every promised layer removed.
    Reach,
    /// The same code path against what is allowed, in full confinement.
    Twin,
}

/// By what a twin is seen to have succeeded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TwinShows {
    /// It reached, by the attempt's own proof: the witness saw its nonce, through the gate; or the
    /// step was done; or it is seen on the host.
    Effect,
    /// It read what was planted for it.
    Planted,
    /// It heard this in an answer.
    Said(&'static str),
    /// The terminal, or the file, that its standard error is was shown this.
    Shown(&'static str),
    /// It came past this step.
    Step(&'static str),
}

/// Every attempt: the specification's classes in their order, then what lies beyond them.
pub fn all() -> Vec<&'static Attempt> {
    [
        without_authorization::ALL,
        unregistered_tool::ALL,
        extracted_callable::ALL,
        shared_process_credential::ALL,
        authenticated_client::ALL,
        descriptors::ALL,
        families::ALL,
        holders::ALL,
        namespaces::ALL,
        network::ALL,
        pins::ALL,
        privilege::ALL,
        processes::ALL,
        rings::ALL,
        sockets::ALL,
        surface::ALL,
        gate::ALL,
        custody::ALL,
        guesses::ALL,
        lifecycle::ALL,
        setid::ALL,
        workspace::ALL,
        exchange::ALL,
        aftermath::ALL,
        terminal::ALL,
        consoles::ALL,
        stdio::ALL,
        handles::ALL,
        uids::ALL,
        covert::ALL,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Why a twin is not the very call: the call is allowed against nothing.
const NO_TCP: &str =
    "no TCP is allowed at all: the twin speaks to a listener of AF_UNIX of its own";

/// The same of calls on other processes.
const NO_SUCH_CALL: &str =
    "the call is refused whole: the twin finds and searches its target through /proc/PID/mem";

/// Why a twin reads itself.
const OWN_MEMORY: &str = "in profile `hardened` nothing attaches to another process, not even of \
    its own session: there the twin finds what was planted in its own memory";

/// The same of datagrams.
const NO_DATAGRAMS: &str =
    "a pair of datagram sockets is refused whole: the twin speaks to a stream";

/// A twin that speaks to a listener of its own, over the only family that is allowed.
fn own_listener(_scene: &Scene, effect: Effect) -> Attack {
    Attack::Local {
        to: crate::probe::Address::Own,
        how: crate::probe::How::Stream,
        effect,
    }
}

/// A twin that plants what the attack then finds.
fn planted(scene: &Scene, of: Attack) -> Attack {
    Attack::Twin {
        of: Box::new(of),
        plant: scene.plant.clone(),
    }
}

/// A twin that reads a file, which is planted.
fn planted_file(scene: &Scene, _effect: Effect) -> Attack {
    planted(
        scene,
        Attack::File {
            path: "/nowhere".into(),
        },
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use custody_wire::profile::Profile;

    use super::*;
    use crate::evidence::{expected, status::MECHANISMS_MIN};

    #[test]
    fn every_class_has_enough_mechanisms_and_every_attempt_a_name_of_its_own() {
        let all = all();
        for class in Class::ALL {
            let mechanisms: BTreeSet<_> = all
                .iter()
                .filter(|attempt| attempt.class == class)
                .map(|attempt| attempt.mechanism)
                .collect();
            assert!(
                mechanisms.len() >= MECHANISMS_MIN,
                "{class}: {mechanisms:?}"
            );
        }
        let ids: BTreeSet<_> = all.iter().map(|attempt| attempt.id).collect();
        assert_eq!(ids.len(), all.len());
    }

    #[test]
    fn the_suite_is_as_wide_as_it_is_said_to_be() {
        let all = all();
        let mechanisms: BTreeSet<_> = all.iter().map(|attempt| attempt.mechanism).collect();
        assert!(all.len() >= 90, "{} rows", all.len());
        assert!(mechanisms.len() >= 60, "{} mechanisms", mechanisms.len());
    }

    #[test]
    fn every_attempt_is_expected_before_the_run_under_every_profile() {
        for profile in Profile::ALL {
            let expected = expected::of(profile, "6.12".parse().unwrap()).unwrap();
            for attempt in all() {
                let Some(expected) = expected.get(attempt.id) else {
                    panic!("nothing is expected of {}", attempt.id);
                };
                let is_gap = expected.outcome == "reached";
                assert!(
                    !is_gap || attempt.known_gap.is_some() || expected.permitted.is_some(),
                    "{} is expected to reach, without a reason",
                    attempt.id
                );
            }
            assert_eq!(expected.len(), all().len(), "an expectation of no attempt");
        }
    }

    #[test]
    fn a_known_gap_is_expected_to_reach_under_the_base_profile() {
        let expected = expected::of(Profile::Standard, "6.12".parse().unwrap()).unwrap();
        for attempt in all().into_iter().filter(|it| it.known_gap.is_some()) {
            assert_eq!(expected[attempt.id].outcome, "reached", "{}", attempt.id);
        }
    }

    #[test]
    fn every_attempt_that_a_program_of_the_kernel_names_is_one() {
        let ids: BTreeSet<_> = all().iter().map(|attempt| attempt.id).collect();
        let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../agent-ebpf/src/programs");
        let mut folders = vec![std::path::PathBuf::from(programs)];
        let mut named = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let words = text.split('`').filter(|word| is_id(word));
                for word in words {
                    named += 1;
                    assert!(ids.contains(word), "{}: `{word}`", path.display());
                }
            }
        }
        assert!(named > 20, "{named}");
    }

    /// `family/name`, in lower case: no path of the kernel's source, which has a dot.
    fn is_id(word: &str) -> bool {
        word.split_once('/').is_some_and(|(family, name)| {
            [family, name].iter().all(|part| {
                !part.is_empty()
                    && part.bytes().all(|byte| {
                        byte.is_ascii_lowercase() || byte == b'-' || byte.is_ascii_digit()
                    })
            })
        })
    }
}
