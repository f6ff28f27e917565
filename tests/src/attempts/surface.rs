//! Doors of the kernel: calls that reach no protected effect by themselves, and that have opened
//! one before. In the reach arm they are made as root, who may; each undoes itself, or ends with
//! the process that made it.

use custody_wire::layer::Layer;
use nix::libc;

use super::{Attempt, Leg, Need, Owner, Promised, Proof, TwinShows, calls};
use crate::probe::{Argument, Call, PYTHON};

/// Root without capabilities may not; another uid has none.
pub(super) const PRIVILEGED: &[Leg] = &[&[Layer::Seccomp], &[Layer::Capabilities], &[Layer::Uid]];

/// The same with the second lock on the call.
const LOCKED: &[Leg] = &[
    &[Layer::Seccomp],
    &[Layer::BpfLsm],
    &[Layer::Capabilities],
    &[Layer::Uid],
];

/// The filter on system calls and, where the kernel takes it, the second lock.
pub(super) const FILTERED_AND_LOCKED: &[Leg] = &[&[Layer::Seccomp], &[Layer::BpfLsm]];

/// The filter on system calls, and nothing else.
const FILTERED: &[Leg] = &[&[Layer::Seccomp]];

pub(super) const REFUSED_WHOLE: &str =
    "the call is refused whole: the twin makes calls that are allowed, by the same script";

macro_rules! door {
    ($id:literal, $mechanism:literal, $question:literal, $owner:expr, $promised:expr,
     $step:literal, $source:literal, |$arm:pat_param| $calls:expr) => {
        Attempt {
            id: $id,
            mechanism: $mechanism,
            question: $question,
            needs: &[Need::Program(PYTHON)],
            promised: Promised::Layers($promised),
            source: $source,
            owner: $owner,
            attack: |_, $arm, _| calls::attack($calls),
            twin: calls::other,
            twin_shows: TwinShows::Step("found twin"),
            proof: Proof::Step($step),
            notes: &[REFUSED_WHOLE],
            ..Attempt::BASE
        }
    };
}

pub(super) use door;

pub(super) const ALL: &[Attempt] = &[
    door!(
        "surface/bpf",
        "bpf(2)",
        "May it make a map for eBPF?",
        Owner::Root,
        LOCKED,
        "bpf BPF_MAP_CREATE",
        "kernel.md section 7, 45",
        // An array of one word (union bpf_attr: type 2, key 4, value 4, one entry).
        |_| vec![calls::call(
            "bpf BPF_MAP_CREATE",
            libc::SYS_bpf,
            vec![
                calls::number(0),
                calls::words(&[2, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
                calls::number(48),
            ],
        )]
    ),
    door!(
        "surface/perf-event",
        "perf_event_open(2)",
        "May it count events of the whole machine?",
        Owner::Root,
        LOCKED,
        "perf_event_open",
        "kernel.md section 7, 45",
        |_| vec![calls::clock_of(-1, 0)]
    ),
    door!(
        "surface/userfaultfd",
        "userfaultfd(2)",
        "May it make the kernel wait in the middle of a copy?",
        Owner::Root,
        PRIVILEGED,
        "userfaultfd",
        "Documentation/admin-guide/mm/userfaultfd.rst: races of kernel bugs made certain",
        |_| vec![calls::call(
            "userfaultfd",
            libc::SYS_userfaultfd,
            vec![calls::number(libc::O_CLOEXEC)],
        )]
    ),
    door!(
        "surface/keyring",
        "kernel keyrings",
        "May it keep a key in the kernel?",
        Owner::Standin,
        FILTERED,
        "add_key",
        "kernel.md section 3: keyrings are of the uid, not of the session",
        // In the keyring of the process, which ends with it (process-keyring(7)).
        |_| vec![calls::call(
            "add_key",
            libc::SYS_add_key,
            vec![
                calls::text("user"),
                calls::text("custody-bypass"),
                calls::bytes(b"x"),
                calls::number(1),
                calls::number(-2),
            ],
        )]
    ),
    door!(
        "surface/ptrace-traceme",
        "PTRACE_TRACEME",
        "May a process ask to be traced?",
        Owner::Standin,
        FILTERED_AND_LOCKED,
        "ptrace PTRACE_TRACEME",
        "kernel.md section 5",
        |_| vec![calls::call(
            "ptrace PTRACE_TRACEME",
            libc::SYS_ptrace,
            vec![calls::number(0), calls::number(0), calls::NULL, calls::NULL],
        )]
    ),
    door!(
        "surface/personality",
        "personality(2)",
        "May it turn off the kernel's hardening of addresses for what it starts?",
        Owner::Standin,
        FILTERED,
        "personality",
        "kernel.md section 5",
        |_| vec![calls::call(
            "personality",
            libc::SYS_personality,
            vec![calls::number(libc::ADDR_NO_RANDOMIZE)],
        )]
    ),
    door!(
        "surface/seccomp-listener",
        "seccomp notifier",
        "May it answer system calls of what it starts, in place of the kernel?",
        Owner::Root,
        FILTERED,
        "seccomp SECCOMP_FILTER_FLAG_NEW_LISTENER",
        "seccomp_unotify(2): a filter of our own before the one that refuses",
        |_| listener()
    ),
    door!(
        "surface/memfd-secret",
        "memfd_secret(2)",
        "May it have memory that nobody outside can look into?",
        Owner::Standin,
        FILTERED,
        "memfd_secret",
        "kernel.md section 4",
        |_| vec![calls::call(
            "memfd_secret",
            libc::SYS_memfd_secret,
            vec![calls::number(libc::O_CLOEXEC)],
        )]
    ),
    door!(
        "surface/fanotify",
        "fanotify(7)",
        "May it be told of every file that anyone opens?",
        Owner::Root,
        PRIVILEGED,
        "fanotify_init",
        "kernel.md section 4",
        |_| vec![calls::call(
            "fanotify_init",
            libc::SYS_fanotify_init,
            vec![calls::number(0x8), calls::number(0)],
        )]
    ),
    door!(
        "surface/kernel-log",
        "syslog(2)",
        "May it read the kernel's log?",
        Owner::Root,
        PRIVILEGED,
        "syslog SYSLOG_ACTION_READ_ALL",
        "kernel.md section 7, 24",
        |_| vec![calls::call(
            "syslog SYSLOG_ACTION_READ_ALL",
            libc::SYS_syslog,
            vec![calls::number(3), buffer(), calls::number(4096)],
        )]
    ),
    door!(
        "surface/sysctl",
        "a sysctl",
        "May it set a variable of the kernel's?",
        Owner::Root,
        &[
            &[Layer::CgroupSysctl],
            &[Layer::MountNamespace],
            &[Layer::Uid],
            &[Layer::Landlock],
        ],
        "write of a sysctl",
        "CVE-2021-30465's class and CVE-2022-0492: what is written below /proc/sys is the whole \
         machine's",
        |_| sysctl()
    ),
    Attempt {
        notes: &["the twin sets an option that is allowed, by the same calls"],
        twin: |_, _| calls::attack(option("SO_KEEPALIVE", SO_KEEPALIVE, &calls::words(&[1]))),
        twin_shows: TwinShows::Step("setsockopt SO_KEEPALIVE"),
        ..door!(
            "surface/socket-filter",
            "SO_ATTACH_FILTER",
            "May it put a program into the kernel, for a socket to run?",
            Owner::Standin,
            &[&[Layer::Seccomp], &[Layer::CgroupSockopt]],
            "setsockopt SO_ATTACH_FILTER",
            "socket(7): no right is asked for; CVE-2017-16995's class, by the older machine",
            |_| option("SO_ATTACH_FILTER", libc::SO_ATTACH_FILTER, &accept_all())
        )
    },
    Attempt {
        notes: &["the twin sets an option that is allowed, by the same calls"],
        twin: |_, _| calls::attack(option("SO_KEEPALIVE", SO_KEEPALIVE, &calls::words(&[1]))),
        twin_shows: TwinShows::Step("setsockopt SO_KEEPALIVE"),
        ..door!(
            "surface/socket-mark",
            "SO_MARK",
            "May it give a socket a mark, by which rules of the host's tell whose it is?",
            Owner::Root,
            &[
                &[Layer::CgroupSockopt],
                &[Layer::Capabilities],
                &[Layer::Uid]
            ],
            "setsockopt SO_MARK",
            "socket(7): policy routing, firewalls and our own second lock go by it",
            |_| option("SO_MARK", libc::SO_MARK, &calls::words(&[1]))
        )
    },
];

const SO_KEEPALIVE: i32 = libc::SO_KEEPALIVE;

/// setsockopt(2) on one of a pair, which every session may make.
fn option(name: &str, option: i32, value: &Argument) -> Vec<Call> {
    vec![
        calls::call(
            "socketpair",
            libc::SYS_socketpair,
            vec![
                calls::number(libc::AF_UNIX),
                calls::number(libc::SOCK_STREAM | libc::SOCK_CLOEXEC),
                calls::number(0),
                calls::buffer("pair", 8),
            ],
        ),
        calls::call(
            &format!("setsockopt {name}"),
            libc::SYS_setsockopt,
            vec![
                Argument::Int("pair".into(), 0),
                calls::number(libc::SOL_SOCKET),
                calls::number(option),
                value.clone(),
                calls::number(if option == libc::SO_ATTACH_FILTER {
                    16
                } else {
                    4
                }),
            ],
        ),
    ]
}

/// struct sock_fprog of one instruction: BPF_RET | BPF_K, with as many bytes as there can be.
fn accept_all() -> Argument {
    let program = [&[6, 0, 0, 0][..], &0x4_0000_u32.to_ne_bytes()].concat();
    Argument::Words(vec![calls::number(1), calls::bytes(&program)])
}

/// Writes to a sysctl what stands in it.
fn sysctl() -> Vec<Call> {
    const PATH: &str = "/proc/sys/kernel/printk_ratelimit_burst";
    let value = std::fs::read(PATH).unwrap_or_default();
    vec![
        calls::call(
            "open of a sysctl",
            libc::SYS_openat,
            vec![
                calls::HERE,
                calls::text(PATH),
                calls::number(libc::O_WRONLY),
            ],
        ),
        calls::call(
            "write of a sysctl",
            libc::SYS_write,
            vec![
                Argument::Result(0),
                calls::bytes(&value),
                calls::length(&value),
            ],
        ),
    ]
}

fn buffer() -> Argument {
    calls::buffer("log", 4096)
}

/// A filter that allows everything, and a listener for what it would ask.
fn listener() -> Vec<Call> {
    const SET_MODE_FILTER: i64 = 1;
    const NEW_LISTENER: i64 = 8;
    // BPF_RET | BPF_K, SECCOMP_RET_ALLOW: struct sock_filter, and struct sock_fprog around it.
    let program = [&[6, 0, 0, 0][..], &0x7fff_0000_u32.to_ne_bytes()].concat();
    vec![
        calls::call(
            "prctl PR_SET_NO_NEW_PRIVS",
            libc::SYS_prctl,
            vec![
                calls::number(libc::PR_SET_NO_NEW_PRIVS),
                calls::number(1),
                calls::number(0),
                calls::number(0),
                calls::number(0),
            ],
        ),
        calls::call(
            "seccomp SECCOMP_FILTER_FLAG_NEW_LISTENER",
            libc::SYS_seccomp,
            vec![
                calls::number(SET_MODE_FILTER),
                calls::number(NEW_LISTENER),
                Argument::Words(vec![calls::number(1), calls::bytes(&program)]),
            ],
        ),
    ]
}
