//! From an accepted permit to its receipt: the floor, durability, and what the server answers.

use std::{sync::mpsc, time::Duration};

use custody_wire::{
    permit::{Answer, Request},
    supervise::VaultNotice,
};
use gate::{
    call::Call,
    id::CredentialLabel,
    record::{Effect, Outcome},
};

use crate::{
    harness::{Bench, SECRET, SESSION, holds, run, secret_file, yes},
    server::{Step, answer},
};

/// A permit of a gate that lies: signed, for a call that no honest gate would allow.
async fn lie(bench: &mut Bench, tool: &str, arguments: serde_json::Value) -> String {
    let wish = bench.wish(tool, arguments);
    bench.refused(&wish).await
}

#[test]
fn a_gate_that_lies_does_not_leave_the_floor() {
    run(yes, async |mut bench| {
        for id in [
            "..",
            ".",
            "",
            "a/b",
            "../admin",
            "..%2fadmin",
            "%2e%2e",
            "a%2fb",
            "a\\b",
            "a\r\nb",
            "a\n",
            "a\tb",
            "\u{7f}",
            "a%00b",
        ] {
            let why = lie(&mut bench, "read", serde_json::json!({ "id": id })).await;
            assert!(why.contains("segment"), "{id:?}: {why}");
        }
        for note in ["a\r\nhost: evil.example", "a\nb", "é", " a", "a "] {
            let arguments = serde_json::json!({ "text": "hello", "note": note });
            let why = lie(&mut bench, "send", arguments).await;
            assert!(why.contains("header"), "{note:?}: {why}");
        }
        for arguments in [
            serde_json::json!({}),
            serde_json::json!({ "text": 1 }),
            serde_json::json!({ "text": "x".repeat(101) }),
            serde_json::json!({ "text": "a", "host": "evil.example" }),
            serde_json::json!({ "text": "a", "authorization": "Bearer other" }),
        ] {
            let why = lie(&mut bench, "send", arguments.clone()).await;
            assert!(why.contains('`'), "{arguments}: {why}");
        }
        let why = lie(&mut bench, "wipe", serde_json::json!({})).await;
        assert!(why.contains("no tool `wipe`"), "{why}");
        assert_eq!(bench.starts(), 0, "no worker was even started");
        // What is odd and stays one segment goes there encoded.
        let wish = bench.wish("read", serde_json::json!({ "id": "a b?c#d&e=f" }));
        assert!(matches!(bench.ask(&wish).await, Answer::Done { .. }));
        let received = bench.server.received();
        assert!(
            received[0]
                .head
                .starts_with("GET /v1/notes/a%20b%3Fc%23d%26e%3Df HTTP/1.1\r\n"),
            "{}",
            received[0].head
        );
    });
}

#[test]
fn a_request_that_no_worker_takes_is_refused_before_anything_is_started() {
    run(yes, async |mut bench| {
        // Each byte becomes three of the path: the call is within its cap, the request is not.
        let wish = bench.wish("read", serde_json::json!({ "id": "🦀".repeat(60_000) }));
        let why = bench.refused(&wish).await;
        let cap = <custody_wire::perform::Request as custody_wire::Message>::CAP;
        assert!(
            why.contains("a message has 720") && why.contains(&cap.to_string()),
            "{why}"
        );
        assert_eq!(bench.starts(), 0);
        assert!(matches!(bench.outcomes()[..], [Outcome::Refused { .. }]));
        let wish = bench.wish("read", serde_json::json!({ "id": "1" }));
        assert!(matches!(bench.ask(&wish).await, Answer::Done { .. }));
    });
}

#[test]
fn an_effect_waits_for_the_gates_record_and_its_own_intent() {
    run(yes, async |mut bench| {
        let wish = bench.send("hello").with("position", 5);
        let signed = wish.signed(&bench.gate.key);
        bench.gate.say(&Request::Durable { position: 4 }).await;
        bench.gate.perform(signed, wish.call.clone()).await;
        bench.gate.hears_nothing().await;
        assert_eq!(bench.server.received().len(), 0);
        assert_eq!(bench.intents(), 0);
        bench.gate.say(&Request::Durable { position: 6 }).await;
        assert!(matches!(bench.gate.answer().await, Answer::Done { .. }));
        assert_eq!(bench.intents(), 1);
        // Back is not possible: position 5 stays on disk.
        bench.gate.say(&Request::Durable { position: 1 }).await;
        let wish = bench.send("again").with("position", 6);
        let signed = wish.signed(&bench.gate.key);
        bench.gate.perform(signed, wish.call).await;
        assert!(matches!(bench.gate.answer().await, Answer::Done { .. }));
    });
}

#[test]
fn a_record_that_never_reaches_the_disk_ends_in_a_refusal() {
    run(yes, async |mut bench| {
        let wish = bench.send("hello").with("position", 5);
        let signed = wish.signed(&bench.gate.key);
        bench.gate.perform(signed, wish.call).await;
        let answer = bench.gate.answer().await;
        let Answer::Refused { why, .. } = answer else {
            panic!("{answer:?}")
        };
        assert!(why.contains("did not reach the disk"), "{why}");
        assert_eq!(bench.server.received().len(), 0);
        assert!(matches!(bench.outcomes()[..], [Outcome::Refused { .. }]));
    });
}

#[test]
fn an_idempotent_effect_waits_for_nobody_and_has_no_intent() {
    run(yes, async |mut bench| {
        let wish = bench
            .wish("read", serde_json::json!({ "id": "1" }))
            .with("position", 99);
        let signed = wish.signed(&bench.gate.key);
        bench.gate.perform(signed, wish.call).await;
        assert!(matches!(bench.gate.answer().await, Answer::Done { .. }));
        assert_eq!(bench.intents(), 0);
        assert!(matches!(bench.outcomes()[..], [Outcome::Done { .. }]));
    });
}

#[test]
fn an_echo_of_the_credential_comes_back_scrubbed_and_is_nowhere_on_disk() {
    run(
        |request| {
            let echo = request.field("authorization").unwrap().to_owned();
            let base64 = "ZmFrZS10b2tlbi1mb3ItdGVzdHM=";
            let body = format!("{{\"you\":\"{echo}\",\"b\":\"{base64}\"}}");
            answer(
                "401 Unauthorized",
                &[("x-echo", &echo), ("content-type", "text/plain")],
                body.as_bytes(),
            )
        },
        async |mut bench| {
            let answer = bench.ask(&bench.send("hello")).await;
            let Answer::Done { result, status, .. } = answer else {
                panic!("{answer:?}")
            };
            assert_eq!(status, 401);
            assert_eq!(
                String::from_utf8(result).unwrap(),
                "{\"you\":\"Bearer [credential]\",\"b\":\"[credential]=\"}"
            );
            let [Outcome::Done { scrubbed, .. }] = bench.outcomes()[..] else {
                panic!()
            };
            assert_eq!(scrubbed, 2);
            assert!(!holds(&bench.receipts(), SECRET));
            assert!(bench.server.received()[0].head.contains(SECRET));
        },
    );
}

#[test]
fn a_redirect_is_an_answer_with_its_status() {
    run(
        |_| answer("302 Found", &[("location", "http://evil.example/")], b""),
        async |mut bench| {
            let answer = bench.ask(&bench.send("hello")).await;
            assert!(
                matches!(answer, Answer::Done { status: 302, .. }),
                "{answer:?}"
            );
            assert_eq!(bench.server.received().len(), 1);
        },
    );
}

#[test]
fn an_answer_over_the_cap_leaves_the_effect_in_doubt() {
    run(
        |_| answer("200 OK", &[], &[b'x'; 5000]),
        async |mut bench| in_doubt(&mut bench, "more than 4096 bytes").await,
    );
}

#[test]
fn a_server_that_stalls_leaves_the_effect_in_doubt() {
    run(
        |_| vec![Step::Wait(Duration::from_secs(60))],
        async |mut bench| in_doubt(&mut bench, "within 1000 ms").await,
    );
}

async fn in_doubt(bench: &mut Bench, reason: &str) {
    let answer = bench.ask(&bench.send("hello")).await;
    let Answer::Failed { why, in_doubt, .. } = answer else {
        panic!("{answer:?}")
    };
    assert!(in_doubt && why.contains(reason), "{why}");
    assert!(matches!(bench.outcomes()[..], [Outcome::InDoubt { .. }]));
    assert_eq!(bench.server.received().len(), 1);
}

#[test]
fn the_receipt_is_in_the_chain_before_the_answer_is_out() {
    run(yes, async |mut bench| {
        for text in 0..20 {
            let answer = bench.ask(&bench.send(&text.to_string())).await;
            let Answer::Done { receipt, .. } = answer else {
                panic!("{answer:?}")
            };
            let (place, _line) = bench.chain().pop().unwrap();
            assert_eq!(place.digest, receipt);
        }
    });
}

#[test]
fn the_intent_is_on_disk_before_the_server_sees_anything() {
    let (told, tells) = mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let tells = std::sync::Mutex::new(tells);
    let (ready, waits) = mpsc::channel::<std::path::PathBuf>();
    let waits = std::sync::Mutex::new(waits);
    run(
        move |request| {
            let folder = waits.lock().unwrap().recv().unwrap();
            let text = std::fs::read_to_string(folder.join("000001.jsonl")).unwrap();
            told.lock().unwrap().send(text).unwrap();
            yes(request)
        },
        async |mut bench| {
            let wish = bench.send("hello");
            ready.send(bench.receipts()).unwrap();
            assert!(matches!(bench.ask(&wish).await, Answer::Done { .. }));
            let then = tells.lock().unwrap().recv().unwrap();
            let digest = Call::digest_of(&wish.call).to_string();
            assert!(
                then.contains("\"intent\"") && then.contains(&digest),
                "{then}"
            );
            assert!(!then.contains("\"receipt\""), "{then}");
        },
    );
}

/// Property A: a permit is used once, whatever ends in between; that rests on an intent that is there after a
/// power cut too.
#[test]
fn a_request_waits_until_its_intent_is_signed_and_on_disk() {
    let (told, tells) = mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let (ready, waits) = mpsc::channel::<std::path::PathBuf>();
    let waits = std::sync::Mutex::new(waits);
    run(
        move |request| {
            let folder = waits.lock().unwrap().recv().unwrap();
            let text = std::fs::read_to_string(folder.join("000001.jsonl")).unwrap();
            told.lock().unwrap().send(text).unwrap();
            yes(request)
        },
        async |mut bench| {
            // What goes to disk is signed before: with the worker there, the next line comes at once.
            for n in 0..8 {
                let wish = bench.send(&format!("hello {n}"));
                ready.send(bench.receipts()).unwrap();
                assert!(matches!(bench.ask(&wish).await, Answer::Done { .. }));
                let then = tells.recv().unwrap();
                let last = then.lines().last().unwrap();
                assert!(last.contains("\"checkpoint\""), "{n}: {last}");
                let intents = then.matches("\"body\":{\"intent\"").count();
                assert_eq!(intents, n + 1, "{then}");
            }
        },
    );
}

#[test]
fn one_sessions_calls_are_limited_and_hold_up_no_other() {
    run(
        |request| {
            let mut steps = Vec::new();
            if request.body.windows(4).any(|it| it == b"slow") {
                steps.push(Step::Wait(Duration::from_millis(700)));
            }
            steps.extend(yes(request));
            steps
        },
        async |mut bench| {
            bench.open(gate::id::SessionId(9));
            bench.gate.say(&Request::Durable { position: 1 }).await;
            for nth in 0..20 {
                let wish = bench.send(&format!("slow {nth}"));
                let signed = wish.signed(&bench.gate.key);
                bench.gate.perform(signed, wish.call).await;
            }
            // Four of them have no place, at once.
            for _ in 0..4 {
                let answer = bench.gate.answer().await;
                let Answer::Refused { why, .. } = answer else {
                    panic!("{answer:?}")
                };
                assert!(why.contains("16 calls on their way"), "{why}");
            }
            let other = bench.send("quick").with("session", "0000000000000009");
            let signed = other.signed(&bench.gate.key);
            let number = bench.gate.perform(signed, other.call).await;
            let answer = bench.gate.answer().await;
            let Answer::Done { number: first, .. } = answer else {
                panic!("{answer:?}")
            };
            assert_eq!(first, number, "the other session did not wait");
            for _ in 0..16 {
                assert!(matches!(bench.gate.answer().await, Answer::Done { .. }));
            }
        },
    );
}

#[test]
fn an_unusable_or_missing_credential_says_so_and_a_new_one_is_used() {
    run(yes, async |mut bench| {
        let label = CredentialLabel::parse("api").unwrap();
        let notice = VaultNotice::Credential { label };
        bench.notice(&notice, &[&secret_file("short")]);
        let why = bench.refused(&bench.send("hello")).await;
        assert!(why.contains("fewer than 8 bytes"), "{why}");
        bench.notice(&notice, &[&secret_file("fake-token-number-two")]);
        assert!(matches!(
            bench.ask(&bench.send("hello")).await,
            Answer::Done { .. }
        ));
        // Replaced while a worker holds the old one.
        bench.notice(&notice, &[&secret_file("fake-token-number-three")]);
        assert!(matches!(
            bench.ask(&bench.send("again")).await,
            Answer::Done { .. }
        ));
        let sent: Vec<_> = bench
            .server
            .received()
            .iter()
            .map(|request| request.field("authorization").unwrap().to_owned())
            .collect();
        assert_eq!(
            sent,
            [
                "Bearer fake-token-number-two",
                "Bearer fake-token-number-three"
            ]
        );
    });
}

#[test]
fn a_session_that_ends_in_mid_call_leaves_the_effect_in_doubt() {
    run(
        |_| vec![Step::Wait(Duration::from_secs(60))],
        async |mut bench| {
            let wish = bench.send("hello");
            let signed = wish.signed(&bench.gate.key);
            bench.gate.say(&Request::Durable { position: 1 }).await;
            bench.gate.perform(signed, wish.call).await;
            bench
                .until(|bench| bench.server.received().len() == 1)
                .await;
            bench.notice(&VaultNotice::Ended { session: SESSION }, &[]);
            let answer = bench.gate.answer().await;
            let Answer::Failed { why, in_doubt, .. } = answer else {
                panic!("{answer:?}")
            };
            assert!(in_doubt && why.contains("session ended"), "{why}");
            assert!(matches!(bench.outcomes()[..], [Outcome::InDoubt { .. }]));
        },
    );
}

#[test]
fn a_session_that_ends_before_the_hand_over_sends_nothing() {
    run(yes, async |mut bench| {
        let wish = bench.send("hello").with("position", 9);
        let signed = wish.signed(&bench.gate.key);
        bench.gate.perform(signed, wish.call).await;
        bench.until(|bench| bench.starts() == 1).await;
        bench.notice(&VaultNotice::Ended { session: SESSION }, &[]);
        let answer = bench.gate.answer().await;
        assert!(
            matches!(
                answer,
                Answer::Failed {
                    in_doubt: false,
                    ..
                }
            ),
            "{answer:?}"
        );
        bench.gate.say(&Request::Durable { position: 9 }).await;
        bench.gate.hears_nothing().await;
        assert_eq!(bench.server.received().len(), 0);
        assert!(matches!(bench.outcomes()[..], [Outcome::Failed { .. }]));
    });
}

#[test]
fn a_permit_that_expires_before_the_hand_over_sends_nothing() {
    run(yes, async |mut bench| {
        // One that waits for its record, at the last moment and a moment too late.
        for (late, text) in [(false, "in time"), (true, "too late")] {
            let position = if late { 9 } else { 8 };
            let wish = bench.send(text).with("position", position);
            let signed = wish.signed(&bench.gate.key);
            bench.gate.perform(signed, wish.call).await;
            bench.gate.hears_nothing().await;
            let end = bench.clock.get() + 10_000_000_000;
            bench.clock.set(if late { end } else { end - 1 });
            bench.gate.say(&Request::Durable { position }).await;
            match bench.gate.answer().await {
                Answer::Done { .. } if !late => {}
                Answer::Refused { why, .. } if late => {
                    assert!(why.contains("the permit expired"), "{why}");
                }
                other => panic!("{late}: {other:?}"),
            }
        }
        assert_eq!(bench.server.received().len(), 1);
        assert!(matches!(
            bench.outcomes()[..],
            [Outcome::Done { .. }, Outcome::Refused { .. }]
        ));
    });
}

#[test]
fn a_gate_that_goes_before_the_hand_over_takes_its_calls_along() {
    run(yes, async |mut bench| {
        let wish = bench.send("hello").with("position", 9);
        let signed = wish.signed(&bench.gate.key);
        bench.gate.perform(signed, wish.call).await;
        bench.until(|bench| bench.starts() == 1).await;
        let mut earlier = bench.other_gate().await;
        earlier.is_closed().await;
        // What the new gate says of its own records says nothing of the old one's.
        bench.gate.say(&Request::Durable { position: 99 }).await;
        bench.until(|bench| bench.outcomes().len() == 1).await;
        assert!(matches!(bench.outcomes()[..], [Outcome::Refused { .. }]));
        assert_eq!(bench.server.received().len(), 0);
        bench.gate.hears_nothing().await;
    });
}

#[test]
fn an_answer_to_a_gate_that_is_gone_is_dropped_and_its_receipt_is_kept() {
    run(
        |request| {
            let mut steps = vec![Step::Wait(Duration::from_millis(300))];
            steps.extend(yes(request));
            steps
        },
        async |mut bench| {
            let wish = bench.send("hello");
            let signed = wish.signed(&bench.gate.key);
            bench.gate.say(&Request::Durable { position: 1 }).await;
            bench.gate.perform(signed, wish.call).await;
            bench
                .until(|bench| bench.server.received().len() == 1)
                .await;
            let mut earlier = bench.other_gate().await;
            earlier.is_closed().await;
            bench.until(|bench| bench.outcomes().len() == 1).await;
            bench.gate.hears_nothing().await;
            let chain = bench.chain();
            let (_place, Effect::Receipt { outcome, .. }) = chain.last().unwrap() else {
                panic!()
            };
            assert!(matches!(outcome, Outcome::Done { .. }));
        },
    );
}
