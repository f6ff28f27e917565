//! What an operator takes back is cut off in mid-byte, and stays so.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    process::Output,
    time::{Duration, Instant},
};

use custody_tests::ground::{self, Ground, words};

/// The most that may pass between the operator's word and the last byte. The aim is 100 ms on an idle
/// host; tests share theirs.
#[cfg(test)]
const BOUND: Duration = Duration::from_millis(1_500);

/// A service that answers a call without end, a byte at a time.
#[cfg(test)]
struct Dripping(TcpListener);

#[cfg(test)]
impl Dripping {
    fn call(&self) -> TcpStream {
        let (mut stream, _) = self.0.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n")
            .unwrap();
        stream
    }
}

/// Writes until nobody takes it any more; when that was.
#[cfg(test)]
fn last_byte(mut stream: TcpStream) -> Instant {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if stream.write_all(b"x").is_err() {
            return Instant::now();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it was read on");
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

#[test]
#[serial_test::file_serial(custody)]
fn a_revoked_credential_is_cut_off_in_mid_byte_and_stays_revoked_over_restarts() {
    if !ground::can_run() {
        return;
    }
    let mut ground = Ground::lay().unwrap();
    let service = Dripping(TcpListener::bind("127.0.0.1:0").unwrap());
    let ours = service.0.local_addr().unwrap().to_string();
    let policy = ground
        .policy()
        .replace(&ground.witness.address().to_string(), &ours);
    ground.host.write_policy(ground::NAME, &policy).unwrap();
    ground.host.up().unwrap();

    let calls = ground::calling(&[("send_message", ground::message("dripping"))]);
    let child = ground.start_probe(&calls).unwrap();
    let stream = service.call();
    let writer = std::thread::spawn(move || last_byte(stream));
    std::thread::sleep(Duration::from_millis(50));
    let before = Instant::now();
    let said = custody(&ground, &["revoke", "credential", ground::NAME]);
    assert!(said.status.success(), "{}", words(&said));
    let last = writer.join().unwrap().saturating_duration_since(before);
    println!(
        "last byte {} ms after the operator's command began",
        last.as_millis()
    );
    assert!(last < BOUND, "{last:?}");
    let report = ground::report(&child.wait_with_output().unwrap()).unwrap();
    let answers = ground::answers(&report).unwrap();
    assert!(!ground::is_done(&answers[0]), "{answers:?}");

    // A new vault, and a new custodyd.
    let refused = |ground: &Ground| {
        let answer = ground
            .call("send_message", ground::message("again"))
            .unwrap();
        assert!(!ground::is_done(&answer), "{answer}");
        assert!(answer.to_string().contains("revoked"), "{answer}");
    };
    refused(&ground);
    ground.host.down().unwrap();
    ground.host.up().unwrap();
    refused(&ground);
}
