//! A chain says which line was changed, and lets nothing be taken out, put in or moved.

use std::sync::LazyLock;

use ed25519_dalek::{SigningKey, VerifyingKey};
use gate::{
    chain::{BadLine, LineError, Place, Verifier, append, verify},
    digest::{Digest, Domain},
    id::SessionId,
    json::{Limits, Value, canonical, parse},
    policy::Label,
    record::{Bound, Decision, Effect, Outcome, Scene, Verification, Why},
};
use proptest::prelude::*;

use crate::scene::{ask, demo, json, saw, session};

fn key() -> SigningKey {
    SigningKey::from_bytes(&[5; 32])
}

/// What a gate writes in one session: every kind of decision record.
fn records() -> Vec<Decision> {
    let policy = demo();
    let mut facts = session(&policy, true);
    let _label = saw(&policy, &mut facts, "read_note");
    let scene = Scene {
        at: 1_796_000_000_000,
        facts: &facts,
        policy: policy.hash(),
        session: SessionId(3),
    };
    let note = json(r#"{"id":"n-1"}"#);
    let allowed = ask(&policy, &facts, "read_note", &note).unwrap();
    let hostile = json(r#"{"id":"\u001b[2J\u202e\n{\"position\":9}"}"#);
    let refusal = ask(&policy, &facts, "read_note", &hostile).unwrap_err();
    let decision = Place {
        digest: Digest::of(Domain::Line, b"x"),
        position: 3,
    };
    vec![
        Decision::Started {
            at: 1,
            permit_key: Digest::of(Domain::Key, b"k"),
            version: "0.1.0".into(),
        },
        Decision::opened(&scene, &policy, 1_000),
        Decision::allowed(&scene, &allowed),
        Decision::Done {
            verification: Verification::UNSUPPORTED,
            at: 2,
            bytes: 3,
            call: allowed.digest(),
            decision,
            label: Label::Untrusted,
            receipt: Digest::ZERO,
            result: Digest::of(Domain::Result, b"abc"),
            session: SessionId(3),
            status: 200,
            tool: allowed.tool().clone(),
        },
        Decision::refused(
            &scene,
            "read_note",
            &canonical(&hostile),
            Some(&hostile),
            &refusal,
        ),
        Decision::unreadable(
            &scene,
            "\0\n\u{1b}[31m",
            b"{\"a\":1,\"a\":2}",
            Why::from("json has a key twice in one object"),
        ),
        Decision::Failed {
            verification: Verification::UNSUPPORTED,
            at: 3,
            call: allowed.digest(),
            decision,
            in_doubt: true,
            label: Some(Label::Untrusted),
            receipt: None,
            session: SessionId(3),
            tool: allowed.tool().clone(),
            why: Why::from("the server said \0\r\n"),
        },
        Decision::Closed {
            at: 4,
            session: SessionId(3),
            why: Why::from("the command ended"),
        },
    ]
}

fn text(records: &[Decision]) -> Vec<u8> {
    let mut head = Place::START;
    let mut text = Vec::new();
    for record in records {
        let (line, next) = append(&head, &key(), record).unwrap();
        text.extend(line);
        head = next;
    }
    text
}

fn check(text: &[u8]) -> Result<(Vec<Decision>, gate::chain::Whole), BadLine> {
    let mut seen = Vec::new();
    let keys = [key().verifying_key()];
    let whole = verify(&keys, Place::START, text, |_, record| seen.push(record))?;
    Ok((seen, whole))
}

fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    text.split_inclusive(|b| *b == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

fn bad(lines: &[Vec<u8>]) -> BadLine {
    check(&lines.concat()).unwrap_err()
}

#[test]
fn every_record_comes_back_as_it_was_written() {
    let records = records();
    let (seen, whole) = check(&text(&records)).unwrap();
    assert_eq!(seen, records);
    assert_eq!(whole.head.position, 8);
    assert_eq!(whole.partial_tail, 0);
}

#[test]
fn what_an_agent_wrote_stays_in_its_line_and_acts_on_no_terminal() {
    let text = text(&records());
    assert_eq!(lines(&text).len(), 8);
    assert!(
        !text
            .iter()
            .any(|b| (*b < b' ' && *b != b'\n') || *b == 0x7f)
    );
}

#[test]
fn a_changed_line_is_named() {
    let good = lines(&text(&records()));
    for number in 0..good.len() {
        let mut lines = good.clone();
        let changed = String::from_utf8(lines[number].clone()).unwrap();
        let changed = changed.replacen("\"at\":", "\"at\":1", 1);
        lines[number] = changed.into_bytes();
        let bad = bad(&lines);
        assert_eq!(bad.number, number + 1);
        assert_eq!(bad.position, number as u64 + 1);
        assert_eq!(bad.why, LineError::Signature);
    }
}

#[test]
fn a_line_taken_out_put_in_twice_or_moved_is_named() {
    let good = lines(&text(&records()));

    let mut lines = good.clone();
    lines.remove(2);
    let taken = bad(&lines);
    assert_eq!(taken.number, 3);
    assert_eq!(
        taken.why,
        LineError::Position {
            found: 4,
            wanted: 3
        }
    );

    let mut lines = good.clone();
    lines.insert(3, good[2].clone());
    assert_eq!(bad(&lines).number, 4);

    let mut lines = good.clone();
    lines.swap(4, 5);
    assert_eq!(bad(&lines).number, 5);

    // Another history with the same key, grafted on.
    let mut other = records();
    other.remove(1);
    let other = self::lines(&text(&other));
    let grafted = [&good[..3], &other[3..]].concat();
    let grafted = bad(&grafted);
    assert_eq!((grafted.number, grafted.why), (4, LineError::Previous));
}

#[test]
fn a_cut_tail_verifies_and_its_head_tells() {
    let text = text(&records());
    let good = lines(&text);
    let (_, whole) = check(&good[..6].concat()).unwrap();
    assert_eq!(whole.head.position, 6);

    // A line that was being written when the power went is no line.
    let torn = &text[..text.len() - 10];
    let (seen, whole) = check(torn).unwrap();
    assert_eq!(seen.len(), 7);
    assert_eq!(whole.partial_tail, good[7].len() - 10);
    let (_, whole) = check(&text[..text.len() - 1]).unwrap();
    assert_eq!(whole.head.position, 7);
    assert_eq!(whole.partial_tail, good[7].len() - 1);
}

#[test]
fn a_chain_goes_on_in_another_file_from_its_head() {
    let good = lines(&text(&records()));
    let (_, first) = check(&good[..3].concat()).unwrap();
    let keys = [key().verifying_key()];
    let rest = good[3..].concat();
    let whole = verify::<Decision>(&keys, first.head, &rest, |_, _| {}).unwrap();
    assert_eq!(whole.head.position, 8);
    let bad = verify::<Decision>(&keys, Place::START, &rest, |_, _| {}).unwrap_err();
    assert_eq!((bad.number, bad.position), (1, 1));
}

#[test]
fn a_line_of_another_key_or_the_other_chain_is_refused() {
    let other = SigningKey::from_bytes(&[6; 32]);
    let (line, _) = append(&Place::START, &other, &records()[0]).unwrap();
    assert!(matches!(
        check(&line).unwrap_err().why,
        LineError::Key { .. }
    ));

    let receipt = Effect::Started {
        open: Vec::new(),
        at: 1,
        epoch: gate::nonce::Nonce([1; 16]),
        version: "0.1.0".into(),
    };
    let (line, _) = append(&Place::START, &key(), &receipt).unwrap();
    assert!(matches!(
        check(&line).unwrap_err().why,
        LineError::Chain { .. }
    ));
    // Nor after its name was changed.
    let line = String::from_utf8(line).unwrap();
    let line = line.replace("\"receipts\"", "\"decisions\"");
    assert_eq!(
        check(line.as_bytes()).unwrap_err().why,
        LineError::Signature
    );
}

#[test]
fn a_receipt_signed_as_a_decision_is_refused() {
    use ed25519_dalek::Signer as _;

    let receipt = Effect::Started {
        open: Vec::new(),
        at: 1,
        epoch: gate::nonce::Nonce([1; 16]),
        version: "0.1.0".into(),
    };
    let (line, _) = append(&Place::START, &key(), &receipt).unwrap();
    let line = line.strip_suffix(b"\n").unwrap();
    let Value::Object(mut members) = parse(line, &Limits::LINE).unwrap() else {
        panic!("no object");
    };
    members.remove("signature");
    let unsigned = canonical(&Value::Object(members.clone()));
    for (domain, good) in [
        (&b"custody receipts line v1\0"[..], true),
        (b"custody decisions line v1\0", false),
        (b"", false),
    ] {
        let signature = key().sign(&[domain, &unsigned].concat());
        let signature = Value::Text(hex::encode(signature.to_bytes()));
        members.insert("signature".into(), signature);
        let mut line = canonical(&Value::Object(members.clone()));
        line.push(b'\n');
        let keys = [key().verifying_key()];
        let whole = verify::<Effect>(&keys, Place::START, &line, |_, _| {});
        assert_eq!(whole.is_ok(), good, "{domain:?}");
    }
}

#[test]
fn a_line_of_a_newer_format_is_called_that() {
    let line = String::from_utf8(text(&records()[..1])).unwrap();
    let Value::Object(mut members) = parse(line.trim_end().as_bytes(), &Limits::LINE).unwrap()
    else {
        panic!("no object");
    };
    members.insert("format".into(), json("2"));
    members.insert("something_new".into(), json("{}"));
    let mut line = canonical(&Value::Object(members));
    line.push(b'\n');
    assert_eq!(
        check(&line).unwrap_err().why,
        LineError::Format { found: 2 }
    );
}

#[test]
fn an_empty_line_and_a_line_that_is_too_long_are_bad() {
    let mut good = lines(&text(&records()));
    good.insert(1, b"\n".to_vec());
    assert_eq!(bad(&good).number, 2);
    let mut long = vec![b' '; Limits::LINE.bytes + 1];
    long.push(b'\n');
    assert_eq!(check(&long).unwrap_err().why, LineError::Long);
}

#[test]
fn no_key_verifies_nothing() {
    let text = text(&records());
    let bad = verify::<Decision>(&[], Place::START, &text, |_, _| {}).unwrap_err();
    assert!(matches!(bad.why, LineError::Key { .. }));
}

#[test]
fn a_body_that_cannot_be_written_is_an_error_and_not_a_bad_line() {
    let body = Decision::Started {
        at: u64::MAX,
        permit_key: Digest::ZERO,
        version: "0.1.0".into(),
    };
    assert!(append(&Place::START, &key(), &body).is_err());
    let body = Decision::Started {
        at: 1,
        permit_key: Digest::ZERO,
        version: "x".repeat(Limits::LINE.bytes),
    };
    assert!(append(&Place::START, &key(), &body).is_err());
}

#[test]
fn the_largest_refused_call_still_has_a_line() {
    let policy = demo();
    let facts = session(&policy, false);
    let scene = Scene {
        at: 1,
        facts: &facts,
        policy: policy.hash(),
        session: SessionId(3),
    };
    // The most that control characters can grow, in arguments of the most bytes, and of the most depth.
    let padding = "\\u001b".repeat((Limits::CALL.bytes - 60) / 6);
    let large = format!("{{\"id\":\"{padding}\"}}");
    let deep = "[".repeat(31) + &"]".repeat(31);
    for arguments in [large, format!("{{\"id\":{deep}}}")] {
        let read = parse(arguments.as_bytes(), &Limits::CALL).unwrap();
        let tool = "\u{1b}".repeat(8 << 10);
        let refusal = ask(&policy, &facts, &tool, &read).unwrap_err();
        let record = Decision::refused(&scene, &tool, arguments.as_bytes(), Some(&read), &refusal);
        let (line, _) = append(&Place::START, &key(), &record).unwrap();
        assert_eq!(check(&line).unwrap().0, [record]);
    }
}

#[test]
fn an_intent_and_its_receipt_name_permit_call_and_decision() {
    let bound = Bound {
        approval: None,
        call: Digest::of(Domain::Call, b"c"),
        credential: "demo".to_owned().try_into().unwrap(),
        decision: Place {
            digest: Digest::of(Domain::Line, b"d"),
            position: 7,
        },
        nonce: gate::nonce::Nonce([4; 16]),
        policy: demo().hash(),
        session: SessionId(3),
        tool: "send_message".to_owned().try_into().unwrap(),
    };
    let intent = Effect::Intent {
        call: None,
        at: 1,
        effect: bound.clone(),
    };
    let (first, head) = append(&Place::START, &key(), &intent).unwrap();
    let mut text = first;
    let mut head_now = head;
    let mut written = vec![intent];
    for outcome in [
        Outcome::Done {
            freshness: gate::record::Freshness::Unchecked,
            verification: Verification::UNSUPPORTED,
            bytes: 2,
            result: Digest::of(Domain::Result, b"{}"),
            scrubbed: 1,
            status: 201,
        },
        Outcome::Failed {
            why: Why::from("connection refused"),
        },
        Outcome::InDoubt {
            verification: Verification::UNSUPPORTED,
            why: Why::from("the worker died"),
        },
        Outcome::Refused {
            why: Why::from("the permit expired"),
        },
    ] {
        let receipt = Effect::Receipt {
            at: 2,
            effect: bound.clone(),
            intent: Some(head),
            outcome,
        };
        let (line, next) = append(&head_now, &key(), &receipt).unwrap();
        text.extend(line);
        head_now = next;
        written.push(receipt);
    }
    let mut seen = Vec::new();
    let keys = [key().verifying_key()];
    let whole = verify(&keys, Place::START, &text, |_, it| seen.push(it)).unwrap();
    assert_eq!((seen, whole.head), (written, head_now));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn a_chain_with_any_byte_changed_is_bad_there(at in any::<prop::sample::Index>(), xor in 1..=255_u8) {
        static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| text(&records()));
        let good = GOOD.clone();
        let at = at.index(good.len());
        let line = good[..at].iter().filter(|b| **b == b'\n').count() + 1;
        let last = lines(&good).len();
        let mut changed = good.clone();
        changed[at] ^= xor;
        match check(&changed) {
            Err(bad) => prop_assert_eq!(bad.number, line),
            // Without its line feed the last line is a torn one.
            Ok((_, whole)) => {
                prop_assert_eq!((line, good[at]), (last, b'\n'));
                prop_assert!(whole.partial_tail > 0);
            }
        }
    }
}

#[test]
fn a_verifier_stays_at_the_last_good_line() {
    let good = lines(&text(&records()));
    let keys: [VerifyingKey; 1] = [key().verifying_key()];
    let mut verifier = Verifier::new(gate::chain::ChainName::Decisions, &keys, Place::START);
    let line = |it: &[u8]| it.strip_suffix(b"\n").unwrap().to_vec();
    assert!(verifier.line::<Decision>(&line(&good[0])).is_ok());
    assert!(verifier.line::<Decision>(&line(&good[2])).is_err());
    assert_eq!(verifier.head().position, 1);
    assert!(verifier.line::<Decision>(&line(&good[1])).is_ok());
    assert!(matches!(
        verifier.line::<Effect>(&line(&good[2])),
        Err(LineError::Chain { .. })
    ));
    assert_eq!(verifier.head().position, 2);
}
