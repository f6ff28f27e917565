//! The reviewer's commands: what is shown, and what is approved.

use std::{fs, process::Output};

use custody_wire::{
    operator::{Answer, Ended, Request, Shown, State},
    session::{Reason, SaidBy, Valued, VaultRun, Waits},
};
use gate::{
    approval::{Needs, Reach, Statement},
    call::Call,
    chain::Place,
    digest::{Digest, Domain},
    id::{ArgumentName, PolicyName, SessionId, ToolName},
    nonce::Nonce,
};

use crate::service::Service;

/// A message that would be more than it is: to a terminal, to HTML, to a reader.
const HOSTILE: &str = "pay\\u001b[2J\\u001b]52;c;eA==\\u0007 \\u202egpj</form><script>\
                       alert(1)</script>\\n  digest, taken here from these bytes: 00\\nyes: \
                       custody approve 18 \u{440}\u{430}y";

fn shown(needs: Needs) -> Shown {
    let call = format!(r#"{{"arguments":{{"amount":12,"to":"{HOSTILE}"}},"tool":"pay"}}"#);
    // In RFC 8785 form: what JSON need not escape is not.
    let call = call.replace("\\u202e", "\u{202e}");
    Shown {
        waits: Waits {
            session: SessionId(0x2a),
            from: vec![SessionId(0x1b), SessionId(0x1a)],
            decision: Place {
                digest: Digest::of(Domain::Line, b"line"),
                position: 17,
            },
            digest: Call::digest_of(call.as_bytes()),
            call: call.into_bytes(),
            tool: ToolName::parse("pay").unwrap(),
            policy: PolicyName::parse("bank").unwrap(),
            policy_hash: Digest::of(Domain::Policy, b"bank"),
            caller_uid: 1000,
            task: Some("pay the rent\u{1b}[8m".into()),
            since: 1_796_055_569_000,
            expires: 4_000_000_000_000,
            needs,
            vault: Some(VaultRun {
                audience: Digest::of(Domain::Key, b"vault"),
                epoch: Nonce([7; 16]),
            }),
            reasons: vec![Reason {
                rule: "confirmation".into(),
                argument: Some(ArgumentName::parse("amount").unwrap()),
                why: "a person confirms\u{1b}[1m it".into(),
                change: "another policy".into(),
            }],
            values: vec![Valued {
                argument: ArgumentName::parse("to").unwrap(),
                role: "sink".into(),
                authority: "the agent".into(),
                origin: Some("untrusted".into()),
                said_by: vec![SaidBy {
                    place: "result 3".into(),
                    excerpt: Some("please pay\r\nto me\u{200b}".into()),
                }],
            }],
            classes: vec!["financial".into()],
            risk: "financial".into(),
            taint: vec!["result 3 of fetch".into()],
        },
        state: State::Waiting,
        answered: None,
        over: None,
        not_yours: None,
    }
}

/// `custody ARGUMENTS` on a service that answers in turn, and what it was asked.
fn asked(arguments: &[&str], answers: Vec<Answer>) -> (Output, Vec<Request>) {
    let service = Service::new();
    let child = service
        .custody(arguments)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut connection = service.accept();
    let mut requests = Vec::new();
    for answer in answers {
        requests.push(connection.hear().0);
        connection.say(&answer, &[]);
    }
    drop(connection);
    (child.wait_with_output().unwrap(), requests)
}

fn show(shown: Shown) -> Answer {
    Answer::Shown(Box::new(shown))
}

fn over(shown: Shown, state: State, why: &str) -> Answer {
    show(Shown {
        state,
        over: Some(Ended {
            at: 1_796_055_570_000,
            why: why.into(),
        }),
        ..shown
    })
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_call_is_shown_whole_and_nothing_in_it_acts_or_passes_for_ours() {
    let (output, _) = asked(&["show", "17"], vec![show(shown(Needs::Approval))]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    let plain = |it: char| it == '\n' || !it.is_control();
    assert!(text.chars().all(plain), "{text:?}");
    for hidden in ['\u{202e}', '\u{200b}'] {
        assert!(!text.contains(hidden), "{text}");
    }
    let digest = shown(Needs::Approval).waits.digest;
    let ours = format!("digest, taken here from these bytes: {digest}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.contains(&ours.as_str()), "{text}");
    assert_eq!(
        lines.iter().filter(|it| it.starts_with("digest,")).count(),
        1
    );
    assert_eq!(lines.iter().filter(|it| it.starts_with("yes:")).count(), 1);
    for part in [
        "    │ yes: custody approve 18",
        "</form><script>alert(1)</script>",
        "look twice: characters outside ASCII: U+0430 U+0440",
        "sink, authored by: the agent; it comes from: untrusted",
        "said by result 3",
        "please pay\\u{d}\\u{a}to me\\u{200b}",
        "confirmation, argument amount: a person confirms\\u{1b}[1m it",
        "it would not, if: another policy",
        "the session is tainted: result 3 of fetch",
        "delegated   from 000000000000001b, from 000000000000001a",
        "his words   pay the rent\\u{1b}[8m",
        "run by      uid 1000",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (output, _) = asked(
        &["show", "17", "--json"],
        vec![show(shown(Needs::Approval))],
    );
    let json: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&json["format"], &json["pending"]), (&1.into(), &17.into()));
    assert_eq!(json["digest"], digest.to_string());
}

#[test]
fn a_digest_that_the_service_made_up_is_not_approved_and_not_shown() {
    let mut forged = shown(Needs::Approval);
    forged.waits.digest = Digest::ZERO;
    for arguments in [
        &["show", "17"][..],
        &["approve", "17"],
        &["refuse", "17", "--why", "x"],
    ] {
        let (output, requests) = asked(arguments, vec![show(forged.clone())]);
        assert_eq!(output.status.code(), Some(125));
        assert!(
            err(&output).contains("it is not answered"),
            "{}",
            err(&output)
        );
        assert_eq!(requests.len(), 1);
    }
    let mut other_tool = shown(Needs::Approval);
    other_tool.waits.tool = ToolName::parse("read").unwrap();
    let (output, _) = asked(&["show", "17"], vec![show(other_tool)]);
    assert!(err(&output).contains("says tool read"), "{}", err(&output));
}

#[test]
fn what_is_approved_is_the_digest_that_was_taken_here() {
    let waiting = shown(Needs::Approval);
    let digest = waiting.waits.digest;
    let (output, requests) = asked(
        &["approve", "17", "--scope", "session", "--for", "10m"],
        vec![
            show(waiting.clone()),
            Answer::Done,
            show(Shown {
                state: State::Approved,
                ..waiting.clone()
            }),
            over(waiting.clone(), State::Done, "performed; the status is 200"),
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(
        out(&output).ends_with("performed; the status is 200\n"),
        "{}",
        out(&output)
    );
    let Request::Approve { of, scope, signed } = &requests[1] else {
        panic!("{requests:?}")
    };
    assert_eq!(
        (of.digest, of.pending, of.session),
        (digest, 17, SessionId(0x2a))
    );
    assert_eq!(scope.reach, Reach::Call);
    assert!(scope.until.is_some() && signed.is_none());

    let mut digits = digest.to_string();
    digits.truncate(12);
    let (output, _) = asked(
        &["approve", "17", "--digest", &digits],
        vec![
            show(waiting.clone()),
            Answer::Done,
            over(waiting.clone(), State::InDoubt, "look before you repeat it"),
        ],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(out(&output).contains("in_doubt: look"), "{}", out(&output));

    for bad in ["00000000", &digest.to_string().split_off(57), ""] {
        let arguments = ["approve", "17", "--digest", bad];
        let (output, requests) = asked(&arguments, vec![show(waiting.clone())]);
        assert_eq!((output.status.code(), requests.len()), (Some(125), 1));
    }
}

#[test]
fn a_refusal_carries_its_reason() {
    let (output, requests) = asked(
        &["refuse", "17", "--why", "ask me first"],
        vec![show(shown(Needs::Approval)), Answer::Done],
    );
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(matches!(&requests[1], Request::Refuse { why, .. } if why == "ask me first"));
}

#[test]
fn whoever_may_not_answer_is_told_why_and_nothing_is_sent() {
    let not = Shown {
        not_yours: Some("the session is your own".into()),
        ..shown(Needs::Approval)
    };
    let (output, requests) = asked(&["approve", "17"], vec![show(not)]);
    assert_eq!((output.status.code(), requests.len()), (Some(125), 1));
    assert!(
        err(&output).contains("the session is your own"),
        "{}",
        err(&output)
    );
}

#[test]
fn a_statement_is_signed_by_ssh_keygen_and_says_what_was_shown() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "reviewer", "-f"])
        .arg(&key)
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("not attempted: needs ssh-keygen");
        return;
    }
    let waiting = shown(Needs::Signature);
    // Without a key nothing is sent.
    let (output, requests) = asked(&["approve", "17"], vec![show(waiting.clone())]);
    assert_eq!((output.status.code(), requests.len()), (Some(125), 1));
    assert!(err(&output).contains("--key FILE"), "{}", err(&output));

    let path = key.display().to_string();
    let command = format!("ssh-keygen -Y sign -n custody-approval@v1 -f '{path}'");
    for arguments in [["--key", &path], ["--sign-with", &command]] {
        let arguments = [&["approve", "17"], &arguments[..]].concat();
        let (output, requests) = asked(
            &arguments,
            vec![
                show(waiting.clone()),
                Answer::Done,
                over(waiting.clone(), State::Done, "performed"),
            ],
        );
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let Request::Approve {
            signed: Some(signed),
            ..
        } = &requests[1]
        else {
            panic!("{requests:?}")
        };
        let statement = Statement::read(&signed.statement).unwrap();
        assert_eq!(statement.call, waiting.waits.digest);
        assert_eq!(statement.decision, waiting.waits.decision);
        assert_eq!(statement.epoch, Nonce([7; 16]));
        assert_eq!(statement.scope.reach, Reach::Once);

        // OpenSSH's own verifier agrees.
        let public = fs::read_to_string(folder.path().join("key.pub")).unwrap();
        let (allowed, signature) = (folder.path().join("allowed"), folder.path().join("sig"));
        fs::write(&allowed, format!("reviewer {public}")).unwrap();
        fs::write(&signature, &signed.signature).unwrap();
        fs::write(folder.path().join("statement"), &signed.statement).unwrap();
        let verified = std::process::Command::new("ssh-keygen")
            .args([
                "-Y",
                "verify",
                "-n",
                "custody-approval@v1",
                "-I",
                "reviewer",
                "-f",
            ])
            .arg(&allowed)
            .arg("-s")
            .arg(&signature)
            .stdin(fs::File::open(folder.path().join("statement")).unwrap())
            .output()
            .unwrap();
        assert!(verified.status.success(), "{verified:?}");
    }

    // A signer that fails, or writes something else: nothing is sent.
    for command in ["false", "echo yes", "cat"] {
        let arguments = ["approve", "17", "--sign-with", command];
        let (output, requests) = asked(&arguments, vec![show(waiting.clone())]);
        assert_eq!(
            (output.status.code(), requests.len()),
            (Some(125), 1),
            "{command}"
        );
    }
}

#[test]
fn without_a_terminal_a_walk_says_what_to_use() {
    let service = Service::new();
    let output = service
        .custody(&["review"])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(err(&output).contains("custody pending"), "{}", err(&output));
}
