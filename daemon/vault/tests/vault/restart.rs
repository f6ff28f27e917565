//! Ends and beginnings: nothing is performed twice, nothing in doubt is hidden.

use std::time::Duration;

use custody_wire::permit::{Answer, Request};
use gate::record::{Effect, Outcome};

use crate::{
    harness::{run, yes},
    server::Step,
};

#[test]
fn a_permit_of_an_earlier_run_is_refused() {
    run(yes, async |mut bench| {
        let kept = bench.send("hello");
        let spent = bench.send("once");
        assert!(matches!(bench.ask(&spent).await, Answer::Done { .. }));
        let audience = bench.gate.audience;
        bench.restart().await;
        assert_eq!(bench.gate.audience, audience, "the key stays");
        for wish in [&kept, &spent] {
            let why = bench.refused(wish).await;
            assert!(why.contains("another run of the vault"), "{why}");
        }
        assert!(matches!(
            bench.ask(&bench.send("new")).await,
            Answer::Done { .. }
        ));
        assert_eq!(bench.server.received().len(), 2);
    });
}

#[test]
fn an_effect_that_a_crash_interrupted_is_named_in_doubt_once_and_not_repeated() {
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
            assert!(matches!(
                bench.ask(&bench.send("before")).await,
                Answer::Done { .. }
            ));
            let wish = bench.send("slow");
            let signed = wish.signed(&bench.gate.key);
            bench.gate.say(&Request::Durable { position: 1 }).await;
            bench.gate.perform(signed, wish.call.clone()).await;
            bench
                .until(|bench| bench.server.received().len() == 2)
                .await;
            let (intent, Effect::Intent { .. }) = bench.chain().pop().unwrap() else {
                panic!()
            };
            bench.restart().await;
            let chain = bench.chain();
            let doubts: Vec<_> = chain
                .iter()
                .filter_map(|(_place, line)| match line {
                    Effect::Receipt {
                        effect,
                        intent,
                        outcome: Outcome::InDoubt { .. },
                        ..
                    } => Some((effect.call.to_string(), *intent)),
                    _ => None,
                })
                .collect();
            let call = wish.permit["call"].as_str().unwrap().to_owned();
            assert_eq!(doubts, [(call, Some(intent))]);
            // A second restart finds nothing more to say.
            let before = bench.chain().len();
            bench.restart().await;
            assert_eq!(
                bench.chain().len(),
                before + 1,
                "only the line of the start"
            );
            assert_eq!(bench.server.received().len(), 2, "nothing was repeated");
        },
    );
}

#[test]
fn half_a_line_at_the_end_is_dropped_and_the_chain_goes_on() {
    run(yes, async |mut bench| {
        assert!(matches!(
            bench.ask(&bench.send("one")).await,
            Answer::Done { .. }
        ));
        let lines = bench.chain().len();
        let file = bench.receipts().join("000001.jsonl");
        let mut text = std::fs::read(&file).unwrap();
        text.extend_from_slice(b"{\"body\":{\"receipt\":{");
        bench.crash();
        std::fs::write(&file, text).unwrap();
        bench.begin().await;
        assert!(matches!(
            bench.ask(&bench.send("two")).await,
            Answer::Done { .. }
        ));
        // A start, an intent and a receipt behind the old ones.
        assert_eq!(bench.chain().len(), lines + 3);
    });
}

#[test]
fn a_chain_that_was_changed_stops_the_start() {
    run(yes, async |mut bench| {
        assert!(matches!(
            bench.ask(&bench.send("one")).await,
            Answer::Done { .. }
        ));
        // A later checkpoint says that it is on disk: no power cut explains what is changed here.
        assert!(matches!(
            bench.ask(&bench.send("two")).await,
            Answer::Done { .. }
        ));
        tokio::time::sleep(Duration::from_millis(100)).await;
        let file = bench.receipts().join("000001.jsonl");
        let text = std::fs::read_to_string(&file).unwrap();
        bench.crash();
        let changed = text.replacen("\"status\":200", "\"status\":201", 1);
        std::fs::write(&file, changed).unwrap();
        let error = bench.fails_to_begin();
        assert!(
            error.to_string().contains("receipts cannot be opened"),
            "{error}"
        );
    });
}

#[test]
fn the_vault_ends_with_custodyd() {
    run(yes, async |mut bench| {
        assert!(matches!(
            bench.ask(&bench.send("one")).await,
            Answer::Done { .. }
        ));
        bench.close().unwrap();
    });
}

#[test]
fn a_folder_of_policies_that_others_can_write_stops_the_start() {
    use std::os::unix::fs::PermissionsExt as _;

    run(yes, async |mut bench| {
        bench.crash();
        let mode = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(bench.policies(), mode).unwrap();
        let error = bench.fails_to_begin();
        assert!(error.to_string().contains("policies"), "{error}");
    });
}
