//! Floods, stalls and sizes: each session's own trouble.

use std::time::{Duration, Instant};

use custody_wire::{
    agent::{ARGUMENTS_CAP, Answer, RESULT_CAP},
    frame,
};
use gate::{id::SessionId, record::Decision};

use crate::harness::{Bench, PATIENCE, SESSION, message};

#[test]
fn a_session_has_sixteen_calls_on_their_way_and_the_next_is_told_so() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.open(SESSION);
    let mut asked = Vec::new();
    for _ in 0..16 {
        front.send("whoami", "{}");
        asked.push(vault.asked());
    }
    let (rule, why) = front.refused("whoami", "{}");
    assert_eq!(rule, "busy", "{why}");
    assert!(
        matches!(bench.records().last(), Some(Decision::Refused { rule, .. }) if rule == "busy")
    );
    // A new front of the session has no more of them.
    let mut front = bench.front(SESSION);
    assert_eq!(front.refused("whoami", "{}").0, "busy");
    // Another session is not asked to wait.
    let mut other = bench.open(SessionId(8));
    other.send("whoami", "{}");
    let theirs = vault.asked();
    assert_eq!(theirs.permit.session(), SessionId(8));
    // One ends, one begins.
    vault.done(asked[3].number, b"1");
    crate::harness::eventually(|| {
        let done = |it: &&Decision| matches!(it, Decision::Done { .. });
        bench.records().iter().filter(done).count() == 1
    });
    front.send("whoami", "{}");
    assert_eq!(vault.asked().permit.session(), SESSION);
}

#[test]
fn a_front_that_does_not_read_stops_itself_alone() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut stalled = bench.open(SessionId(1));
    let mut good = bench.open(SessionId(2));
    // Megabytes that it does not take.
    for _ in 0..16 {
        stalled.send("whoami", "{}");
        let asked = vault.asked();
        vault.done(asked.number, &vec![b'1'; RESULT_CAP / 4]);
    }
    for n in 0..50 {
        good.send("whoami", "{}");
        let asked = vault.asked();
        assert_eq!(asked.permit.session(), SessionId(2), "{n}");
        vault.done(asked.number, b"1");
        assert!(matches!(good.answer(), Answer::Done { .. }), "{n}");
    }
    // When it reads again nothing is lost.
    for _ in 0..16 {
        assert!(matches!(stalled.answer(), Answer::Done { .. }));
    }
}

/// A front that asks for what is refused, as fast as it can, until its channel ends.
fn flood(stream: std::os::unix::net::UnixStream) -> [std::thread::JoinHandle<()>; 2] {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = stream;
    let writing = std::thread::spawn(move || {
        for number in 0.. {
            let call = custody_wire::agent::Request::Call {
                number,
                tool: "no_such_tool".into(),
                arguments: b"{}".to_vec(),
            };
            if frame::write(&mut writer, &call).is_err() {
                return;
            }
        }
    });
    let reading = std::thread::spawn(move || while frame::read::<Answer>(&mut reader).is_ok() {});
    [writing, reading]
}

#[test]
fn a_front_that_floods_does_not_hold_up_another_and_fills_no_disk() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let flooding = bench.open(SessionId(1));
    let mut good = bench.open(SessionId(2));
    let start = Instant::now();
    let threads = flood(flooding.stream);
    for _ in 0..50 {
        good.send("whoami", "{}");
        let asked = vault.asked();
        vault.done(asked.number, b"1");
        assert!(matches!(good.answer(), Answer::Done { .. }));
    }
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    // A burst of 256, then 64 a second: the law holds whenever one looks.
    let refused = |it: &&Decision| matches!(it, Decision::Refused { .. });
    let (count, elapsed) = loop {
        let count = bench.records().iter().filter(refused).count();
        let elapsed = start.elapsed();
        if count >= 300 {
            break (count, elapsed);
        }
        assert!(elapsed < PATIENCE, "{count} refusals after {elapsed:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let most = 256.0 + 64.0 * elapsed.as_secs_f64() + 2.0;
    assert!((count as f64) < most, "{count} refusals after {elapsed:?}");
    bench.end();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_front_that_floods_with_long_arguments_is_slowed_by_their_bytes() {
    let mut bench = Bench::start();
    let mut front = bench.open(SESSION);
    // Refused at its first byte, so that the time is the pace's and not the parser's.
    let long = "!".repeat(ARGUMENTS_CAP);
    let start = Instant::now();
    // A burst of 256 times 4 KiB is four of these; each other takes a second.
    for _ in 0..7 {
        assert_eq!(front.refused("whoami", &long).0, "arguments");
    }
    let elapsed = start.elapsed();
    assert!(elapsed > Duration::from_millis(1_900), "{elapsed:?}");
}

#[test]
fn a_result_over_the_cap_is_not_released() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.open(SESSION);
    for (tool, arguments) in [
        ("read_note", "{\"id\":\"n1\"}".into()),
        ("send_message", message("x")),
    ] {
        front.send(tool, &arguments);
        let asked = vault.asked();
        vault.done(asked.number, &vec![b'1'; RESULT_CAP + 1]);
        let Answer::Failed { why, in_doubt, .. } = front.answer() else {
            panic!("not failed")
        };
        assert!(why.contains("1048577"), "{why}");
        // It happened, whatever repeating it would do.
        assert!(in_doubt);
        assert!(matches!(
            bench.records().last(),
            Some(Decision::Failed { .. })
        ));
    }
    // At the cap it is.
    front.send("whoami", "{}");
    let asked = vault.asked();
    vault.done(asked.number, &vec![b'1'; RESULT_CAP]);
    assert!(matches!(front.answer(), Answer::Done { result, .. } if result.len() == RESULT_CAP));
}

#[test]
fn the_longest_arguments_and_names_are_answered_and_recorded() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.open(SESSION);
    let open = "{\"a\":\"";
    let text = |len: usize| format!("{open}{}\"}}", "x".repeat(len - open.len() - 2));
    assert_eq!(front.refused("whoami", &text(ARGUMENTS_CAP)).0, "arguments");
    assert_eq!(
        front.refused("whoami", &text(ARGUMENTS_CAP + 1)).0,
        "arguments"
    );
    // A name that would be six times as long in a record.
    let name = "\u{1}".repeat(ARGUMENTS_CAP);
    assert_eq!(front.refused(&name, "{}").0, "unknown_tool");
    assert_eq!(front.refused("\0", "{}").0, "unknown_tool");
    let records = bench.records();
    let refused = |it: &&Decision| matches!(it, Decision::Refused { .. });
    assert_eq!(records.iter().filter(refused).count(), 4);
    front.send("whoami", "{}");
    assert_eq!(vault.asked().permit.session(), SESSION);
}
