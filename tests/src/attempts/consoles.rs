//! Terminals from inside: the session's own, and a console that its caller left open. What is shown
//! on one is another file's.

use custody_wire::layer::Layer;
use nix::libc;

use super::{Attempt, Carries, Need, Owner, Promised, Proof, TwinShows, calls};
use crate::probe::{Argument, Attack, Call, PYTHON};

// ioctl_tty(2).
const TIOCSTI: i64 = 0x5412;
const TIOCGWINSZ: i64 = 0x5413;
const TIOCLINUX: i64 = 0x541c;
const TIOCSETD: i64 = 0x5423;

const OWN: &str = "the terminal is one that the attack makes, with itself as the session leader, as \
                   every session may: what is typed there, only its own processes read";

/// A request on a terminal of one's own; the twin asks for the size of the window.
macro_rules! own {
    ($id:literal, $mechanism:literal, $question:literal, $source:literal, $step:literal, $request:expr, $argument:expr) => {
        Attempt {
            id: $id,
            mechanism: $mechanism,
            question: $question,
            needs: &[Need::Program(PYTHON)],
            promised: Promised::Layers(&[&[Layer::Seccomp]]),
            source: $source,
            owner: Owner::Root,
            attack: |_, _, _| asked($step, $request, $argument),
            twin: |_, _| asked("ioctl TIOCGWINSZ", TIOCGWINSZ, calls::buffer("size", 8)),
            twin_shows: TwinShows::Step("ioctl TIOCGWINSZ"),
            proof: Proof::Step($step),
            notes: &[OWN],
            ..Attempt::BASE
        }
    };
}

pub(super) const ALL: &[Attempt] = &[
    own!(
        "tty/own-type-ahead",
        "TIOCSTI on the session's own terminal",
        "May it type into its own terminal?",
        "CVE-2017-5226; ioctl_tty(2): whoever has it as the controlling terminal, or CAP_SYS_ADMIN",
        "ioctl TIOCSTI",
        TIOCSTI,
        calls::bytes(b"x")
    ),
    own!(
        "tty/line-discipline",
        "TIOCSETD on the session's own terminal",
        "May it choose a line discipline, old code of the kernel's?",
        "CVE-2017-2636 (n_hdlc) and CVE-2020-14416 (slip): disciplines that anyone could choose",
        "ioctl TIOCSETD",
        TIOCSETD,
        // N_TTY, which it has already: the kernel is asked, and nothing changes.
        calls::words(&[0])
    ),
    Attempt {
        id: "tty/console-selection",
        mechanism: "TIOCLINUX on an inherited console",
        question: "May it use the selection of a virtual console that its caller left open, by which text is typed?",
        needs: &[Need::Program(PYTHON), Need::Console],
        promised: Promised::Layers(&[
            &[Layer::Fds],
            &[Layer::Seccomp],
            &[Layer::Capabilities],
            &[Layer::Uid],
        ]),
        source: "CVE-2023-28339: TIOCLINUX pastes into the console past a ban on TIOCSTI; \
                 ioctl_console(2)",
        owner: Owner::Root,
        carries: Carries::Console,
        attack: |_, _, _| {
            // Subcode 6 reads the state of the shift keys: it is the same door, and types nothing.
            calls::attack(vec![calls::call(
                "ioctl TIOCLINUX",
                libc::SYS_ioctl,
                vec![
                    Argument::Inherited("tty".into()),
                    calls::number(TIOCLINUX),
                    calls::bytes(&[6, 0, 0, 0]),
                ],
            )])
        },
        twin: |_, _| asked("ioctl TIOCGWINSZ", TIOCGWINSZ, calls::buffer("size", 8)),
        twin_shows: TwinShows::Step("ioctl TIOCGWINSZ"),
        proof: Proof::Step("ioctl TIOCLINUX"),
        notes: &["no session has a console: the twin asks a terminal of its own"],
        ..Attempt::BASE
    },
];

/// `request` on the slave of a new pty, which is the caller's controlling terminal.
fn asked(step: &str, request: i64, argument: Argument) -> Attack {
    // pty(7), ioctl_tty(2).
    const TIOCSPTLCK: i64 = 0x4004_5431;
    const TIOCGPTPEER: i64 = 0x5441;
    const TIOCSCTTY: i64 = 0x540e;
    let to_master = |step: &str, request, argument| {
        let arguments = vec![Argument::Result(0), calls::number(request), argument];
        calls::call(step, libc::SYS_ioctl, arguments)
    };
    let to_slave = |step: &str, request, argument| {
        let arguments = vec![Argument::Result(2), calls::number(request), argument];
        calls::call(step, libc::SYS_ioctl, arguments)
    };
    let mode = libc::O_RDWR | libc::O_NOCTTY;
    calls::attack(vec![
        calls::call(
            "open /dev/ptmx",
            libc::SYS_openat,
            vec![calls::HERE, calls::text("/dev/ptmx"), calls::number(mode)],
        ),
        to_master("ioctl TIOCSPTLCK", TIOCSPTLCK, calls::words(&[0])),
        to_master("ioctl TIOCGPTPEER", TIOCGPTPEER, calls::number(mode)),
        calls::call("setsid", libc::SYS_setsid, Vec::new()),
        to_slave("ioctl TIOCSCTTY", TIOCSCTTY, calls::number(0)),
        Call {
            go_on: true,
            ..to_slave(step, request, argument)
        },
    ])
}
