//! A permit is good for one call, one vault, one run and one span of time, byte for byte.

use std::sync::LazyLock;

use ed25519_dalek::{SigningKey, VerifyingKey};
use gate::{
    chain::key_id,
    decide::Allowed,
    digest::{Digest, Domain},
    id::SessionId,
    json::{Limits, Value, canonical, parse},
    permit::{Expect, MAX_AGE, Permit, PermitError, Terms, verify},
};
use proptest::prelude::*;

use crate::scene::{ask, demo, json, session};

const NOW: u64 = 9_100_000_000_000_000_000;

fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

fn allowed() -> Allowed {
    let policy = demo();
    let facts = session(&policy, false);
    let arguments = json(r#"{"to":"ada@example.test","subject":"s","body":"b"}"#);
    ask(&policy, &facts, "send_message", &arguments).unwrap()
}

fn audience() -> Digest {
    key_id(&SigningKey::from_bytes(&[9; 32]).verifying_key())
}

fn terms() -> Terms {
    Terms {
        approval: None,
        audience: audience(),
        epoch: [1; 16],
        nonce: [2; 16],
        session: SessionId(0xfeed),
        position: 41,
        decision: Digest::of(Domain::Line, b"the record"),
        not_before: NOW,
        expires: NOW + MAX_AGE,
    }
}

fn expect(now_boot_ns: u64) -> Expect {
    Expect {
        audience: audience(),
        epoch: [1; 16],
        now_boot_ns,
    }
}

fn signed() -> Vec<u8> {
    static SIGNED: LazyLock<Vec<u8>> =
        LazyLock::new(|| Permit::new(&allowed(), &terms()).sign(&key()).unwrap());
    SIGNED.clone()
}

fn refused(bytes: &[u8], by: &VerifyingKey, expect: &Expect) -> PermitError {
    match verify(bytes, by, expect) {
        Ok(permit) => panic!("taken: {permit:?}"),
        Err(error) => error,
    }
}

#[test]
fn a_permit_says_what_was_allowed_and_admits_that_call() {
    let allowed = allowed();
    let permit = verify(&signed(), &key().verifying_key(), &expect(NOW)).unwrap();
    assert_eq!(permit.call(), allowed.digest());
    assert_eq!(permit.credential(), allowed.credential());
    assert_eq!(permit.policy(), demo().hash());
    assert_eq!(permit.tool(), allowed.tool());
    assert_eq!(permit.session(), SessionId(0xfeed));
    assert_eq!((permit.position(), permit.nonce()), (41, [2; 16]));
    assert_eq!(permit.decision(), terms().decision);
    assert_eq!(permit.expires(), NOW + MAX_AGE);
    assert_eq!(permit.admit(allowed.bytes()).unwrap(), *allowed.call());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn a_permit_with_any_byte_changed_is_refused(at in any::<prop::sample::Index>(), xor in 1..=255_u8) {
        let mut bytes = signed();
        let at = at.index(bytes.len());
        bytes[at] ^= xor;
        prop_assert!(verify(&bytes, &key().verifying_key(), &expect(NOW)).is_err());
    }

    #[test]
    fn a_permit_with_a_byte_more_or_less_is_refused(at in any::<prop::sample::Index>(), byte: u8) {
        let bytes = signed();
        let mut more = bytes.clone();
        more.insert(at.index(bytes.len() + 1), byte);
        prop_assert!(verify(&more, &key().verifying_key(), &expect(NOW)).is_err());
        let mut less = bytes;
        less.remove(at.index(less.len()));
        prop_assert!(verify(&less, &key().verifying_key(), &expect(NOW)).is_err());
    }

    #[test]
    fn a_permit_admits_no_other_call(at in any::<prop::sample::Index>(), xor in 1..=255_u8) {
        let permit = verify(&signed(), &key().verifying_key(), &expect(NOW)).unwrap();
        let mut bytes = allowed().bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= xor;
        prop_assert!(permit.admit(&bytes).is_err());
    }
}

#[test]
fn another_vault_run_key_or_time_is_refused() {
    let bytes = signed();
    let by = key().verifying_key();
    let other = Expect {
        audience: Digest::of(Domain::Key, b"another"),
        ..expect(NOW)
    };
    assert_eq!(refused(&bytes, &by, &other), PermitError::Audience);
    let other = Expect {
        epoch: [3; 16],
        ..expect(NOW)
    };
    assert_eq!(refused(&bytes, &by, &other), PermitError::Epoch);
    let other = SigningKey::from_bytes(&[8; 32]).verifying_key();
    assert_eq!(
        refused(&bytes, &other, &expect(NOW)),
        PermitError::Signature
    );
    assert_eq!(
        refused(&bytes, &by, &expect(NOW - 1)),
        PermitError::TooEarly
    );
    assert!(verify(&bytes, &by, &expect(NOW + MAX_AGE - 1)).is_ok());
    assert_eq!(
        refused(&bytes, &by, &expect(NOW + MAX_AGE)),
        PermitError::Expired
    );
    assert_eq!(
        refused(&bytes, &by, &expect(u64::MAX)),
        PermitError::Expired
    );
}

#[test]
fn a_span_that_is_empty_backwards_or_too_long_is_never_signed() {
    for (not_before, expires) in [
        (NOW, NOW),
        (NOW, NOW - 1),
        (NOW, NOW + MAX_AGE + 1),
        (0, u64::MAX),
    ] {
        let terms = Terms {
            not_before,
            expires,
            ..terms()
        };
        assert_eq!(
            Permit::new(&allowed(), &terms).sign(&key()),
            Err(PermitError::Span)
        );
    }
}

/// Signs whatever a gate that was taken over might, with its real key.
fn forged(change: impl Fn(&mut Value)) -> Vec<u8> {
    use ed25519_dalek::Signer as _;

    let Value::Object(mut outer) = parse(&signed(), &Limits::LINE).unwrap() else {
        panic!("no object");
    };
    let permit = outer.get_mut("permit").unwrap();
    change(permit);
    let message = [b"custody permit v1\0", canonical(permit).as_slice()].concat();
    let signature = hex::encode(key().sign(&message).to_bytes());
    outer.insert("signature".into(), Value::Text(signature));
    canonical(&Value::Object(outer))
}

fn set(permit: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = permit {
        members.insert(name.into(), value);
    }
}

#[test]
fn even_the_right_key_cannot_sign_a_longer_span_a_newer_format_or_a_field_more() {
    let by = key().verifying_key();
    assert!(verify(&forged(|_| {}), &by, &expect(NOW)).is_ok());
    let long = forged(|it| set(it, "expires", Value::Text(u64::MAX.to_string())));
    assert_eq!(refused(&long, &by, &expect(NOW)), PermitError::Span);
    let newer = forged(|it| set(it, "format", json("2")));
    assert_eq!(
        refused(&newer, &by, &expect(NOW)),
        PermitError::Format { found: 2 }
    );
    let more = forged(|it| set(it, "lease", json("true")));
    assert!(matches!(
        refused(&more, &by, &expect(NOW)),
        PermitError::Json(_)
    ));
    let other = forged(|it| set(it, "tool", Value::Text("whoami".into())));
    let other = verify(&other, &by, &expect(NOW)).unwrap();
    assert_eq!(other.admit(allowed().bytes()), Err(PermitError::Call));
}

#[test]
fn a_signature_over_the_same_bytes_without_our_domain_is_refused() {
    use ed25519_dalek::Signer as _;

    let Value::Object(mut outer) = parse(&signed(), &Limits::LINE).unwrap() else {
        panic!("no object");
    };
    for domain in [
        &b""[..],
        b"custody decisions line v1\0",
        b"custody permit v2\0",
    ] {
        let message = [domain, &canonical(&outer["permit"])].concat();
        let signature = hex::encode(key().sign(&message).to_bytes());
        outer.insert("signature".into(), Value::Text(signature));
        let bytes = canonical(&Value::Object(outer.clone()));
        assert_eq!(
            refused(&bytes, &key().verifying_key(), &expect(NOW)),
            PermitError::Signature
        );
    }
}

#[test]
fn a_signature_in_another_writing_is_refused() {
    // S + L is the same scalar: a verifier that does not ask takes a second signature (RFC 8032, 8.4).
    const L: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let Value::Object(mut outer) = parse(&signed(), &Limits::LINE).unwrap() else {
        panic!("no object");
    };
    let Value::Text(text) = outer["signature"].clone() else {
        panic!("no text");
    };
    let mut second = hex::decode(&text).unwrap();
    let mut carry = 0_u16;
    for (s, l) in second[32..].iter_mut().zip(L) {
        carry += u16::from(*s) + u16::from(l);
        *s = carry.to_le_bytes()[0];
        carry >>= 8;
    }
    for other in [hex::encode(second), text.to_uppercase()] {
        outer.insert("signature".into(), Value::Text(other));
        let bytes = canonical(&Value::Object(outer.clone()));
        assert_eq!(
            refused(&bytes, &key().verifying_key(), &expect(NOW)),
            PermitError::Signature
        );
    }
}

#[test]
fn a_key_of_small_order_signs_nothing() {
    // With the neutral point as key, (R = neutral, S = 0) would verify for every message.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let weak = VerifyingKey::from_bytes(&neutral).unwrap();
    let Value::Object(mut outer) = parse(&signed(), &Limits::LINE).unwrap() else {
        panic!("no object");
    };
    let signature = hex::encode([neutral, [0; 32]].concat());
    outer.insert("signature".into(), Value::Text(signature));
    assert_eq!(
        refused(&canonical(&Value::Object(outer)), &weak, &expect(NOW)),
        PermitError::Signature
    );
}
