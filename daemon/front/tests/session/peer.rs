//! The two ends of a front: a gate that answers by the tool's name, and an agent with raw lines.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use custody_wire::{
    agent::{Answer, Request, ToolView},
    frame,
};
use gate::{
    digest::{Digest, Domain},
    id::ToolName,
    record::{Finding, Freshness, Verification},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task::JoinHandle,
};

/// A running front, its folder, and what its gate was asked.
pub(crate) struct Session {
    pub(crate) asked: mpsc::UnboundedReceiver<(String, Vec<u8>)>,
    pub(crate) front: JoinHandle<frame::FrameError>,
    pub(crate) gate: JoinHandle<()>,
    folder: tempfile::TempDir,
}

impl Session {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("session.sock")).unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let (tell, asked) = mpsc::unbounded_channel();
        Self {
            asked,
            front: tokio::spawn(custody_front::listen::serve(listener, near)),
            gate: tokio::spawn(answer_all(far, tell)),
            folder,
        }
    }

    pub(crate) async fn agent(&self) -> Agent {
        let stream = UnixStream::connect(self.folder.path().join("session.sock"))
            .await
            .unwrap();
        let (read, write) = stream.into_split();
        Agent {
            lines: BufReader::new(read),
            write,
        }
    }
}

/// An agent that writes what it likes.
pub(crate) struct Agent {
    lines: BufReader<OwnedReadHalf>,
    pub(crate) write: OwnedWriteHalf,
}

impl Agent {
    pub(crate) async fn say(&mut self, line: impl AsRef<[u8]>) {
        let mut line = line.as_ref().to_vec();
        line.push(b'\n');
        self.write.write_all(&line).await.unwrap();
    }

    /// The next line, or nothing at the end of the stream.
    pub(crate) async fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line);
        match tokio::time::timeout(Duration::from_secs(10), read).await {
            Ok(Ok(0)) | Ok(Err(_)) => None,
            Ok(Ok(_)) => Some(serde_json::from_str(&line).unwrap()),
            Err(_elapsed) => panic!("the front said nothing for ten seconds"),
        }
    }

    pub(crate) async fn ask(&mut self, message: &Value) -> Value {
        self.say(message.to_string()).await;
        self.hear().await.expect("an answer")
    }

    /// The handshake of 2025-11-25 and before.
    pub(crate) async fn shake_hands(&mut self, version: &str) -> Value {
        let answer = self
            .ask(
                &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                    "protocolVersion": version,
                    "capabilities": {},
                    "clientInfo": {"name": "test", "version": "1"},
                }}),
            )
            .await;
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
        answer
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        // Each call has an id of its own.
        static NEXT: AtomicU64 = AtomicU64::new(1_000);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.ask(&call(id, tool, arguments)).await
    }
}

pub(crate) fn call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": tool, "arguments": arguments}})
}

/// Gives `message` the metadata that each request of 2026-07-28 carries.
pub(crate) fn self_contained(mut message: Value) -> Value {
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    message
}

/// Answers by the tool's name; a call of `slow` never.
async fn answer_all(mut far: UnixStream, tell: mpsc::UnboundedSender<(String, Vec<u8>)>) {
    while let Ok(request) = frame::read_async::<Request>(&mut far).await {
        let answer = match request {
            Request::Tools { number } => Answer::Tools {
                number,
                tools: vec![view("send"), view("list")],
            },
            Request::Call {
                number,
                tool,
                arguments,
            } => {
                if tell.send((tool.clone(), arguments.clone())).is_err() {
                    return;
                }
                match tool.as_str() {
                    "slow" => continue,
                    "die" => return,
                    _ => answer(number, &tool, arguments),
                }
            }
        };
        if frame::write_async(&mut far, &answer).await.is_err() {
            return;
        }
    }
}

fn answer(number: u64, tool: &str, arguments: Vec<u8>) -> Answer {
    let done = |result: Vec<u8>, json, status| Answer::Done {
        verification: Verification::UNSUPPORTED,
        number,
        call: Digest::of(Domain::Call, &arguments),
        result,
        json,
        status,
        freshness: Freshness::Unchecked,
    };
    let fresh = |looked| {
        let mut done = done(b"{}".to_vec(), true, 200);
        if let Answer::Done { freshness, .. } = &mut done {
            *freshness = looked;
        }
        done
    };
    let seen = |finding, why| {
        let mut done = done(br#"{"ok":true}"#.to_vec(), true, 200);
        if let Answer::Done { verification, .. } = &mut done {
            *verification = seen_as(finding, why);
        }
        done
    };
    match tool {
        "echo" => done(arguments.clone(), true, 200),
        "held" => Answer::Held {
            number,
            call: Digest::of(Domain::Call, b"held"),
            expires: 1_800_000_000_000,
            pending: 9,
            rule: "origin".into(),
            argument: Some("to".into()),
            why: "it comes from nowhere that is known".into(),
        },
        "text" => done(b"plain words".to_vec(), false, 200),
        "bytes" => done(vec![0xff, 0xfe, b'x'], false, 200),
        "big" => done(vec![b'x'; 900 << 10], false, 200),
        "forbidden" => done(br#"{"error":"no"}"#.to_vec(), true, 403),
        "lie" => seen(Finding::Mismatched, "status 404 came, and 200 was to come"),
        "lost" => Answer::Failed {
            verification: seen_as(Finding::Verified, ""),
            number,
            why: "the server closed the connection".into(),
            in_doubt: true,
        },
        "conditional" => fresh(Freshness::Closed),
        "narrowed" => fresh(Freshness::Narrowed { ms: 12 }),
        "shown" => seen(Finding::Verified, ""),
        "broken" => Answer::Failed {
            verification: Verification::UNSUPPORTED,
            number,
            why: "the server closed the connection".into(),
            in_doubt: true,
        },
        _ => Answer::Refused {
            number,
            rule: "tool.unregistered".into(),
            argument: Some("to".into()),
            why: "no tool of this name".into(),
        },
    }
}

fn seen_as(finding: Finding, why: &str) -> Verification {
    Verification {
        finding,
        reads: 2,
        why: (!why.is_empty()).then(|| why.into()),
    }
}

fn view(name: &str) -> ToolView {
    ToolView {
        name: ToolName::parse(name).unwrap(),
        description: format!("does {name}"),
        input_schema: br#"{"properties":{"to":{"type":"string"}},"type":"object"}"#.to_vec(),
        read_only: name == "list",
        destructive: false,
        idempotent: name == "list",
    }
}
