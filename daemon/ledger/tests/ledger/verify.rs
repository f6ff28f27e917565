//! What is wrong is named: the file, the line, why.

use std::fs;

use crate::support::{Ledger, allowed, bound, closed, copy, digest, intent, receipt, temporary};
use custody_ledger::{
    key,
    keys::Keys,
    verify::{Noted, Report, VerifyError, verify, verify_with},
    writer::Writer,
};
use gate::{
    chain::Place,
    record::{Decision, Effect, Outcome},
};

fn check(ledger: &Ledger) -> Report {
    verify(ledger.path(), &Noted::default()).unwrap()
}

/// Three files with some lines each.
fn long() -> (Ledger, Place) {
    let ledger = Ledger::new();
    let mut writer = Writer::<Decision>::open_with(
        &ledger.decisions_folder(),
        ledger.decisions_key.clone(),
        1_500,
    )
    .unwrap()
    .0;
    let mut head = Place::START;
    for n in 0..9 {
        head = writer.append(&closed(n)).unwrap();
    }
    drop(writer);
    assert!(fs::read_dir(ledger.decisions_folder()).unwrap().count() >= 3);
    assert!(check(&ledger).is_good());
    (ledger, head)
}

#[test]
fn an_empty_ledger_is_good() {
    let report = check(&Ledger::new());
    assert!(report.is_good());
    assert_eq!((report.decisions.records, report.receipts.records), (0, 0));
}

#[test]
fn any_changed_byte_names_the_line_or_the_one_that_rests_on_it() {
    let ledger = Ledger::new();
    {
        let mut writer = ledger.decisions();
        for n in 1..=3 {
            writer.append(&closed(n)).unwrap();
        }
    }
    let path = ledger.path().join("decisions/000001.jsonl");
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    // The middle line, its line feed included.
    for at in ends[0] + 1..=ends[1] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&path, &changed).unwrap();
        let report = check(&ledger);
        let bad = report.decisions.bad.unwrap();
        // It, or the line that rests on it.
        let line = bad.line.unwrap();
        assert!(
            bad.path == path && (line == 2 || line == 3),
            "byte {at}: {bad}"
        );
        assert_eq!(report.decisions.records, line - 1, "byte {at}");
        assert_eq!(report.decisions.signed, Place::START, "byte {at}");
    }
}

#[test]
fn swapped_doubled_and_removed_lines_are_named() {
    let ledger = Ledger::new();
    {
        let mut writer = ledger.decisions();
        for n in 1..=4 {
            writer.append(&closed(n)).unwrap();
        }
    }
    let path = ledger.path().join("decisions/000001.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (order, bad_line) in [
        (vec![0, 2, 1, 3], 2),
        (vec![0, 1, 1, 2, 3], 3),
        (vec![0, 2, 3], 2),
        (vec![1, 2, 3], 1),
        (vec![0, 1, 3, 2], 3),
    ] {
        // Their checkpoint stays at the end.
        let changed: String = order.iter().chain(&[4]).map(|at| lines[*at]).collect();
        fs::write(&path, changed).unwrap();
        let bad = check(&ledger).decisions.bad.unwrap();
        assert_eq!(bad.line, Some(bad_line), "{order:?}: {bad}");
    }
}

#[test]
fn a_removed_file_is_named_first_middle_or_emptied() {
    for (remove, says) in [(1, "000001"), (2, "000002")] {
        let (ledger, _head) = long();
        fs::remove_file(ledger.path().join(format!("decisions/{remove:06}.jsonl"))).unwrap();
        let bad = check(&ledger).decisions.bad.unwrap();
        assert!(
            bad.to_string().contains(says) && bad.line.is_none(),
            "{bad}"
        );
    }
    let (ledger, _head) = long();
    fs::write(ledger.path().join("decisions/000002.jsonl"), "").unwrap();
    let bad = check(&ledger).decisions.bad.unwrap();
    assert!(
        bad.path.ends_with("000003.jsonl") && bad.line == Some(1),
        "{bad}"
    );
}

#[test]
fn files_that_changed_places_are_named() {
    let (ledger, _head) = long();
    let file = |n: u32| ledger.path().join(format!("decisions/{n:06}.jsonl"));
    let (one, two) = (fs::read(file(1)).unwrap(), fs::read(file(2)).unwrap());
    fs::write(file(1), two).unwrap();
    fs::write(file(2), one).unwrap();
    let bad = check(&ledger).decisions.bad.unwrap();
    assert!(
        bad.path.ends_with("000001.jsonl") && bad.line == Some(1),
        "{bad}"
    );
}

#[test]
fn a_cut_end_shows_against_a_head_that_was_noted() {
    let (ledger, head) = long();
    let noted = Noted {
        decisions: vec![head],
        receipts: vec![],
    };
    assert!(verify(ledger.path(), &noted).unwrap().is_good());
    fs::remove_file(ledger.path().join("decisions/000003.jsonl")).unwrap();
    assert!(check(&ledger).is_good(), "alone, the chain cannot tell");
    let bad = verify(ledger.path(), &noted)
        .unwrap()
        .decisions
        .bad
        .unwrap();
    assert!(bad.why.contains("cut off"), "{bad}");

    let (ledger, head) = long();
    let other = Place {
        digest: digest(1),
        position: head.position,
    };
    let noted = Noted {
        decisions: vec![other],
        receipts: vec![],
    };
    assert!(!verify(ledger.path(), &noted).unwrap().is_good());
}

#[test]
fn what_a_crash_left_at_the_end_is_said_and_is_no_line() {
    let (ledger, head) = long();
    let last = ledger.path().join("decisions/000003.jsonl");
    let mut bytes = fs::read(&last).unwrap();
    bytes.extend_from_slice(b"{\"body\":{\"closed\"");
    fs::write(&last, &bytes).unwrap();
    let report = check(&ledger);
    assert!(report.is_good());
    assert_eq!((report.decisions.head, report.decisions.torn), (head, 17));

    // Not at the end it is no crash.
    let middle = ledger.path().join("decisions/000002.jsonl");
    let mut bytes = fs::read(&middle).unwrap();
    bytes.extend_from_slice(b"{\"body\":{\"closed\"");
    fs::write(&middle, &bytes).unwrap();
    let bad = check(&ledger).decisions.bad.unwrap();
    assert!(bad.path.ends_with("000002.jsonl"), "{bad}");
}

#[test]
fn what_no_signature_covers_at_the_end_is_said_and_is_no_line() {
    let (ledger, head) = long();
    let last = ledger.path().join("decisions/000003.jsonl");
    let mut bytes = fs::read(&last).unwrap();
    bytes.extend_from_slice(b"{\"body\":{}}\n{\"body\":{}}");
    fs::write(&last, &bytes).unwrap();
    let report = check(&ledger);
    assert!(report.is_good());
    assert_eq!((report.decisions.signed, report.decisions.torn), (head, 23));
}

/// Records without a checkpoint are there, and it is said that nobody signed them.
#[test]
fn records_behind_the_last_checkpoint_are_said_to_be_unsigned() {
    let ledger = Ledger::new();
    {
        let mut writer = ledger.decisions();
        writer.append(&closed(1)).unwrap();
        writer.durability().sync().unwrap();
    }
    {
        let mut writer = ledger.decisions();
        writer.append(&closed(2)).unwrap();
        writer.append(&closed(3)).unwrap();
    }
    let path = ledger.path().join("decisions/000001.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // Each end has a checkpoint of its own.
    assert_eq!(lines.len(), 7);
    fs::write(&path, lines[..5].concat()).unwrap();
    let report = check(&ledger);
    assert!(report.is_good());
    let decisions = report.decisions;
    assert_eq!((decisions.head.position, decisions.signed.position), (3, 1));
}

#[test]
fn a_reason_repeats_nothing_that_acts_on_a_terminal_and_stays_short() {
    for name in ["\u{1b}]0;title\u{7}".to_owned(), "\u{202e}".repeat(100_000)] {
        let ledger = Ledger::new();
        let text = |it: &str| gate::json::Value::Text(it.to_owned());
        let object = |it: [(&str, gate::json::Value); 1]| {
            gate::json::Value::Object(it.map(|(name, it)| (name.to_owned(), it)).into())
        };
        let line = gate::json::Value::Object(
            [
                ("body", object([(&name, gate::json::Value::Null)])),
                ("chain", text("decisions")),
                ("format", gate::json::Value::try_from(1_i64).unwrap()),
                ("position", gate::json::Value::try_from(1_i64).unwrap()),
                ("previous", text(&"0".repeat(64))),
                ("salt", text(&"0".repeat(32))),
            ]
            .map(|(name, it)| (name.to_owned(), it))
            .into(),
        );
        let line = gate::json::canonical(&line);
        let path = ledger.path().join("decisions/000001.jsonl");
        fs::write(path, [line, b"\n".to_vec()].concat()).unwrap();
        let bad = check(&ledger).decisions.bad.unwrap();
        assert!(bad.why.contains("unknown variant"), "{bad}");
        let shown = bad.to_string();
        assert!(
            shown.len() < 1_000 && shown.bytes().all(|b| matches!(b, b' '..=b'~')),
            "{shown}"
        );
    }
}

#[test]
fn a_foreign_key_verifies_nothing() {
    let (ledger, _head) = long();
    let other = Ledger::new();
    let keys = Keys::of(
        other.decisions_key.verifying_key(),
        other.receipts_key.verifying_key(),
    );
    let report = verify_with(ledger.path(), &keys, &Noted::default()).unwrap();
    let bad = report.decisions.bad.unwrap();
    assert!(bad.path.ends_with("000001.jsonl"), "{bad}");
    assert!(
        bad.why.contains("not one of the chain's public keys"),
        "{bad}"
    );
    assert_eq!(report.decisions.signed, Place::START);
}

#[test]
fn a_line_of_the_other_chain_is_not_a_line_of_this_one() {
    let ledger = Ledger::new();
    let place = ledger.decisions().append(&allowed(1)).unwrap();
    ledger
        .receipts()
        .append(&receipt(bound(1, place), None))
        .unwrap();
    let key = ledger.receipts_key.verifying_key();
    let keys = Keys::of(key, key);
    let mixed = temporary();
    copy(ledger.path(), mixed.path());
    fs::copy(
        ledger.path().join("receipts/000001.jsonl"),
        mixed.path().join("decisions/000001.jsonl"),
    )
    .unwrap();
    let report = verify_with(mixed.path(), &keys, &Noted::default()).unwrap();
    assert!(report.decisions.bad.unwrap().why.contains("chain"));
}

#[test]
fn a_missing_key_or_folder_is_an_error_not_a_good_ledger() {
    let ledger = Ledger::new();
    fs::remove_file(ledger.path().join("public/decisions/decisions.pub")).unwrap();
    assert!(matches!(
        verify(ledger.path(), &Noted::default()),
        Err(VerifyError::Key(key::KeyError::Read { .. }))
    ));
    let ledger = Ledger::new();
    fs::remove_dir(ledger.path().join("receipts")).unwrap();
    assert!(matches!(
        verify(ledger.path(), &Noted::default()),
        Err(VerifyError::Files(_))
    ));
}

#[test]
fn a_copy_may_have_both_keys_in_one_folder_and_a_signers_own_folder_comes_first() {
    let (ledger, _head) = long();
    let public = ledger.path().join("public");
    let keep = temporary();
    copy(&public, keep.path());
    for chain in ["decisions", "receipts"] {
        let key = format!("{chain}/{chain}.pub");
        fs::copy(keep.path().join(&key), public.join(format!("{chain}.pub"))).unwrap();
        fs::remove_dir_all(public.join(chain)).unwrap();
    }
    assert!(check(&ledger).is_good());
    // A foreign key in the common folder changes nothing once the signer's own is there.
    fs::copy(public.join("receipts.pub"), public.join("decisions.pub")).unwrap();
    assert!(!check(&ledger).is_good());
    copy(keep.path(), &public);
    assert!(check(&ledger).is_good());
}

/// Decisions 1..=n, each allowed; their places.
fn decide(ledger: &Ledger, n: u64) -> Vec<Place> {
    let mut writer = ledger.decisions();
    (1..=n)
        .map(|n| writer.append(&allowed(n)).unwrap())
        .collect()
}

#[test]
fn receipts_rest_on_decisions_out_of_order_and_far_apart() {
    let ledger = Ledger::new();
    let places = decide(&ledger, 600);
    let mut writer = ledger.receipts();
    for at in [599, 0, 300, 255, 256, 511, 512, 1] {
        let effect = bound(at as u64 + 1, places[at]);
        let intent = writer.append(&intent(effect.clone())).unwrap();
        writer.append(&receipt(effect, Some(intent))).unwrap();
    }
    let report = check(&ledger);
    assert!(report.is_good(), "{report:?}");
    assert_eq!((report.receipts.records, report.in_doubt_count), (16, 0));
}

#[test]
fn a_receipt_without_its_decision_is_bad() {
    for (why, effect) in [
        ("do not have", |_: &[Place]| {
            bound(
                1,
                Place {
                    digest: digest(9),
                    position: 99,
                },
            )
        }),
        ("with digest", |_: &[Place]| {
            bound(
                1,
                Place {
                    digest: digest(9),
                    position: 1,
                },
            )
        }),
        ("does not allow", |places: &[Place]| bound(2, places[0])),
        ("do not have", |_: &[Place]| bound(1, Place::START)),
    ] as [(&str, fn(&[Place]) -> _); 4]
    {
        let ledger = Ledger::new();
        let places = decide(&ledger, 2);
        let mut writer = ledger.receipts();
        writer.append(&receipt(bound(2, places[1]), None)).unwrap();
        writer.append(&receipt(effect(&places), None)).unwrap();
        let report = check(&ledger);
        let bad = report.receipts.bad.unwrap();
        assert!(bad.line == Some(2) && bad.why.contains(why), "{bad}");
        assert!(report.decisions.bad.is_none());
    }
}

#[test]
fn a_record_that_allows_nothing_carries_no_effect() {
    let ledger = Ledger::new();
    let place = ledger.decisions().append(&closed(1)).unwrap();
    ledger.receipts().append(&intent(bound(1, place))).unwrap();
    assert!(
        check(&ledger)
            .receipts
            .bad
            .unwrap()
            .why
            .contains("does not allow")
    );
}

#[test]
fn an_intent_without_a_receipt_is_in_doubt_and_so_is_one_that_says_so() {
    let ledger = Ledger::new();
    let places = decide(&ledger, 3);
    let mut writer = ledger.receipts();
    let first = writer.append(&intent(bound(1, places[0]))).unwrap();
    let second = writer.append(&intent(bound(2, places[1]))).unwrap();
    writer
        .append(&receipt(bound(2, places[1]), Some(second)))
        .unwrap();
    let unknown = Effect::Receipt {
        at: 0,
        effect: bound(3, places[2]),
        intent: None,
        outcome: Outcome::InDoubt {
            verification: gate::record::Verification::UNSUPPORTED,
            why: "the server hung up".into(),
        },
    };
    let third = writer.append(&unknown).unwrap();
    let report = check(&ledger);
    assert!(report.is_good(), "{report:?}");
    let named: Vec<(u64, u64)> = report
        .in_doubt
        .iter()
        .map(|it| (it.position, it.decision))
        .collect();
    assert_eq!(named, [(first.position, 1), (third.position, 3)]);
    assert_eq!(report.in_doubt_count, 2);
}

#[test]
fn an_intent_has_one_receipt_and_of_its_own_effect() {
    for twice in [true, false] {
        let ledger = Ledger::new();
        let places = decide(&ledger, 2);
        let mut writer = ledger.receipts();
        let place = writer.append(&intent(bound(1, places[0]))).unwrap();
        if twice {
            writer
                .append(&receipt(bound(1, places[0]), Some(place)))
                .unwrap();
            writer
                .append(&receipt(bound(1, places[0]), Some(place)))
                .unwrap();
        } else {
            writer
                .append(&receipt(bound(2, places[1]), Some(place)))
                .unwrap();
        }
        let bad = check(&ledger).receipts.bad.unwrap();
        assert!(bad.why.contains("intent"), "{bad}");
    }
}

#[test]
fn a_running_writer_does_not_disturb_the_verifier() {
    let ledger = Ledger::new();
    let mut decisions = ledger.decisions();
    let mut receipts = ledger.receipts();
    let place = decisions.append(&allowed(1)).unwrap();
    receipts.append(&receipt(bound(1, place), None)).unwrap();
    assert!(check(&ledger).is_good());
    let place = decisions.append(&allowed(2)).unwrap();
    assert!(check(&ledger).is_good());
    receipts.append(&receipt(bound(2, place), None)).unwrap();
    let report = check(&ledger);
    assert!(report.is_good());
    assert_eq!((report.decisions.records, report.receipts.records), (2, 2));
}

/// A decision allows one effect, however it is written down.
#[test]
fn a_decision_with_two_effects_is_named() {
    // Which line closes the one before it, and whether it is an intent.
    let (open, close) = ((true, false), (false, true));
    let alone = (false, false);
    for lines in [
        vec![alone, alone],
        vec![open, close, open],
        vec![open, close, alone],
    ] {
        let ledger = Ledger::new();
        let place = decide(&ledger, 1)[0];
        let mut writer = ledger.receipts();
        let mut last = Place::START;
        for (opens, closes) in lines {
            let line = match opens {
                true => intent(bound(1, place)),
                false => receipt(bound(1, place), closes.then_some(last)),
            };
            last = writer.append(&line).unwrap();
        }
        drop(writer);
        let bad = check(&ledger).receipts.bad.unwrap();
        assert!(bad.why.contains("second one"), "{bad}");
    }
}

/// A permit that was refused is no effect: its receipt stands beside that of the effect.
#[test]
fn a_refused_permit_is_no_second_effect() {
    let ledger = Ledger::new();
    let place = decide(&ledger, 1)[0];
    let mut writer = ledger.receipts();
    writer.append(&receipt(bound(1, place), None)).unwrap();
    let refused = Effect::Receipt {
        at: 0,
        effect: bound(1, place),
        intent: None,
        outcome: Outcome::Refused {
            why: "the permit was used".into(),
        },
    };
    writer.append(&refused).unwrap();
    let report = check(&ledger);
    assert!(report.is_good(), "{report:?}");
}

fn done(decision: Place, receipt: Place) -> Decision {
    Decision::Done {
        at: 3,
        bytes: 2,
        call: digest(1),
        decision,
        label: gate::policy::Label::Untrusted,
        receipt: receipt.digest,
        result: digest(2_000),
        session: gate::id::SessionId(7),
        status: 200,
        tool: gate::id::ToolName::parse("send").unwrap(),
        verification: gate::record::Verification::UNSUPPORTED,
    }
}

#[test]
fn a_receipt_that_a_decision_names_and_that_is_missing_is_named() {
    let ledger = Ledger::new();
    let mut decisions = ledger.decisions();
    let mut receipts = ledger.receipts();
    let first = decisions.append(&allowed(1)).unwrap();
    let written = receipts.append(&receipt(bound(1, first), None)).unwrap();
    decisions.append(&done(first, written)).unwrap();
    assert!(check(&ledger).is_good());
    let second = decisions.append(&allowed(2)).unwrap();
    let nowhere = Place {
        digest: digest(77),
        position: 2,
    };
    decisions.append(&done(second, nowhere)).unwrap();
    let report = check(&ledger);
    assert!(!report.is_good() && report.decisions.bad.is_none());
    let [why] = &*report.contradictions else {
        panic!("{report:?}")
    };
    assert!(
        why.contains("decision record 4") && why.contains(&digest(77).to_string()),
        "{why}"
    );
}

fn started() -> Decision {
    Decision::Started {
        at: 1,
        permit_key: digest(5),
        version: "test".into(),
    }
}

fn vault_started() -> Effect {
    Effect::Started {
        at: 1,
        epoch: gate::nonce::Nonce([1; 16]),
        open: Vec::new(),
        version: "test".into(),
    }
}

/// A power cut may take the decision of an idempotent effect, and its receipt: that is counted and
/// said. It never takes the decision of one with an intent.
#[test]
fn what_a_power_cut_may_take_is_counted_and_what_it_may_not_is_bad() {
    // The gate lost decision 3, and started there.
    for intended in [false, true] {
        let ledger = Ledger::new();
        let mut decisions = ledger.decisions();
        let _start = decisions.append(&started()).unwrap();
        let first = decisions.append(&allowed(1)).unwrap();
        let _start = decisions.append(&started()).unwrap();
        let mut receipts = ledger.receipts();
        let _start = receipts.append(&vault_started()).unwrap();
        receipts.append(&receipt(bound(1, first), None)).unwrap();
        let lost = Place {
            digest: digest(9),
            position: 3,
        };
        let line = match intended {
            true => intent(bound(2, lost)),
            false => receipt(bound(2, lost), None),
        };
        receipts.append(&line).unwrap();
        let report = check(&ledger);
        assert_eq!(report.is_good(), !intended, "{report:?}");
        assert_eq!(report.decisions_lost, u64::from(!intended));
    }
    // The vault lost a receipt, and started there.
    for restarted in [false, true] {
        let ledger = Ledger::new();
        let mut decisions = ledger.decisions();
        let mut receipts = ledger.receipts();
        let _start = receipts.append(&vault_started()).unwrap();
        let first = decisions.append(&allowed(1)).unwrap();
        let lost = Place {
            digest: digest(9),
            position: 2,
        };
        decisions.append(&done(first, lost)).unwrap();
        if restarted {
            let _start = receipts.append(&vault_started()).unwrap();
        }
        let second = decisions.append(&allowed(2)).unwrap();
        receipts.append(&receipt(bound(2, second), None)).unwrap();
        let report = check(&ledger);
        assert_eq!(report.is_good(), restarted, "{report:?}");
        assert_eq!(report.receipts_lost, u64::from(restarted));
    }
}
