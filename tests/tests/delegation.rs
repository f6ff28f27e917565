//! Property B, end to end: a session that is delegated has a part of another's authority, spends what the
//! other has, and ends with it.
#![cfg(test)] // a helper may unwrap like the tests that it helps

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
};

use custody_tests::{
    ground::{self, CUSTOMER, Ground, NAME, answers, calling, is_done, message, report, rule},
    suite::scene::nonce,
};
use serde_json::{Value, json};

/// Two messages in all, whoever sends them.
const TOTAL: &str = "[tools.send_message]\ntotal = { calls = 2 }\n";

/// The demo's policy with a total, on its ground.
fn set() -> Ground {
    let mut ground = Ground::lay().unwrap();
    let policy = ground.policy().replacen("[tools.send_message]\n", TOTAL, 1);
    ground.host.write_policy(NAME, &policy).unwrap();
    ground.host.up().unwrap();
    ground
}

/// A session that runs until its input ends, and says so itself.
struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
    id: String,
}

impl Running {
    fn start(ground: &Ground, mut run: Command) -> Self {
        let before = ids(ground);
        let mut child = run
            .args(["--", "/bin/sh", "-c", "echo runs; read -r gone; echo over"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "runs\n");
        let mut new = ids(ground);
        new.retain(|it| !before.contains(it));
        assert_eq!(new.len(), 1, "{before:?} {new:?}");
        let id = new.remove(0);
        Self { child, said, id }
    }

    /// How it ended, and what it said last.
    fn wait(&mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.said.read_line(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What `custody ps --json` lists.
fn listed(ground: &Ground) -> Vec<Value> {
    let output = ground.host.cli().args(["ps", "--json"]).output().unwrap();
    let mut listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(listed["sessions"].take()).unwrap()
}

fn ids(ground: &Ground) -> Vec<String> {
    let listed = listed(ground);
    let ids = listed.iter().map(|it| it["session"].as_str().unwrap());
    ids.map(String::from).collect()
}

/// `custody run --from`, up to the command.
fn from(ground: &Ground, session: &str, more: &[&str]) -> Command {
    let mut command = ground.host.cli();
    command.args(["run", "--from", session]).args(more);
    command
}

/// Calls in a session that `run` starts.
fn probe(ground: &Ground, mut run: Command, calls: &[(&str, Value)]) -> Vec<Value> {
    let mut child = run
        .arg("--")
        .arg(ground.probe_program())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(&serde_json::to_vec(&calling(calls)).unwrap())
        .unwrap();
    drop(stdin);
    answers(&report(&child.wait_with_output().unwrap()).unwrap()).unwrap()
}

#[test]
#[serial_test::file_serial(custody)]
fn sessions_that_are_delegated_spend_one_limit_have_what_is_given_and_end_with_the_first() {
    if !ground::can_run() {
        return;
    }
    let ground = set();
    let mut first = Running::start(&ground, ground.run());

    // What is left out is not there; what is there is the first one's.
    let marks: Vec<String> = (0..4).map(|_| nonce().unwrap()).collect();
    let run = from(&ground, &first.id, &["--owned", "notes=1"]);
    let said = probe(
        &ground,
        run,
        &[
            ("read_note", json!({"id": "9"})),
            ("send_message", message(&marks[0])),
        ],
    );
    assert_eq!(rule(&said[0]), Some("owned_set"), "{}", said[0]);
    assert!(is_done(&said[1]), "{}", said[1]);
    let run = from(&ground, &first.id, &["--only-values", ""]);
    let said = probe(&ground, run, &[("send_message", message(&marks[1]))]);
    assert_eq!(rule(&said[0]), Some("trusted_value"), "{}", said[0]);

    // Of two messages one is left, and two sessions want it at once.
    let racing: Vec<Vec<Value>> = std::thread::scope(|scope| {
        let both: Vec<_> = marks[2..]
            .iter()
            .map(|mark| {
                let run = from(&ground, &first.id, &[]);
                let ground = &ground;
                scope.spawn(move || probe(ground, run, &[("send_message", message(mark))]))
            })
            .collect();
        both.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let done = racing.iter().filter(|it| is_done(&it[0])).count();
    assert_eq!(done, 1, "{racing:?}");
    let refused = racing.iter().find_map(|it| rule(&it[0]));
    assert_eq!(refused, Some("total"), "{racing:?}");
    let effects: usize = marks
        .iter()
        .map(|mark| ground.effects(mark).unwrap().len())
        .sum();
    assert_eq!(effects, 2, "as many as one session may have");

    // Nothing is said that the first one does not say, and nobody delegates from what is not his.
    for (more, why) in [
        (
            vec!["--value", "customer=x@example.org"],
            "cannot be used with",
        ),
        (vec!["--policy", "plain"], "has policy"),
        (vec!["--owned", "notes=1,2"], "cannot give it"),
    ] {
        let output = from(&ground, &first.id, &more)
            .args(["--", "/bin/true"])
            .output()
            .unwrap();
        assert!(!output.status.success());
        let words = ground::words(&output);
        assert!(words.contains(why), "{why}: {words}");
    }

    // It is listed with what it is of, the records name it, and its end is theirs.
    let mut second = Running::start(&ground, from(&ground, &first.id, &[]));
    let mut third = Running::start(&ground, from(&ground, &second.id, &[]));
    let of = |id: &str| {
        let listed = listed(&ground);
        let it = listed.iter().find(|it| it["session"] == id).unwrap();
        it["from"].as_str().map(String::from)
    };
    assert_eq!(of(&first.id), None);
    assert_eq!(of(&second.id).as_ref(), Some(&first.id));
    assert_eq!(of(&third.id).as_ref(), Some(&second.id));
    drop(first.child.stdin.take());
    assert_eq!(first.wait(), (Some(0), "over\n".into()));
    for below in [&mut second, &mut third] {
        let (code, rest) = below.wait();
        assert_eq!((code, rest.as_str()), (Some(125), ""));
    }
    let output = from(&ground, &first.id, &[])
        .args(["--", "/bin/true"])
        .output()
        .unwrap();
    let words = ground::words(&output);
    assert!(words.contains("no session"), "{words}");
    assert_eq!(listed(&ground), Vec::<Value>::new());

    let named = Command::new(ground.host.programs().join("custody"))
        .args(["ledger", "list", "--json", "--session", &third.id])
        .arg(ground.host.state())
        .output()
        .unwrap();
    let named = String::from_utf8_lossy(&named.stdout).into_owned();
    let chain = format!("\"from\":[\"{}\",\"{}\"]", second.id, first.id);
    assert!(named.contains(&chain), "{chain}: {named}");
    let verified = ground.verify_ledger().unwrap();
    assert!(verified.status.success(), "{}", ground::words(&verified));
    assert!(!ground.host.log().contains(CUSTOMER));
}

#[test]
#[serial_test::file_serial(custody)]
fn what_takes_a_session_back_takes_back_what_was_delegated_from_it() {
    if !ground::can_run() {
        return;
    }
    let ground = set();
    let first = Running::start(&ground, ground.run());
    let mut beside = Running::start(&ground, ground.run());
    let mut second = Running::start(&ground, from(&ground, &first.id, &[]));
    let mut third = Running::start(&ground, from(&ground, &second.id, &[]));
    let revoked = ground
        .host
        .cli()
        .args(["revoke", "session", &first.id])
        .output()
        .unwrap();
    assert!(revoked.status.success(), "{}", ground::words(&revoked));
    for below in [&mut second, &mut third] {
        assert_eq!(below.wait(), (Some(125), String::new()));
    }
    let kept = std::fs::read_to_string(ground.host.state().join("revoked")).unwrap();
    for id in [&first.id, &second.id, &third.id] {
        assert!(kept.contains(&format!("session {id}")), "{id}: {kept}");
    }
    assert!(!kept.contains(&beside.id), "{kept}");
    // Whoever was beside goes on.
    drop(beside.child.stdin.take());
    assert_eq!(beside.wait(), (Some(0), "over\n".into()));
}
