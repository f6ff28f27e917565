//! A whole vault with everything around it under the test's control: custodyd's end, the gate's
//! end, a resolver that says what the test wants, real workers, a real server, real keys.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{Seek as _, Write as _},
    net::IpAddr,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream as StdStream,
    },
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use custody_service::{beside::Incoming, clock::Clock, folders::Folders};
use custody_sys::{channel, memfd};
use custody_vault::{Config, VaultError};
use custody_wire::{
    Message as _, frame,
    perform::{Resolve, Resolved},
    permit::{Answer, Request},
    session::Signed,
    supervise::{VaultNotice, VaultOrder},
};
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use gate::{
    call::Call,
    chain::{Place, verify},
    digest::Digest,
    id::{CredentialLabel, PolicyName, SessionId},
    json,
    policy::Policy,
    record::{Effect, Outcome},
};
use tokio::{
    net::UnixStream,
    sync::{mpsc, oneshot},
    task::LocalSet,
    time::timeout,
};

use crate::server::{Received, Server, Step};

/// The credential of every test.
pub(crate) const SECRET: &str = "fake-token-for-tests";

/// The session that every bench opens.
pub(crate) const SESSION: SessionId = SessionId(7);

const NAME: &str = "api.example.test";

/// A boot clock that the test moves.
#[derive(Clone, Debug)]
pub(crate) struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, ns: u64) {
        self.0.store(ns, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn boot_ns(&self) -> u64 {
        self.get()
    }

    fn unix_ms(&self) -> u64 {
        1_700_000_000_000
    }
}

/// What custodyd's end has seen, and may do.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) orders: Vec<VaultOrder>,
    kills: HashMap<u64, oneshot::Sender<()>>,
    /// What an order to start is answered with, if not with a worker.
    pub(crate) refuse: Option<String>,
    /// Workers that take the credential and then behave as the test says.
    pub(crate) fake: Option<fn(OwnedFd)>,
}

/// What a resolver answers.
pub(crate) type Names = Arc<Mutex<BTreeMap<String, Vec<IpAddr>>>>;

pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) clock: TestClock,
    pub(crate) policy: Policy,
    pub(crate) seen: Arc<Mutex<Seen>>,
    pub(crate) names: Names,
    pub(crate) gate: Gate,
    custodyd: OwnedFd,
    vault: Process,
    places: Folders,
    _dir: tempfile::TempDir,
}

/// The gate's end.
pub(crate) struct Gate {
    pub(crate) key: SigningKey,
    pub(crate) audience: Digest,
    pub(crate) epoch: [u8; 16],
    to: tokio::net::unix::OwnedWriteHalf,
    answers: mpsc::UnboundedReceiver<Answer>,
    /// What came beside the answers.
    streams: mpsc::UnboundedReceiver<OwnedFd>,
    next: u64,
}

/// Runs a test on one thread, as the vault runs.
pub(crate) fn run(
    act: impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static,
    test: impl AsyncFnOnce(Bench),
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async move {
        let bench = Bench::start(Server::start(act), Duration::from_secs(60)).await;
        test(bench).await;
    });
}

/// A server that says yes to everything.
pub(crate) fn yes(_request: &Received) -> Vec<Step> {
    crate::server::answer(
        "200 OK",
        &[("content-type", "application/json")],
        b"{\"ok\":true}",
    )
}

pub(crate) fn policy_text(port: u16) -> String {
    format!(
        r#"
format = 1

[credentials.api]
connector = "http"

[credentials.api.placement]
header = "authorization"
prefix = "Bearer "

[credentials.api.floor]
origins = ["http://127.0.0.1:{port}"]
methods = ["GET", "POST"]
paths = ["/v1/messages", "/v1/notes/{{}}"]
addresses = ["127.0.0.1/32"]

[credentials.far]
connector = "http"

[credentials.far.placement]
header = "authorization"
prefix = "Bearer "

[credentials.far.floor]
origins = ["https://{NAME}"]
methods = ["GET"]
paths = ["/"]
addresses = ["public"]

[tools.send]
description = "Sends a message."
credential = "api"
risk = "write"

[tools.send.request]
method = "POST"
url = "http://127.0.0.1:{port}/v1/messages"
body = {{ text = "{{text}}" }}
headers = {{ x-note = "{{note}}" }}
timeout_ms = 1000
answer_max_bytes = 4096

[tools.send.arguments.text]
authority = "payload"
type = "string"
max_length = 100

[tools.send.arguments.note]
authority = "payload"
type = "string"
max_length = 100
optional = true

[tools.read]
description = "Reads a note."
credential = "api"
risk = "read"
idempotent = true

[tools.read.request]
method = "GET"
url = "http://127.0.0.1:{port}/v1/notes/{{id}}"
timeout_ms = 1000

[tools.read.arguments.id]
authority = "payload"
type = "string"
max_length = 60000

[tools.follow]
description = "Follows a note while it is written."
credential = "api"
risk = "read"
idempotent = true

[tools.follow.request]
method = "GET"
url = "http://127.0.0.1:{port}/v1/notes/{{id}}"
stream = true
timeout_ms = 2000
answer_max_bytes = 100000

[tools.follow.arguments.id]
authority = "payload"
type = "string"

[tools.transfer]
description = "Moves money; a reviewer signs each."
credential = "api"
risk = "financial"
confirm = "signature"

[tools.transfer.request]
method = "POST"
url = "http://127.0.0.1:{port}/v1/messages"
body = {{ amount = "{{amount}}" }}
timeout_ms = 1000

[tools.transfer.arguments.amount]
authority = "payload"
type = "integer"

[tools.note]
description = "Writes a note whose number the server gives."
credential = "api"
risk = "write"

[tools.note.request]
method = "POST"
url = "http://127.0.0.1:{port}/v1/messages"
body = {{ text = "{{text}}" }}
timeout_ms = 300

[tools.note.arguments.text]
authority = "payload"
type = "string"
max_length = 100

[tools.note.verify]
url = "http://127.0.0.1:{port}/v1/notes/{{id}}"
expect = {{ "/text" = "{{text}}", "/state" = "kept" }}
tries = 3
delay_ms = 10
timeout_ms = 300

[tools.note.verify.capture.id]
pointer = "/id"
type = "string"
max_length = 20

[tools.filed]
description = "Writes a note that a program of the operator's looks for."
credential = "api"
risk = "write"

[tools.filed.request]
method = "POST"
url = "http://127.0.0.1:{port}/v1/messages"
body = {{ text = "{{text}}" }}
timeout_ms = 300

[tools.filed.arguments.text]
authority = "payload"
type = "string"
max_length = 100

[tools.filed.verify]
command = ["/bin/sh", "-c", '''{VERIFIER}''']
tries = 2
delay_ms = 10
timeout_ms = 2000
lock_on_mismatch = true

[tools.filed.verify.capture.id]
pointer = "/id"
type = "string"
max_length = 20

[tools.pay]
description = "Pays under a reference of the caller's."
credential = "api"
risk = "write"

[tools.pay.request]
method = "POST"
url = "http://127.0.0.1:{port}/v1/messages"
body = {{ amount = "{{amount}}", reference = "{{reference}}" }}
timeout_ms = 300

[tools.pay.arguments.amount]
authority = "payload"
type = "integer"

[tools.pay.arguments.reference]
authority = "payload"
type = "string"
max_length = 20

[tools.pay.verify]
url = "http://127.0.0.1:{port}/v1/notes/{{reference}}"
expect = {{ "/amount" = "{{amount}}" }}
tries = 2
delay_ms = 10
timeout_ms = 300
lock_on_mismatch = true

[tools.settled]
description = "Pays where what was sent shows within a moment or never."
credential = "api"
risk = "write"

[tools.settled.request]
method = "POST"
url = "http://127.0.0.1:{port}/v1/messages"
body = {{ amount = "{{amount}}", reference = "{{reference}}" }}
timeout_ms = 20000

[tools.settled.arguments.amount]
authority = "payload"
type = "integer"

[tools.settled.arguments.reference]
authority = "payload"
type = "string"
max_length = 20

[tools.settled.verify]
url = "http://127.0.0.1:{port}/v1/notes/{{reference}}"
expect = {{ "/amount" = "{{amount}}" }}
tries = 2
delay_ms = 10
timeout_ms = 300
settles_ms = 50

[tools.keyed]
description = "Sends what its target performs once for each key."
credential = "api"
risk = "write"
idempotency_key = true

[tools.keyed.request]
method = "POST"
url = "http://127.0.0.1:{port}/v1/messages"
body = {{ text = "{{text}}" }}
timeout_ms = 1000

[tools.keyed.arguments.text]
authority = "payload"
type = "string"

[tools.edit]
description = "Changes a note."
credential = "api"
risk = "write"

[tools.edit.request]
method = "POST"
url = "http://127.0.0.1:{port}/v1/notes/{{id}}"
body = {{ text = "{{text}}" }}
timeout_ms = 1000

[tools.edit.arguments.id]
authority = "payload"
type = "string"
max_length = 60000

[tools.edit.arguments.text]
authority = "payload"
type = "string"

[tools.edit.precondition.last_read]
tool = "read"

[tools.edit_field]
description = "Changes a note."
credential = "api"
risk = "write"

[tools.edit_field.request]
method = "POST"
url = "http://127.0.0.1:{port}/v1/notes/{{id}}"
body = {{ text = "{{text}}" }}
timeout_ms = 1000

[tools.edit_field.arguments.id]
authority = "payload"
type = "string"
max_length = 60000

[tools.edit_field.arguments.text]
authority = "payload"
type = "string"

[tools.edit_field.precondition.last_read]
tool = "read"
field = "/version"

[tools.edit_told]
description = "Changes a note."
credential = "api"
risk = "write"

[tools.edit_told.request]
method = "POST"
url = "http://127.0.0.1:{port}/v1/notes/{{id}}"
body = {{ text = "{{text}}", version = "{{version}}" }}
timeout_ms = 1000

[tools.edit_told.arguments.id]
authority = "payload"
type = "string"
max_length = 60000

[tools.edit_told.arguments.text]
authority = "payload"
type = "string"

[tools.edit_told.precondition]
if_match = "{{version}}"

[tools.edit_told.arguments.version]
authority = "payload"
type = "string"

[tools.edit_again]
description = "Changes a note."
credential = "api"
risk = "write"

[tools.edit_again.request]
method = "POST"
url = "http://127.0.0.1:{port}/v1/notes/{{id}}"
body = {{ text = "{{text}}" }}
timeout_ms = 1000

[tools.edit_again.arguments.id]
authority = "payload"
type = "string"
max_length = 60000

[tools.edit_again.arguments.text]
authority = "payload"
type = "string"

[tools.edit_again.precondition.read_again]
url = "http://127.0.0.1:{port}/v1/notes/{{id}}"
expect = {{ "/text" = "old" }}
timeout_ms = 300

[tools.far]
description = "Asks a host that is far away."
credential = "far"
risk = "read"
idempotent = true

[tools.far.request]
method = "GET"
url = "https://{NAME}/"
timeout_ms = 1000
"#
    )
}

fn owner() -> u32 {
    nix::unistd::geteuid().as_raw()
}

impl Bench {
    async fn start(server: Server, idle: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let places = Folders {
            policies: place("policies"),
            state: place("state"),
            chain: place("receipts"),
            public: place("public"),
        };
        let name = PolicyName::parse("test").unwrap();
        let policy = Policy::compile(&name, &policy_text(server.address.port())).unwrap();
        fs::write(places.policies.join("test.policy"), policy.to_bytes()).unwrap();
        let clock = TestClock(Arc::new(AtomicU64::new(1_000_000_000_000)));
        let running = Running::start(&places, &clock, idle).await;
        let bench = Self {
            server,
            clock,
            policy,
            seen: running.seen,
            names: running.names,
            gate: running.gate,
            custodyd: running.custodyd,
            vault: running.vault,
            places,
            _dir: dir,
        };
        bench.open(SESSION);
        bench
    }

    /// Ends the vault as a crash does, and starts another in the same places.
    pub(crate) async fn restart(&mut self) {
        self.crash();
        self.begin().await;
    }

    pub(crate) fn crash(&mut self) {
        self.vault.kill();
    }

    /// Starts a vault where one was.
    pub(crate) async fn begin(&mut self) {
        let running = Running::start(&self.places, &self.clock, Duration::from_secs(60)).await;
        self.seen = running.seen;
        self.names = running.names;
        self.gate = running.gate;
        self.custodyd = running.custodyd;
        self.vault = running.vault;
        self.open(SESSION);
    }

    /// Starts a vault that must say why it does not.
    pub(crate) fn fails_to_begin(&mut self) -> VaultError {
        let (_ours, theirs) = channel::pair_seqpacket().unwrap();
        let idle = Duration::from_secs(60);
        let mut vault = Process::start(&self.places, &self.clock, idle, theirs);
        vault.end().unwrap_err()
    }

    pub(crate) fn policies(&self) -> PathBuf {
        self.places.policies.clone()
    }

    /// Closes custodyd's end and waits for the vault.
    pub(crate) fn close(mut self) -> Result<(), VaultError> {
        let fd = std::os::fd::AsRawFd::as_raw_fd(&self.custodyd);
        nix::sys::socket::shutdown(fd, nix::sys::socket::Shutdown::Both).unwrap();
        self.vault.end()
    }

    pub(crate) fn notice(&self, notice: &VaultNotice, fds: &[&OwnedFd]) {
        notify(&self.custodyd, notice, fds);
    }

    pub(crate) fn open(&self, session: SessionId) {
        let policy = PolicyName::parse("test").unwrap();
        self.notice(&VaultNotice::Opened { session, policy }, &[]);
    }

    /// A gate that takes the other's place.
    pub(crate) async fn other_gate(&mut self) -> Gate {
        let key = SigningKey::from_bytes(&[9; 32]);
        let other = Gate::meet(&self.custodyd, key).await;
        std::mem::replace(&mut self.gate, other)
    }

    /// What a permit says if nothing is wrong with it.
    pub(crate) fn wish(&self, tool: &str, arguments: serde_json::Value) -> Wish {
        let call = serde_json::json!({ "arguments": arguments, "tool": tool });
        let call = json::to_canonical(&call).unwrap();
        let credential = if tool == "far" { "far" } else { "api" };
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).unwrap();
        let now = self.clock.get();
        let tools = self.policy.tools();
        let system = tools.get(tool).map(|it| it.request.origin.to_string());
        Wish {
            permit: serde_json::json!({
                "audience": self.gate.audience,
                "call": Call::digest_of(&call),
                "credential": credential,
                "decision": Digest::ZERO,
                "epoch": hex(&self.gate.epoch),
                "expires": (now + 10_000_000_000).to_string(),
                "format": 1,
                "meaning": { "system": { "by": "operator", "value": system.unwrap_or_default() } },
                "nonce": hex(&nonce),
                "not_before": now.to_string(),
                "policy": self.policy.hash(),
                "position": 1,
                "session": SESSION,
                "tool": tool,
            }),
            call,
        }
    }

    /// A wish for a message; each is another call.
    pub(crate) fn send(&self, text: &str) -> Wish {
        self.wish("send", serde_json::json!({ "text": text }))
    }

    /// A wish for a stream of the note `id`, under the lease that the policy gives.
    pub(crate) fn follow(&self, id: &str) -> Wish {
        let origin = format!("http://{}", self.server.address);
        let lease = serde_json::json!({ "bytes": 100_000, "ms": 2_000, "origin": origin });
        let wish = self.wish("follow", serde_json::json!({ "id": id }));
        wish.with("lease", lease)
    }

    /// Asks for a stream, and has it.
    pub(crate) async fn lease(&mut self, wish: &Wish) -> UnixStream {
        match self.ask(wish).await {
            Answer::Opened { status: 200, .. } => self.gate.stream(),
            other => panic!("{other:?}"),
        }
    }

    /// Asks, with the decision's record on disk, and waits for the answer.
    pub(crate) async fn ask(&mut self, wish: &Wish) -> Answer {
        let signed = wish.signed(&self.gate.key);
        self.ask_signed(signed, wish.call.clone()).await
    }

    pub(crate) async fn ask_signed(&mut self, permit: Vec<u8>, call: Vec<u8>) -> Answer {
        self.gate.say(&Request::Durable { position: 1 }).await;
        self.gate.perform(permit, call).await;
        self.gate.answer().await
    }

    /// The same with what a reviewer signed beside it.
    pub(crate) async fn ask_approved(&mut self, wish: &Wish, approval: Option<Signed>) -> Answer {
        let signed = wish.signed(&self.gate.key);
        self.gate.say(&Request::Durable { position: 1 }).await;
        self.gate
            .perform_approved(signed, wish.call.clone(), approval)
            .await;
        self.gate.answer().await
    }

    /// The reason of a refusal, after which the server must have seen nothing.
    pub(crate) async fn refused(&mut self, wish: &Wish) -> String {
        let before = self.server.received().len();
        match self.ask(wish).await {
            Answer::Refused { why, .. } => {
                assert_eq!(self.server.received().len(), before, "{why}");
                assert!(!why.contains("fake-token"), "{why}");
                why
            }
            other => panic!("{other:?}"),
        }
    }

    /// What stands in the chain, every line verified.
    pub(crate) fn chain(&self) -> Vec<(Place, Effect)> {
        chain(&self.places)
    }

    /// The outcomes of all receipts.
    pub(crate) fn outcomes(&self) -> Vec<Outcome> {
        self.chain()
            .into_iter()
            .filter_map(|(_place, line)| match line {
                Effect::Receipt { outcome, .. } => Some(outcome),
                Effect::Intent { .. } | Effect::Started { .. } => None,
            })
            .collect()
    }

    /// How many intents stand in the chain.
    pub(crate) fn intents(&self) -> usize {
        let chain = self.chain();
        let intents = chain
            .iter()
            .filter(|(_place, line)| matches!(line, Effect::Intent { .. }));
        intents.count()
    }

    /// How many workers were ordered.
    pub(crate) fn starts(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        let starts = seen
            .orders
            .iter()
            .filter(|order| matches!(order, VaultOrder::Start { .. }));
        starts.count()
    }

    /// Ends a worker as SIGKILL does: its end of the channel closes, nothing is said.
    pub(crate) fn kill_workers(&self) {
        for (_order, kill) in self.seen.lock().unwrap().kills.drain() {
            let _gone = kill.send(());
        }
    }

    pub(crate) fn receipts(&self) -> PathBuf {
        self.places.chain.clone()
    }

    /// Waits until `what` holds.
    pub(crate) async fn until(&self, what: impl Fn(&Self) -> bool) {
        let wait = async {
            while !what(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(10), wait).await.unwrap();
    }
}

fn chain(places: &Folders) -> Vec<(Place, Effect)> {
    let key = custody_ledger::key::read_public(&places.public.join("receipts.pub")).unwrap();
    let text = fs::read(places.chain.join("000001.jsonl")).unwrap();
    let mut lines = Vec::new();
    verify(&[key], &text, |place, line| {
        lines.push((place, line));
    })
    .unwrap();
    lines
}

/// A permit and the call beside it, both to be spoilt.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) permit: serde_json::Value,
    pub(crate) call: Vec<u8>,
}

impl Wish {
    /// The signed form, as `gate::permit` makes it.
    pub(crate) fn signed(&self, key: &SigningKey) -> Vec<u8> {
        let mut message = b"custody permit v1\0".to_vec();
        message.extend(json::to_canonical(&self.permit).unwrap());
        let signature = hex(&key.sign(&message).to_bytes());
        let signed = serde_json::json!({ "permit": self.permit, "signature": signature });
        json::to_canonical(&signed).unwrap()
    }

    /// The same permit with one field changed.
    pub(crate) fn with(&self, field: &str, value: impl Into<serde_json::Value>) -> Self {
        let mut changed = self.clone();
        changed.permit[field] = value.into();
        changed
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Gate {
    /// Announces a gate to the vault and says hello.
    async fn meet(custodyd: &OwnedFd, key: SigningKey) -> Self {
        let (ours, theirs) = channel::pair_stream().unwrap();
        notify(custodyd, &VaultNotice::Gate, &[&theirs]);
        let (from, mut to) = stream(ours).into_split();
        let mut from = Incoming::new(from);
        let permit_key = VerifyingKey::from(&key).to_bytes();
        frame::write_async(&mut to, &Request::Hello { permit_key })
            .await
            .unwrap();
        let hello = timeout(Duration::from_secs(5), frame::read_async(&mut from)).await;
        let Answer::Hello { audience, epoch } = hello.unwrap().unwrap() else {
            panic!("no hello");
        };
        let (answered, answers) = mpsc::unbounded_channel();
        let (brought, streams) = mpsc::unbounded_channel();
        drop(tokio::task::spawn_local(async move {
            while let Ok(answer) = frame::read_async(&mut from).await {
                if let Some(fd) = from.descriptor() {
                    drop(brought.send(fd));
                }
                if answered.send(answer).is_err() {
                    return;
                }
            }
        }));
        Self {
            key,
            audience,
            epoch,
            to,
            answers,
            streams,
            next: 1,
        }
    }

    pub(crate) async fn say(&mut self, request: &Request) {
        frame::write_async(&mut self.to, request).await.unwrap();
    }

    pub(crate) async fn perform(&mut self, permit: Vec<u8>, call: Vec<u8>) -> u64 {
        self.perform_approved(permit, call, None).await
    }

    pub(crate) async fn perform_approved(
        &mut self,
        permit: Vec<u8>,
        call: Vec<u8>,
        approval: Option<Signed>,
    ) -> u64 {
        let number = self.next;
        self.next += 1;
        self.say(&Request::Perform {
            number,
            permit,
            call,
            approval,
        })
        .await;
        number
    }

    /// The next answer.
    pub(crate) async fn answer(&mut self) -> Answer {
        timeout(Duration::from_secs(15), self.answers.recv())
            .await
            .expect("an answer in time")
            .expect("an open channel")
    }

    /// What came beside the last answer.
    pub(crate) fn stream(&mut self) -> UnixStream {
        stream(self.streams.try_recv().expect("a descriptor"))
    }

    /// No answer comes; the channel may be closed.
    pub(crate) async fn hears_nothing(&mut self) {
        let heard = timeout(Duration::from_millis(300), self.answers.recv()).await;
        assert!(matches!(heard, Err(_) | Ok(None)), "{heard:?}");
    }

    /// The channel ends.
    pub(crate) async fn is_closed(&mut self) {
        let heard = timeout(Duration::from_secs(5), self.answers.recv()).await;
        assert!(matches!(heard, Ok(None)), "{heard:?}");
    }
}

/// A vault in a thread of its own, all of which can end at once as a process does.
struct Process {
    kill: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<Option<Result<(), VaultError>>>>,
}

impl Process {
    fn start(places: &Folders, clock: &TestClock, idle: Duration, channel: OwnedFd) -> Self {
        let (kill, killed) = oneshot::channel::<()>();
        let (places, clock) = (places.clone(), clock.clone());
        let thread = thread::spawn(move || {
            let config = Config {
                places,
                policy_owner: owner(),
                clock: Rc::new(clock),
                idle,
            };
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    done = custody_vault::serve(config, channel) => Some(done),
                    _killed = killed => None,
                }
            })
        });
        Self {
            kill: Some(kill),
            thread: Some(thread),
        }
    }

    /// As SIGKILL does.
    fn kill(&mut self) {
        drop(self.kill.take());
        let ended = self.thread.take().unwrap().join().unwrap();
        assert!(ended.is_none(), "{ended:?}");
    }

    /// Waits for its own end.
    fn end(&mut self) -> Result<(), VaultError> {
        let ended = self.thread.take().unwrap().join().unwrap();
        ended.expect("its own end")
    }
}

/// A vault that runs, and what is around it.
struct Running {
    custodyd: OwnedFd,
    gate: Gate,
    names: Names,
    seen: Arc<Mutex<Seen>>,
    vault: Process,
}

impl Running {
    async fn start(places: &Folders, clock: &TestClock, idle: Duration) -> Self {
        let (ours, theirs) = channel::pair_seqpacket().unwrap();
        let vault = Process::start(places, clock, idle, theirs);
        for label in ["api", "far"] {
            let label = CredentialLabel::parse(label).unwrap();
            let file = secret_file(&format!("{SECRET}\n"));
            notify(&ours, &VaultNotice::Credential { label }, &[&file]);
        }
        notify(&ours, &VaultNotice::Ready, &[]);
        let names = Names::default();
        notify(&ours, &VaultNotice::Resolver, &[&resolver(&names)]);
        let seen = Arc::new(Mutex::new(Seen::default()));
        heed_orders(ours.try_clone().unwrap(), &seen);
        let gate = Gate::meet(&ours, SigningKey::from_bytes(&[8; 32])).await;
        Self {
            custodyd: ours,
            gate,
            names,
            seen,
            vault,
        }
    }
}

pub(crate) fn secret_file(text: &str) -> OwnedFd {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.rewind().unwrap();
    file.into()
}

fn notify(custodyd: &OwnedFd, notice: &VaultNotice, fds: &[&OwnedFd]) {
    let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    let bytes = frame::datagram(notice).unwrap();
    loop {
        match channel::send(custodyd, &bytes, &fds) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1));
            }
            other => return other.unwrap(),
        }
    }
}

fn stream(fd: OwnedFd) -> UnixStream {
    let stream = StdStream::from(fd);
    stream.set_nonblocking(true).unwrap();
    UnixStream::from_std(stream).unwrap()
}

/// A resolver that knows the names of the test.
fn resolver(names: &Names) -> OwnedFd {
    let (ours, theirs) = channel::pair_stream().unwrap();
    let names = Arc::clone(names);
    drop(thread::spawn(move || {
        let mut ours = StdStream::from(ours);
        while let Ok(Resolve { number, host }) = frame::read(&mut ours) {
            let found = names.lock().unwrap().get(&host).cloned();
            let addresses = found.ok_or_else(|| "no such name".to_owned());
            if frame::write(&mut ours, &Resolved { number, addresses }).is_err() {
                return;
            }
        }
    }));
    theirs
}

/// What looks for a note of `filed`: its text says what it finds.
const VERIFIER: &str = "read -r told; case $told in \
    *'\"id\":\"n0\",\"text\":\"there\"'*'\"tool\":\"filed\"'*) exit 0;; *gone*) exit 1;; *blind*) exit 2;; \
    *hang*) exec sleep 30;; *) echo SECRET-WORDS >&2; exit 9;; esac";

/// custodyd's side: starts a real worker, in a thread of its own, for each order.
fn heed_orders(custodyd: OwnedFd, seen: &Arc<Mutex<Seen>>) {
    let seen = Arc::clone(seen);
    drop(thread::spawn(move || {
        let mut buffer = vec![0; VaultOrder::CAP];
        while let Ok((len @ 1.., _fds)) = channel::recv(&custodyd, &mut buffer, 0) {
            let order: VaultOrder = frame::parse(&buffer[..len]).unwrap();
            let mut seen = seen.lock().unwrap();
            seen.orders.push(order.clone());
            match order {
                VaultOrder::Head(_) | VaultOrder::Locked { .. } => {}
                VaultOrder::Recover { order, .. } | VaultOrder::Start { order, .. } => {
                    if let Some(why) = seen.refuse.clone() {
                        notify(&custodyd, &VaultNotice::WorkerRefused { order, why }, &[]);
                        continue;
                    }
                    let (ours, theirs) = channel::pair_stream().unwrap();
                    let (kill, killed) = oneshot::channel();
                    drop(seen.kills.insert(order, kill));
                    let fake = seen.fake;
                    drop(thread::spawn(move || match fake {
                        Some(fake) => fake(ours),
                        None => work_until(ours, killed),
                    }));
                    // Any descriptor stands for the pidfd: the vault only holds it.
                    let pid = OwnedFd::from(File::open("/dev/null").unwrap());
                    notify(&custodyd, &VaultNotice::Worker { order }, &[&theirs, &pid]);
                }
                VaultOrder::Verify { order, .. } => {
                    if let Some(why) = seen.refuse.clone() {
                        notify(&custodyd, &VaultNotice::WorkerRefused { order, why }, &[]);
                        continue;
                    }
                    let (ours, theirs) = channel::pair_stream().unwrap();
                    let program = ["/bin/sh", "-c", VERIFIER].map(Into::into);
                    drop(thread::spawn(move || {
                        custody_effect::check::serve(ours, &program)
                    }));
                    let pid = OwnedFd::from(File::open("/dev/null").unwrap());
                    notify(&custodyd, &VaultNotice::Worker { order }, &[&theirs, &pid]);
                }
                VaultOrder::Stop { order } => {
                    if let Some(kill) = seen.kills.remove(&order) {
                        let _gone = kill.send(());
                    }
                }
            }
        }
    }));
}

/// A real worker that nobody kills.
pub(crate) fn work(channel: OwnedFd) {
    let (_kill, killed) = oneshot::channel();
    work_until(channel, killed);
}

fn work_until(channel: OwnedFd, killed: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::select! {
            done = custody_effect::worker::serve(channel) => {
                if let Err(error) = done {
                    println!("worker: {error}");
                }
            }
            // A dropped sender is the bench going away, not a kill.
            Ok(()) = killed => {}
        }
    });
    // Everything of it is gone, in the middle of whatever it did.
    runtime.shutdown_background();
}

/// Takes the credential as a worker does, and says ready: for workers that then do something else.
pub(crate) fn take_credential(channel: OwnedFd) -> (StdStream, Vec<u8>) {
    let mut buffer = vec![0; 4096];
    let (_len, mut fds) = channel::recv(&channel, &mut buffer, 1).unwrap();
    let secret = memfd::read(fds.pop().unwrap(), 4096).unwrap();
    let mut stream = StdStream::from(channel);
    frame::write(&mut stream, &custody_wire::perform::Answer::Ready).unwrap();
    (stream, secret)
}

/// Whether any file below `dir` has `needle` in it.
pub(crate) fn holds(dir: &Path, needle: &str) -> bool {
    fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, needle);
        }
        let bytes = fs::read(&path).unwrap();
        bytes
            .windows(needle.len())
            .any(|window| window == needle.as_bytes())
    })
}

/// The same bench with workers that end after `idle`.
pub(crate) fn run_with_idle(
    idle: Duration,
    act: impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static,
    test: impl AsyncFnOnce(Bench),
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async move {
        let bench = Bench::start(Server::start(act), idle).await;
        test(bench).await;
    });
}
