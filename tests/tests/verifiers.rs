//! A program of the policy's says whether an effect is there: what it is told, what it can reach, and what
//! becomes of its word.

use custody_tests::{
    ground::{self, Ground, message},
    suite::scene::nonce,
};
use serde_json::Value;

/// Looks for the call's text in a file. Whatever it can reach besides makes it say that it failed.
#[cfg(test)]
const PROGRAM: &str = r#"#!/bin/sh
told=$(cat)
for secret in TOKEN /etc/shadow FOLDER/state /root; do
    if [ -r "$secret" ] && cat "$secret"/* "$secret" >/dev/null 2>&1; then echo "reads $secret" >&2; exit 11; fi
done
for place in /tmp /var/tmp FOLDER/spool; do
    if (: > "$place/written") 2>/dev/null; then echo "writes $place" >&2; exit 12; fi
done
if env | grep -v -e '^LANG=' -e '^PATH=' -e '^PWD=' -e '^OLDPWD=' -e '^SHLVL=' -e '^_=' >&2; then exit 13; fi
if [ "$(id -u)" = 0 ]; then exit 14; fi
if command -v bash >/dev/null && bash -c 'exec 3<>/dev/tcp/ADDRESS' 2>/dev/null; then exit 15; fi
body=$(printf %s "$told" | sed -n 's/.*"body":"\([^"]*\)".*/\1/p')
if [ "$body" = forged ]; then echo "words of an attacker" >&2; exit 99; fi
if grep -qxF "$body" FOLDER/spool/kept; then exit 0; fi
exit 1
"#;

/// The demo's ground, whose messages are looked for by [`PROGRAM`].
#[cfg(test)]
fn set() -> Ground {
    let mut ground = Ground::lay().unwrap();
    let folder = ground.host.folder().to_owned();
    std::fs::create_dir(folder.join("spool")).unwrap();
    ground.host.write("spool/kept", 0o644, "kept\n").unwrap();
    let address = ground.witness.address().to_string().replace(':', "/");
    let token = ground.witness.token_file("demo");
    let program = PROGRAM
        .replace("TOKEN", &token.display().to_string())
        .replace("FOLDER", &folder.display().to_string())
        .replace("ADDRESS", &address);
    ground.host.write("has-message", 0o755, &program).unwrap();
    let policy = format!(
        "{}\n[tools.send_message.verify]\ncommand = [{:?}]\nreads = [{:?}]\ntries = 1\n",
        ground.policy(),
        folder.join("has-message"),
        folder.join("spool"),
    );
    ground.host.write_policy("demo", &policy).unwrap();
    ground.host.up().unwrap();
    ground
}

#[cfg(test)]
fn send(ground: &Ground, body: &str) -> Value {
    ground.call("send_message", message(body)).unwrap()
}

#[test]
#[serial_test::file_serial(custody)]
fn a_program_says_that_an_effect_is_there_or_not_and_reaches_nothing_but_what_the_policy_lets_it_read()
 {
    if !ground::can_run() {
        return;
    }
    let ground = set();
    let kept = send(&ground, "kept");
    let finding = "/result/_meta/custody~1verification/finding";
    assert_eq!(
        kept.pointer(finding).unwrap(),
        "verified",
        "{kept}\n{}",
        ground.host.log_tail()
    );

    // The server answered 201, and what it was told is nowhere.
    let lost = send(&ground, &nonce().unwrap());
    let told = &lost["result"]["structuredContent"]["verification"];
    assert_eq!(
        told["finding"],
        "mismatched",
        "{lost}\n{}",
        ground.host.log_tail()
    );
    assert_eq!(lost["result"]["isError"], true);

    // What it writes is the operator's to read, and nobody else's.
    let forged = send(&ground, "forged");
    assert_eq!(
        forged.pointer(finding).unwrap(),
        "verifier_failure",
        "{forged}"
    );
    assert!(!forged.to_string().contains("attacker"), "{forged}");
    assert!(ground.host.log().contains("words of an attacker"));

    let verified = ground.verify_ledger().unwrap();
    assert!(verified.status.success(), "{}", ground::words(&verified));
    let receipts = std::fs::read_to_string(ground.host.state().join("receipts/000001.jsonl"));
    let receipts = receipts.unwrap_or_default();
    assert!(!receipts.contains("attacker"));
    // No run is left.
    assert_eq!(ground.host.pids("has-message"), Vec::<i32>::new());
}

#[test]
#[serial_test::file_serial(custody)]
fn a_program_that_others_may_write_stops_the_start() {
    if !ground::can_run() {
        return;
    }
    let mut ground = Ground::lay().unwrap();
    let program = ground.host.folder().join("has-message");
    ground.host.write("has-message", 0o777, PROGRAM).unwrap();
    let policy = format!(
        "{}\n[tools.send_message.verify]\ncommand = [{program:?}]\n",
        ground.policy()
    );
    ground.host.write_policy("demo", &policy).unwrap();
    let why = format!("{:#}", ground.host.up().unwrap_err());
    assert!(
        why.contains("has-message` ") || why.contains("has-message`,"),
        "{why}"
    );
    assert!(why.contains("not trusted"), "{why}");
}
