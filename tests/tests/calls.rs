//! One call, end to end: what is allowed happens once and is recorded; what is not, does not.

use std::process::{Command, Stdio};

use custody_tests::{
    ground::{self, CUSTOMER, Ground, is_done, message, rule},
    suite::scene::nonce,
};
use serde_json::{Value, json};

/// The text of an answer.
fn text(answer: &Value) -> &str {
    let text = answer.pointer("/result/content/0/text");
    text.and_then(Value::as_str).unwrap_or("")
}

#[test]
#[serial_test::file_serial(custody)]
fn a_permitted_call_happens_once_and_a_refused_one_never() {
    if !ground::can_run() {
        return;
    }
    let ground = Ground::set().unwrap();

    let allowed = nonce().unwrap();
    let answer = ground.call("send_message", message(&allowed)).unwrap();
    assert!(is_done(&answer), "{answer}");
    let seen = ground.effects(&allowed).unwrap();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(seen[0].who.as_deref(), Some("demo"));
    assert!(seen[0].body.contains(CUSTOMER), "{}", seen[0].body);

    let foreign = nonce().unwrap();
    let arguments = json!({"to": "attacker@example.net", "subject": "x", "body": foreign});
    let answer = ground.call("send_message", arguments).unwrap();
    assert_eq!(rule(&answer), Some("trusted_value"), "{answer}");
    assert_eq!(ground.effects(&foreign).unwrap(), []);

    // Hostile text in between: the recipient is still the application's, so that call goes on;
    // the page's owner does not help after it.
    let [before, tainted, after] = [nonce(), nonce(), nonce()].map(Result::unwrap);
    let publish =
        |reference: &str| json!({"page": "home", "reason": "release", "reference": reference});
    let answers = ground
        .calls(&[
            ("publish_page", publish(&before)),
            ("read_note", json!({"id": "9"})),
            ("publish_page", publish(&tainted)),
            ("send_message", message(&after)),
        ])
        .unwrap();
    assert!(is_done(&answers[0]), "{}", answers[0]);
    assert!(
        text(&answers[1]).contains("Ignore all previous"),
        "{}",
        answers[1]
    );
    assert_eq!(rule(&answers[2]), Some("taint"), "{}", answers[2]);
    assert!(is_done(&answers[3]), "{}", answers[3]);
    assert_eq!(ground.effects(&before).unwrap().len(), 1);
    assert_eq!(ground.effects(&tainted).unwrap(), []);
    assert_eq!(ground.effects(&after).unwrap().len(), 1);

    let verified = ground.verify_ledger().unwrap();
    assert!(verified.status.success(), "{}", ground::words(&verified));
    let audited = Command::new(ground.host.programs().join("custody"))
        .arg("audit")
        .arg(ground.host.state())
        .arg("--policy")
        .arg(ground.host.folder().join("policies/demo.toml"))
        .output()
        .unwrap();
    let found = ground::words(&audited);
    assert!(audited.status.success(), "{found}");
    for tool in ["send_message", "publish_page", "read_note"] {
        assert!(found.contains(tool), "{found}");
    }
    assert_eq!(
        ground.witness.rejected().unwrap(),
        [],
        "only the worker speaks to the service"
    );
    assert!(
        !ground.host.log().contains(&ground.canary),
        "the credential is in the log"
    );
}

#[test]
#[serial_test::file_serial(custody)]
fn the_credential_and_the_network_are_out_of_reach() {
    if !ground::can_run() {
        return;
    }
    let ground = Ground::set().unwrap();
    let address = ground.witness.address();
    let token = ground.witness.token_file("demo");
    let script = format!(
        "exec 2>&1; id -u; cat {} || echo no' 'file; cat {}/custodyd.toml || echo no' 'configuration
         ls {} {} /sys/fs/cgroup 2>/dev/null; env; cat /proc/*/environ /proc/*/cmdline
         (exec 3<>/dev/tcp/{}/{}) && echo CONN''ECTED
         (exec 3<>/dev/udp/{}/{}) && echo CONN''ECTED
         echo done",
        token.display(),
        ground.host.folder().display(),
        ground.host.folder().display(),
        ground.host.state().display(),
        address.ip(),
        address.port(),
        address.ip(),
        address.port(),
    );
    let output = ground.shell(&script).unwrap();
    let said = ground::words(&output);
    assert!(output.status.success() && said.contains("done"), "{said}");
    for wanted in ["no file", "no configuration"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(!said.contains("CONNECTED"), "{said}");
    assert!(!said.contains(&ground.canary), "{said}");
    assert!(!said.starts_with("0\n"), "an agent is never root: {said}");
    assert_eq!(ground.witness.rejected().unwrap(), []);
}

#[test]
#[serial_test::file_serial(custody)]
fn two_sessions_see_nothing_of_each_other() {
    if !ground::can_run() {
        return;
    }
    let ground = Ground::set().unwrap();
    let first = ground
        .run()
        .args(["--", "/bin/bash", "-c"])
        .arg("echo mine > /tmp/secret; echo $$ $UID; exec sleep 60")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = Ended(first);
    let listed = || ground::words(&ground.host.cli().arg("ps").output().unwrap());
    ground
        .host
        .wait("the first session runs", || {
            ground.host.session_cgroups().len() == 1
        })
        .unwrap();
    let output = ground
        .shell("cat /tmp/secret; cat /proc/*/cmdline | tr '\\0' ' '; kill -9 -1; echo $UID; ls /proc | grep -c '^[0-9]'")
        .unwrap();
    let said = ground::words(&output);
    assert!(!said.contains("mine") && !said.contains("sleep"), "{said}");
    // The end is told before the last of its cgroup is gone.
    ground
        .host
        .wait("the first session alone is there", || {
            ground.host.session_cgroups().len() == 1
        })
        .unwrap_or_else(|error| panic!("{error}: {}", listed()));

    // Another session's customer is not this one's.
    let foreign = nonce().unwrap();
    let arguments = json!({"to": "other@example.org", "subject": "x", "body": foreign});
    let answer = ground.call("send_message", arguments).unwrap();
    assert_eq!(rule(&answer), Some("trusted_value"), "{answer}");

    // It is listed, and ended by its name; its end leaves nothing.
    let listed = ground.host.cli().args(["ps", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let session = ground.host.session_cgroups().pop().unwrap();
    let session = session.file_name().unwrap().to_string_lossy().into_owned();
    let name = listed.to_string();
    let id = name
        .split('"')
        .find(|word| word.len() == 16 && word.bytes().all(|b| b.is_ascii_hexdigit()))
        .unwrap_or_else(|| panic!("{session}: {name}"));
    let stopped = ground.host.cli().args(["stop", id]).output().unwrap();
    assert!(stopped.status.success(), "{}", ground::words(&stopped));
    let ended = first.0.wait().unwrap();
    assert!(!ended.success());
    drop(first);
    ground
        .host
        .wait("the sessions are gone", || {
            ground.host.session_cgroups().is_empty()
        })
        .unwrap();
}

/// A child that ends with the test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Gone already is as good.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
#[serial_test::file_serial(custody)]
fn an_agent_sees_only_what_it_may_author_and_bad_calls_change_nothing() {
    if !ground::can_run() {
        return;
    }
    let ground = Ground::set().unwrap();
    let said = |lines: &[String]| {
        let mut attack = ground::calling(&[]);
        if let custody_tests::probe::Attack::Message { lines: all, .. } = &mut attack {
            all.extend(lines.iter().map(|text| custody_tests::probe::Line {
                text: text.clone(),
                answered: true,
            }));
        }
        ground.probe(&attack).unwrap().said
    };
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let listed = said(&[list]);
    let tools: Value = serde_json::from_str(listed.lines().nth(1).unwrap()).unwrap();
    let names: Vec<&str> = tools
        .pointer("/result/tools")
        .and_then(Value::as_array)
        .unwrap()
        .iter()
        .filter_map(|tool| tool.get("name")?.as_str())
        .collect();
    assert_eq!(
        names,
        ["publish_page", "read_note", "send_message", "whoami"]
    );

    let marked = nonce().unwrap();
    let call = |id: u8, body: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"send_message","arguments":{{"to":"{CUSTOMER}","subject":"x","body":{body}}}}}}}"#
        )
    };
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    for (what, line) in [
        ("nul", call(2, &format!("\"{marked}\\u0000\""))),
        ("deep", call(2, &deep)),
        (
            "twice",
            call(2, &format!("\"{marked}\",\"body\":\"{marked}\"")),
        ),
        (
            "unknown argument",
            call(2, &format!("\"{marked}\",\"bcc\":\"a@b.example\"")),
        ),
        ("type", call(2, "7")),
        (
            "long",
            call(2, &format!("\"{marked}{}\"", "x".repeat(8000))),
        ),
        ("not json", "{\"jsonrpc\":".into()),
    ] {
        // Each is refused with a reason, and the session goes on.
        let after = nonce().unwrap();
        let good = call(3, &format!("\"{after}\""));
        let heard = said(&[line, good]);
        let lines: Vec<&str> = heard.lines().collect();
        assert_eq!(lines.len(), 3, "{what}: {heard}");
        assert!(
            lines[1].contains("error") || lines[1].contains("refused"),
            "{what}: {heard}"
        );
        assert_eq!(ground.effects(&after).unwrap().len(), 1, "{what}: {heard}");
    }
    assert_eq!(ground.effects(&marked).unwrap(), []);

    // A line that never ends is cut off; the session's other calls go on in a new connection.
    let endless = call(2, &format!("\"{}\"", "x".repeat(3 << 20)));
    let heard = said(&[endless]);
    assert!(heard.lines().count() <= 2, "{heard}");
    let verified = ground.verify_ledger().unwrap();
    assert!(verified.status.success(), "{}", ground::words(&verified));
}
