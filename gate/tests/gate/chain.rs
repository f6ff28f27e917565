//! A chain says which line was changed, and lets nothing be taken out, put in or moved.

use std::sync::LazyLock;

use ed25519_dalek::{SigningKey, VerifyingKey};
use gate::{
    chain::{
        BadLine, ChainName, Checkpoint, GROUP_MAX, LineError, Place, Salt, Seen, Tip, Verifier,
        Whole, append, checkpoint,
        keys::{Certified, Keyring, PublicKey, Revoked, Role, certified, rotate},
        verify,
    },
    digest::{Digest, Domain},
    id::SessionId,
    json::{Limits, Value, canonical, parse},
    policy::Label,
    record::{Body, Bound, Decision, Effect, Outcome, Scene, Verification, Why},
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
        from: &[],
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

/// Writes a chain: records and what stands between them.
struct Chain {
    name: ChainName,
    key: SigningKey,
    epoch: u64,
    tip: Tip,
    group: Vec<Place>,
    since: u64,
    text: Vec<u8>,
}

impl Chain {
    fn new(name: ChainName, key: SigningKey) -> Self {
        Self {
            name,
            key,
            epoch: 1,
            tip: Tip::START,
            group: Vec::new(),
            since: 0,
            text: Vec::new(),
        }
    }

    fn record<B: Body>(&mut self, body: &B) -> Place {
        let salt = Salt([u8::try_from(self.tip.head.position % 256).unwrap(); 16]);
        let (line, tip) = append(&self.tip, &salt, body).unwrap();
        self.text.extend(line);
        self.tip = tip;
        self.group.push(tip.head);
        tip.head
    }

    fn sign(&mut self) {
        let says = Checkpoint::by(&self.key, self.epoch, self.tip.head, self.since, self.since);
        let (line, tip) = checkpoint(self.name, &self.tip, &says, &self.group, &self.key).unwrap();
        self.text.extend(line);
        self.tip = tip;
        self.group.clear();
        self.since = tip.head.position;
    }

    fn rotate(&mut self, new: SigningKey) {
        let keys = (&self.key, &new);
        let (line, tip) = rotate(self.name, &self.tip, self.epoch + 1, keys).unwrap();
        self.text.extend(line);
        self.tip = tip;
        self.key = new;
        self.epoch += 1;
    }

    fn lines(&self) -> Vec<Vec<u8>> {
        lines(&self.text)
    }
}

/// The records, a checkpoint behind every third and at the end.
fn text(records: &[Decision]) -> Vec<u8> {
    let mut chain = Chain::new(ChainName::Decisions, key());
    for (at, record) in records.iter().enumerate() {
        let _place = chain.record(record);
        if at % 3 == 2 {
            chain.sign();
        }
    }
    chain.sign();
    chain.text
}

fn check(text: &[u8]) -> Result<(Vec<Decision>, Whole), BadLine> {
    let mut seen = Vec::new();
    let keys = [key().verifying_key()];
    let whole = verify(&keys, text, |_, record| seen.push(record))?;
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
    assert_eq!((whole.head.position, whole.signed), (8, whole.head));
    assert_eq!(whole.partial_tail, 0);
}

#[test]
fn what_an_agent_wrote_stays_in_its_line_and_acts_on_no_terminal() {
    let text = text(&records());
    assert_eq!(lines(&text).len(), 8 + 3);
    assert!(
        !text
            .iter()
            .any(|b| (*b < b' ' && *b != b'\n') || *b == 0x7f)
    );
}

/// The line itself, where it no longer has its form; the next one, which rests on it, where it has.
#[test]
fn a_changed_line_is_named_or_the_one_that_rests_on_it() {
    let good = lines(&text(&records()));
    for number in 0..good.len() {
        let mut lines = good.clone();
        let changed = String::from_utf8(lines[number].clone()).unwrap();
        let is_record = changed.contains("\"at\":");
        let changed = if is_record {
            changed.replacen("\"at\":", "\"at\":1", 1)
        } else {
            changed.replacen("\"signature\":\"", "\"signature\":\"0", 1)
        };
        lines[number] = changed.into_bytes();
        let bad = bad(&lines);
        if is_record {
            assert_eq!(bad.number, number + 2);
            assert!(
                matches!(bad.why, LineError::Previous | LineError::Checkpoint { .. }),
                "{bad}"
            );
        } else {
            assert_eq!((bad.number, bad.why), (number + 1, LineError::Signature));
        }
    }
}

/// Whoever changes a record and everything that rests on it comes to a checkpoint, and cannot sign it.
#[test]
fn a_history_written_anew_ends_at_the_next_checkpoint() {
    let good = lines(&text(&records()));
    let mut other = records();
    other[1] = Decision::TurnEnded {
        at: 7,
        session: SessionId(3),
    };
    let other = lines(&text(&other));
    // Records 1 to 3 and their checkpoint; the checkpoint of the true ones, or their signature.
    let forged = [&other[..3], &good[3..]].concat();
    let bad_place = bad(&forged);
    assert_eq!(bad_place.number, 4);
    assert!(matches!(bad_place.why, LineError::Checkpoint { .. }));

    let signature = |line: &[u8]| {
        let text = String::from_utf8(line.to_vec()).unwrap();
        text.split("\"signature\":\"").nth(1).unwrap().to_owned()
    };
    let patched = String::from_utf8(other[3].clone()).unwrap();
    let patched = patched.replace(&signature(&other[3]), &signature(&good[3]));
    let forged = [&other[..3], &[patched.into_bytes()]].concat();
    assert_eq!(bad(&forged).why, LineError::Signature);
}

#[test]
fn a_checkpoint_signed_by_anyone_else_signs_nothing() {
    let mut chain = Chain::new(ChainName::Decisions, key());
    let _place = chain.record(&records()[0]);
    // It names the key that is trusted, and another one signs.
    let says = Checkpoint::by(&key(), 1, chain.tip.head, 0, 0);
    let stranger = SigningKey::from_bytes(&[6; 32]);
    let forged = checkpoint(chain.name, &chain.tip, &says, &chain.group, &stranger).unwrap();
    let text = [chain.text.clone(), forged.0].concat();
    assert_eq!(check(&text).unwrap_err().why, LineError::Signature);
    // It says whose it is.
    chain.key = stranger;
    chain.sign();
    assert!(matches!(
        check(&chain.text).unwrap_err().why,
        LineError::Key { .. }
    ));
}

#[test]
fn a_line_taken_out_put_in_twice_or_moved_is_named() {
    let good = lines(&text(&records()));

    let mut lines = good.clone();
    lines.remove(1);
    let taken = bad(&lines);
    assert_eq!(taken.number, 2);
    assert_eq!(
        taken.why,
        LineError::Position {
            found: 3,
            wanted: 2
        }
    );

    // A checkpoint left out, put in twice, moved on.
    let mut lines = good.clone();
    let first = lines.remove(3);
    assert_eq!(
        (bad(&lines).number, bad(&lines).why),
        (4, LineError::Previous)
    );
    lines.insert(4, first.clone());
    assert!(matches!(bad(&lines).why, LineError::Previous));
    let mut lines = good.clone();
    lines.insert(4, first.clone());
    assert_eq!(
        (bad(&lines).number, bad(&lines).why),
        (5, LineError::Previous)
    );
    let mut lines = good.clone();
    lines.insert(7, first);
    assert!(matches!(
        bad(&lines).why,
        LineError::Checkpoint {
            found: 3,
            wanted: 6
        }
    ));

    let mut lines = good.clone();
    lines.insert(2, good[1].clone());
    assert_eq!(bad(&lines).number, 3);

    let mut lines = good.clone();
    lines.swap(4, 5);
    assert_eq!(bad(&lines).number, 5);
}

/// The same key, the same positions, checkpoints that sign each: another history grafted on behind a
/// checkpoint does not rest on what is before it.
#[test]
fn another_history_of_the_same_key_is_not_grafted_on() {
    let good = lines(&text(&records()));
    let mut other = records();
    other.remove(1);
    other.push(records()[7].clone());
    let other = lines(&text(&other));
    let grafted = [&good[..4], &other[4..]].concat();
    let grafted = bad(&grafted);
    assert_eq!((grafted.number, grafted.why), (5, LineError::Previous));
}

#[test]
fn a_cut_tail_verifies_and_what_is_not_signed_is_said() {
    let text = text(&records());
    let good = lines(&text);
    // Records 1 to 3, their checkpoint, and records 4 and 5.
    let (_, whole) = check(&good[..6].concat()).unwrap();
    assert_eq!((whole.head.position, whole.signed.position), (5, 3));

    // A line that was being written when the power went is no line.
    let torn = &text[..text.len() - 10];
    let (seen, whole) = check(torn).unwrap();
    assert_eq!((seen.len(), whole.signed.position), (8, 6));
    assert_eq!(whole.partial_tail, good[10].len() - 10);
}

#[test]
fn no_more_records_than_one_group_stand_without_a_checkpoint() {
    let mut chain = Chain::new(ChainName::Decisions, key());
    for _ in 0..GROUP_MAX {
        let _place = chain.record(&records()[7]);
    }
    assert_eq!(check(&chain.text).unwrap().1.signed, Place::START);
    let _one_more = chain.record(&records()[7]);
    let bad = check(&chain.text).unwrap_err();
    assert_eq!((bad.number, bad.why), (GROUP_MAX + 1, LineError::Unsigned));
}

#[test]
fn a_file_behind_the_first_begins_with_a_checkpoint_and_verifies_alone() {
    let mut chain = Chain::new(ChainName::Decisions, key());
    let _first = chain.record(&records()[7]);
    chain.sign();
    let end_of_file = chain.text.len();
    chain.sign();
    let _second = chain.record(&records()[7]);
    chain.sign();
    assert!(check(&chain.text).is_ok());
    let second = lines(&chain.text[end_of_file..]);
    let ring = || Keyring::of(&[key().verifying_key()]);
    let trim = |line: &Vec<u8>| line.strip_suffix(b"\n").unwrap().to_vec();
    let mut verifier = Verifier::behind(ChainName::Decisions, ring(), &trim(&second[0])).unwrap();
    assert_eq!(verifier.head().position, 1);
    assert!(verifier.line::<Decision>(&trim(&second[1])).is_ok());
    assert!(verifier.line::<Decision>(&trim(&second[2])).is_ok());
    assert_eq!(verifier.signed().position, 2);
    // A record says nothing of what is before it that anyone signed; nor does a checkpoint of records.
    for line in [&second[1], &second[2]] {
        assert!(Verifier::behind(ChainName::Decisions, ring(), &trim(line)).is_err());
    }
    let stranger = Keyring::of(&[SigningKey::from_bytes(&[6; 32]).verifying_key()]);
    assert!(matches!(
        Verifier::behind(ChainName::Decisions, stranger, &trim(&second[0])),
        Err(LineError::Key { .. })
    ));
}

#[test]
fn a_line_of_the_other_chain_is_refused_its_checkpoint_too() {
    let mut chain = Chain::new(ChainName::Receipts, key());
    let _place = chain.record(&Effect::Started {
        open: Vec::new(),
        at: 1,
        epoch: gate::nonce::Nonce([1; 16]),
        version: "0.1.0".into(),
    });
    chain.sign();
    assert!(matches!(
        check(&chain.text).unwrap_err().why,
        LineError::Chain { .. }
    ));
    // Halves of the two chains swapped: the checkpoint of this one behind a record of that one.
    let mut decisions = Chain::new(ChainName::Decisions, key());
    let _place = decisions.record(&records()[0]);
    let swapped = [decisions.lines()[0].clone(), chain.lines()[1].clone()].concat();
    let bad = check(&swapped).unwrap_err();
    assert_eq!(bad.number, 2);
    assert!(matches!(bad.why, LineError::Chain { .. }), "{bad}");
    // Nor after the names were changed.
    let renamed = String::from_utf8(chain.text.clone()).unwrap();
    let renamed = renamed.replace("\"receipts\"", "\"decisions\"");
    assert!(check(renamed.as_bytes()).is_err());
}

/// The same body, place and key: the chain's name is in what is signed.
#[test]
fn a_checkpoint_of_one_chain_signs_nothing_in_the_other() {
    let mut chain = Chain::new(ChainName::Decisions, key());
    let _place = chain.record(&records()[0]);
    let says = Checkpoint::by(&key(), 1, chain.tip.head, 0, 0);
    let (line, _) =
        checkpoint(ChainName::Receipts, &chain.tip, &says, &chain.group, &key()).unwrap();
    let line = String::from_utf8(line).unwrap();
    let line = line.replace("\"receipts\"", "\"decisions\"");
    let text = [chain.text.clone(), line.into_bytes()].concat();
    assert_eq!(check(&text).unwrap_err().why, LineError::Signature);
}

#[test]
fn a_line_of_a_newer_format_is_called_that() {
    let line = text(&records()[..1])
        .split(|b| *b == b'\n')
        .next()
        .unwrap()
        .to_vec();
    let Value::Object(mut members) = parse(&line, &Limits::LINE).unwrap() else {
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

/// A key is replaced: who has either key reads the whole chain, and the old one signs no more.
#[test]
fn a_rotation_is_signed_by_both_keys_and_either_is_enough() {
    let new = SigningKey::from_bytes(&[8; 32]);
    let mut chain = Chain::new(ChainName::Decisions, key());
    let _first = chain.record(&records()[0]);
    chain.sign();
    let before = chain.tip;
    chain.rotate(new.clone());
    chain.sign();
    let _second = chain.record(&records()[7]);
    chain.sign();
    let whole = check(&chain.text).unwrap().1;
    assert_eq!(whole.signed.position, 2);
    let both = [key().verifying_key(), new.verifying_key()];
    assert!(verify::<Decision>(&both, &chain.text, |_, _| {}).is_ok());

    // The old key signs behind the rotation.
    let good = lines(&chain.text);
    let mut old = Chain::new(ChainName::Decisions, key());
    old.text = good[..4].concat();
    old.tip = Tip {
        head: chain_head(&good[..4]),
        last: last(&good[3]),
    };
    old.since = 1;
    let _place = old.record(&records()[7]);
    old.sign();
    assert!(matches!(
        check(&old.text).unwrap_err().why,
        LineError::Replaced { .. }
    ));

    // A rotation to a key of the forger's own, signed by it alone twice over.
    let forger = SigningKey::from_bytes(&[9; 32]);
    for keys in [(&forger, &forger), (&forger, &new), (&key(), &forger)] {
        let (line, _) = rotate(ChainName::Decisions, &before, 2, keys).unwrap();
        let line = String::from_utf8(line).unwrap();
        // As if it were the true old key's.
        let old = Digest::from(PublicKey::of(keys.0)).to_string();
        let line = line.replace(&old, &Digest::from(PublicKey::of(&key())).to_string());
        let text = [good[..2].concat(), line.clone().into_bytes()].concat();
        let result = check(&text);
        match keys.0 == &key() {
            // The old key signed it: that is for a revocation.
            true => assert!(result.is_ok()),
            false => assert!(
                matches!(result.unwrap_err().why, LineError::Rotation { .. }),
                "{line}"
            ),
        }
    }
    // An epoch that does not follow.
    let (line, _) = rotate(ChainName::Decisions, &before, 3, (&key(), &new)).unwrap();
    let text = [good[..2].concat(), line].concat();
    assert!(matches!(
        check(&text).unwrap_err().why,
        LineError::Rotation { .. }
    ));
}

fn chain_head(lines: &[Vec<u8>]) -> Place {
    check(&lines.concat()).unwrap().1.head
}

fn last(line: &[u8]) -> Digest {
    Digest::of(Domain::Signed, line.strip_suffix(b"\n").unwrap())
}

#[test]
fn a_revoked_key_counts_up_to_a_position_and_no_further() {
    let text = text(&records());
    let id = gate::chain::key_id(&key().verifying_key());
    let under = |until: u64| {
        let revoked = [Revoked { key: id, until }];
        let ring = Keyring::of(&[key().verifying_key()]).without(&revoked);
        let mut verifier = Verifier::new(ChainName::Decisions, ring);
        for line in lines(&text) {
            verifier.line::<Decision>(line.strip_suffix(b"\n").unwrap())?;
        }
        Ok::<_, LineError>(verifier.signed().position)
    };
    assert_eq!(under(8), Ok(8));
    for until in [0, 3, 5, 7] {
        assert_eq!(under(until), Err(LineError::Revoked { key: id, until }));
    }
}

/// Who trusts the instance alone trusts the key that it certifies, and nothing else.
#[test]
fn a_certificate_in_the_chain_makes_its_key_one_of_the_chain() {
    let instance = SigningKey::from_bytes(&[11; 32]);
    let certify = |role, by: &SigningKey| {
        Certified {
            at: 1,
            instance: gate::chain::key_id(&instance.verifying_key()),
            key: PublicKey::of(&key()),
            role,
        }
        .sign(by)
        .unwrap()
    };
    let chain_with = |certificate| {
        let mut chain = Chain::new(ChainName::Decisions, key());
        let (line, tip) = certified(ChainName::Decisions, &chain.tip, certificate).unwrap();
        chain.text.extend(line);
        chain.tip = tip;
        let _place = chain.record(&records()[0]);
        chain.sign();
        chain.lines()
    };
    let read = |lines: &[Vec<u8>], ring: Keyring| {
        let mut verifier = Verifier::new(ChainName::Decisions, ring);
        let mut certificates = 0;
        for line in lines {
            match verifier.line::<Decision>(line.strip_suffix(b"\n").unwrap())? {
                Seen::Keys(_) => certificates += 1,
                Seen::Checkpoint(_) | Seen::Record(_) => {}
            }
        }
        assert_eq!(certificates, 1);
        Ok::<_, LineError>(verifier.signed().position)
    };
    let by_instance = || Keyring::of(&[]).certified_by(&[instance.verifying_key()]);
    let good = chain_with(certify(Role::Decisions, &instance));
    assert_eq!(read(&good, by_instance()), Ok(1));
    // Who does not know the instance has the key itself.
    assert_eq!(read(&good, Keyring::of(&[key().verifying_key()])), Ok(1));
    for role in [Role::Receipts, Role::Permit] {
        let other = chain_with(certify(role, &instance));
        assert!(matches!(
            read(&other, by_instance()),
            Err(LineError::Key { .. })
        ));
    }
    let forged = chain_with(certify(Role::Decisions, &key()));
    assert!(matches!(
        read(&forged, by_instance()),
        Err(LineError::Certificate { .. })
    ));
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
    let bad = verify::<Decision>(&[], &text, |_, _| {}).unwrap_err();
    assert!(matches!(bad.why, LineError::Key { .. }));
}

#[test]
fn a_body_that_cannot_be_written_is_an_error_and_not_a_bad_line() {
    let body = Decision::Started {
        at: u64::MAX,
        permit_key: Digest::ZERO,
        version: "0.1.0".into(),
    };
    assert!(append(&Tip::START, &Salt([0; 16]), &body).is_err());
    let body = Decision::Started {
        at: 1,
        permit_key: Digest::ZERO,
        version: "x".repeat(Limits::LINE.bytes),
    };
    assert!(append(&Tip::START, &Salt([0; 16]), &body).is_err());
}

#[test]
fn the_largest_refused_call_still_has_a_line() {
    let policy = demo();
    let facts = session(&policy, false);
    let scene = Scene {
        at: 1,
        from: &[],
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
        let (line, _) = append(&Tip::START, &Salt([0; 16]), &record).unwrap();
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
    let mut chain = Chain::new(ChainName::Receipts, key());
    let head = chain.record(&intent);
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
        let _place = chain.record(&receipt);
        written.push(receipt);
    }
    let mut seen = Vec::new();
    let keys = [key().verifying_key()];
    chain.sign();
    let whole = verify(&keys, &chain.text, |_, it| seen.push(it)).unwrap();
    assert_eq!((seen, whole.signed), (written, chain.tip.head));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..<_>::default() })]

    /// It is named there or at the next line, and no signature covers it.
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
            Err(bad) => prop_assert!(bad.number == line || bad.number == line + 1, "{bad} of {line}"),
            // Without its line feed the last line is a torn one.
            Ok((_, whole)) => {
                prop_assert_eq!((line, good[at]), (last, b'\n'));
                prop_assert!(whole.partial_tail > 0 && whole.signed.position == 6);
            }
        }
    }
}

#[test]
fn a_verifier_stays_at_the_last_good_line() {
    let good = lines(&text(&records()));
    let keys: [VerifyingKey; 1] = [key().verifying_key()];
    let mut verifier = Verifier::new(ChainName::Decisions, Keyring::of(&keys));
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
