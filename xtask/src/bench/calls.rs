//! `bench calls`: what a call through front, gate, vault and worker adds to a bare request.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::series::{Series, compare};
use crate::{
    places::Places,
    room::{Room, daemon::Daemon, service::Service},
    say, stage,
};

/// How many calls a contender makes before it is the other's turn.
const TURN: usize = 10;

/// Calls that are not counted: the worker starts with the first.
const WARM_UP: usize = 20;

const CUSTOMER: &str = "alice@customer.example";

/// A tool, its arguments, and the same request by hand.
struct Case {
    name: &'static str,
    tool: &'static str,
    arguments: &'static str,
    method: &'static str,
    path: &'static str,
    body: &'static str,
    /// Whether something is on disk before the agent has its answer: of an effect its decision and its intent,
    /// of a lease its opening.
    durable: bool,
}

/// The same note over a lease: opened, and read to its end.
const FOLLOW: &str = include_str!("../../../fixtures/demo/follow.toml");

const CASES: [Case; 3] = [
    Case {
        name: "follow_note (a lease: opening on disk, then read to its end)",
        tool: "follow_note",
        arguments: r#"{"id":"inbox-1"}"#,
        method: "GET",
        path: "/v1/notes/inbox-1",
        body: "",
        durable: true,
    },
    Case {
        name: "read_note (idempotent)",
        tool: "read_note",
        arguments: r#"{"id":"inbox-1"}"#,
        method: "GET",
        path: "/v1/notes/inbox-1",
        body: "",
        durable: false,
    },
    Case {
        name: "send_message (intent on disk first)",
        tool: "send_message",
        arguments: r#"{"to":"alice@customer.example","subject":"a","body":"b"}"#,
        method: "POST",
        path: "/v1/messages",
        body: r#"{"body":"b","subject":"a","to":"alice@customer.example"}"#,
        durable: true,
    },
];

pub(super) fn run(places: &Places, turns: usize) -> Result<()> {
    let room = Room::make(places)?;
    let service = Service::start(places, &room)?;
    room.write_policy_with(places, service.address(), FOLLOW)?;
    room.show_own_program()?;
    let daemon = Daemon::start(&room)?;
    let mut bare = Bare::connect(&room, &service)?;
    let mut agent = Agent::start(&room, &daemon)?;
    let mut disk = Disk::open(&room)?;

    for case in CASES {
        agent.calls(&case, WARM_UP)?;
        bare.requests(&case, WARM_UP)?;
        let mut direct = Series::new("bare keep-alive request");
        let mut gated = Series::new("the same call by a confined agent");
        let mut synced = Series::new("the disk's own fdatasync(2)");
        for _ in 0..turns.div_ceil(TURN) {
            bare.requests(&case, TURN)?
                .into_iter()
                .for_each(|time| direct.push(time));
            let before = room.processor_time()?;
            agent
                .calls(&case, TURN)?
                .into_iter()
                .for_each(|time| gated.push(time));
            gated.add_cpu(room.processor_time()?.saturating_sub(before));
            if case.durable {
                disk.syncs(TURN)?
                    .into_iter()
                    .for_each(|time| synced.push(time));
            }
            if stage::interrupted() {
                bail!("interrupted");
            }
        }
        say::line(format_args!("\n{}", case.name));
        let added = gated.percentile(50).saturating_sub(direct.percentile(50));
        let own = added.saturating_sub(synced.percentile(50));
        if case.durable {
            compare(&[direct, gated, synced]);
            say::line(format_args!(
                "added at p50: {} µs, of which {} µs are beyond one fdatasync(2)",
                added.as_micros(),
                own.as_micros()
            ));
        } else {
            compare(&[direct, gated]);
            say::line(format_args!("added at p50: {} µs", added.as_micros()));
        }
    }
    Ok(())
}

/// As much as a record has, appended to a file where the service keeps its own.
struct Disk {
    file: File,
}

impl Disk {
    fn open(room: &Room) -> Result<Self> {
        let path = room.state().join("fdatasync");
        let file =
            File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { file })
    }

    fn syncs(&mut self, count: usize) -> Result<Vec<Duration>> {
        (0..count)
            .map(|_| {
                let started = Instant::now();
                self.file.write_all(&[b'x'; 1 << 10]).context("write(2)")?;
                self.file.sync_data().context("fdatasync(2)")?;
                Ok(started.elapsed())
            })
            .collect()
    }
}

/// The agent in its session, told over the CLI's pipes.
struct Agent {
    cli: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Agent {
    fn start(room: &Room, daemon: &Daemon<'_>) -> Result<Self> {
        let mut command = daemon.cli();
        command
            .args(["run", "--policy", "demo", "--value"])
            .arg(format!("customer={CUSTOMER}"))
            .args(["--owned", "notes=inbox-1", "--owned", "pages=status", "--"])
            .arg(room.own_program())
            .arg("bench-client")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut cli = command.spawn().context("cannot start custody")?;
        let answers = BufReader::new(cli.stdout.take().context("no pipe")?);
        let mut agent = Self { cli, answers };
        let ready = agent.line()?;
        ensure!(ready == "ready", "the agent said `{ready}`");
        Ok(agent)
    }

    fn calls(&mut self, case: &Case, count: usize) -> Result<Vec<Duration>> {
        let order = format!("{count} {} {}\n", case.tool, case.arguments);
        let stdin = self.cli.stdin.as_mut().context("no pipe")?;
        stdin
            .write_all(order.as_bytes())
            .context("cannot tell the agent")?;
        (0..count)
            .map(|_| {
                let line = self.line()?;
                let nanos = line
                    .parse()
                    .with_context(|| format!("the agent said `{line}`"))?;
                Ok(Duration::from_nanos(nanos))
            })
            .collect()
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers
            .read_line(&mut line)
            .context("the agent is silent")?;
        ensure!(!line.is_empty(), "the agent ended");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.cli.stdin.take()); // it ends at the end of its orders
        drop(self.cli.wait());
    }
}

/// The same request over one kept connection, with the token, by nobody's leave.
struct Bare {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    token: String,
    host: String,
}

impl Bare {
    fn connect(room: &Room, service: &Service) -> Result<Self> {
        let stream =
            TcpStream::connect(service.address()).context("cannot connect to the service")?;
        stream.set_nodelay(true).context("TCP_NODELAY")?;
        Ok(Self {
            reader: BufReader::new(stream.try_clone().context("dup")?),
            stream,
            token: std::fs::read_to_string(room.credential()).context("the credential")?,
            host: service.address().to_string(),
        })
    }

    fn requests(&mut self, case: &Case, count: usize) -> Result<Vec<Duration>> {
        let head = format!(
            "{} {} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{}",
            case.method,
            case.path,
            self.host,
            self.token,
            case.body.len(),
            case.body
        );
        (0..count)
            .map(|_| {
                let started = Instant::now();
                self.stream
                    .write_all(head.as_bytes())
                    .context("cannot ask the service")?;
                self.answer()?;
                Ok(started.elapsed())
            })
            .collect()
    }

    fn answer(&mut self) -> Result<()> {
        let mut length = 0;
        let mut line = String::new();
        let mut first = true;
        loop {
            line.clear();
            self.reader.read_line(&mut line).context("no answer")?;
            if first {
                ensure!(
                    line.starts_with("HTTP/1.1 2"),
                    "the service answered `{}`",
                    line.trim()
                );
                first = false;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().context("a length")?;
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.reader
            .read_exact(&mut body)
            .context("the answer is cut")
    }
}
