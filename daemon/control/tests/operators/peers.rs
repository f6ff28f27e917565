//! The three others: custodyd, the gate, and clients.

use std::{
    collections::BTreeMap,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use custody_sys::channel::{self, Rights};
use custody_wire::{
    Message as _, frame,
    operator::{Answer, BESIDE, Request, Run},
    profile::Profile,
    session,
    supervise::{ControlNotice, ControlOrder, End, Start},
};
use gate::{
    approval::Reach,
    id::{PolicyName, SessionId, ValueName},
};
use nix::fcntl::{FcntlArg, fcntl};

/// A running custody-control and the channels to it.
pub(crate) struct Control {
    pub(crate) orders: Orders,
    pub(crate) opened: mpsc::Receiver<session::Request>,
    /// The gate's end, for what it says unasked.
    gate: UnixStream,
    pub(crate) child: Child,
    pub(crate) folder: tempfile::TempDir,
}

/// custodyd's end.
pub(crate) struct Orders(pub(crate) OwnedFd);

impl Control {
    /// With this configuration, as root: the policies `mail` and `other`.
    pub(crate) fn start(access: &str) -> Self {
        Self::start_with(access, Rights::Refused)
    }

    /// As on a kernel before 6.16, where everyone may send descriptors: the listener does not say that
    /// it takes none.
    pub(crate) fn start_where_everyone_sends(access: &str) -> Self {
        Self::start_with(access, Rights::Taken)
    }

    fn start_with(access: &str, rights: Rights) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), access, rights)
    }

    /// In a folder that an earlier one left.
    pub(crate) fn start_again(folder: tempfile::TempDir, access: &str) -> Self {
        Self::start_in(folder, access, Rights::Refused)
    }

    fn start_in(folder: tempfile::TempDir, access: &str, rights: Rights) -> Self {
        set_mode(folder.path(), 0o755);
        let policies = folder.path().join("policies");
        std::fs::create_dir_all(&policies).unwrap();
        std::fs::create_dir_all(folder.path().join("approvals")).unwrap();
        for policy in ["mail", "other"] {
            std::fs::write(policies.join(format!("{policy}.policy")), "").unwrap();
        }
        let config = folder.path().join("custodyd.toml");
        std::fs::write(&config, format!("format = 1\n{access}")).unwrap();

        let path = folder.path().join("control.sock");
        let _earlier = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        channel::set_rights(&listener, rights).unwrap();
        set_mode(&path, 0o666);
        let (custodyd, theirs) = channel::pair_seqpacket().unwrap();
        let (gate, gate_theirs) = UnixStream::pair().unwrap();
        let fds = [theirs.as_fd(), listener.as_fd(), gate_theirs.as_fd()];
        let child = spawn(&config, &policies, fds);
        let (tell, opened) = mpsc::channel();
        let unasked = gate.try_clone().unwrap();
        std::thread::spawn(move || answer_all(gate, &tell));
        let control = Self {
            orders: Orders(custodyd),
            opened,
            gate: unasked,
            child,
            folder,
        };
        control.orders.ready();
        control.orders.say(&ControlNotice::Serve, &[]);
        control
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.socket())
    }

    /// A page that was started: its end of the channel.
    pub(crate) fn page(&self) -> Client {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.orders.say(&ControlNotice::Page, &[theirs.as_fd()]);
        ours.into()
    }

    /// The gate says something unasked.
    pub(crate) fn gate_says(&self, said: &session::Answer) {
        frame::write(&mut &self.gate, said).unwrap();
    }

    /// Ends it, and leaves its folder.
    pub(crate) fn end(mut self) -> tempfile::TempDir {
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }

    /// What the gate was asked next.
    pub(crate) fn asked(&self) -> session::Request {
        self.opened.recv_timeout(Duration::from_secs(5)).unwrap()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Copies that survive an exec; the shell gives them their numbers.
fn spawn(config: &Path, policies: &Path, fds: [BorrowedFd<'_>; 3]) -> Child {
    let copies = fds.map(|fd| fcntl(fd, FcntlArg::F_DUPFD(20)).unwrap());
    let [a, b, c] = copies;
    let script = format!("exec 3<&{a} 4<&{b} 5<&{c} {a}<&- {b}<&- {c}<&-; exec \"$0\" \"$@\"");
    let child = Command::new("bash")
        .args(["-c", &script, env!("CARGO_BIN_EXE_custody-control")])
        .arg("--config")
        .arg(config)
        .arg("--policies")
        .arg(policies)
        .arg("--approvals")
        .arg(policies.with_file_name("approvals"))
        .args(["--page", "127.0.0.1:7707"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for copy in copies {
        nix::unistd::close(copy).unwrap();
    }
    child
}

/// A gate that opens everything but the task `refuse me`. It takes every answer but the refusal `nobody
/// waits`, an approval of all such calls (the call waits on) and one of a target (the call is refused).
fn answer_all(mut gate: UnixStream, tell: &mpsc::Sender<session::Request>) {
    while let Ok(request) = frame::read::<session::Request>(&mut gate) {
        let refused = matches!(&request, session::Request::Open(open)
            if open.task.as_deref() == Some("refuse me"))
            || matches!(&request, session::Request::Answer(session::Answered {
                verdict: session::Verdict::Refuse { why }, .. }) if why == "nobody waits");
        let reach = match &request {
            session::Request::Answer(session::Answered {
                verdict: session::Verdict::Approve { scope, .. },
                ..
            }) => scope.reach,
            _ => Reach::Once,
        };
        let why = String::from("not now");
        let answer = if reach != Reach::Once {
            session::Answer::NotAnswered {
                outcome: (reach == Reach::Target)
                    .then(|| session::Outcome::Refused { why: why.clone() }),
                why,
            }
        } else if refused {
            session::Answer::Refused {
                why: "value `customer` is unknown".into(),
            }
        } else {
            session::Answer::Done
        };
        if tell.send(request).is_err() || frame::write(&mut gate, &answer).is_err() {
            return;
        }
    }
}

impl Orders {
    /// The next order and what came beside it.
    pub(crate) fn next(&self) -> (ControlOrder, Vec<OwnedFd>) {
        self.within(Duration::from_secs(5)).expect("an order")
    }

    /// It says that it serves, once, before anything else.
    fn ready(&self) {
        let (order, fds) = self.next();
        assert!(matches!(order, ControlOrder::Ready), "{order:?}");
        assert!(fds.is_empty());
    }

    pub(crate) fn within(&self, time: Duration) -> Option<(ControlOrder, Vec<OwnedFd>)> {
        use nix::poll::{PollFd, PollFlags, poll};

        let millis = u16::try_from(time.as_millis()).unwrap();
        let ready = poll(
            &mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)],
            millis,
        )
        .unwrap();
        if ready == 0 {
            return None;
        }
        let mut bytes = vec![0; ControlOrder::CAP];
        let (len, fds) = channel::recv(&self.0, &mut bytes, 4).unwrap();
        Some((frame::parse(&bytes[..len]).unwrap(), fds))
    }

    pub(crate) fn start(&self) -> (Start, Vec<OwnedFd>) {
        match self.next() {
            (ControlOrder::Start(start), fds) => (start, fds),
            (other, _) => panic!("{other:?}"),
        }
    }

    pub(crate) fn say(&self, notice: &ControlNotice, fds: &[BorrowedFd<'_>]) {
        channel::send(&self.0, &frame::datagram(notice).unwrap(), fds).unwrap();
    }

    /// The session runs, with pipes whose far ends are dropped.
    pub(crate) fn started(&self, session: SessionId) {
        self.started_as(session, Profile::Dev);
    }

    pub(crate) fn started_as(&self, session: SessionId, profile: Profile) {
        let pipes: Vec<OwnedFd> = (0..3).map(|_| nix::unistd::pipe().unwrap().0).collect();
        let fds: Vec<_> = pipes.iter().map(|fd| fd.as_fd()).collect();
        let layers = Vec::new();
        self.say(
            &ControlNotice::Started {
                session,
                uid: 1_900_000_007,
                profile,
                layers,
                weaknesses: vec!["gdb".into()],
            },
            &fds,
        );
    }

    pub(crate) fn ended(&self, session: SessionId) {
        let end = End::Exited { code: 7 };
        self.say(&ControlNotice::Ended { session, end }, &[]);
    }
}

/// A client that sends what it likes.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    /// What was answered before any descriptor was asked for.
    early: Option<(Answer, Vec<OwnedFd>)>,
}

impl From<UnixStream> for Client {
    fn from(stream: UnixStream) -> Self {
        stream
            .set_read_timeout(Some(Duration::from_secs(15)))
            .unwrap();
        Self {
            stream,
            early: None,
        }
    }
}

impl Client {
    pub(crate) fn connect(path: &Path) -> Self {
        UnixStream::connect(path).unwrap().into()
    }

    /// The request, and after it what goes with it, as the protocol has it.
    pub(crate) fn send(&mut self, request: &Request, fds: &[BorrowedFd<'_>]) {
        self.send_with(request, &[]);
        if matches!(request, Request::Run(_)) {
            match self.hear_with_fds() {
                Some((Answer::Give, _)) => channel::send(&self.stream, &[BESIDE], fds).unwrap(),
                early => self.early = early,
            }
        }
    }

    /// The request with descriptors beside its own bytes, which the protocol does not have.
    pub(crate) fn send_with(&mut self, request: &Request, fds: &[BorrowedFd<'_>]) {
        channel::send(&self.stream, &frame::frame(request).unwrap(), fds).unwrap();
    }

    /// The next answer, or nothing at the end of the stream.
    pub(crate) fn hear(&mut self) -> Option<Answer> {
        self.hear_with_fds().map(|(answer, _)| answer)
    }

    pub(crate) fn hear_with_fds(&mut self) -> Option<(Answer, Vec<OwnedFd>)> {
        if let Some(early) = self.early.take() {
            return Some(early);
        }
        let mut head = [0; 4];
        let (len, fds) = channel::recv(&self.stream, &mut head, 4).ok()?;
        if len < 4 {
            return None;
        }
        let mut body = vec![0; frame::body_len::<Answer>(head).unwrap()];
        std::io::Read::read_exact(&mut self.stream, &mut body).unwrap();
        Some((frame::parse(&body).unwrap(), fds))
    }

    pub(crate) fn ask(&mut self, request: &Request, fds: &[BorrowedFd<'_>]) -> Answer {
        self.send(request, fds);
        self.hear().expect("an answer")
    }

    /// Why the request was refused.
    pub(crate) fn refused(&mut self, request: &Request, fds: &[BorrowedFd<'_>]) -> String {
        match self.ask(request, fds) {
            Answer::Refused { why } => why,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn command() -> OwnedFd {
    custody_sys::memfd::sealed(c"command", b"1\0true\0").unwrap()
}

pub(crate) fn a_run(policy: &str) -> Run {
    Run {
        policy: Some(PolicyName::parse(policy).unwrap()),
        profile: None,
        from: None,
        workspace: false,
        values: BTreeMap::new(),
        owned: BTreeMap::new(),
        scope: None,
        subject: None,
        task: None,
        tenant: None,
        tty: None,
    }
}

pub(crate) fn values(names: &[&str]) -> BTreeMap<ValueName, String> {
    names
        .iter()
        .map(|name| (ValueName::parse(name).unwrap(), "v".into()))
        .collect()
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Whether this test may make files that root owns and clients of other uids.
pub(crate) fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("not attempted: needs root");
    }
    root
}

/// A client that connected as `uid`: SO_PEERCRED is noted at connect(2), so another process
/// connects and hands its socket over.
pub(crate) fn client_of(uid: u32, path: &Path) -> Client {
    use std::os::unix::process::CommandExt as _;

    const CONNECT: &str = "import array, socket, sys
there = socket.socket(socket.AF_UNIX)
there.connect(sys.argv[1])
rights = array.array('i', [there.fileno()])
here = socket.socket(fileno=0)
here.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])";
    let (near, far) = channel::pair_stream().unwrap();
    let status = Command::new("python3")
        .args(["-c", CONNECT])
        .arg(path)
        .stdin(far)
        .uid(uid)
        .gid(uid)
        .status()
        .unwrap();
    assert!(status.success());
    let (_, mut fds) = channel::recv(&near, &mut [0], 1).unwrap();
    UnixStream::from(fds.pop().unwrap()).into()
}
