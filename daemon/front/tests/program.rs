//! The program itself: descriptors 3 and 4, and its end.
#![cfg(test)]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    process::{Command, Stdio},
};

use nix::fcntl::{FcntlArg, fcntl};

const FRONT: &str = env!("CARGO_BIN_EXE_custody-front");

#[test]
fn without_its_descriptors_it_says_who_starts_it() {
    let output = Command::new(FRONT).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("descriptor 3") && said.contains("custodyd"),
        "{said}"
    );
}

#[test]
fn it_serves_until_the_gate_is_gone_and_then_ends_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let (gate, far) = UnixStream::pair().unwrap();
    // Copies that survive an exec; the shell gives them their numbers.
    let far_copy = fcntl(&far, FcntlArg::F_DUPFD(20)).unwrap();
    let listener_copy = fcntl(&listener, FcntlArg::F_DUPFD(20)).unwrap();
    let script = format!(
        "exec 3<&{far_copy} 4<&{listener_copy} {far_copy}<&- {listener_copy}<&-; exec \"$0\""
    );
    let mut child = Command::new("bash")
        .args(["-c", &script, FRONT])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    nix::unistd::close(far_copy).unwrap();
    nix::unistd::close(listener_copy).unwrap();
    drop(far);

    let mut agent = UnixStream::connect(&path).unwrap();
    agent
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
        .unwrap();
    let mut answer = String::new();
    BufReader::new(agent.try_clone().unwrap())
        .read_line(&mut answer)
        .unwrap();
    assert!(answer.contains("\"result\""), "{answer}");
    drop(gate);
    assert!(!child.wait().unwrap().success());
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(said.contains("the gate is gone"), "{said}");
}
