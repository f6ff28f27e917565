//! Processes outside, and processes that would rather not end: signals, priorities, limits; what
//! outlives a session.

use std::fs;

use custody_wire::layer::Layer;
use nix::{
    libc,
    sys::signal::{self, Signal},
    unistd::Pid,
};

use super::{Attempt, Leg, Need, Owner, Place, Promised, Proof, TwinShows, calls};
use crate::{
    probe::{Argument, Attack, Call, PYTHON},
    suite::{arms, scene::Scene},
};

/// A signal to a process outside.
const SIGNAL: &[Leg] = &[
    &[Layer::Uid],
    &[Layer::PidNamespace],
    &[Layer::Landlock],
    &[Layer::BpfLsm],
];

/// What Landlock does not look at.
const BY_PID: &[Leg] = &[&[Layer::Uid], &[Layer::PidNamespace], &[Layer::BpfLsm]];

pub(super) const OTHER: &str = "the twin makes calls that are allowed, by the same script";

/// Of calls that are allowed on a process of one's own.
pub(super) const OWN: &str = "the twin makes the same call on itself";

macro_rules! signal {
    ($id:literal, $question:literal, $step:literal, $source:literal, $calls:expr, $own:expr) => {
        Attempt {
            id: $id,
            mechanism: "a signal to a process outside",
            question: $question,
            needs: &[Need::Program(PYTHON)],
            promised: Promised::Layers(SIGNAL),
            source: $source,
            before: |scene, _| Ok(scene.signals().map(drop)?),
            attack: |scene, _, _| calls::attack($calls(i64::from(scene.outsider()))),
            twin: |_, _| calls::attack($own),
            twin_shows: TwinShows::Step($step),
            proof: Proof::Outside(heard),
            apart: Some("a signal does not say for which run it came"),
            notes: &[OWN],
            ..Attempt::BASE
        }
    };
}

macro_rules! named {
    ($id:literal, $mechanism:literal, $question:literal, $step:literal, $source:literal,
     $calls:expr) => {
        Attempt {
            id: $id,
            mechanism: $mechanism,
            question: $question,
            needs: &[Need::Program(PYTHON)],
            promised: Promised::Layers(BY_PID),
            source: $source,
            attack: |scene, _, _| calls::attack($calls(i64::from(scene.outsider()))),
            twin: |_, _| calls::attack($calls(0)),
            twin_shows: TwinShows::Step($step),
            proof: Proof::Step($step),
            notes: &[OWN, "what is set is what is there already: nothing changes"],
            ..Attempt::BASE
        }
    };
}

const URGENT: i64 = libc::SIGURG as i64;
const USER: i64 = libc::SIGUSR1 as i64;

pub(super) const ALL: &[Attempt] = &[
    signal!(
        "process/kill",
        "May a session signal a process outside?",
        "kill",
        "kernel.md section 7, 56",
        |pid: i64| vec![kill(calls::number(pid))],
        vec![own_pid(), kill(Argument::Result(0))]
    ),
    signal!(
        "process/sigqueue",
        "May it queue a signal, with a value, to a process outside?",
        "rt_sigqueueinfo",
        "kernel.md section 7, 56: the calls that filters forget",
        |pid: i64| vec![queue(calls::number(pid))],
        vec![own_pid(), queue(Argument::Result(0))]
    ),
    signal!(
        "process/pidfd-send-signal",
        "May it signal a process outside by a pidfd of its own?",
        "pidfd_send_signal",
        "kernel.md section 3",
        |pid: i64| vec![open(calls::number(pid)), send(Argument::Result(0))],
        vec![
            own_pid(),
            open(Argument::Result(0)),
            send(Argument::Result(1))
        ]
    ),
    Attempt {
        promised: Promised::Layers(&[&[Layer::Uid], &[Layer::PidNamespace], &[Layer::Landlock]]),
        twin: calls::other,
        twin_shows: TwinShows::Step("found twin"),
        notes: &[OTHER],
        ..signal!(
            "process/sigio",
            "May it let the kernel signal a process outside, as the owner of a pipe of its own?",
            "write",
            "fcntl(2) F_SETOWN and F_SETSIG: CVE-2009-0028's class",
            owned_by,
            Vec::new()
        )
    },
    named!(
        "process/limits",
        "limits of a process outside",
        "May a session set the limits of a process outside?",
        "prlimit64",
        "kernel.md section 3: neither Landlock nor a filter sees whose",
        // RLIMIT_NICE, as it is by default.
        |pid: i64| calls::as_holder(vec![calls::call(
            "prlimit64",
            libc::SYS_prlimit64,
            vec![
                calls::number(pid),
                calls::number(13),
                Argument::Words(vec![calls::number(0), calls::number(0)]),
                calls::NULL,
            ]
        )])
    ),
    named!(
        "process/priority",
        "scheduling of a process outside",
        "May a session lower the priority of a process outside?",
        "setpriority",
        "kernel.md section 7, 56",
        |pid: i64| vec![calls::call(
            "setpriority",
            libc::SYS_setpriority,
            [0, pid, nice(pid)].map(Argument::Number).to_vec()
        )]
    ),
    named!(
        "process/affinity",
        "scheduling of a process outside",
        "May a session bind a process outside to processors of its choice?",
        "sched_setaffinity",
        "kernel.md section 7, 56",
        |pid: i64| vec![calls::call(
            "sched_setaffinity",
            libc::SYS_sched_setaffinity,
            vec![
                calls::number(pid),
                calls::number(8),
                Argument::Words(vec![calls::number(-1)]),
            ]
        )]
    ),
    Attempt {
        id: "process/real-time",
        mechanism: "real-time scheduling",
        question: "May a session take a processor for itself, before everyone else?",
        needs: &[Need::Program(PYTHON)],
        promised: Promised::Layers(&[&[Layer::Capabilities], &[Layer::Uid]]),
        source: "kernel.md section 5: SCHED_FIFO",
        owner: Owner::Root,
        // struct sched_param: the lowest priority of SCHED_FIFO.
        attack: |_, _, _| {
            calls::attack(vec![calls::call(
                "sched_setscheduler",
                libc::SYS_sched_setscheduler,
                vec![
                    calls::number(0),
                    calls::number(libc::SCHED_FIFO),
                    calls::words(&[1]),
                ],
            )])
        },
        twin: calls::other,
        twin_shows: TwinShows::Step("found twin"),
        proof: Proof::Step("sched_setscheduler"),
        notes: &[OTHER],
        ..Attempt::BASE
    },
    Attempt {
        id: "process/outlive",
        mechanism: "a process that outlives its session",
        question: "Does a process live on that leaves its parents and clears its death signal?",
        promised: Promised::Layers(&[&[Layer::PidNamespace], &[Layer::Cgroup]]),
        source: "kernel.md section 7, 54",
        attack: |_, _, effect| Attack::Linger { mark: effect.nonce },
        twin: |_, effect| Attack::Linger { mark: effect.nonce },
        twin_shows: TwinShows::Step("it lives apart"),
        proof: Proof::Outside(lives),
        ..Attempt::BASE
    },
];

/// The nice value that a process has: whoever started all this may have been niced. Of itself the
/// twin's process may only ask for the highest.
fn nice(pid: i64) -> i64 {
    const HIGHEST: i64 = 19;
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let now = pid.and_then(|pid| rustix::process::getpriority_process(Some(pid)).ok());
    now.map_or(HIGHEST, i64::from)
}

/// The caller's own pid, as call 0.
fn own_pid() -> Call {
    calls::call("getpid", libc::SYS_getpid, Vec::new())
}

/// A signal that is ignored by default.
fn kill(pid: Argument) -> Call {
    calls::call("kill", libc::SYS_kill, vec![pid, calls::number(URGENT)])
}

fn queue(pid: Argument) -> Call {
    // siginfo_t: the signal, no errno, SI_QUEUE.
    let arguments = vec![pid, calls::number(URGENT), Argument::Bytes(queued())];
    calls::call("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, arguments)
}

fn open(pid: Argument) -> Call {
    let arguments = vec![pid, calls::number(0)];
    calls::call("pidfd_open", libc::SYS_pidfd_open, arguments)
}

fn send(pidfd: Argument) -> Call {
    calls::call(
        "pidfd_send_signal",
        libc::SYS_pidfd_send_signal,
        vec![pidfd, calls::number(URGENT), calls::NULL, calls::number(0)],
    )
}

/// siginfo_t of sigqueue(3).
fn queued() -> Vec<u8> {
    let mut info: Vec<u8> = [libc::SIGURG, 0, -1]
        .into_iter()
        .flat_map(i32::to_ne_bytes)
        .collect();
    info.resize(128, 0);
    info
}

/// A pipe whose other end belongs, as the kernel sees it, to someone else.
fn owned_by(pid: i64) -> Vec<Call> {
    let ours = || Argument::Int("pair".into(), 0);
    let set = |step: &str, command: i32, value: i64| {
        calls::call(
            step,
            libc::SYS_fcntl,
            vec![ours(), calls::number(command), calls::number(value)],
        )
    };
    const F_SETSIG: i32 = 10;
    vec![
        calls::call(
            "socketpair",
            libc::SYS_socketpair,
            vec![
                calls::number(libc::AF_UNIX),
                calls::number(libc::SOCK_STREAM),
                calls::number(0),
                calls::buffer("pair", 8),
            ],
        ),
        set("fcntl F_SETSIG", F_SETSIG, USER),
        set("fcntl F_SETOWN", libc::F_SETOWN, pid),
        set(
            "fcntl F_SETFL O_ASYNC",
            libc::F_SETFL,
            i64::from(libc::O_ASYNC | libc::O_NONBLOCK),
        ),
        calls::call(
            "write",
            libc::SYS_write,
            vec![
                Argument::Int("pair".into(), 4),
                calls::bytes(b"x"),
                calls::number(1),
            ],
        ),
    ]
}

/// Whether the stand-in was signalled. The kernel delivers before the sender goes on, and the
/// stand-in writes it down as soon as it runs.
fn heard(scene: &Scene, _: &Place) -> anyhow::Result<Option<String>> {
    let mut signals = String::new();
    arms::come_to_rest(scene, || {
        signals.push_str(&scene.signals()?);
        Ok(!signals.is_empty())
    })?;
    Ok((!signals.is_empty()).then(|| format!("the stand-in heard {}", signals.trim())))
}

/// Whether who was marked is still there, now that the session is over. It is ended: it was seen.
fn lives(_: &Scene, place: &Place) -> anyhow::Result<Option<String>> {
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let Ok(line) = fs::read(path.join("cmdline")) else {
            continue;
        };
        let is_marked = line
            .split(|byte| *byte == 0)
            .any(|word| word == place.nonce.as_bytes());
        if is_marked {
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some(pid) = name.and_then(|name| name.parse().ok()) {
                // It may have come to its end by itself.
                let _ended = signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            return Ok(Some("a process that it started lives on".into()));
        }
    }
    Ok(None)
}
