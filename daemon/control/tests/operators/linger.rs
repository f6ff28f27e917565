//! A descriptor whose last close(2) does not end: a TCP connection that lingers (SO_LINGER, socket(7)) and
//! whose peer, this test, does not read. Any user can make one.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdout, Command, Stdio},
};

use custody_wire::{
    frame,
    operator::{Answer, Request},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::peers::{Control, a_run};

/// What a hostile client does with it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attack {
    /// Gives it when asked for descriptors.
    Asked,
    /// Gives it beside a request that has none.
    Beside,
    /// Gives it, and leaves before it is looked at.
    Gone,
    /// Gives it behind bytes after which nothing more is read.
    Unread,
}

impl Attack {
    const fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Beside => "beside",
            Self::Gone => "gone",
            Self::Unread => "unread",
        }
    }
}

/// The peers that do not read. Dropped, they end every closing (RST).
pub(crate) struct Peer {
    listener: TcpListener,
    connections: Vec<TcpStream>,
}

impl Peer {
    pub(crate) fn listen() -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            connections: Vec::new(),
        }
    }

    /// Makes these attacks on `control` at once: a process of the uid makes that many connections, each
    /// with one descriptor that does not close, and ends. Whether the kernel let each send them; all
    /// or none.
    pub(crate) fn attack(
        &mut self,
        control: &Control,
        attacks: &[(u32, Attack, usize)],
    ) -> Vec<bool> {
        let attackers: Vec<_> = attacks
            .iter()
            .map(|(uid, how, count)| self.attacker(control, *uid, *how, *count))
            .collect();
        // They are gone before control runs on: what they sent has no other owner then. Stopped later,
        // it would stop to wait, too.
        let control = Pid::from_raw(i32::try_from(control.child.id()).unwrap());
        kill(control, Signal::SIGSTOP).unwrap();
        let sent = attackers.into_iter().map(Attacker::finish).collect();
        kill(control, Signal::SIGCONT).unwrap();
        sent
    }

    fn attacker(&mut self, control: &Control, uid: u32, how: Attack, count: usize) -> Attacker {
        const ATTACK: &str = "import array, os, socket, struct, sys
there, port, how, count, request, run, give = sys.argv[1:]
request, run, give = (bytes.fromhex(it) for it in (request, run, give))
def connected():
    control = socket.socket(socket.AF_UNIX)
    control.connect(there)
    if how == 'asked':
        control.sendall(run)
        assert control.recv(len(give), socket.MSG_WAITALL) == give
    return control
def unread():
    far = socket.create_connection(('127.0.0.1', int(port)))
    far.setblocking(False)
    try:
        while True:
            far.send(b'x' * 65536)
    except BlockingIOError:
        pass
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 3600))
    return far
fars = [unread() for _ in range(int(count))]
controls = [connected() for _ in fars] if how == 'asked' else []
print('ready', flush=True)
sys.stdin.readline()
controls = controls or [connected() for _ in fars]
refused = 0
for far, control in zip(fars, controls):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [far.fileno()]))]
    try:
        if how == 'unread':
            control.sendall(b'\\xff' * 4)
        control.sendmsg([request if how == 'beside' else b'\\0'], rights)
    except PermissionError:
        refused += 1
    if how == 'gone':
        control.close()
print(refused, flush=True)
os._exit(0)";
        let hex =
            |bytes: Vec<u8>| -> String { bytes.iter().map(|it| format!("{it:02x}")).collect() };
        let mut child = Command::new("python3")
            .args(["-c", ATTACK])
            .arg(control.socket())
            .arg(self.listener.local_addr().unwrap().port().to_string())
            .args([how.name(), &count.to_string()])
            .arg(hex(frame::frame(&Request::List).unwrap()))
            .arg(hex(frame::frame(&Request::Run(a_run("mail"))).unwrap()))
            .arg(hex(frame::frame(&Answer::Give).unwrap()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .uid(uid)
            .gid(uid)
            .spawn()
            .unwrap();
        for _ in 0..count {
            self.connections.push(self.listener.accept().unwrap().0);
        }
        let mut says = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        says.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{how:?}");
        Attacker { child, says, count }
    }
}

/// A process that has the descriptors and has not sent them yet.
struct Attacker {
    child: Child,
    says: BufReader<ChildStdout>,
    count: usize,
}

impl Attacker {
    fn finish(mut self) -> bool {
        let mut stdin = self.child.stdin.take().unwrap();
        stdin.write_all(b"\n").unwrap();
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        assert!(self.child.wait().unwrap().success());
        let refused: usize = line.trim().parse().unwrap();
        assert!(refused == 0 || refused == self.count, "{refused} refused");
        refused == 0
    }
}
