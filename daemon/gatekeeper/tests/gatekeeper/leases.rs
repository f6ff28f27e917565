//! A call whose answer streams: what the gate has recorded before anybody can read of it, and after.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
};

use custody_wire::{agent::Answer, permit, session::Outcome};
use gate::{
    approval::Scope,
    digest::{Digest, Domain, Running},
    policy::Label,
    record::{Decision, Ended, Streamed},
};

use crate::{
    approvals::approve,
    harness::{Asked, Bench, Front, Vault, eventually, is_closed, is_quiet},
};

const FOLLOW: &str = r#"{"service":"mail"}"#;

fn begin(bench: &mut Bench) -> (Vault, Front) {
    let vault = bench.vault();
    let front = bench.under("stream", &[], "Look after the mail.").unwrap();
    (vault, front)
}

/// The front has its end, and the answer that names it.
fn handed(front: &mut Front) -> (u64, UnixStream) {
    let (Answer::Stream { stream }, Some(fd)) = front.answer_with() else {
        panic!("no stream")
    };
    let leased = front.answer();
    assert!(
        matches!(leased, Answer::Leased { stream: named, status: 200, ms: 60_000, .. } if named == stream),
        "{leased:?}"
    );
    (stream, UnixStream::from(fd))
}

fn whole() -> Streamed {
    let mut sum = Running::default();
    sum.update(b"line");
    Streamed {
        bytes: 4,
        ended: Ended::Whole,
        scrubbed: 0,
        sha256: sum.so_far(),
        status: 200,
    }
}

fn receipt(asked: &Asked) -> Digest {
    Digest::of(Domain::Line, &asked.number.to_le_bytes())
}

fn is_over(vault: &mut Vault, asked: &Asked, stream: Streamed) {
    vault.say(&permit::Answer::Streamed {
        number: asked.number,
        receipt: receipt(asked),
        stream,
    });
}

#[test]
fn a_stream_is_handed_out_behind_its_record_and_its_taint_and_its_end_is_recorded() {
    let mut bench = Bench::start();
    let (mut vault, mut front) = begin(&mut bench);
    let _number = front.send("follow_log", FOLLOW);
    let asked = vault.asked();
    assert!(asked.permit.lease().is_some());
    let records = bench.records();
    let Some(Decision::Allowed {
        opens: Some(opens), ..
    }) = records.last()
    else {
        panic!("{records:?}")
    };
    assert_eq!(opens.label, Label::Untrusted);
    assert_eq!(Some(&opens.lease), asked.permit.lease());
    // Nothing is there to read before the vault has opened it.
    assert!(is_quiet::<Answer>(&front.stream));
    let mut worker = vault.opens(asked.number);
    let (stream, mut reading) = handed(&mut front);
    assert_eq!(stream, asked.permit.position());
    // The session is tainted now: not a byte of it has come, and what nothing has may be of it.
    let (rule, _) = held(&mut front);
    assert_eq!(rule, "origin");
    worker.write_all(b"line").unwrap();
    drop(worker);
    let mut read = String::new();
    reading.read_to_string(&mut read).unwrap();
    assert_eq!(read, "line");
    is_over(&mut vault, &asked, whole());
    assert!(
        matches!(front.answer(), Answer::Over { stream: it, ended: Ended::Whole } if it == stream)
    );
    let records = bench.records();
    let Some(Decision::Streamed {
        decision,
        receipt: named,
        stream: said,
        ..
    }) = records.last()
    else {
        panic!("{records:?}")
    };
    assert_eq!(decision.digest, asked.permit.decision());
    assert_eq!((*named, said), (receipt(&asked), &whole()));
}

/// A note on a ticket that nothing has: the rule that holds it.
fn held(front: &mut Front) -> (String, u64) {
    let (pending, rule, _why) = front.held("annotate", r#"{"line":"x","ticket":"T-4711"}"#);
    (rule, pending)
}

#[test]
fn a_lease_that_is_not_opened_taints_nothing_and_hands_out_nothing() {
    let mut bench = Bench::start();
    let (mut vault, mut front) = begin(&mut bench);
    let _number = front.send("follow_log", FOLLOW);
    let asked = vault.asked();
    vault.say(&permit::Answer::Refused {
        number: asked.number,
        why: "no".into(),
    });
    let (Answer::Failed { .. }, None) = front.answer_with() else {
        panic!("handed out")
    };
    // Nobody outside was spoken to.
    let _number = front.send("annotate", r#"{"line":"x","ticket":"T-4711"}"#);
    let asked = vault.asked();
    assert_eq!(asked.call.tool.as_str(), "annotate");
    assert!(asked.permit.lease().is_none());
}

#[test]
fn an_effects_answer_to_a_lease_and_an_opening_without_its_descriptor_release_nothing() {
    let mut bench = Bench::start();
    let (mut vault, mut front) = begin(&mut bench);
    let _number = front.send("follow_log", FOLLOW);
    let asked = vault.asked();
    vault.done(asked.number, b"\"whole\"");
    let (answer, fd) = front.answer_with();
    assert!(
        matches!(answer, Answer::Failed { in_doubt: true, .. }),
        "{answer:?}"
    );
    assert!(fd.is_none());
    let _number = front.send("follow_log", FOLLOW);
    let asked = vault.asked();
    vault.say(&permit::Answer::Opened {
        number: asked.number,
        status: 200,
    });
    let (answer, fd) = front.answer_with();
    assert!(
        matches!(answer, Answer::Failed { in_doubt: true, .. }),
        "{answer:?}"
    );
    assert!(fd.is_none());
}

#[test]
fn four_streams_are_open_at_once_and_no_more_and_other_calls_go_on() {
    let mut bench = Bench::start();
    let (mut vault, mut front) = begin(&mut bench);
    let mut open: Vec<(Asked, UnixStream, UnixStream)> = Vec::new();
    for _ in 0..4 {
        let _number = front.send("follow_log", FOLLOW);
        let asked = vault.asked();
        let worker = vault.opens(asked.number);
        let (_stream, reading) = handed(&mut front);
        open.push((asked, worker, reading));
    }
    let (rule, why) = front.refused("follow_log", FOLLOW);
    assert!(rule == "busy" && why.contains("4 streams"), "{rule}: {why}");
    let (rule, _pending) = held(&mut front);
    assert_eq!(rule, "origin");
    let (asked, _worker, _reading) = open.pop().unwrap();
    let left = Streamed {
        ended: Ended::Reader,
        ..whole()
    };
    is_over(&mut vault, &asked, left);
    assert!(matches!(
        front.answer(),
        Answer::Over {
            ended: Ended::Reader,
            ..
        }
    ));
    eventually(|| {
        let _number = front.send("follow_log", FOLLOW);
        match vault.asked_soon() {
            Some(_asked) => true,
            None => {
                let _busy = front.answer();
                false
            }
        }
    });
}

#[test]
fn a_vault_that_goes_away_cuts_a_stream_and_the_record_says_that_nobody_knows() {
    let mut bench = Bench::start();
    let (mut vault, mut front) = begin(&mut bench);
    let _number = front.send("follow_log", FOLLOW);
    let asked = vault.asked();
    let _worker = vault.opens(asked.number);
    let (stream, _reading) = handed(&mut front);
    drop(vault);
    let over = front.answer();
    assert!(
        matches!(&over, Answer::Over { stream: it, ended: Ended::Cut { .. } } if *it == stream),
        "{over:?}"
    );
    let records = bench.records();
    assert!(
        matches!(
            records.last(),
            Some(Decision::Failed { in_doubt: true, .. })
        ),
        "{records:?}"
    );
}

#[test]
fn a_stream_of_a_session_that_ended_is_closed_not_handed_to_anyone() {
    let mut bench = Bench::start();
    let (mut vault, mut front) = begin(&mut bench);
    let _number = front.send("follow_log", FOLLOW);
    let asked = vault.asked();
    bench.notice(&custody_wire::supervise::GateNotice::Ended {
        session: crate::harness::SESSION,
    });
    assert!(is_closed(&front.stream));
    let mut worker = vault.opens(asked.number);
    let mut end = Vec::new();
    // Its other end is gone: that is how the worker learns that nobody reads.
    worker.read_to_end(&mut end).unwrap();
    assert!(end.is_empty());
    is_over(&mut vault, &asked, whole());
    eventually(|| {
        let records = bench.records();
        records
            .iter()
            .any(|it| matches!(it, Decision::Streamed { .. }))
    });
}

#[test]
fn a_stream_that_a_person_approved_is_handed_out_then_and_named_to_the_agent_that_asks_again() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.under("asked", &[], "Look after the mail.").unwrap();
    let (pending, rule, _why) = front.held("follow_log", FOLLOW);
    assert_eq!(rule, "confirmation");
    let waits = bench.waits();
    assert_eq!(bench.review(approve(&waits, Scope::ONCE)), None);
    let asked = vault.asked();
    assert!(asked.permit.lease().is_some());
    let mut worker = vault.opens(asked.number);
    let (Answer::Stream { stream }, Some(fd)) = front.answer_with() else {
        panic!("no stream")
    };
    assert_eq!(bench.over(), (pending, Outcome::Done { status: 200 }));
    let number = front.send("follow_log", FOLLOW);
    let leased = front.answer();
    assert!(
        matches!(leased, Answer::Leased { number: it, stream: named, .. } if (it, named) == (number, stream)),
        "{leased:?}"
    );
    worker.write_all(b"line").unwrap();
    drop(worker);
    let mut read = String::new();
    UnixStream::from(fd).read_to_string(&mut read).unwrap();
    assert_eq!(read, "line");
}
