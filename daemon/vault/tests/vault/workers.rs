//! Workers: where they may go, how they end, and what that means for a call.

use std::{net::SocketAddr, os::fd::OwnedFd, time::Duration};

use custody_wire::{frame, perform, permit::Answer, supervise::VaultOrder};
use gate::record::Outcome;

use crate::{
    harness::{Bench, SECRET, run, run_with_idle, take_credential, work, yes},
    server::{Step, answer},
};

fn egress(bench: &Bench) -> Vec<Vec<SocketAddr>> {
    let seen = bench.seen.lock().unwrap();
    let starts = seen.orders.iter().filter_map(|order| match order {
        VaultOrder::Start { egress, .. } => Some(egress.clone()),
        VaultOrder::Head(_)
        | VaultOrder::Locked { .. }
        | VaultOrder::Recover { .. }
        | VaultOrder::Stop { .. }
        | VaultOrder::Verify { .. } => None,
    });
    starts.collect()
}

#[test]
fn a_worker_gets_the_checked_addresses_and_serves_many_calls() {
    run(yes, async |mut bench| {
        for text in ["one", "two", "three"] {
            assert!(matches!(
                bench.ask(&bench.send(text)).await,
                Answer::Done { .. }
            ));
        }
        assert_eq!(egress(&bench), [vec![bench.server.address]]);
        // One connection for all three.
        assert!(bench.server.received().iter().all(|it| it.connection == 0));
    });
}

#[test]
fn a_name_that_leads_to_a_private_address_is_refused_before_any_worker() {
    run(yes, async |mut bench| {
        for found in [
            vec!["127.0.0.1"],
            vec!["10.0.0.1"],
            vec!["169.254.169.254"],
            vec!["::1"],
            vec!["::ffff:127.0.0.1"],
            vec!["fd00::1"],
            vec!["0.0.0.0"],
            // One among good ones is enough.
            vec!["93.184.216.34", "192.168.1.1"],
            vec![],
        ] {
            let addresses = found.iter().map(|it| it.parse().unwrap()).collect();
            let name = "api.example.test".to_owned();
            drop(bench.names.lock().unwrap().insert(name, addresses));
            let wish = bench.wish("far", serde_json::json!({}));
            let why = bench.refused(&wish).await;
            assert!(why.contains("`api.example.test`"), "{found:?}: {why}");
            assert!(matches!(
                bench.outcomes().pop(),
                Some(Outcome::Refused { .. })
            ));
        }
        assert_eq!(bench.starts(), 0);
        // The twin: a public address is taken, with the origin's port and no other.
        bench.seen.lock().unwrap().refuse = Some("not in this test".into());
        let name = "api.example.test".to_owned();
        let public = vec!["93.184.216.34".parse().unwrap()];
        drop(bench.names.lock().unwrap().insert(name, public));
        let answer = bench.ask(&bench.wish("far", serde_json::json!({}))).await;
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
        assert_eq!(egress(&bench), [vec!["93.184.216.34:443".parse().unwrap()]]);
    });
}

#[test]
fn a_worker_that_dies_in_mid_call_leaves_one_effect_in_doubt_and_none_is_repeated() {
    run(
        |request| {
            let mut steps = Vec::new();
            if request.body.windows(4).any(|it| it == b"slow") {
                steps.push(Step::Wait(Duration::from_secs(60)));
            }
            steps.extend(yes(request));
            steps
        },
        async |mut bench| {
            let wish = bench.send("slow");
            let signed = wish.signed(&bench.gate.key);
            let durable = custody_wire::permit::Request::Durable { position: 1 };
            bench.gate.say(&durable).await;
            bench.gate.perform(signed, wish.call).await;
            bench
                .until(|bench| bench.server.received().len() == 1)
                .await;
            bench.kill_workers();
            let answer = bench.gate.answer().await;
            let Answer::Failed { why, in_doubt, .. } = answer else {
                panic!("{answer:?}")
            };
            assert!(in_doubt && why.contains("worker ended"), "{why}");
            // The next call has a new worker; the one in doubt was not performed again.
            assert!(matches!(
                bench.ask(&bench.send("next")).await,
                Answer::Done { .. }
            ));
            let bodies: Vec<_> = bench
                .server
                .received()
                .into_iter()
                .map(|it| it.body)
                .collect();
            assert_eq!(
                bodies,
                [
                    b"{\"text\":\"slow\"}".to_vec(),
                    b"{\"text\":\"next\"}".to_vec()
                ]
            );
            assert_eq!(bench.starts(), 2);
            assert!(matches!(
                bench.outcomes()[..],
                [Outcome::InDoubt { .. }, Outcome::Done { .. }]
            ));
        },
    );
}

#[test]
fn a_worker_that_cannot_be_started_fails_the_call_and_sends_nothing() {
    run(yes, async |mut bench| {
        bench.seen.lock().unwrap().refuse = Some("no uid is left\0\n".into());
        let answer = bench.ask(&bench.send("hello")).await;
        let Answer::Failed { why, in_doubt, .. } = answer else {
            panic!("{answer:?}")
        };
        assert!(!in_doubt && why.contains("no uid is left"), "{why:?}");
        bench.seen.lock().unwrap().refuse = None;
        assert!(matches!(
            bench.ask(&bench.send("hello")).await,
            Answer::Done { .. }
        ));
    });
}

#[test]
fn an_idle_worker_is_ended_and_the_next_call_starts_another() {
    run_with_idle(Duration::from_millis(100), yes, async |mut bench| {
        assert!(matches!(
            bench.ask(&bench.send("one")).await,
            Answer::Done { .. }
        ));
        bench
            .until(|bench| {
                let seen = bench.seen.lock().unwrap();
                let stop = |order: &VaultOrder| matches!(order, VaultOrder::Stop { .. });
                seen.orders.iter().any(stop)
            })
            .await;
        assert!(matches!(
            bench.ask(&bench.send("two")).await,
            Answer::Done { .. }
        ));
        assert_eq!(bench.starts(), 2);
    });
}

#[test]
fn a_worker_that_a_call_has_found_is_not_ended_while_its_record_is_not_on_disk_yet() {
    run_with_idle(Duration::from_millis(30), yes, async |mut bench| {
        assert!(matches!(
            bench.ask(&bench.send("one")).await,
            Answer::Done { .. }
        ));
        // The second waits for its record, longer than a worker may be idle.
        let wish = bench.send("two").with("position", 2);
        let signed = wish.signed(&bench.gate.key);
        bench.gate.perform(signed, wish.call).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let durable = custody_wire::permit::Request::Durable { position: 2 };
        bench.gate.say(&durable).await;
        let answer = bench.gate.answer().await;
        assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
    });
}

#[test]
fn a_worker_is_not_ended_while_it_performs() {
    run_with_idle(
        Duration::from_millis(50),
        |request| {
            let mut steps = vec![Step::Wait(Duration::from_millis(500))];
            steps.extend(yes(request));
            steps
        },
        async |mut bench| {
            assert!(matches!(
                bench.ask(&bench.send("one")).await,
                Answer::Done { .. }
            ));
        },
    );
}

/// A worker that takes the credential and dies with it, before it says that it is ready.
fn dies_at_once(channel: OwnedFd) {
    let mut buffer = vec![0; 4096];
    drop(custody_sys::channel::recv(&channel, &mut buffer, 1).unwrap());
}

/// A worker that answers what it was not asked, and too much of it.
fn lies(channel: OwnedFd) {
    let (mut stream, secret) = take_credential(channel);
    assert_eq!(secret, SECRET.as_bytes());
    let asked: perform::Request = frame::read(&mut stream).unwrap();
    let perform::Request::Http { number, request } = asked else {
        panic!()
    };
    assert!(
        request
            .headers
            .iter()
            .all(|(_name, value)| !value.contains("fake"))
    );
    let done = |number, bytes| perform::Answer::Done {
        etag: None,
        span: (0, 0),
        number,
        status: 200,
        media_type: Some("a\r\nb".into()),
        body: vec![b'x'; bytes],
        scrubbed: u32::MAX,
    };
    let most = custody_wire::agent::RESULT_CAP;
    frame::write(&mut stream, &done(number + 1, most)).unwrap();
    // The answer, the answer again, and what is none come at once: whoever has read the first has the
    // others to read, however busy the machine is.
    let mut at_once = frame::frame(&done(number, 1)).unwrap();
    at_once.extend(frame::frame(&done(number, 1)).unwrap());
    at_once.extend(frame::frame(&perform::Answer::Ready).unwrap());
    std::io::Write::write_all(&mut stream, &at_once).unwrap();
    let _end = frame::read::<perform::Request>(&mut stream);
}

/// A worker that never answers.
fn is_silent(channel: OwnedFd) {
    let (mut stream, _secret) = take_credential(channel);
    while frame::read::<perform::Request>(&mut stream).is_ok() {}
}

#[test]
fn a_worker_that_dies_before_it_is_ready_sends_nothing() {
    run(yes, async |mut bench| {
        bench.seen.lock().unwrap().fake = Some(dies_at_once);
        let answer = bench.ask(&bench.send("hello")).await;
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
    });
}

#[test]
fn a_worker_that_lies_spoils_its_own_answer_alone() {
    run(yes, async |mut bench| {
        bench.seen.lock().unwrap().fake = Some(lies);
        let answer = bench.ask(&bench.send("hello")).await;
        let Answer::Done { media_type, .. } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(media_type, None);
        bench.seen.lock().unwrap().fake = None;
        // It broke the protocol behind its answer: the next call has another worker.
        assert!(matches!(
            bench.ask(&bench.send("next")).await,
            Answer::Done { .. }
        ));
        assert_eq!((bench.starts(), bench.server.received().len()), (2, 1));
    });
}

#[test]
fn a_worker_that_never_answers_is_given_up_and_replaced() {
    run(yes, async |mut bench| {
        bench.seen.lock().unwrap().fake = Some(is_silent);
        let answer = bench.ask(&bench.send("hello")).await;
        let Answer::Failed { why, in_doubt, .. } = answer else {
            panic!("{answer:?}")
        };
        assert!(in_doubt && why.contains("in time"), "{why}");
        bench.seen.lock().unwrap().fake = None;
        assert!(matches!(
            bench.ask(&bench.send("next")).await,
            Answer::Done { .. }
        ));
        assert_eq!(bench.starts(), 2);
    });
}

#[test]
fn what_a_server_says_in_an_error_is_one_plain_line() {
    run(
        |_| {
            vec![
                Step::Send(b"HTTP/9.9 \x1b[31m\0\r\n\r\n".to_vec()),
                Step::Close,
            ]
        },
        async |mut bench| {
            let answer = bench.ask(&bench.send("hello")).await;
            let Answer::Failed { why, in_doubt, .. } = answer else {
                panic!("{answer:?}")
            };
            assert!(in_doubt && !why.chars().any(char::is_control), "{why:?}");
        },
    );
    drop(answer("200 OK", &[], b""));
}

/// A worker that takes its time to start.
fn starts_slowly(channel: OwnedFd) {
    std::thread::sleep(Duration::from_millis(400));
    work(channel);
}

#[test]
fn a_gate_that_goes_while_a_worker_starts_takes_its_call_along() {
    run(yes, async |mut bench| {
        bench.seen.lock().unwrap().fake = Some(starts_slowly);
        // One that waits for no record: nothing but the gate's end stops it.
        let wish = bench.wish("read", serde_json::json!({ "id": "1" }));
        let signed = wish.signed(&bench.gate.key);
        bench.gate.perform(signed, wish.call).await;
        bench.until(|bench| bench.starts() == 1).await;
        drop(bench.other_gate().await);
        bench.until(|bench| bench.outcomes().len() == 1).await;
        assert!(matches!(bench.outcomes()[..], [Outcome::Refused { .. }]));
        assert_eq!(bench.server.received().len(), 0);
        // The twin: the gate that stays gets its answer from the same worker.
        let wish = bench.wish("read", serde_json::json!({ "id": "2" }));
        assert!(matches!(bench.ask(&wish).await, Answer::Done { .. }));
        assert_eq!(bench.starts(), 1);
    });
}
