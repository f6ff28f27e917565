//! Leases: a body that is handed on as it comes, and everything that ends it.

use std::time::{Duration, Instant};

use custody_wire::{
    permit::{Answer, Request},
    revoke::Revoked,
    supervise::VaultNotice,
};
use gate::{
    digest::Running,
    id::CredentialLabel,
    record::{Effect, Ended, Outcome, Streamed},
};
use serde_json::json;
use tokio::{io::AsyncReadExt as _, net::UnixStream, time::timeout};

use crate::{
    harness::{Bench, SECRET, SESSION, run},
    server::{Received, Step},
};

/// How long nothing may come over a stream that goes on.
const PATIENCE: Duration = Duration::from_secs(5);

fn head(length: usize) -> Step {
    Step::Send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into_bytes())
}

/// A long body, in pieces with a pause behind each.
fn drip(_request: &Received) -> Vec<Step> {
    let mut steps = vec![head(10_000_000)];
    for _ in 0..1_000 {
        steps.push(Step::Send(vec![b'.'; 1_000]));
        steps.push(Step::Wait(Duration::from_millis(2)));
    }
    steps
}

async fn whole(mut stream: UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .unwrap()
        .unwrap();
    bytes
}

async fn some(stream: &mut UnixStream) -> usize {
    let mut bytes = [0; 4_096];
    timeout(PATIENCE, stream.read(&mut bytes))
        .await
        .unwrap()
        .unwrap()
}

async fn over(bench: &mut Bench) -> Streamed {
    match bench.gate.answer().await {
        Answer::Streamed { stream, .. } => stream,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lease_hands_on_what_came_before_the_rest_is_there_and_its_receipt_says_what() {
    let body = |_: &Received| {
        vec![
            head(2_000),
            Step::Send(vec![b'a'; 1_000]),
            Step::Wait(Duration::from_millis(300)),
            Step::Send(vec![b'b'; 1_000]),
        ]
    };
    run(body, async |mut bench| {
        let wish = bench.follow("log");
        let before = Instant::now();
        let mut stream = bench.lease(&wish).await;
        assert!(some(&mut stream).await > 0);
        assert!(
            before.elapsed() < Duration::from_millis(250),
            "not before the end"
        );
        let mut rest = whole(stream).await;
        rest.truncate(2_000);
        let ended = bench.gate.answer().await;
        let Answer::Streamed {
            receipt, stream, ..
        } = ended
        else {
            panic!("{ended:?}")
        };
        let mut sum = Running::default();
        sum.update(&[vec![b'a'; 1_000], vec![b'b'; 1_000]].concat());
        assert_eq!(
            stream,
            Streamed {
                bytes: 2_000,
                ended: Ended::Whole,
                scrubbed: 0,
                sha256: sum.so_far(),
                status: 200,
            }
        );
        // Its intent came first, and its receipt names it and the decision.
        let chain = bench.chain();
        let [
            (_, Effect::Started { .. }),
            (intent, Effect::Intent { call: None, .. }),
            (
                place,
                Effect::Receipt {
                    effect,
                    intent: named,
                    outcome,
                    ..
                },
            ),
        ] = chain.as_slice()
        else {
            panic!("{chain:?}")
        };
        assert_eq!((*named, place.digest), (Some(*intent), receipt));
        assert_eq!(effect.decision.position, 1);
        assert_eq!(*outcome, Outcome::Streamed(stream));
        // The connection is kept, and the worker performs on.
        assert!(matches!(
            bench.ask(&bench.send("x")).await,
            Answer::Done { .. } | Answer::Failed { .. }
        ));
    });
}

#[test]
fn no_permit_but_the_right_lease_opens_a_stream_and_it_does_once() {
    run(drip, async |mut bench| {
        let good = bench.follow("log");
        let lease = |key: &str, value: serde_json::Value| {
            let mut lease = good.permit["lease"].clone();
            lease[key] = value;
            good.with("lease", lease)
        };
        let mut effect = good.clone();
        drop(effect.permit.as_object_mut().unwrap().remove("lease"));
        for (what, wish) in [
            ("an effect's permit", effect),
            ("more bytes", lease("bytes", json!(100_001))),
            ("fewer bytes", lease("bytes", json!(99_999))),
            ("more time", lease("ms", json!(2_001))),
            ("another port", lease("origin", json!("http://127.0.0.1:1"))),
            (
                "a lease of what is no stream",
                bench.send("x").with("lease", good.permit["lease"].clone()),
            ),
        ] {
            let fresh = wish.with("nonce", crate::harness::hex(&rand()));
            let why = bench.refused(&fresh).await;
            assert!(why.contains("is no lease of tool"), "{what}: {why}");
        }
        // Another head than the one that it binds.
        let mut other = good.with("nonce", crate::harness::hex(&rand()));
        other.call = bench.follow("another").call;
        let why = bench.refused(&other).await;
        assert!(why.contains("not the one that the permit binds"), "{why}");
        let unknown = good.with("lease", json!({ "bytes": 1 }));
        let why = bench.refused(&unknown).await;
        assert!(why.contains("cannot be read"), "{why}");

        let stream = bench.lease(&good).await;
        let again = bench.ask(&good).await;
        let Answer::Refused { why, .. } = again else {
            panic!("{again:?}")
        };
        assert!(why.contains("used before"), "{why}");
        drop(stream);
        assert_eq!(over(&mut bench).await.ended, Ended::Reader);
        assert_eq!(bench.server.received().len(), 1);
    });
}

fn rand() -> [u8; 16] {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).unwrap();
    nonce
}

#[test]
fn the_credential_does_not_come_over_a_stream_wherever_it_is_cut() {
    let echo = |request: &Received| {
        let sent = request.field("authorization").unwrap_or("").to_owned();
        let (one, two) = sent.split_at(sent.len() / 2);
        let before = vec![b'.'; 600];
        vec![
            head(1_200 + sent.len()),
            Step::Send([before.as_slice(), one.as_bytes()].concat()),
            Step::Wait(Duration::from_millis(20)),
            Step::Send([two.as_bytes(), before.as_slice()].concat()),
        ]
    };
    run(echo, async |mut bench| {
        let stream = bench.lease(&bench.follow("log")).await;
        let seen = String::from_utf8(whole(stream).await).unwrap();
        assert!(
            !seen.contains(SECRET) && seen.contains("[credential]"),
            "{seen}"
        );
        let said = over(&mut bench).await;
        assert_eq!((said.ended, said.scrubbed), (Ended::Whole, 1));
    });
    // Cut by its size in the middle of the credential: nothing of what was kept back comes.
    let long = |request: &Received| {
        let sent = request.field("authorization").unwrap_or("").to_owned();
        let filler = vec![b'.'; 100_000 - SECRET.len() + 3];
        vec![
            head(200_000),
            Step::Send([filler, sent.into_bytes(), vec![b'.'; 50_000]].concat()),
        ]
    };
    run(long, async |mut bench| {
        let stream = bench.lease(&bench.follow("log")).await;
        let seen = String::from_utf8(whole(stream).await).unwrap();
        assert!(!seen.contains(SECRET.get(..4).unwrap()), "{}", seen.len());
        assert!(seen.bytes().all(|byte| byte == b'.'));
        let said = over(&mut bench).await;
        assert_eq!(said.ended, Ended::Size);
        assert_eq!(said.bytes, u64::try_from(seen.len()).unwrap());
    });
}

#[test]
fn a_stream_ends_with_its_time_its_size_its_server_and_its_reader() {
    run(drip, async |mut bench| {
        // More than a hundred thousand bytes come in less than two seconds.
        let stream = bench.lease(&bench.follow("log")).await;
        let seen = whole(stream).await;
        assert!(seen.len() <= 100_000);
        assert_eq!(over(&mut bench).await.ended, Ended::Size);

        // A reader that does not read is waited for as long as the lease lasts, and no longer.
        let before = Instant::now();
        let stalled = bench.lease(&bench.follow("log")).await;
        let said = over(&mut bench).await;
        drop(stalled);
        // What fits the socket's buffer went over.
        assert!(matches!(said.ended, Ended::Time | Ended::Size), "{said:?}");
        assert!(before.elapsed() < Duration::from_secs(4));

        let mut leaves = bench.lease(&bench.follow("log")).await;
        assert!(some(&mut leaves).await > 0);
        drop(leaves);
        let before = Instant::now();
        assert_eq!(over(&mut bench).await.ended, Ended::Reader);
        assert!(before.elapsed() < Duration::from_millis(900));
    });
    let breaks = |_: &Received| vec![head(1_000), Step::Send(vec![b'x'; 900]), Step::Close];
    run(breaks, async |mut bench| {
        let stream = bench.lease(&bench.follow("log")).await;
        let seen = whole(stream).await;
        assert!(seen.len() < 900, "what is kept back is dropped");
        let said = over(&mut bench).await;
        assert!(matches!(said.ended, Ended::Server { .. }), "{said:?}");
    });
    let silent = |_: &Received| vec![head(1_000), Step::Wait(Duration::from_secs(60))];
    run(silent, async |mut bench| {
        let stream = bench.lease(&bench.follow("log")).await;
        assert!(whole(stream).await.is_empty());
        assert_eq!(over(&mut bench).await.ended, Ended::Time);
    });
    // Before there is a head, it fails as every call does.
    let closes = |_: &Received| vec![Step::Close];
    run(closes, async |mut bench| {
        let answer = bench.ask(&bench.follow("log")).await;
        assert!(
            matches!(answer, Answer::Failed { in_doubt: true, .. }),
            "{answer:?}"
        );
    });
}

/// Reads on while `cut` is done; how long after it the last byte came, and how it ended.
async fn last_byte(bench: &mut Bench, cut: impl AsyncFnOnce(&mut Bench)) -> (Duration, Answer) {
    let mut stream = bench.lease(&bench.follow("log")).await;
    assert!(some(&mut stream).await > 0);
    let reader = tokio::task::spawn_local(async move {
        let mut last = Instant::now();
        while some(&mut stream).await > 0 {
            last = Instant::now();
        }
        last
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let before = Instant::now();
    cut(bench).await;
    let ended = bench.gate.answer().await;
    let last = reader.await.unwrap().saturating_duration_since(before);
    println!("last byte {} ms after", last.as_millis());
    (last, ended)
}

#[test]
fn what_is_taken_back_or_dies_cuts_a_stream_within_a_tenth_of_a_second() {
    let bound = Duration::from_millis(100);
    let api = || CredentialLabel::parse("api").unwrap();
    run(drip, async |mut bench| {
        let (last, ended) = last_byte(&mut bench, async |bench| {
            let notice = VaultNotice::Revoked(Revoked::Credential(api()));
            bench.notice(&notice, &[]);
        })
        .await;
        assert!(last < bound, "{last:?}");
        let Answer::Streamed { stream, .. } = ended else {
            panic!("{ended:?}")
        };
        assert!(
            matches!(&stream.ended, Ended::Cut { why } if why.as_str().contains("revoked")),
            "{stream:?}"
        );
        // Its worker was killed, and what it had said stands in the receipt.
        assert!(stream.bytes > 0);
        let why = bench.refused(&bench.follow("again")).await;
        assert!(why.contains("revoked"), "{why}");
    });
    run(drip, async |mut bench| {
        let (last, ended) = last_byte(&mut bench, async |bench| {
            bench.notice(&VaultNotice::Ended { session: SESSION }, &[]);
        })
        .await;
        assert!(last < bound, "{last:?}");
        let Answer::Streamed { stream, .. } = ended else {
            panic!("{ended:?}")
        };
        assert!(matches!(stream.ended, Ended::Cut { .. }), "{stream:?}");
    });
    run(drip, async |mut bench| {
        let (last, ended) = last_byte(&mut bench, async |bench| bench.kill_workers()).await;
        assert!(last < bound, "{last:?}");
        let Answer::Streamed { stream, .. } = ended else {
            panic!("{ended:?}")
        };
        assert!(matches!(stream.ended, Ended::Cut { .. }), "{stream:?}");
        // Another one is started for the next.
        let stream = bench.lease(&bench.follow("again")).await;
        drop(stream);
    });
}

#[test]
fn a_gate_that_goes_away_takes_its_streams_with_it() {
    run(drip, async |mut bench| {
        let mut stream = bench.lease(&bench.follow("log")).await;
        assert!(some(&mut stream).await > 0);
        let before = Instant::now();
        let _other = bench.other_gate().await;
        while some(&mut stream).await > 0 {}
        assert!(
            before.elapsed() < Duration::from_millis(200),
            "{:?}",
            before.elapsed()
        );
        bench.until(|bench| bench.outcomes().len() == 1).await;
        let outcomes = bench.outcomes();
        let [Outcome::Streamed(said)] = outcomes.as_slice() else {
            panic!("{outcomes:?}")
        };
        assert!(
            matches!(&said.ended, Ended::Cut { why } if why.as_str().contains("the gate")),
            "{said:?}"
        );
    });
}

#[test]
fn a_vault_that_dies_in_mid_stream_says_at_its_next_start_that_nobody_knows_what_came() {
    run(drip, async |mut bench| {
        let mut stream = bench.lease(&bench.follow("log")).await;
        assert!(some(&mut stream).await > 0);
        let before = Instant::now();
        bench.crash();
        while some(&mut stream).await > 0 {}
        assert!(
            before.elapsed() < Duration::from_millis(500),
            "{:?}",
            before.elapsed()
        );
        bench.begin().await;
        let chain = bench.chain();
        let Some((
            _,
            Effect::Receipt {
                intent, outcome, ..
            },
        )) = chain
            .iter()
            .find(|(_, line)| matches!(line, Effect::Receipt { .. }))
        else {
            panic!("{chain:?}")
        };
        assert!(
            intent.is_some() && matches!(outcome, Outcome::InDoubt { .. }),
            "{outcome:?}"
        );
    });
}

#[test]
fn streams_have_places_of_their_own_and_keep_no_call_waiting() {
    run(
        |request| {
            if request.head.starts_with("POST") {
                crate::harness::yes(request)
            } else {
                drip(request)
            }
        },
        async |mut bench| {
            let mut held = Vec::new();
            for n in 0..4 {
                held.push(bench.lease(&bench.follow(&n.to_string())).await);
            }
            let why = bench.refused(&bench.follow("5")).await;
            assert!(why.contains("4 streams open"), "{why}");
            let answer = bench.ask(&bench.send("beside")).await;
            assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
            drop(held.pop());
            assert_eq!(over(&mut bench).await.ended, Ended::Reader);
            let fifth = bench.follow("6");
            let _stream = bench.lease(&fifth).await;
            bench.gate.say(&Request::Durable { position: 2 }).await;
        },
    );
}
