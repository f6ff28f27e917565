//! An agent that floods or stalls its socket disturbs nobody else.

use std::{
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use custody_tests::{
    ground::{self, Ground, is_done, message},
    suite::scene::nonce,
};

/// What a hostile agent does with its socket, in Python: many connections, some silent, some
/// that send without end and never read, and calls as fast as they go.
const FLOOD: &str = r#"
import json, socket, threading, time
PATH = "/run/custody/session.sock"
def connect():
    s = socket.socket(socket.AF_UNIX); s.connect(PATH); return s
kept = []
def silent():
    while len(kept) < 300:
        try: kept.append(connect())
        except OSError: time.sleep(0.01)
def endless():
    while True:
        try:
            s = connect()
            while True: s.sendall(b"x" * 65536)
        except OSError: time.sleep(0.01)
def unread():
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "flood", "version": "1"}}}) + "\n"
    call = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "no_such_tool", "arguments": {"a": "y" * 2000}}}) + "\n"
    while True:
        try:
            s = connect(); s.sendall(hello.encode())
            while True: s.sendall(call.encode() * 50)
        except OSError: time.sleep(0.01)
for f in [silent, endless, endless, unread, unread, unread]:
    threading.Thread(target=f, daemon=True).start()
print("flooding", flush=True)
time.sleep(120)
"#;

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Gone already is as good.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
#[serial_test::file_serial(custody)]
fn an_agent_that_floods_and_stalls_its_socket_disturbs_no_other_session() {
    if !ground::can_run() || !ground::has("/usr/bin/python3") {
        return;
    }
    let ground = Ground::set().unwrap();
    let flood = ground
        .run()
        .args(["--", "/usr/bin/python3", "-c", FLOOD])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let flood = Ended(flood);
    ground
        .host
        .wait("the flood runs", || {
            ground.host.session_cgroups().len() == 1
        })
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    for _ in 0..5 {
        let sent = nonce().unwrap();
        let start = Instant::now();
        let answer = ground.call("send_message", message(&sent)).unwrap();
        let took = start.elapsed();
        assert!(is_done(&answer), "{answer}");
        assert_eq!(ground.effects(&sent).unwrap().len(), 1);
        assert!(
            took < Duration::from_secs(10),
            "a call beside the flood took {took:?}"
        );
    }
    // The service is whole, and the flood can be ended like any session.
    assert!(ground.host.is_ready());
    drop(flood);
    ground
        .host
        .wait("the flood is gone", || {
            ground.host.session_cgroups().is_empty()
        })
        .unwrap();
    let verified = ground.verify_ledger().unwrap();
    assert!(verified.status.success(), "{}", ground::words(&verified));
}
