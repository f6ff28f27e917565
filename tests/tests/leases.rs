//! A streaming tool, end to end: the agent reads while its server writes, after the gate has recorded it;
//! whoever is not its one reader has nothing; and what ends it ends it at once.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    process::{Child, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use custody_tests::ground::{self, Ground, words};
use serde_json::Value;

/// The most that may pass between the operator's word and the last byte that an agent reads. The aim is
/// 100 ms on an idle host; tests share theirs.
#[cfg(test)]
const BOUND: Duration = Duration::from_millis(1_500);

/// The tool that streams, for the demo's credential.
const FOLLOW: &str = include_str!("../../fixtures/demo/follow.toml");

/// What an agent does in a shell: it calls the tool by MCP, and has the stream's number in `id`.
const CALL: &str = r#"
coproc B { custody-bridge; }
ask() { printf '%s\n' "$1" >&"${B[1]}"; read -r answer <&"${B[0]}"; }
call() { ask "{\"jsonrpc\":\"2.0\",\"id\":\"$1\",\"method\":\"tools/call\",\"params\":{\"name\":\"$1\",\"arguments\":$2}}"; }
follow() { ask "{\"jsonrpc\":\"2.0\",\"id\":\"f$1\",\"method\":\"tools/call\",\"params\":{\"name\":\"follow_note\",\"arguments\":{\"id\":\"$1\"}}}"; id=${answer##*custody/stream\":}; id=${id%%[!0-9]*}; }
ask '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}'
printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/initialized"}' >&"${B[1]}"
"#;

/// A service that answers each request with the steps that the test says.
#[cfg(test)]
struct Service(TcpListener);

#[cfg(test)]
impl Service {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// The next request, read to the end of its head; its authorization too.
    fn call(&self) -> (TcpStream, String) {
        let (mut stream, _) = self.0.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        (stream, String::from_utf8(head).unwrap())
    }
}

#[cfg(test)]
fn chunk(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    let piece = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    stream.write_all(&piece).is_ok()
}

#[cfg(test)]
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/// An installation whose demo policy has the streaming tool, for this service.
#[cfg(test)]
fn ground(service: &Service) -> Ground {
    let mut ground = Ground::lay().unwrap();
    let ours = service.0.local_addr().unwrap().to_string();
    let policy = format!("{}{FOLLOW}", ground.policy())
        .replace("SERVICE", &ours)
        .replace(&ground.witness.address().to_string(), &ours);
    ground.host.write_policy(ground::NAME, &policy).unwrap();
    ground.host.up().unwrap();
    ground
}

/// A session that runs `script` behind [`CALL`].
#[cfg(test)]
fn session(ground: &Ground, script: &str) -> Child {
    let path = format!(
        "PATH=$PATH:/run/custody/bin:{}\n",
        ground.host.programs().display()
    );
    ground
        .run()
        .args(["--", "/bin/bash", "-c"])
        .arg(format!("{path}{CALL}{script}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[cfg(test)]
fn custody(ground: &Ground, arguments: &[&str]) -> Output {
    ground
        .host
        .cli()
        .uid(0)
        .gid(0)
        .args(arguments)
        .output()
        .unwrap()
}

/// Both chains, as they are shown: one JSON object a record.
#[cfg(test)]
fn listed(ground: &Ground) -> String {
    let state = ground.host.state();
    let mut text = String::new();
    for chain in ["decisions", "receipts"] {
        text.push_str(&std::fs::read_to_string(state.join(chain).join("000001.jsonl")).unwrap());
    }
    text
}

#[test]
#[serial_test::file_serial(custody)]
fn an_agent_reads_a_stream_while_it_is_written_once_and_the_session_is_tainted_before() {
    if !ground::can_run() {
        return;
    }
    let service = Service::new();
    let ground = ground(&service);
    let script = r#"
follow 1; echo "stream $id"
custody-bridge --stream "$id" > /tmp/read & reader=$!
while ! [ -s /tmp/read ]; do sleep 0.01; done
echo "first $(head -c 6 /tmp/read)"
call publish_page '{"page":"home","reason":"release"}'; echo "publish $answer"
custody-bridge --stream "$id"; echo "second $?"
custody-bridge --stream 999999; echo "stranger $?"
custody-bridge --stream x; echo "none $?"
wait $reader; echo "whole $?"
sha256sum < /tmp/read
grep -c CUSTODYCANARY /tmp/read
"#;
    let child = session(&ground, script);
    let (mut stream, head) = service.call();
    assert!(
        head.contains(&ground.canary),
        "the worker has the credential"
    );
    stream.write_all(HEAD).unwrap();
    // An echo of the credential, cut in two; and then as much as the scrubber keeps back.
    let (one, two) = ground.canary.split_at(9);
    assert!(chunk(&mut stream, format!("begin {one}").as_bytes()));
    assert!(chunk(
        &mut stream,
        format!("{two} {}", ".".repeat(4_000)).as_bytes()
    ));
    // It is read before the rest is written: the agent says so by reading, the shell by going on.
    thread::sleep(Duration::from_millis(700));
    assert!(chunk(&mut stream, b"end"));
    stream.write_all(b"0\r\n\r\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = words(&output);
    assert!(said.contains("first begin "), "{said}");
    assert!(said.contains("whole 0"), "{said}");
    assert!(
        said.contains("second 1") && said.contains("stranger 1") && said.contains("none 1"),
        "{said}"
    );
    // What the session could not have known yet it is held to already.
    let published = said
        .lines()
        .find(|line| line.starts_with("publish "))
        .unwrap();
    let answer: Value = serde_json::from_str(published.trim_start_matches("publish ")).unwrap();
    assert_eq!(ground::rule(&answer), Some("taint"), "{answer}");
    assert!(!said.contains(&ground.canary), "{said}");

    let verified = ground.verify_ledger().unwrap();
    let told = words(&verified);
    assert!(
        verified.status.success() && !told.contains("in doubt"),
        "{told}"
    );
    let records = listed(&ground);
    let sum = said.lines().find(|line| line.ends_with("  -")).unwrap();
    let sum = sum.split(' ').next().unwrap();
    // The receipt has the digest of exactly what the agent read.
    assert_eq!(records.matches(sum).count(), 2, "{sum}: {records}");
    assert!(records.contains("\"ended\":\"whole\""), "{records}");
    assert!(records.contains("\"scrubbed\":1"), "{records}");
    assert!(!ground.host.log().contains(&ground.canary));
}

/// A stream that goes on, and the agent that reads it: when the last byte came to it, and how it ended.
#[cfg(test)]
fn last_byte(
    ground: &Ground,
    service: &Service,
    cut: &dyn Fn(&Ground, &str),
) -> (Duration, String) {
    let script = "follow 1; custody-bridge --stream \"$id\"; s=$?; echo; echo \"ended $s\"";
    let mut child = session(ground, script);
    let (mut stream, _) = service.call();
    stream.write_all(HEAD).unwrap();
    let writer = thread::spawn(move || {
        let piece = [b'.'; 500];
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end && chunk(&mut stream, &piece) {
            thread::sleep(Duration::from_millis(1));
        }
    });
    let mut output = child.stdout.take().unwrap();
    let mut bytes = [0; 4_096];
    assert!(output.read(&mut bytes).unwrap() > 0);
    let reader = thread::spawn(move || {
        let (mut last, mut rest) = (Instant::now(), String::new());
        loop {
            let len = output.read(&mut bytes).unwrap();
            if len == 0 {
                return (last, rest);
            }
            let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
            if text.starts_with('.') {
                last = Instant::now();
            }
            rest.push_str(text.trim_matches('.'));
        }
    });
    let listed = ground.host.cli().args(["ps", "--json"]).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let is_id = |word: &&str| word.len() == 16 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let id = text.split('"').find(is_id).unwrap();
    let before = Instant::now();
    cut(ground, id);
    let (last, rest) = reader.join().unwrap();
    writer.join().unwrap();
    drop(child.wait());
    let last = last.saturating_duration_since(before);
    println!("last byte {} ms after", last.as_millis());
    (last, rest)
}

#[test]
#[serial_test::file_serial(custody)]
fn what_an_operator_takes_back_and_a_program_that_dies_cut_a_stream() {
    if !ground::can_run() {
        return;
    }
    let service = Service::new();
    let kill = |name: &'static str| {
        move |ground: &Ground, _id: &str| {
            let killed = ground.host.kill(name).unwrap();
            assert!(!killed.is_empty(), "{name}");
        }
    };
    let laid = ground(&service);
    for (what, cut) in [
        (
            "the worker",
            &kill("custody-effect") as &dyn Fn(&Ground, &str),
        ),
        ("the vault", &kill("custody-vault")),
        ("the front", &kill("custody-front")),
        ("the gate", &kill("custody-gate")),
        ("the session", &|ground: &Ground, id: &str| {
            let said = custody(ground, &["revoke", "session", id]);
            assert!(said.status.success(), "{}", words(&said));
        }),
        ("the credential", &|ground: &Ground, _id: &str| {
            let said = custody(ground, &["revoke", "credential", ground::NAME]);
            assert!(said.status.success(), "{}", words(&said));
        }),
    ] {
        let (last, rest) = last_byte(&laid, &service, cut);
        println!("{what}: {last:?}");
        assert!(last < BOUND, "{what}: {last:?}");
        assert!(!rest.contains("ended 0"), "{what}: {rest}");
    }
    let verified = laid.verify_ledger().unwrap();
    assert!(verified.status.success(), "{}", words(&verified));
    let receipts = listed(&laid);
    assert!(receipts.contains("was revoked"), "{receipts}");
}
