//! A custody-control with one reviewer, one link and one call that waits; and the page at work.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use custody_wire::{
    frame,
    operator::{Answer, Ended, OfPage, PendingView, Request, Said, Shown, State, Ticket},
    session::{Reason, SaidBy, Valued, Waits},
};
use gate::{
    approval::Needs,
    call::Call,
    chain::Place,
    digest::{Digest, Domain},
    id::{ArgumentName, PolicyName, SessionId, ToolName},
};
use nix::fcntl::{FcntlArg, fcntl};

pub(crate) const TOKEN: Ticket = Ticket([0xa1; 32]);
pub(crate) const TICKET: Ticket = Ticket([0xb2; 32]);
pub(crate) const SESSION: SessionId = SessionId(0x2a);

/// What would be more than it is.
pub(crate) const HOSTILE: &str = "Dear bank,</pre></form><script>document.title='owned'</script>\
                                  <img src=x onerror=\"document.title='owned'\">\n\
                                  \u{202e}evil\u{202c} &amp; {{7*7}} \u{1b}[2J\n\
                                  <form action=\"http://evil.example\"><button>Approve</button></form>";

pub(crate) fn waits(needs: Needs) -> Waits {
    let long = format!("{HOSTILE}\n{}", "A".repeat(4_096));
    let text = serde_json::to_string(&long).unwrap();
    let call = format!(
        r#"{{"arguments":{{"amount":12,"message":{text},"to":"DE89 3704 0044 0532 0130 00","urgent":true}},"tool":"pay"}}"#
    );
    let name = |it: &str| ArgumentName::parse(it).unwrap();
    let valued = |argument: &str, role: &str, authority: &str, origin: Option<&str>, said| Valued {
        argument: name(argument),
        role: role.into(),
        authority: authority.into(),
        origin: origin.map(Into::into),
        said_by: said,
    };
    Waits {
        session: SESSION,
        from: Vec::new(),
        decision: Place {
            digest: Digest::of(Domain::Line, b"line"),
            position: 17,
        },
        digest: Call::digest_of(call.as_bytes()),
        call: call.into_bytes(),
        tool: ToolName::parse("pay").unwrap(),
        policy: PolicyName::parse("bank").unwrap(),
        policy_hash: Digest::of(Domain::Policy, b"bank"),
        caller_uid: 1000,
        task: Some("Pay the invoice in my mailbox".into()),
        since: now() - 30_000,
        expires: now() + 570_000,
        needs,
        vault: None,
        reasons: vec![Reason {
            rule: "confirmation".into(),
            argument: Some(name("amount")),
            why: "a person confirms what is financial".into(),
            change: "the policy's `[confirm]` leaves the class `financial` out".into(),
        }],
        values: vec![
            valued(
                "amount",
                "typed",
                "the agent",
                Some("untrusted content"),
                vec![SaidBy {
                    place: "result 2 of read_mail, field `body`".into(),
                    excerpt: Some(
                        "please transfer 12 EUR to <b>DE89 3704 0044 0532 0130 00</b>".into(),
                    ),
                }],
            ),
            valued("message", "payload", "the agent", None, Vec::new()),
            valued(
                "to",
                "sink",
                "the agent",
                Some("untrusted content"),
                vec![SaidBy {
                    place: "result 2 of read_mail, field `body`".into(),
                    excerpt: Some("12 EUR to DE89 3704 0044 0532 0130 00 by Friday".into()),
                }],
            ),
        ],
        classes: vec!["financial".into()],
        risk: "financial".into(),
        taint: vec!["result 2 of read_mail".into()],
    }
}

fn now() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// What control keeps.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) waits: Waits,
    state: State,
    entered: bool,
    left: bool,
}

/// The page at work.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) kept: Arc<Mutex<Kept>>,
    /// What a reviewer answered.
    pub(crate) answers: mpsc::Receiver<OfPage>,
    child: Child,
}

impl Running {
    pub(crate) fn start(needs: Needs) -> Self {
        let (control, theirs) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let kept = Arc::new(Mutex::new(Kept {
            waits: waits(needs),
            state: State::Waiting,
            entered: false,
            left: false,
        }));
        let (tell, answers) = mpsc::channel();
        let shared = Arc::clone(&kept);
        thread::spawn(move || serve(control, &shared, &tell));
        let copy = fcntl(&listener, FcntlArg::F_DUPFD(20)).unwrap();
        let channel = fcntl(&theirs, FcntlArg::F_DUPFD(20)).unwrap();
        let child = Command::new("bash")
            .args([
                "-c",
                &format!("exec 3<&{copy} 4<&{channel} {copy}<&- {channel}<&-; exec \"$0\" \"$@\""),
            ])
            .arg(env!("CARGO_BIN_EXE_custody-review"))
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        nix::unistd::close(copy).unwrap();
        nix::unistd::close(channel).unwrap();
        let _its_own = listener.as_raw_fd();
        Self {
            address,
            kept,
            answers,
            child,
        }
    }

    pub(crate) fn link(&self) -> String {
        let token: String = TOKEN.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("http://{}/login/{token}", self.address)
    }

    /// A request as it is, and the answer as it is.
    pub(crate) fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn serve(mut stream: UnixStream, kept: &Mutex<Kept>, tell: &mpsc::Sender<OfPage>) {
    while let Ok(request) = frame::read::<Request>(&mut stream) {
        let answer = answer(request, &mut kept.lock().unwrap(), tell);
        if frame::write(&mut stream, &answer).is_err() {
            return;
        }
    }
}

fn refused(why: &str) -> Answer {
    Answer::Refused { why: why.into() }
}

fn answer(request: Request, kept: &mut Kept, tell: &mpsc::Sender<OfPage>) -> Answer {
    let (ticket, what) = match request {
        Request::Enter { token } if token == TOKEN && !kept.entered => {
            kept.entered = true;
            return Answer::Entered { ticket: TICKET };
        }
        Request::Enter { .. } => return refused("the link was used"),
        Request::Page { ticket, what } => (ticket, *what),
        other => panic!("{other:?}"),
    };
    if ticket != TICKET || kept.left {
        return refused("you are not logged in any longer");
    }
    match what {
        OfPage::Leave => {
            kept.left = true;
            Answer::Done
        }
        OfPage::Pending { .. } => Answer::Pending {
            calls: view(kept).into_iter().collect(),
            next: None,
        },
        OfPage::Show {
            pending: 17,
            session: SESSION,
        } => Answer::Shown(Box::new(shown(kept))),
        OfPage::Show { .. } => refused("there is no such call that you may see"),
        of @ (OfPage::Approve { .. } | OfPage::Refuse { .. }) => {
            if kept.state != State::Waiting {
                return refused("call 17 is approved (answered by uid 1001)");
            }
            kept.state = match of {
                OfPage::Approve { .. } => State::Done,
                _ => State::Refused,
            };
            tell.send(of).unwrap();
            Answer::Done
        }
    }
}

fn view(kept: &Kept) -> Option<PendingView> {
    let waits = &kept.waits;
    (kept.state == State::Waiting).then(|| PendingView {
        pending: 17,
        session: SESSION,
        tool: waits.tool.clone(),
        policy: waits.policy.clone(),
        caller_uid: 1000,
        since: waits.since,
        expires: waits.expires,
        needs: waits.needs,
        rule: "confirmation".into(),
        state: kept.state,
    })
}

fn shown(kept: &Kept) -> Shown {
    let waiting = kept.state == State::Waiting;
    Shown {
        waits: kept.waits.clone(),
        state: kept.state,
        answered: (!waiting).then(|| Said {
            at: now(),
            uid: 1001,
            key: None,
            scope: (kept.state == State::Done).then_some(gate::approval::Scope::ONCE),
        }),
        over: (!waiting).then(|| Ended {
            at: now(),
            why: "performed; the status is 200".into(),
        }),
        not_yours: (!waiting).then(|| format!("it is {}", kept.state.as_str())),
    }
}
