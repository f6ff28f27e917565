//! Words for attacks that are system calls as they come.

use std::{net::SocketAddr, path::Path};

use nix::libc;

use crate::probe::{Argument, Attack, Call, Effect};

/// A call that ends the attack if it is refused.
pub(super) fn call(step: &str, number: i64, arguments: Vec<Argument>) -> Call {
    Call {
        step: step.into(),
        number,
        arguments,
        ..Call::default()
    }
}

/// These calls, one after the other.
pub(super) const fn attack(calls: Vec<Call>) -> Attack {
    Attack::Calls { calls }
}

/// A number.
pub(super) fn number(it: impl Into<i64>) -> Argument {
    Argument::Number(it.into())
}

/// The length of `bytes`.
pub(super) fn length(bytes: &[u8]) -> Argument {
    // Nothing here is longer than a page.
    number(i64::try_from(bytes.len()).unwrap_or(0))
}

/// The address of `bytes`.
pub(super) fn bytes(bytes: &[u8]) -> Argument {
    Argument::Bytes(bytes.into())
}

/// The address of a string with its NUL.
pub(super) fn text(text: impl AsRef<Path>) -> Argument {
    let mut bytes = text.as_ref().as_os_str().as_encoded_bytes().to_vec();
    bytes.push(0);
    Argument::Bytes(bytes)
}

/// The address of memory to be filled.
pub(super) fn buffer(name: &str, length: usize) -> Argument {
    Argument::Buffer(name.into(), length)
}

/// No address.
pub(super) const NULL: Argument = Argument::Number(0);

/// The calling thread's folder (openat(2)).
pub(super) const HERE: Argument = Argument::Number(libc::AT_FDCWD as i64);

/// socket(2), close-on-exec.
pub(super) fn socket(name: &str, family: i32, kind: i32, protocol: i32) -> Call {
    call(
        &format!("socket {name}"),
        libc::SYS_socket,
        vec![
            number(family),
            number(kind | libc::SOCK_CLOEXEC),
            number(protocol),
        ],
    )
}

/// connect(2) of what call 0 made.
pub(super) fn connect(address: &[u8]) -> Call {
    call(
        "connect",
        libc::SYS_connect,
        vec![Argument::Result(0), bytes(address), length(address)],
    )
}

/// sendto(2) from what call 0 made; no address where it is connected.
pub(super) fn send(step: &str, what: &[u8], flags: i32, address: &[u8]) -> Call {
    let to = if address.is_empty() {
        NULL
    } else {
        bytes(address)
    };
    call(
        step,
        libc::SYS_sendto,
        vec![
            Argument::Result(0),
            bytes(what),
            length(what),
            number(flags | libc::MSG_NOSIGNAL),
            to,
            length(address),
        ],
    )
}

/// recvfrom(2) of what call `of` made.
pub(super) fn receive(of: usize, flags: i32) -> Call {
    const MOST: usize = 16 << 10;
    call(
        "recvfrom",
        libc::SYS_recvfrom,
        vec![
            Argument::Result(of),
            buffer("received", MOST),
            number(16 << 10),
            number(flags),
            NULL,
            NULL,
        ],
    )
}

/// setsockopt(2) of what call 0 made, with an `int`.
pub(super) fn option(step: &str, level: i32, name: i32, value: i32) -> Call {
    call(
        step,
        libc::SYS_setsockopt,
        vec![
            Argument::Result(0),
            number(level),
            number(name),
            bytes(&value.to_ne_bytes()),
            number(4),
        ],
    )
}

/// struct sockaddr_in or sockaddr_in6 (ip(7), ipv6(7)).
pub(super) fn address(of: SocketAddr) -> Vec<u8> {
    let port = of.port().to_be_bytes();
    match of {
        SocketAddr::V4(of) => [
            &family(libc::AF_INET)[..],
            &port,
            &of.ip().octets(),
            &[0; 8],
        ]
        .concat(),
        SocketAddr::V6(of) => [
            &family(libc::AF_INET6)[..],
            &port,
            &[0; 4],
            &of.ip().octets(),
            &[0; 4],
        ]
        .concat(),
    }
}

/// The first two bytes of every address.
pub(super) fn family(family: i32) -> [u8; 2] {
    u16::try_from(family).unwrap_or(0).to_ne_bytes()
}

/// 32-bit words, by address.
pub(super) fn words(words: &[u32]) -> Argument {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Argument::Bytes(bytes)
}

/// perf_event_open(2) of a software clock: of a process, or of a processor.
pub(super) fn clock_of(pid: i64, cpu: i64) -> Call {
    // struct perf_event_attr: PERF_TYPE_SOFTWARE, its size, PERF_COUNT_SW_CPU_CLOCK.
    let mut attributes = vec![0; 32];
    attributes.splice(0..2, [1, 128]);
    // exclude_kernel and exclude_hv: what an unprivileged user may count (perf_event_paranoid 2).
    attributes.splice(10..11, [0x60]);
    call(
        "perf_event_open",
        libc::SYS_perf_event_open,
        vec![
            words(&attributes),
            number(pid),
            number(cpu),
            number(-1),
            number(8),
        ],
    )
}

/// From a root that has nothing left out but everything, to the uid whose things are sought: what
/// is not isolated by a uid runs as root, and root's own are others. Refused, it changes nothing.
pub(super) fn as_holder(calls: Vec<Call>) -> Vec<Call> {
    let uid = i64::from(crate::suite::scene::SHARED_UID);
    let become_one = |step: &str, number: i64| Call {
        go_on: true,
        quiet: true,
        ..call(step, number, vec![Argument::Number(uid); 3])
    };
    let mut all = vec![
        become_one("setresgid", libc::SYS_setresgid),
        become_one("setresuid", libc::SYS_setresuid),
    ];
    all.extend(calls);
    all
}

/// A twin over the sockets that a session may make: a pair of streams, by the same calls.
pub(super) fn pair(_: &crate::suite::scene::Scene, effect: Effect) -> Attack {
    let request = effect.request();
    attack(vec![
        call(
            "socketpair",
            libc::SYS_socketpair,
            vec![
                number(libc::AF_UNIX),
                number(libc::SOCK_STREAM | libc::SOCK_CLOEXEC),
                number(0),
                buffer("pair", 8),
            ],
        ),
        call(
            "sendto",
            libc::SYS_sendto,
            vec![
                Argument::Int("pair".into(), 0),
                bytes(&request),
                length(&request),
                number(libc::MSG_NOSIGNAL),
                NULL,
                number(0),
            ],
        ),
        call(
            "recvfrom",
            libc::SYS_recvfrom,
            vec![
                Argument::Int("pair".into(), 4),
                buffer("received", 4096),
                number(4096),
                number(0),
                NULL,
                NULL,
            ],
        ),
    ])
}

/// A twin of calls that are refused whole: another call by the same way, with memory handed over.
pub(super) fn other(_: &crate::suite::scene::Scene, _: Effect) -> Attack {
    attack(vec![
        call(
            "memfd_create",
            libc::SYS_memfd_create,
            vec![text("twin"), number(libc::MFD_CLOEXEC)],
        ),
        call(
            "pwrite64",
            libc::SYS_pwrite64,
            vec![Argument::Result(0), bytes(b"twin"), number(4), number(0)],
        ),
        Call {
            finds: Some("twin".into()),
            ..call(
                "pread64",
                libc::SYS_pread64,
                vec![Argument::Result(0), buffer("back", 4), number(4), number(0)],
            )
        },
    ])
}
