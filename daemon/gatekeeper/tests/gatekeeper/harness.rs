//! The other ends of a gate's channels.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    process::{Child, Command, Stdio},
    rc::Rc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use custody_gatekeeper::{Config, GateError};
use custody_service::{clock::BootClock, folders::Folders};
use custody_sys::channel;
use custody_wire::{
    agent::{self, Answer},
    frame::{self, FrameError},
    permit, session,
    supervise::{GateNotice, Head},
};
use ed25519_dalek::VerifyingKey;
use gate::{
    call::Call,
    chain,
    digest::{Digest, Domain},
    id::{OwnedName, PolicyName, RoleName, SessionId, ValueName},
    permit::{Expect, Verified},
    policy::Policy,
    record::Decision,
};
use nix::{
    fcntl::{Flock, FlockArg},
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

/// Longer than anything that is to happen takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough to see that nothing happens.
pub(crate) const QUIET: Duration = Duration::from_millis(150);

pub(crate) const SESSION: SessionId = SessionId(7);

pub(crate) const CUSTOMER: &str = "customer@example.test";

/// A gate, and custodyd's and control's end of it.
pub(crate) struct Bench {
    pub(crate) places: Folders,
    pub(crate) control: UnixStream,
    /// What the gate said unasked while control waited for an answer.
    unasked: VecDeque<session::Answer>,
    custodyd: Option<OwnedFd>,
    process: Process,
    dir: tempfile::TempDir,
}

enum Process {
    Thread(Option<JoinHandle<Result<(), GateError>>>),
    Program(Child),
}

/// The front's end of a session's channel.
pub(crate) struct Front {
    pub(crate) stream: UnixStream,
    next: u64,
}

/// The vault's end.
pub(crate) struct Vault {
    pub(crate) stream: UnixStream,
    pub(crate) key: VerifyingKey,
    epoch: [u8; 16],
    /// The newest position that the gate said is on disk.
    pub(crate) durable: u64,
}

/// What the gate asked of the vault, its permit verified.
pub(crate) struct Asked {
    pub(crate) number: u64,
    pub(crate) permit: Verified,
    pub(crate) approval: Option<session::Signed>,
    pub(crate) call: Call,
}

fn policy_name() -> PolicyName {
    PolicyName::parse("demo").unwrap()
}

fn signing_name() -> PolicyName {
    PolicyName::parse("signing").unwrap()
}

fn office_name() -> PolicyName {
    PolicyName::parse("office").unwrap()
}

pub(crate) fn audience() -> Digest {
    Digest::of(Domain::Key, b"the vault of the tests")
}

/// Folders with the demo's policy, compiled.
pub(crate) fn places(dir: &Path) -> Folders {
    let place = |name: &str| {
        let path = dir.join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let places = Folders {
        policies: place("policies"),
        state: place("state"),
        chain: place("decisions"),
        public: place("public"),
    };
    let text = include_str!("../../../../fixtures/policies/demo.toml");
    let policy = Policy::compile(&policy_name(), text).unwrap();
    fs::write(places.policies.join("demo.policy"), policy.to_bytes()).unwrap();
    // Turns of a second and little to remember, so that a test sees the end of both.
    let text = include_str!("../../../../fixtures/policies/office.toml").replace(
        "[own]",
        "[session]\nhold_seconds = 1\nprovenance_mb = 1\nturn_seconds = 1\n\n[own]",
    );
    let policy = Policy::compile(&office_name(), &text).unwrap();
    fs::write(places.policies.join("office.policy"), policy.to_bytes()).unwrap();
    // The same with time to answer, and scripts that a reviewer signs.
    let text = include_str!("../../../../fixtures/policies/office.toml")
        .replace("name = \"office\"", "name = \"signing\"")
        .replace(
            "risks = [\"execute\"]",
            "risks = [\"destructive\", \"execute\"]",
        )
        .replace(
            "[tools.run_script]",
            "[tools.run_script]\nconfirm = \"signature\"",
        );
    let policy = Policy::compile(&signing_name(), &text).unwrap();
    fs::write(places.policies.join("signing.policy"), policy.to_bytes()).unwrap();
    let text = include_str!("../../../../fixtures/policies/stream.toml");
    for (name, text) in [
        ("stream", text.into()),
        (
            "asked",
            text.replace("name = \"stream\"", "name = \"asked\"")
                .replace(
                    "[tools.follow_log]\n",
                    "[tools.follow_log]\nconfirm = \"always\"\n",
                ),
        ),
    ] as [(&str, String); 2]
    {
        let policy = Policy::compile(&PolicyName::parse(name).unwrap(), &text).unwrap();
        let path = places.policies.join(format!("{name}.policy"));
        fs::write(path, policy.to_bytes()).unwrap();
    }
    places
}

/// A gate in a thread of its own, as it runs in its program.
pub(crate) fn in_thread(places: &Folders, fd: OwnedFd) -> JoinHandle<Result<(), GateError>> {
    let places = places.clone();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let mut config = Config::new(places, Rc::new(BootClock));
        config.policy_owner = nix::unistd::geteuid().as_raw();
        tokio::task::LocalSet::new().block_on(&runtime, custody_gatekeeper::serve(config, fd))
    })
}

/// The program itself, with the channel as descriptor 3.
fn program(places: &Folders, fd: OwnedFd) -> Child {
    // A shell moves the descriptor: between fork(2) and exec only unsafe code could.
    Command::new("/bin/sh")
        .args(["-c", "exec \"$@\" 3<&0 0</dev/null", "sh"])
        .arg(env!("CARGO_BIN_EXE_custody-gate"))
        .arg("--policies")
        .arg(&places.policies)
        .arg("--state")
        .arg(&places.state)
        .arg("--chain")
        .arg(&places.chain)
        .arg("--public")
        .arg(&places.public)
        .stdin(Stdio::from(fd))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

impl Bench {
    /// A gate in a thread.
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let places = places(dir.path());
        Self::start_in(dir, places)
    }

    /// A gate in a thread, in these places.
    pub(crate) fn start_in(dir: tempfile::TempDir, places: Folders) -> Self {
        Self::begin(dir, places, |places, fd| {
            Process::Thread(Some(in_thread(places, fd)))
        })
    }

    /// The program.
    pub(crate) fn start_program() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let places = places(dir.path());
        Self::begin(dir, places, |places, fd| {
            Process::Program(program(places, fd))
        })
    }

    fn begin(
        dir: tempfile::TempDir,
        places: Folders,
        start: fn(&Folders, OwnedFd) -> Process,
    ) -> Self {
        let (custodyd, theirs) = channel::pair_seqpacket().unwrap();
        let process = start(&places, theirs);
        let control = give(&custodyd, &GateNotice::Control);
        Self {
            places,
            control,
            unasked: VecDeque::new(),
            custodyd: Some(custodyd),
            process,
            dir,
        }
    }

    /// Another gate in the same places, after this one has ended.
    pub(crate) fn again(mut self) -> Self {
        self.end();
        let places = self.places.clone();
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap());
        Self::start_in(dir, places)
    }

    /// Ends it as custodyd's end does.
    pub(crate) fn end(&mut self) {
        drop(self.custodyd.take());
        match &mut self.process {
            Process::Thread(handle) => {
                if let Some(handle) = handle.take() {
                    handle.join().unwrap().unwrap();
                    wait_unlocked(&self.places.chain);
                }
            }
            Process::Program(child) => {
                let _status = child.wait().unwrap();
            }
        }
    }

    /// Ends the program as SIGKILL does, and gives back what it logged.
    pub(crate) fn kill(&mut self) -> String {
        let Process::Program(child) = &mut self.process else {
            panic!("a thread cannot be killed")
        };
        child.kill().unwrap();
        let _status = child.wait().unwrap();
        let mut log = String::new();
        let mut stderr = child.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut stderr, &mut log).unwrap();
        log
    }

    pub(crate) fn notice(&self, notice: &GateNotice) {
        let bytes = frame::datagram(notice).unwrap();
        channel::send(self.custodyd(), &bytes, &[]).unwrap();
    }

    pub(crate) fn custodyd(&self) -> &OwnedFd {
        self.custodyd.as_ref().unwrap()
    }

    /// A stream whose other end the gate got with `notice`.
    pub(crate) fn give(&self, notice: &GateNotice) -> UnixStream {
        give(self.custodyd(), notice)
    }

    /// What control asks for when a session is to start.
    pub(crate) fn opening(session: SessionId) -> session::Open {
        session::Open {
            session,
            policy: policy_name(),
            caller_uid: 1_000,
            from: None,
            values: BTreeMap::from([(ValueName::parse("customer").unwrap(), CUSTOMER.into())]),
            owned: BTreeMap::from([
                (OwnedName::parse("notes").unwrap(), vec!["n1".into()]),
                (OwnedName::parse("pages").unwrap(), vec!["p1".into()]),
            ]),
            roles: Default::default(),
            scope: None,
            subject: None,
            task: Some("Answer the customer.".into()),
            tenant: None,
            workspace: false,
        }
    }

    pub(crate) fn ask_control(&mut self, request: &session::Request) -> session::Answer {
        frame::write(&mut self.control, request).unwrap();
        loop {
            let answer: session::Answer = frame::read(&mut self.control).unwrap();
            if answer.is_asked() {
                return answer;
            }
            self.unasked.push_back(answer);
        }
    }

    /// A session with its front.
    pub(crate) fn open(&mut self, session: SessionId) -> Front {
        let request = session::Request::Open(Self::opening(session));
        let answer = self.ask_control(&request);
        assert!(matches!(answer, session::Answer::Done), "{answer:?}");
        self.front(session)
    }

    /// A session under the office's policy, with its front.
    pub(crate) fn office(&mut self, task: &str) -> Front {
        self.within(office_name(), SESSION, task)
    }

    /// A session in which people have time to answer and sign for scripts, with its front.
    pub(crate) fn signing(&mut self, session: SessionId, task: &str) -> Front {
        self.within(signing_name(), session, task)
    }

    fn within(&mut self, policy: PolicyName, session: SessionId, task: &str) -> Front {
        let open = session::Open {
            session,
            policy: policy.clone(),
            caller_uid: 1_000,
            from: None,
            values: BTreeMap::from([(ValueName::parse("account").unwrap(), "77".into())]),
            owned: BTreeMap::from([(OwnedName::parse("pages").unwrap(), vec!["p1".into()])]),
            roles: [RoleName::parse("finance").unwrap()].into(),
            scope: None,
            subject: None,
            task: Some(task.into()),
            tenant: None,
            workspace: false,
        };
        let answer = self.ask_control(&session::Request::Open(open));
        assert!(matches!(answer, session::Answer::Done), "{answer:?}");
        Front {
            stream: self.give(&GateNotice::Front { session, policy }),
            next: 1,
        }
    }

    /// A session under another policy, with its front; or why there is none.
    pub(crate) fn under(
        &mut self,
        policy: &str,
        roles: &[&str],
        task: &str,
    ) -> Result<Front, String> {
        let policy = PolicyName::parse(policy).unwrap();
        let open = session::Open {
            policy: policy.clone(),
            values: BTreeMap::new(),
            owned: BTreeMap::new(),
            roles: roles
                .iter()
                .map(|it| RoleName::parse(it).unwrap())
                .collect(),
            task: Some(task.into()),
            ..Self::opening(SESSION)
        };
        self.open_as(open)
    }

    /// A session as control asks for it, with its front; or why there is none.
    pub(crate) fn open_as(&mut self, open: session::Open) -> Result<Front, String> {
        let (session, policy) = (open.session, open.policy.clone());
        match self.ask_control(&session::Request::Open(open)) {
            session::Answer::Done => Ok(Front {
                stream: self.give(&GateNotice::Front { session, policy }),
                next: 1,
            }),
            session::Answer::Refused { why } => Err(why),
            other @ (session::Answer::Current
            | session::Answer::NotAnswered { .. }
            | session::Answer::Over(_)
            | session::Answer::Waits(_)) => panic!("{other:?}"),
        }
    }

    /// The next that the gate says unasked, but that everything was said.
    pub(crate) fn unasked(&mut self) -> session::Answer {
        loop {
            let said = self
                .unasked
                .pop_front()
                .unwrap_or_else(|| frame::read(&mut self.control).unwrap());
            if !matches!(said, session::Answer::Current) {
                return said;
            }
        }
    }

    /// How much was said unasked before the last answer.
    pub(crate) fn said_before(&self) -> usize {
        self.unasked.len()
    }

    /// What was said on a channel that is gone.
    pub(crate) fn forget_unasked(&mut self) {
        self.unasked.clear();
    }

    /// The next call that waits, as a reviewer is shown it.
    pub(crate) fn waits(&mut self) -> session::Waits {
        match self.unasked() {
            session::Answer::Waits(waits) => *waits,
            other @ (session::Answer::Current
            | session::Answer::Done
            | session::Answer::NotAnswered { .. }
            | session::Answer::Over(_)
            | session::Answer::Refused { .. }) => panic!("{other:?}"),
        }
    }

    /// What became of the next call that waits no longer.
    pub(crate) fn over(&mut self) -> (u64, session::Outcome) {
        match self.unasked() {
            session::Answer::Over(over) => (over.pending, over.outcome),
            other @ (session::Answer::Current
            | session::Answer::Done
            | session::Answer::NotAnswered { .. }
            | session::Answer::Refused { .. }
            | session::Answer::Waits(_)) => panic!("{other:?}"),
        }
    }

    /// A reviewer's answer; why it does not count, if it does not.
    pub(crate) fn review(&mut self, answered: session::Answered) -> Option<String> {
        self.not_answered(answered).map(|(why, _outcome)| why)
    }

    /// The same, and what became of the call if it waits no longer.
    pub(crate) fn not_answered(
        &mut self,
        answered: session::Answered,
    ) -> Option<(String, Option<session::Outcome>)> {
        match self.ask_control(&session::Request::Answer(answered)) {
            session::Answer::Done => None,
            session::Answer::NotAnswered { why, outcome } => Some((why, outcome)),
            other @ (session::Answer::Current
            | session::Answer::Over(_)
            | session::Answer::Refused { .. }
            | session::Answer::Waits(_)) => panic!("{other:?}"),
        }
    }

    /// Says something to the session; what is answered, if it is not taken.
    pub(crate) fn tell(&mut self, told: session::Told) -> Option<String> {
        self.ask_tell(SESSION, told)
    }

    /// The same to another one.
    pub(crate) fn ask_tell(&mut self, session: SessionId, told: session::Told) -> Option<String> {
        match self.ask_control(&session::Request::Tell { session, told }) {
            session::Answer::Done => None,
            session::Answer::Refused { why } => Some(why),
            other @ (session::Answer::Current
            | session::Answer::NotAnswered { .. }
            | session::Answer::Over(_)
            | session::Answer::Waits(_)) => panic!("{other:?}"),
        }
    }

    /// A front for a session.
    pub(crate) fn front(&self, session: SessionId) -> Front {
        let policy = policy_name();
        Front {
            stream: self.give(&GateNotice::Front { session, policy }),
            next: 1,
        }
    }

    /// A vault that has said hello.
    pub(crate) fn vault(&self) -> Vault {
        Vault::meet(self.give(&GateNotice::Vault))
    }

    /// What stands in the chain, every line verified. A line that is just being written is not
    /// part of it yet.
    pub(crate) fn records(&self) -> Vec<Decision> {
        let key = custody_ledger::key::read_public(&self.places.public.join("decisions.pub"));
        let text = fs::read(self.places.chain.join("000001.jsonl")).unwrap();
        let mut records = Vec::new();
        let seen = |_at, body| records.push(body);
        let _whole = chain::verify(&[key.unwrap()], &text, seen).unwrap();
        records
    }

    /// The newest head that custodyd was told.
    pub(crate) fn head(&self) -> Head {
        loop {
            let mut buffer = [0; 1024];
            let (len, _fds) = channel::recv(self.custodyd(), &mut buffer, 0).unwrap();
            let head: Head = frame::parse(&buffer[..len]).unwrap();
            // The first word is that it serves, of a chain without a record too.
            if head.position > 0 {
                return head;
            }
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        drop(self.custodyd.take());
        if let Process::Program(child) = &mut self.process {
            // It may be dead already.
            let _killed = child.kill();
            let _status = child.wait();
        }
    }
}

/// The lock belongs to the open file (flock(2)): a program that another test is starting in this
/// process has a copy of it until its exec.
fn wait_unlocked(folder: &Path) {
    eventually(|| {
        let file = fs::File::open(folder).unwrap();
        Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok()
    });
}

fn give(custodyd: &OwnedFd, notice: &GateNotice) -> UnixStream {
    let (ours, theirs) = channel::pair_stream().unwrap();
    let bytes = frame::datagram(notice).unwrap();
    channel::send(custodyd, &bytes, &[theirs.as_fd()]).unwrap();
    let stream = UnixStream::from(ours);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Whether nothing comes for a while.
pub(crate) fn is_quiet<M: custody_wire::Message + std::fmt::Debug>(
    mut stream: &UnixStream,
) -> bool {
    stream.set_read_timeout(Some(QUIET)).unwrap();
    let came = frame::read::<M>(&mut stream);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    match came {
        Err(FrameError::Io(error)) => error.kind() == std::io::ErrorKind::WouldBlock,
        _ => false,
    }
}

/// Whether the other end is closed, or will be.
pub(crate) fn is_closed(mut stream: &UnixStream) -> bool {
    matches!(frame::read::<Answer>(&mut stream), Err(FrameError::Closed))
}

pub(crate) fn eventually(mut what: impl FnMut() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < PATIENCE, "it did not come about");
        thread::sleep(Duration::from_millis(2));
    }
}

impl Front {
    /// Sends a call; its number.
    pub(crate) fn send(&mut self, tool: &str, arguments: &str) -> u64 {
        let number = self.next;
        self.next += 1;
        self.send_as(number, tool, arguments.as_bytes());
        number
    }

    pub(crate) fn send_as(&mut self, number: u64, tool: &str, arguments: &[u8]) {
        let call = agent::Request::Call {
            number,
            tool: tool.into(),
            arguments: arguments.into(),
        };
        frame::write(&mut self.stream, &call).unwrap();
    }

    pub(crate) fn answer(&mut self) -> Answer {
        frame::read(&mut self.stream).unwrap()
    }

    /// The next answer, with what came beside it.
    pub(crate) fn answer_with(&mut self) -> (Answer, Option<OwnedFd>) {
        let mut head = [0; 4];
        let (len, mut fds) = channel::recv(&self.stream, &mut head, 1).unwrap();
        assert_eq!(len, head.len(), "the length comes whole");
        let mut bytes = vec![0; usize::try_from(u32::from_le_bytes(head)).unwrap()];
        std::io::Read::read_exact(&mut self.stream, &mut bytes).unwrap();
        (frame::parse(&bytes).unwrap(), fds.pop())
    }

    /// Sends a call that waits; its pending id, rule and reason.
    pub(crate) fn held(&mut self, tool: &str, arguments: &str) -> (u64, String, String) {
        let sent = self.send(tool, arguments);
        match self.answer() {
            Answer::Held {
                number,
                pending,
                rule,
                why,
                ..
            } => {
                assert_eq!(number, sent);
                (pending, rule, why)
            }
            other @ (Answer::Done { .. }
            | Answer::Failed { .. }
            | Answer::Refused { .. }
            | Answer::Leased { .. }
            | Answer::Over { .. }
            | Answer::Stream { .. }
            | Answer::Tools { .. }) => panic!("{other:?}"),
        }
    }

    /// Sends a call until it reaches a vault that has only just said hello.
    pub(crate) fn reach(&mut self, vault: &mut Vault, tool: &str) -> Asked {
        let start = Instant::now();
        loop {
            let _number = self.send(tool, "{}");
            let mut ends = [
                PollFd::new(vault.stream.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.stream.as_fd(), PollFlags::POLLIN),
            ];
            assert!(poll(&mut ends, PollTimeout::from(20_000_u16)).unwrap() > 0);
            if ends[0].any() == Some(true) {
                return vault.asked();
            }
            let answer = self.answer();
            assert!(matches!(answer, Answer::Failed { .. }), "{answer:?}");
            assert!(start.elapsed() < PATIENCE, "it did not reach the vault");
        }
    }

    /// Sends a call that is not performed, and gives rule and reason.
    pub(crate) fn refused(&mut self, tool: &str, arguments: &str) -> (String, String) {
        let sent = self.send(tool, arguments);
        match self.answer() {
            Answer::Refused {
                number, rule, why, ..
            } => {
                assert_eq!(number, sent);
                (rule, why)
            }
            other @ (Answer::Done { .. }
            | Answer::Failed { .. }
            | Answer::Held { .. }
            | Answer::Leased { .. }
            | Answer::Over { .. }
            | Answer::Stream { .. }
            | Answer::Tools { .. }) => {
                panic!("{other:?}")
            }
        }
    }
}

/// A message to the session's customer.
pub(crate) fn message(body: &str) -> String {
    format!("{{\"body\":\"{body}\",\"subject\":\"s\",\"to\":\"{CUSTOMER}\"}}")
}

impl Vault {
    pub(crate) fn meet(mut stream: UnixStream) -> Self {
        let mut epoch = [0; 16];
        getrandom::fill(&mut epoch).unwrap();
        let hello = permit::Answer::Hello {
            audience: audience(),
            epoch,
        };
        frame::write(&mut stream, &hello).unwrap();
        let key = match frame::read(&mut stream).unwrap() {
            permit::Request::Hello { permit_key } => VerifyingKey::from_bytes(&permit_key).unwrap(),
            other @ (permit::Request::Durable { .. } | permit::Request::Perform { .. }) => {
                panic!("{other:?}")
            }
        };
        Self {
            stream,
            key,
            epoch,
            durable: 0,
        }
    }

    /// The next call, its permit verified as a vault does.
    pub(crate) fn asked(&mut self) -> Asked {
        loop {
            match frame::read(&mut self.stream).unwrap() {
                permit::Request::Durable { position } => self.durable = position,
                permit::Request::Perform {
                    number,
                    permit,
                    call,
                    approval,
                } => {
                    return self.verified(number, &permit, &call, approval);
                }
                permit::Request::Hello { .. } => panic!("hello twice"),
            }
        }
    }

    fn verified(
        &self,
        number: u64,
        permit: &[u8],
        call: &[u8],
        approval: Option<session::Signed>,
    ) -> Asked {
        let expect = Expect {
            audience: audience(),
            epoch: self.epoch,
            now_boot_ns: custody_sys::clock::boot_ns(),
        };
        let permit = gate::permit::verify(permit, &self.key, &expect).unwrap();
        let call = permit.admit(call).unwrap();
        Asked {
            number,
            approval,
            permit,
            call,
        }
    }

    /// The next call, if one comes soon.
    pub(crate) fn asked_soon(&mut self) -> Option<Asked> {
        let quiet = PollTimeout::try_from(QUIET).unwrap();
        // A word that records are on disk is none.
        loop {
            let mut ends = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
            if poll(&mut ends, quiet).unwrap() == 0 {
                return None;
            }
            match frame::read(&mut self.stream).unwrap() {
                permit::Request::Durable { position } => self.durable = position,
                permit::Request::Perform {
                    number,
                    permit,
                    call,
                    approval,
                } => return Some(self.verified(number, &permit, &call, approval)),
                permit::Request::Hello { .. } => panic!("hello twice"),
            }
        }
    }

    /// Whether no call comes for a while.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.stream.set_read_timeout(Some(QUIET)).unwrap();
        let idle = loop {
            match frame::read::<permit::Request>(&mut self.stream) {
                Ok(permit::Request::Durable { position }) => self.durable = position,
                Err(FrameError::Io(error)) => {
                    break error.kind() == std::io::ErrorKind::WouldBlock;
                }
                Ok(_) | Err(_) => break false,
            }
        };
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        idle
    }

    /// Waits until the gate says that `position` is on disk.
    pub(crate) fn wait_durable(&mut self, position: u64) {
        while self.durable < position {
            match frame::read(&mut self.stream).unwrap() {
                permit::Request::Durable { position } => self.durable = position,
                other @ (permit::Request::Hello { .. } | permit::Request::Perform { .. }) => {
                    panic!("{other:?}")
                }
            }
        }
    }

    pub(crate) fn say(&mut self, answer: &permit::Answer) {
        frame::write(&mut self.stream, answer).unwrap();
    }

    /// Opens a lease, and keeps the end that a worker has.
    pub(crate) fn opens(&mut self, number: u64) -> UnixStream {
        let (ours, theirs) = channel::pair_stream().unwrap();
        let bytes = frame::frame(&permit::Answer::Opened {
            number,
            status: 200,
        })
        .unwrap();
        channel::send(&self.stream, &bytes, &[theirs.as_fd()]).unwrap();
        UnixStream::from(ours)
    }

    pub(crate) fn done(&mut self, number: u64, result: &[u8]) {
        self.say(&permit::Answer::Done {
            number,
            receipt: Digest::of(Domain::Line, &number.to_le_bytes()),
            result: result.into(),
            status: 200,
            media_type: Some("application/json".into()),
            verification: gate::record::Verification::UNSUPPORTED,
            freshness: gate::record::Freshness::Unchecked,
        });
    }
}
