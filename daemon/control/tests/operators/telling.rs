//! Reviewers hear that a call waits, and nothing of the agent's comes with it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::net::UnixListener,
    time::Duration,
};

use custody_wire::profile::Profile;

use crate::{
    peers::{Control, is_root, set_mode},
    reviewing::{running, wait, waits},
};

const ACCESS: &str = "[[access]]\nuids = [4001]\npolicies = ['mail']\n";

#[test]
fn a_program_and_a_socket_are_told_the_operators_words_alone() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (program, told) = (folder.path().join("tell"), folder.path().join("told"));
    let script = format!(
        "#!/bin/sh\n{{ echo \"args: $*\"; env; cat; }} >{0}.new; mv {0}.new {0}\n",
        told.display()
    );
    fs::write(&program, script).unwrap();
    set_mode(&program, 0o755);
    let socket = folder.path().join("told.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let notify = format!(
        "[notify]\ncommand = ['{}', 'me']\nsocket = '{}'\n",
        program.display(),
        socket.display()
    );
    let control = Control::start(&format!("{notify}{ACCESS}"));
    let (session, _client) = running(&control, Profile::Dev);
    wait(&control, &waits(session, 7));
    let mut line = String::new();
    let (stream, _) = listener.accept().unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert!(
        line.contains("\"pending\":7") && line.contains("\"tool\":\"send\""),
        "{line}"
    );
    let heard = fs::read_to_string(&told).unwrap();
    assert!(heard.starts_with("args: me\n"), "{heard}");
    assert!(
        heard.contains("Call 7 of session") && heard.contains("custody show 7"),
        "{heard}"
    );
    assert!(heard.contains("PATH=/usr/bin:/bin"), "{heard}");
    for theirs in ["<b>", "\u{1b}", "\\u001b", "CARGO", "HOME="] {
        assert!(
            !heard.contains(theirs) && !line.contains(theirs),
            "{theirs}: {heard}{line}"
        );
    }
}

#[test]
fn a_program_that_hangs_or_fails_and_a_socket_that_nobody_has_keep_nothing_waiting() {
    if !is_root() {
        return;
    }
    let notify = "[notify]\ncommand = ['/usr/bin/sleep', '60']\nsocket = '/no/such/socket'\n";
    let control = Control::start(&format!("{notify}{ACCESS}"));
    let (session, _client) = running(&control, Profile::Dev);
    let begun = std::time::Instant::now();
    for position in 1..=5 {
        wait(&control, &waits(session, position));
    }
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}
