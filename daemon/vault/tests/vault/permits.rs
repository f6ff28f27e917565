//! Permits: what makes one good, and everything that makes it not.

use custody_wire::{
    permit::{Answer, Request},
    supervise::VaultNotice,
};
use ed25519_dalek::SigningKey;
use gate::{
    decide::{Ask, Verdict, decide},
    id::SessionId,
    json,
    permit::{Permit, Terms},
    record::{Effect, Outcome},
    session::{Facts, Opening},
};

use crate::harness::{SECRET, SESSION, hex, run, yes};

#[test]
fn a_permit_of_the_real_gate_is_performed_once_and_has_its_receipt() {
    run(yes, async |mut bench| {
        let facts = Facts::open(&bench.policy, Opening::default()).unwrap();
        let arguments = json::parse(b"{\"text\":\"hello\"}", &json::Limits::CALL).unwrap();
        let Verdict::Allow(allowed) = decide(&bench.policy, &facts, &Ask::new("send", &arguments))
        else {
            panic!("refused");
        };
        let now = bench.clock.get();
        let terms = Terms {
            approval: None,
            audience: bench.gate.audience,
            epoch: bench.gate.epoch,
            nonce: [1; 16],
            session: SESSION,
            position: 1,
            decision: gate::digest::Digest::ZERO,
            not_before: now,
            expires: now + 1_000_000_000,
        };
        let permit = Permit::new(&allowed, &terms).sign(&bench.gate.key).unwrap();
        let answer = bench.ask_signed(permit, allowed.bytes().to_vec()).await;
        let Answer::Done {
            receipt,
            result,
            status,
            media_type,
            ..
        } = answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!((status, result.as_slice()), (200, &b"{\"ok\":true}"[..]));
        assert_eq!(media_type.as_deref(), Some("application/json"));
        let received = bench.server.received();
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].body, b"{\"text\":\"hello\"}");
        assert_eq!(
            received[0].field("authorization"),
            Some(&*format!("Bearer {SECRET}"))
        );
        // Started, intent, receipt, in this order, and the answer names the receipt.
        let chain = bench.chain();
        let [
            (_, Effect::Started { .. }),
            (intent, Effect::Intent { .. }),
            (place, last),
        ] = chain.as_slice()
        else {
            panic!("{chain:?}");
        };
        assert_eq!(place.digest, receipt);
        let Effect::Receipt {
            effect,
            intent: named,
            outcome: Outcome::Done { bytes, .. },
            ..
        } = last
        else {
            panic!("{last:?}");
        };
        assert_eq!((*named, *bytes), (Some(*intent), 11));
        assert_eq!(effect.call, allowed.digest());
        assert_eq!(effect.session, SESSION);
    });
}

#[test]
fn a_permit_with_any_field_changed_is_refused() {
    run(yes, async |mut bench| {
        let good = bench.send("hello");
        let signed = good.signed(&bench.gate.key);
        // Every byte of the signed form, so every field, its name, its border and the signature.
        for at in (0..signed.len()).step_by(3) {
            let mut changed = signed.clone();
            changed[at] ^= 1;
            let answer = bench.ask_signed(changed, good.call.clone()).await;
            assert!(matches!(answer, Answer::Refused { .. }), "{at}: {answer:?}");
        }
        assert_eq!(bench.server.received().len(), 0);
        assert_eq!(bench.outcomes().len(), 0, "nobody signed any of these");
        // And the unchanged one is good.
        let answer = bench.ask_signed(signed, good.call).await;
        assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
    });
}

#[test]
fn a_signed_permit_that_says_something_else_is_refused_with_its_reason() {
    run(yes, async |mut bench| {
        let now = bench.clock.get();
        let at = |ns: u64| ns.to_string();
        let zero = "0".repeat(64);
        let other = bench.send("another");
        for (field, value, reason) in [
            ("audience", zero.clone(), "another vault"),
            ("epoch", hex(&[3; 16]), "another run of the vault"),
            ("expires", at(now), "span is empty"),
            ("expires", at(now + 31_000_000_000), "longer than 30 s"),
            ("not_before", at(now + 1_000_000_000), "not good yet"),
            ("policy", zero.clone(), "another policy"),
            ("session", "00000000000000ff".into(), "is not open"),
            (
                "call",
                other.permit["call"].as_str().unwrap().into(),
                "not the one that the permit binds",
            ),
            ("tool", "read".into(), "not the one that the permit binds"),
            ("credential", "far".into(), "is performed with `api`"),
            ("credential", "unknown".into(), "is performed with `api`"),
        ] {
            let wish = bench.send("hello").with(field, value.clone());
            let why = bench.refused(&wish).await;
            assert!(why.contains(reason), "{field} {value}: {why}");
            // Signed by the gate, so that a receipt says what was refused.
            let Some(Outcome::Refused { why: kept }) = bench.outcomes().pop() else {
                panic!("no receipt for {field}");
            };
            assert_eq!(kept.as_str(), why);
        }
        for (meaning, reason) in [
            (serde_json::json!({}), "the call's system is not"),
            (
                serde_json::json!({ "system": { "by": "operator", "value": "https://other.test" } }),
                "the call's system is not",
            ),
        ] {
            let wish = bench.send("hello").with("meaning", meaning);
            let why = bench.refused(&wish).await;
            assert!(why.contains(reason), "{why}");
        }
        let wish = bench.send("hello").with("format", 2);
        assert!(bench.refused(&wish).await.contains("format 2"));
        let wish = bench.send("hello").with("extra", 1);
        assert!(bench.refused(&wish).await.contains("cannot be read"));
        assert_eq!(bench.intents(), 0);
        assert_eq!(bench.starts(), 0);
    });
}

#[test]
fn a_permit_signed_by_another_key_is_refused() {
    run(yes, async |mut bench| {
        let wish = bench.send("hello");
        let signed = wish.signed(&SigningKey::from_bytes(&[1; 32]));
        let answer = bench.ask_signed(signed, wish.call).await;
        let Answer::Refused { why, .. } = answer else {
            panic!("{answer:?}")
        };
        assert!(why.contains("signature"), "{why}");
        assert_eq!(bench.server.received().len(), 0);
    });
}

#[test]
fn another_call_than_the_permitted_one_is_refused_and_burns_the_permit() {
    run(yes, async |mut bench| {
        let wish = bench.send("hello");
        let other = bench.send("another");
        let signed = wish.signed(&bench.gate.key);
        let answer = bench.ask_signed(signed.clone(), other.call).await;
        assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
        let answer = bench.ask_signed(signed, wish.call).await;
        let Answer::Refused { why, .. } = answer else {
            panic!("{answer:?}")
        };
        assert!(why.contains("used before"), "{why}");
        assert_eq!(bench.server.received().len(), 0);
    });
}

#[test]
fn call_bytes_that_are_not_the_canonical_ones_are_refused() {
    run(yes, async |mut bench| {
        for bad in [
            &br#"{"arguments":{"text":"a"}, "tool":"send"}"#[..],
            br#"{"tool":"send","arguments":{"text":"a"}}"#,
            br#"{"arguments":{"text":"a","text":"b"},"tool":"send"}"#,
            br#"{"arguments":{"text":"\u0061"},"tool":"send"}"#,
            br#"{"arguments":{"text":"a"},"tool":"send"}x"#,
            b"",
        ] {
            let mut wish = bench.send("a");
            wish.call = bad.to_vec();
            // The permit binds exactly these bytes.
            let digest = gate::call::Call::digest_of(bad).to_string();
            let why = bench.refused(&wish.with("call", digest)).await;
            assert!(!why.is_empty());
        }
    });
}

#[test]
fn a_permit_is_good_once() {
    run(yes, async |mut bench| {
        let wish = bench.send("hello");
        let answer = bench.ask(&wish).await;
        assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
        for _ in 0..3 {
            let why = bench.refused(&wish).await;
            assert!(why.contains("used before"), "{why}");
        }
        // The nonce is what is spent: another call under it is refused too.
        let other = bench
            .send("another")
            .with("nonce", wish.permit["nonce"].clone());
        assert!(bench.refused(&other).await.contains("used before"));
        assert_eq!(bench.server.received().len(), 1);
    });
}

#[test]
fn fifty_copies_at_once_have_one_effect() {
    run(yes, async |mut bench| {
        let wish = bench.send("hello");
        let signed = wish.signed(&bench.gate.key);
        bench.gate.say(&Request::Durable { position: 1 }).await;
        for _ in 0..50 {
            bench.gate.perform(signed.clone(), wish.call.clone()).await;
        }
        let mut done = 0;
        for _ in 0..50 {
            match bench.gate.answer().await {
                Answer::Done { .. } => done += 1,
                Answer::Refused { why, .. } => assert!(why.contains("used before"), "{why}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((done, bench.server.received().len()), (1, 1));
        assert_eq!(bench.intents(), 1);
    });
}

#[test]
fn a_permit_expires_by_the_boot_clock() {
    run(yes, async |mut bench| {
        let wish = bench.send("hello");
        let late = bench.send("later");
        let now = bench.clock.get();
        bench.clock.set(now + 10_000_000_000 - 1);
        assert!(matches!(bench.ask(&wish).await, Answer::Done { .. }));
        bench.clock.set(now + 10_000_000_000);
        let why = bench.refused(&late).await;
        assert!(why.contains("expired"), "{why}");
    });
}

#[test]
fn a_session_that_ended_or_never_began_performs_nothing() {
    run(yes, async |mut bench| {
        let wish = bench.send("hello").with("session", "0000000000000009");
        assert!(bench.refused(&wish).await.contains("is not open"));
        bench.open(SessionId(9));
        let wish = bench.send("hello").with("session", "0000000000000009");
        assert!(matches!(bench.ask(&wish).await, Answer::Done { .. }));
        bench.notice(
            &VaultNotice::Ended {
                session: SessionId(9),
            },
            &[],
        );
        let wish = bench.send("hello").with("session", "0000000000000009");
        assert!(bench.refused(&wish).await.contains("is not open"));
        // A policy that the vault does not have opens nothing.
        let policy = gate::id::PolicyName::parse("unknown").unwrap();
        bench.notice(
            &VaultNotice::Opened {
                session: SESSION,
                policy,
            },
            &[],
        );
        let wish = bench.send("hello");
        assert!(bench.refused(&wish).await.contains("is not open"));
    });
}

#[test]
fn a_gate_that_was_replaced_is_void_at_once() {
    run(yes, async |mut bench| {
        let wish = bench.send("hello");
        let mut earlier = bench.other_gate().await;
        // Through its own channel: it is closed.
        earlier.is_closed().await;
        // Through the new one: another key.
        let signed = wish.signed(&earlier.key);
        let answer = bench.ask_signed(signed, wish.call.clone()).await;
        assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
        assert_eq!(bench.server.received().len(), 0);
        assert!(matches!(bench.ask(&wish).await, Answer::Done { .. }));
    });
}

#[test]
fn a_gate_that_says_hello_twice_or_not_first_is_dropped() {
    run(yes, async |mut bench| {
        let permit_key = bench.gate.key.verifying_key().to_bytes();
        bench.gate.say(&Request::Hello { permit_key }).await;
        bench.gate.is_closed().await;
        drop(bench.other_gate().await);
        assert!(matches!(
            bench.ask(&bench.send("hello")).await,
            Answer::Done { .. }
        ));
    });
}
