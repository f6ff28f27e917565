//! Exactly once, or known unknown: what a crash left open is read back, never performed again.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use custody_wire::permit::{Answer, Request};
use gate::record::{Effect, Finding, Outcome};

use crate::{
    harness::{Bench, Wish, run},
    server::{Received, Step, answer},
};

/// A server that keeps what it is told, or not, and never answers a payment.
#[derive(Clone, Default)]
struct Bank {
    keeps: Arc<AtomicBool>,
    down: Arc<AtomicBool>,
    paid: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Bank {
    fn new(keeps: bool) -> Self {
        let bank = Self::default();
        bank.keeps.store(keeps, Ordering::SeqCst);
        bank
    }

    fn act(&self) -> impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static {
        let bank = self.clone();
        move |request| {
            let target = request.head.split(' ').nth(1).unwrap();
            if request.head.starts_with("POST") {
                let order: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
                let reference = order["reference"].as_str().unwrap().to_owned();
                if bank.keeps.load(Ordering::SeqCst) {
                    *bank.paid.lock().unwrap().entry(reference).or_default() += 1;
                }
                return vec![Step::Wait(Duration::from_secs(60))];
            }
            if bank.down.load(Ordering::SeqCst) {
                return answer("503 Service Unavailable", &[], b"{}");
            }
            match bank
                .paid
                .lock()
                .unwrap()
                .get(target.rsplit('/').next().unwrap())
            {
                Some(_) => answer("200 OK", &[], b"{\"amount\":5}"),
                None => answer("404 Not Found", &[], b"{}"),
            }
        }
    }
}

fn wish(bench: &Bench, tool: &str, reference: &str) -> Wish {
    bench.wish(
        tool,
        serde_json::json!({ "amount": 5, "reference": reference }),
    )
}

/// Hands a payment over, and ends the vault when the server has it.
async fn crashed(bench: &mut Bench, tool: &str, reference: &str) {
    let wish = wish(bench, tool, reference);
    let signed = wish.signed(&bench.gate.key);
    bench.gate.say(&Request::Durable { position: 1 }).await;
    bench.gate.perform(signed, wish.call).await;
    bench.until(|bench| posts(bench) == 1).await;
    bench.crash();
}

fn posts(bench: &Bench) -> usize {
    let received = bench.server.received();
    received
        .iter()
        .filter(|it| it.head.starts_with("POST"))
        .count()
}

async fn outcome(bench: &Bench) -> Outcome {
    bench.until(|bench| bench.outcomes().len() == 1).await;
    let intents: Vec<_> = bench
        .chain()
        .into_iter()
        .filter_map(|(place, line)| matches!(line, Effect::Intent { .. }).then_some(place))
        .collect();
    let (_place, Effect::Receipt { intent, .. }) = bench.chain().pop().unwrap() else {
        panic!()
    };
    assert_eq!(intent.as_slice(), intents);
    bench.outcomes().pop().unwrap()
}

#[test]
fn an_effect_that_a_crash_interrupted_is_done_where_reading_back_shows_it() {
    let bank = Bank::new(true);
    run(bank.act(), async |mut bench| {
        crashed(&mut bench, "settled", "r1").await;
        bench.begin().await;
        let outcome = outcome(&bench).await;
        let Outcome::Found { verification, .. } = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(verification.finding, Finding::Verified);
        assert_eq!((posts(&bench), bank.paid.lock().unwrap()["r1"]), (1, 1));
        // Another start has nothing more to say.
        bench.restart().await;
        assert_eq!(bench.outcomes().len(), 1);
    });
}

#[test]
fn an_effect_that_is_not_there_when_it_would_show_is_not_done_and_elsewhere_in_doubt() {
    for (tool, settled) in [("settled", true), ("pay", false)] {
        run(Bank::new(false).act(), async |mut bench| {
            crashed(&mut bench, tool, "r1").await;
            bench.begin().await;
            let outcome = outcome(&bench).await;
            let (Outcome::NotFound { verification, .. } | Outcome::InDoubt { verification, .. }) =
                &outcome
            else {
                panic!("{outcome:?}")
            };
            assert_eq!(verification.finding, Finding::Mismatched);
            assert_eq!(
                matches!(outcome, Outcome::NotFound { .. }),
                settled,
                "{tool}"
            );
            assert_eq!(posts(&bench), 1, "nothing is performed again");
        });
    }
}

#[test]
fn what_cannot_be_read_back_yet_stays_open_over_a_second_crash() {
    let bank = Bank::new(true);
    run(bank.act(), async |mut bench| {
        crashed(&mut bench, "settled", "r1").await;
        bank.down.store(true, Ordering::SeqCst);
        bench.begin().await;
        bench.until(|bench| bench.server.received().len() > 2).await;
        assert_eq!(bench.outcomes().len(), 0);
        bench.crash();
        bank.down.store(false, Ordering::SeqCst);
        bench.begin().await;
        assert!(matches!(outcome(&bench).await, Outcome::Found { .. }));
        assert_eq!(posts(&bench), 1);
    });
}

#[test]
fn a_target_that_stays_away_leaves_the_effect_in_doubt_and_the_vault_serves_meanwhile() {
    let bank = Bank::new(true);
    run(bank.act(), async |mut bench| {
        crashed(&mut bench, "settled", "r1").await;
        bank.down.store(true, Ordering::SeqCst);
        bench.begin().await;
        let read = bench.wish("read", serde_json::json!({ "id": "x" }));
        assert!(matches!(bench.ask(&read).await, Answer::Done { .. }));
        bench.until(|bench| bench.outcomes().len() == 2).await;
        let Some(Outcome::InDoubt { verification, .. }) = bench.outcomes().pop() else {
            panic!()
        };
        assert_eq!(verification.finding, Finding::Unobservable);
    });
}

#[test]
fn what_is_in_doubt_is_asked_once_more_with_the_same_key_where_the_target_knows_it() {
    let seen: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let done = Arc::clone(&seen);
    run(
        move |request| {
            let key = request.field("idempotency-key").unwrap().to_owned();
            let mut done = done.lock().unwrap();
            let times = done.entry(key).or_default();
            *times += 1;
            if *times == 1 && request.body.windows(4).any(|it| it == b"lost") {
                return vec![Step::Close];
            }
            answer("200 OK", &[], b"{}")
        },
        async |mut bench| {
            for text in ["lost", "plain", "plain"] {
                let wish = bench.wish("keyed", serde_json::json!({ "text": text }));
                assert!(matches!(bench.ask(&wish).await, Answer::Done { .. }));
            }
            let times: Vec<u32> = seen.lock().unwrap().values().copied().collect();
            assert_eq!(times.iter().sum::<u32>(), 4, "one was asked twice");
            assert_eq!(times.len(), 3, "each intent has a key of its own");
            let keys: Vec<String> = seen.lock().unwrap().keys().cloned().collect();
            let intents = bench.chain().into_iter().filter_map(|(place, line)| {
                matches!(line, Effect::Intent { .. }).then(|| place.digest.to_string())
            });
            let mut intents: Vec<String> = intents.collect();
            intents.sort_unstable();
            assert_eq!(keys, intents, "it is the intent's digest");
        },
    );
}

#[test]
fn without_a_key_nothing_in_doubt_is_asked_again() {
    run(
        |_request| vec![Step::Close],
        async |mut bench| {
            let answer = bench.ask(&bench.send("hello")).await;
            assert!(matches!(answer, Answer::Failed { in_doubt: true, .. }));
            assert_eq!(bench.server.received().len(), 1);
            assert_eq!(bench.server.received()[0].field("idempotency-key"), None);
        },
    );
}
