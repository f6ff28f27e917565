//! Targets for the controls: what the world looks like where a layer or the gate is missing.
//!
//! `custody-standin` is one process that holds a canary (in its heap, its environment and a
//! descriptor) and an authenticated way to the witness. It lets anyone use it: a deputy on
//! sockets, a dispatcher without a registry, a vault that takes anyone's permit. The reach arms
//! go through it; an attack that does not reach the witness even here shows nothing.
//!
//! **Invariant:** it is never started by the service and never shown in a session.

mod careless;
mod deputy;
mod dispatcher;
mod giver;
mod held;
mod late;
mod network;
mod permits;
pub mod ring;
mod signals;

use std::{
    fs, io,
    net::SocketAddr,
    os::{
        fd::AsRawFd as _,
        linux::net::SocketAddrExt as _,
        unix::net::{UnixDatagram, UnixListener, UnixStream},
    },
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};

use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::{Deserialize, Serialize};

pub use self::{deputy::Upstream, held::shm_key, late::Late, network::Ports};

/// What a stand-in is, read from its standard input.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The witness.
    pub witness: SocketAddr,
    /// The token that the stand-in's own client uses.
    pub token: String,
    /// What it holds in memory and in a descriptor.
    pub canary: String,
    /// Paths of stream deputies.
    #[serde(default)]
    pub streams: Vec<PathBuf>,
    /// Abstract names of stream deputies.
    #[serde(default)]
    pub abstracts: Vec<String>,
    /// Paths of datagram deputies.
    #[serde(default)]
    pub datagrams: Vec<PathBuf>,
    /// Paths of dispatchers without a registry.
    #[serde(default)]
    pub dispatchers: Vec<PathBuf>,
    /// Paths of vaults that take anyone's permit.
    #[serde(default)]
    pub permits: Vec<PathBuf>,
    /// Paths of deputies on sockets of SOCK_SEQPACKET.
    #[serde(default)]
    pub packets: Vec<PathBuf>,
    /// Paths where a connection to the deputy is handed out, as a descriptor.
    #[serde(default)]
    pub givers: Vec<PathBuf>,
    /// What listens only when someone knocks.
    #[serde(default)]
    pub late: Option<Late>,
    /// Under which name the kernel holds the canary.
    #[serde(default)]
    pub held: Option<String>,
    /// Where signals are written down.
    #[serde(default)]
    pub signals: Option<PathBuf>,
    /// Whether it serves over IP too, on loopback.
    #[serde(default)]
    pub network: bool,
}

/// Serves until standard input ends: the stand-in lives as long as who started it.
///
/// # Errors
/// When standard input is not a [`Setup`], or a socket cannot be made.
pub fn run() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let setup: Setup = serde_json::from_str(&line).map_err(io::Error::other)?;
    if let Some(record) = setup.signals {
        signals::record(record)?;
    }
    let kept = match &setup.held {
        Some(name) => held::start(name, &setup.canary)?,
        None => None,
    };
    let upstream = Arc::new(Upstream::new(setup.witness, setup.token));

    // An authenticated connection, open, for whoever takes a copy of its descriptor.
    let (client, served) = UnixStream::pair()?;
    serve_stream(served, &upstream);
    let held = memfd_create(c"held", MFdFlags::MFD_CLOEXEC)?;
    fs::write(format!("/proc/self/fd/{}", held.as_raw_fd()), &setup.canary)?;

    for path in &setup.streams {
        listen(bind(path)?, &upstream, deputy::stream);
    }
    for name in &setup.abstracts {
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        listen(
            UnixListener::bind_addr(&address)?,
            &upstream,
            deputy::stream,
        );
    }
    for path in &setup.packets {
        listen(bind_packets(path)?, &upstream, deputy::stream);
    }
    for path in &setup.givers {
        listen(bind(path)?, &upstream, giver::serve);
    }
    for path in &setup.dispatchers {
        listen(bind(path)?, &upstream, dispatcher::serve);
    }
    for path in &setup.permits {
        listen(bind(path)?, &upstream, permits::serve);
    }
    for path in &setup.datagrams {
        let socket = UnixDatagram::bind(path)?;
        open_to_all(path)?;
        let upstream = Arc::clone(&upstream);
        let receive = move |bytes: &mut [u8]| socket.recv(bytes);
        let _detached = thread::spawn(move || deputy::datagrams(receive, &upstream));
    }
    if let Some(late) = setup.late {
        let upstream = Arc::clone(&upstream);
        let _detached = thread::spawn(move || late::attend(&late, &upstream));
    }
    let ports = match setup.network {
        true => Some(network::serve(&upstream)?),
        false => None,
    };
    let mut ready = serde_json::to_vec(&ports)?;
    ready.push(b'\n');
    io::Write::write_all(&mut io::stdout(), &ready)?;
    let mut end = String::new();
    while io::stdin().read_line(&mut end)? > 0 {}
    drop((client, held, setup.canary, kept));
    Ok(())
}

/// Whether the next try may succeed: a stop by ptrace(2), or a timeout or a mode that whoever took
/// a copy of the descriptor has set (socket(7)). A short rest, for a socket that never waits.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    let does_not_wait = matches!(error.kind(), TimedOut | WouldBlock);
    if does_not_wait {
        thread::sleep(Duration::from_millis(10));
    }
    does_not_wait || error.kind() == Interrupted
}

fn bind(path: &PathBuf) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    open_to_all(path)?;
    Ok(listener)
}

fn bind_packets(path: &PathBuf) -> io::Result<UnixListener> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path.as_path())?)?;
    rustix::net::listen(&socket, 8)?;
    open_to_all(path)?;
    Ok(socket.into())
}

/// Anyone may connect: that only a layer refuses is what is being tested.
fn open_to_all(path: &PathBuf) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))
}

fn listen(
    listener: UnixListener,
    upstream: &Arc<Upstream>,
    serve: fn(&UnixStream, &Upstream) -> io::Result<()>,
) {
    let upstream = Arc::clone(upstream);
    let _detached = thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let upstream = Arc::clone(&upstream);
            let _detached = thread::spawn(move || serve(&stream, &upstream));
        }
    });
}

fn serve_stream(stream: UnixStream, upstream: &Arc<Upstream>) {
    let upstream = Arc::clone(upstream);
    let _detached = thread::spawn(move || deputy::stream(&stream, &upstream));
}
