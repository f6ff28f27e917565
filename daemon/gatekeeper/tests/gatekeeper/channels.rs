//! Who may say what, and what happens when they stop.

use custody_wire::{
    agent::Answer,
    frame, permit,
    session::{self, Request},
    supervise::GateNotice,
};
use gate::{
    digest::{Digest, Domain},
    id::{PolicyName, SessionId, ValueName},
    record::Decision,
};

use crate::harness::{Bench, SESSION, Vault, eventually, is_closed, is_quiet, message};

#[test]
fn a_front_of_a_session_that_control_did_not_open_is_dropped() {
    let mut bench = Bench::start();
    let front = bench.front(SESSION);
    assert!(is_closed(&front.stream));
    // Nor under another policy than control named.
    let _front = bench.open(SESSION);
    let other = GateNotice::Front {
        session: SESSION,
        policy: PolicyName::parse("other").unwrap(),
    };
    assert!(is_closed(&bench.give(&other)));
}

#[test]
fn a_session_is_what_its_channel_says_whatever_else_is_sent() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut one = bench.open(SessionId(1));
    let mut two = bench.open(SessionId(2));
    // The arguments name the other session; nothing takes their word.
    let (rule, _why) = one.refused("whoami", "{\"session\":\"0000000000000002\"}");
    assert_eq!(rule, "arguments");
    two.send("whoami", "{}");
    assert_eq!(vault.asked().permit.session(), SessionId(2));
    one.send("whoami", "{}");
    assert_eq!(vault.asked().permit.session(), SessionId(1));
}

#[test]
fn a_front_that_breaks_the_protocol_ends_its_own_channel_alone() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut good = bench.open(SessionId(100));
    for (n, bytes) in [
        &[0xff_u8; 64][..],
        // A frame of another border.
        &frame::frame(&Request::Close { session: SESSION }).unwrap(),
        &frame::frame(&permit::Request::Hello {
            permit_key: [0; 32],
        })
        .unwrap(),
        // Longer than any.
        &u32::MAX.to_le_bytes(),
        &[0; 4],
    ]
    .iter()
    .enumerate()
    {
        let mut bad = bench.open(SessionId(n as u64));
        std::io::Write::write_all(&mut bad.stream, bytes).unwrap();
        assert!(is_closed(&bad.stream), "{n}");
        good.send("whoami", "{}");
        let asked = vault.asked();
        vault.done(asked.number, b"1");
        assert!(matches!(good.answer(), Answer::Done { .. }), "{n}");
    }
}

#[test]
fn a_number_is_performed_once() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.open(SESSION);
    front.send_as(5, "send_message", message("x").as_bytes());
    let asked = vault.asked();
    vault.wait_durable(asked.permit.position());
    // On its way, and again when it is over.
    for over in [false, true] {
        if over {
            vault.done(asked.number, b"1");
            assert!(matches!(front.answer(), Answer::Done { .. }));
        }
        front.send_as(5, "send_message", message("x").as_bytes());
        let Answer::Refused { rule, number, .. } = front.answer() else {
            panic!("not refused")
        };
        assert_eq!((rule.as_str(), number), ("replayed", 5));
    }
    assert!(is_quiet::<permit::Request>(&vault.stream));
    // Numbers may change places on the way.
    for number in [9, 8, 7, 6] {
        front.send_as(number, "whoami", b"{}");
        assert_eq!(vault.asked().call.tool.as_str(), "whoami");
    }
}

#[test]
fn an_answer_that_nobody_waits_for_changes_nothing() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.open(SESSION);
    front.send("whoami", "{}");
    let asked = vault.asked();
    vault.done(asked.number + 1, b"another's");
    vault.done(asked.number, b"mine");
    vault.done(asked.number, b"again");
    let Answer::Done { result, .. } = front.answer() else {
        panic!("not done")
    };
    assert_eq!(result, b"mine");
    assert!(is_quiet::<Answer>(&front.stream));
    let done = |it: &&Decision| matches!(it, Decision::Done { .. });
    assert_eq!(bench.records().iter().filter(done).count(), 1);
}

#[test]
fn a_session_that_opens_while_the_vault_is_on_its_way_waits_for_it() {
    let mut bench = Bench::start();
    let request = Request::Open(Bench::opening(SESSION));
    frame::write(&mut bench.control, &request).unwrap();
    let first: session::Answer = frame::read(&mut bench.control).unwrap();
    assert!(matches!(first, session::Answer::Current), "{first:?}");
    assert!(is_quiet::<session::Answer>(&bench.control));
    let mut vault = bench.vault();
    let answer: session::Answer = frame::read(&mut bench.control).unwrap();
    assert!(matches!(answer, session::Answer::Done), "{answer:?}");
    let mut front = bench.front(SESSION);
    front.send("whoami", "{}");
    assert_eq!(vault.asked().permit.session(), SESSION);
}

#[test]
fn without_a_vault_a_call_fails_at_once_and_is_not_kept_for_later() {
    let mut bench = Bench::start();
    let mut front = bench.open(SESSION);
    front.send("send_message", &message("early"));
    let Answer::Failed { why, in_doubt, .. } = front.answer() else {
        panic!("not failed")
    };
    assert!(why.contains("vault is restarting") && !in_doubt, "{why}");
    let vault = bench.vault();
    assert!(is_quiet::<permit::Request>(&vault.stream));
    assert!(
        matches!(bench.records().last(), Some(Decision::Refused { rule, .. }) if rule == "vault")
    );
}

#[test]
fn when_the_vault_dies_every_call_on_its_way_is_in_doubt_and_an_idempotent_one_may_be_repeated() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.open(SESSION);
    let read = front.send("whoami", "{}");
    let write = front.send("send_message", &message("x"));
    let _both = (vault.asked(), vault.asked());
    drop(vault);
    for _ in 0..2 {
        let Answer::Failed {
            number,
            in_doubt,
            why,
            ..
        } = front.answer()
        else {
            panic!("not failed")
        };
        assert!(number == read || number == write);
        assert!(in_doubt);
        assert_eq!(why.contains("no other effect"), number == read, "{why}");
        assert_eq!(why.contains("look before"), number == write, "{why}");
    }
    let mut found = Vec::new();
    for record in bench.records() {
        if let Decision::Failed { in_doubt, .. } = record {
            found.push(in_doubt);
        }
    }
    assert_eq!(found, [true, true]);
    // The session goes on with the next vault, under its epoch.
    let mut vault = bench.vault();
    let asked = front.reach(&mut vault, "whoami");
    vault.done(asked.number, b"1");
    assert!(matches!(front.answer(), Answer::Done { .. }));
}

#[test]
fn a_new_vault_voids_what_the_old_one_had_though_that_one_lives() {
    let mut bench = Bench::start();
    let mut old = bench.vault();
    let mut front = bench.open(SESSION);
    front.send("send_message", &message("x"));
    let asked = old.asked();
    let mut new = bench.vault();
    let Answer::Failed { in_doubt, .. } = front.answer() else {
        panic!("not failed")
    };
    assert!(in_doubt);
    // What the old one says now counts for nothing.
    let late = frame::frame(&permit::Answer::Done {
        number: asked.number,
        receipt: Digest::of(Domain::Line, b"r"),
        result: b"late".to_vec(),
        status: 200,
        media_type: None,
        verification: gate::record::Verification::UNSUPPORTED,
        freshness: gate::record::Freshness::Unchecked,
    });
    let _may_fail = std::io::Write::write_all(&mut old.stream, &late.unwrap());
    let asked = front.reach(&mut new, "whoami");
    new.done(asked.number, b"new");
    assert!(matches!(front.answer(), Answer::Done { result, .. } if result == b"new"));
}

#[test]
fn a_new_vault_counts_from_its_notice_not_from_its_hello() {
    let mut bench = Bench::start();
    let mut old = bench.vault();
    let mut front = bench.open(SESSION);
    front.send("whoami", "{}");
    let _asked = old.asked();
    let silent = bench.give(&GateNotice::Vault);
    assert!(matches!(
        front.answer(),
        Answer::Failed { in_doubt: true, .. }
    ));
    front.send("whoami", "{}");
    let Answer::Failed { why, .. } = front.answer() else {
        panic!("not failed")
    };
    assert!(why.contains("restarting"), "{why}");
    let mut new = Vault::meet(silent);
    assert_eq!(front.reach(&mut new, "whoami").permit.session(), SESSION);
}

#[test]
fn a_vault_that_does_not_begin_with_hello_or_says_it_twice_is_dropped() {
    let mut bench = Bench::start();
    let mut front = bench.open(SESSION);
    let mut rude = bench.give(&GateNotice::Vault);
    let early = permit::Answer::Refused {
        number: 1,
        why: "x".into(),
    };
    frame::write(&mut rude, &early).unwrap();
    let _hello: permit::Request = frame::read(&mut rude).unwrap();
    assert!(is_closed(&rude));

    let mut vault = bench.vault();
    let _asked = front.reach(&mut vault, "whoami");
    front.send("send_message", &message("x"));
    let _asked = vault.asked();
    vault.say(&permit::Answer::Hello {
        audience: Digest::ZERO,
        epoch: [0; 16],
    });
    let mut doubts = 0;
    for _ in 0..2 {
        let Answer::Failed { in_doubt, .. } = front.answer() else {
            panic!("not failed")
        };
        doubts += usize::from(in_doubt);
    }
    assert_eq!(doubts, 2);
    // And another one is taken.
    let _vault = Vault::meet(bench.give(&GateNotice::Vault));
}

#[test]
fn a_session_ends_alone_and_its_calls_on_their_way_are_still_recorded() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut one = bench.open(SessionId(1));
    let mut two = bench.open(SessionId(2));
    one.send("send_message", &message("x"));
    let asked = vault.asked();
    bench.notice(&GateNotice::Ended {
        session: SessionId(1),
    });
    assert!(is_closed(&one.stream));
    vault.done(asked.number, b"1");
    eventually(|| matches!(bench.records().last(), Some(Decision::Done { .. })));
    two.send("whoami", "{}");
    assert_eq!(vault.asked().permit.session(), SessionId(2));
    // A front for it is no longer taken.
    assert!(is_closed(&bench.front(SessionId(1)).stream));
    // That control says so too changes nothing more.
    let close = Request::Close {
        session: SessionId(1),
    };
    assert!(matches!(bench.ask_control(&close), session::Answer::Done));
    let closed = |it: &&Decision| matches!(it, Decision::Closed { .. });
    assert_eq!(bench.records().iter().filter(closed).count(), 1);
}

#[test]
fn a_new_front_takes_the_place_of_the_old_one() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let old = bench.open(SESSION);
    let mut new = bench.front(SESSION);
    assert!(is_closed(&old.stream));
    new.send("whoami", "{}");
    assert_eq!(vault.asked().permit.session(), SESSION);
}

#[test]
fn a_session_that_cannot_be_opened_says_why_and_is_not_there() {
    let mut bench = Bench::start();
    let mut wrong_policy = Bench::opening(SESSION);
    wrong_policy.policy = PolicyName::parse("other").unwrap();
    let mut unknown_value = Bench::opening(SESSION);
    let value = ValueName::parse("iban").unwrap();
    unknown_value.values.insert(value, "x".into());
    let mut bad_value = Bench::opening(SESSION);
    for text in bad_value.values.values_mut() {
        *text = "not an address".into();
    }
    for (opening, says) in [
        (wrong_policy, "`other` is not loaded"),
        (unknown_value, "`iban`"),
        (bad_value, "`customer`"),
    ] {
        let session::Answer::Refused { why } = bench.ask_control(&Request::Open(opening)) else {
            panic!("opened")
        };
        assert!(why.contains(says), "{why}");
        assert!(is_closed(&bench.front(SESSION).stream));
    }
    let opened = |it: &&Decision| matches!(it, Decision::Opened { .. });
    assert_eq!(bench.records().iter().filter(opened).count(), 0);
    let _front = bench.open(SESSION);
    let again = Request::Open(Bench::opening(SESSION));
    assert!(matches!(
        bench.ask_control(&again),
        session::Answer::Refused { .. }
    ));
}

#[test]
fn custodyd_is_told_the_newest_record_on_disk() {
    let bench = Bench::start();
    let head = bench.head();
    assert!(head.position >= 1);
    assert!(head.position <= bench.records().len() as u64);
}
