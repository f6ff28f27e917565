//! Property F: what an operator took back is used no more, whatever was on its way.

use std::time::{Duration, Instant};

use custody_wire::{
    permit::{Answer, Request},
    revoke::Revoked,
    supervise::VaultNotice,
};
use gate::{
    id::{CredentialLabel, PolicyName, ToolName},
    record::Outcome,
};

use crate::{
    harness::{SESSION, run, secret_file, yes},
    server::Step,
};

fn api() -> CredentialLabel {
    CredentialLabel::parse("api").unwrap()
}

fn test() -> PolicyName {
    PolicyName::parse("test").unwrap()
}

#[test]
fn a_credential_that_is_revoked_in_mid_call_ends_the_call_at_once_and_no_file_brings_it_back() {
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
            let before = Instant::now();
            bench.notice(&VaultNotice::Revoked(Revoked::Credential(api())), &[]);
            let answer = bench.gate.answer().await;
            println!("answered {} ms after", before.elapsed().as_millis());
            assert!(before.elapsed() < Duration::from_millis(900));
            let Answer::Failed { why, in_doubt, .. } = answer else {
                panic!("{answer:?}")
            };
            assert!(in_doubt && why.contains("revoked"), "{why}");
            let notice = VaultNotice::Credential { label: api() };
            bench.notice(&notice, &[&secret_file("fake-token-number-two")]);
            let why = bench.refused(&bench.send("again")).await;
            assert!(why.contains("`api` is not usable: it was revoked"), "{why}");
        },
    );
}

#[test]
fn what_is_revoked_while_a_call_waits_for_its_record_is_not_sent() {
    for what in [
        Revoked::Credential(api()),
        Revoked::Policy(test()),
        Revoked::Session(SESSION),
    ] {
        run(yes, async |mut bench| {
            let wish = bench.send("hello").with("position", 9);
            let signed = wish.signed(&bench.gate.key);
            bench.gate.perform(signed, wish.call).await;
            bench.until(|bench| bench.starts() == 1).await;
            bench.notice(&VaultNotice::Revoked(what.clone()), &[]);
            bench.gate.say(&Request::Durable { position: 9 }).await;
            let answer = bench.gate.answer().await;
            let sent = matches!(
                answer,
                Answer::Done { .. } | Answer::Failed { in_doubt: true, .. }
            );
            assert!(!sent, "{what}: {answer:?}");
            assert_eq!(bench.server.received().len(), 0);
            assert!(!matches!(bench.outcomes()[..], [Outcome::Done { .. }]));
        });
    }
}

#[test]
fn under_a_policy_that_is_revoked_no_session_calls_and_none_opens() {
    run(yes, async |mut bench| {
        bench.notice(&VaultNotice::Revoked(Revoked::Policy(test())), &[]);
        let _why = bench.refused(&bench.send("hello")).await;
        bench.open(SESSION);
        let why = bench.refused(&bench.send("again")).await;
        assert!(why.contains("is not open"), "{why}");
    });
}

#[test]
fn a_tool_that_an_earlier_run_locked_stays_locked_until_an_operator_unlocks_it() {
    run(yes, async |mut bench| {
        let tool = ToolName::parse("send").unwrap();
        let locked = VaultNotice::Locked {
            policy: test(),
            tool: tool.clone(),
        };
        bench.notice(&locked, &[]);
        let why = bench.refused(&bench.send("hello")).await;
        assert!(why.contains("custody unlock send"), "{why}");
        bench.notice(&VaultNotice::Unlocked { tool }, &[]);
        assert!(matches!(
            bench.ask(&bench.send("again")).await,
            Answer::Done { .. }
        ));
    });
}
