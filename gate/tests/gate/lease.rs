//! A lease is given to what only reads, says where, how much and how long, and leaves nothing open behind.

use ed25519_dalek::SigningKey;
use gate::{
    chain::key_id,
    decide::{Allowed, Ask, decide},
    digest::{Digest, Domain},
    id::{PolicyName, SessionId},
    lease::Lease,
    permit::{Expect, MAX_AGE, Permit, PermitError, Terms, verify},
    policy::{Label, Policy},
    record::{Decision, Opening, Scene},
    session::Facts,
};

use crate::scene::{ask, compile, demo, json, open, session, words};

const STREAM: &str = include_str!("../../../fixtures/policies/stream.toml");

const NOW: u64 = 9_100_000_000_000_000_000;

fn policy() -> Policy {
    compile("stream", STREAM)
}

fn follow(policy: &Policy, facts: &Facts) -> Allowed {
    ask(policy, facts, "follow_log", &json(r#"{"service":"mail"}"#)).unwrap()
}

fn terms() -> Terms {
    Terms {
        approval: None,
        audience: key_id(&SigningKey::from_bytes(&[9; 32]).verifying_key()),
        epoch: [1; 16],
        nonce: [2; 16],
        session: SessionId(0xfeed),
        position: 41,
        decision: Digest::of(Domain::Line, b"the record"),
        not_before: NOW,
        expires: NOW + MAX_AGE,
    }
}

#[test]
fn a_lease_binds_destination_size_and_time_beside_the_call_and_an_effect_has_none() {
    let policy = policy();
    let allowed = follow(&policy, &open(&policy, &[], &[], false));
    let key = SigningKey::from_bytes(&[7; 32]);
    let expect = Expect {
        audience: terms().audience,
        epoch: [1; 16],
        now_boot_ns: NOW,
    };
    let signed = Permit::new(&allowed, &terms()).sign(&key).unwrap();
    let permit = verify(&signed, &key.verifying_key(), &expect).unwrap();
    let Some(lease) = permit.lease() else {
        panic!("no lease: {permit:?}")
    };
    assert_eq!(lease.bytes, 16 << 20);
    assert_eq!(lease.ms, 60_000);
    assert_eq!(lease.origin.to_string(), "http://127.0.0.1:18080");
    assert!(permit.admit(allowed.bytes()).is_ok());
    let other = allowed.bytes().to_vec();
    let other = String::from_utf8(other).unwrap().replace("mail", "web");
    assert_eq!(permit.admit(other.as_bytes()), Err(PermitError::Call));
    // More bytes, or more time, are another permit.
    for (from, to) in [("16777216", "16777217"), ("60000", "60001")] {
        let forged = String::from_utf8(signed.clone()).unwrap().replace(from, to);
        let refused = verify(forged.as_bytes(), &key.verifying_key(), &expect);
        assert_eq!(refused, Err(PermitError::Signature));
    }

    let demo = demo();
    let facts = session(&demo, false);
    let arguments = json(r#"{"to":"ada@example.test","subject":"s","body":"b"}"#);
    let effect = ask(&demo, &facts, "send_message", &arguments).unwrap();
    let signed = Permit::new(&effect, &terms()).sign(&key).unwrap();
    let permit = verify(&signed, &key.verifying_key(), &expect).unwrap();
    assert_eq!(permit.lease(), None);
}

#[test]
fn the_record_that_allows_a_stream_opens_its_lease_and_says_whose_words_it_brings() {
    let policy = policy();
    let facts = open(&policy, &[], &[], false);
    let allowed = follow(&policy, &facts);
    let scene = Scene {
        at: 1,
        facts: &facts,
        from: &[],
        policy: policy.hash(),
        session: SessionId(1),
    };
    let Decision::Allowed { opens, .. } = Decision::allowed(&scene, &allowed) else {
        panic!("not allowed")
    };
    let Some(Opening { label, lease }) = opens else {
        panic!("nothing is opened")
    };
    assert_eq!(label, Label::Untrusted);
    let tool = policy.tools().get(allowed.tool()).unwrap();
    assert_eq!(Some(lease), Lease::of(&tool.request));
}

/// What a session answers to a note on a ticket that nothing it was told has.
fn annotate(policy: &Policy, facts: &Facts) -> String {
    let arguments = json(r#"{"ticket":"T-48151","line":"seen"}"#);
    words(&decide(policy, facts, &Ask::new("annotate", &arguments)))
}

#[test]
fn a_stream_taints_before_its_first_byte_and_what_nothing_has_may_be_its_text() {
    let policy = policy();
    let mut facts = open(&policy, &[], &[], true);
    // Tainted, and everything that came in is known: the agent made the number up.
    assert_eq!(annotate(&policy, &facts), "allow");
    let allowed = follow(&policy, &facts);
    let opening = allowed.opens().unwrap();
    let label = facts.record_stream(allowed.tool(), opening);
    assert_eq!(label, Label::Untrusted);
    assert_eq!(annotate(&policy, &facts), "hold origin");

    // And nothing that comes in later says that it was not.
    let mut fresh = open(&policy, &[], &[], false);
    assert_eq!(annotate(&policy, &fresh), "allow");
    let _label = fresh.record_stream(allowed.tool(), opening);
    fresh.record_message("go on", 1);
    assert_eq!(annotate(&policy, &fresh), "hold origin");
    // What the person names is his.
    fresh.record_message("note it in ticket T-48151", 2);
    assert_eq!(annotate(&policy, &fresh), "allow");
}

#[test]
fn a_trusted_stream_taints_nothing() {
    let trusted = STREAM.replace("result = \"untrusted\"", "result = \"trusted\"");
    let policy = compile("stream", &trusted);
    let mut facts = open(&policy, &[], &[], false);
    let allowed = follow(&policy, &facts);
    let label = facts.record_stream(allowed.tool(), allowed.opens().unwrap());
    assert_eq!(label, Label::Trusted);
    assert!(facts.taint().is_empty());
    assert_eq!(annotate(&policy, &facts), "allow");
}

#[test]
fn what_does_more_than_read_is_given_no_lease() {
    let tool = |head: &str, request: &str, behind: &str| {
        let text = STREAM
            .replace("risk = \"read\"\nidempotent = true\n", head)
            .replace("stream = true\n", request)
            .replace(
                "[tools.annotate]\n",
                &format!("{behind}\n[tools.annotate]\n"),
            );
        Policy::compile(&PolicyName::parse("stream").unwrap(), &text)
            .map_err(|error| error.to_string())
    };
    let reads = "risk = \"read\"\nidempotent = true\n";
    let streams = "stream = true\n";
    assert!(tool(reads, streams, "").is_ok());
    for (head, request, behind, says) in [
        (
            "risk = \"write\"\nidempotent = true\n",
            streams,
            "",
            "`pass`",
        ),
        ("risk = \"read\"\n", streams, "", "read alone"),
        (
            "risk = \"read\"\nidempotent = true\naction_classes = [\"external\"]\n",
            streams,
            "",
            "write-gate",
        ),
        (
            "risk = \"read\"\nidempotent = true\ncommit = \"end_of_turn\"\n",
            streams,
            "",
            "`commit`",
        ),
        (
            reads,
            streams,
            "[tools.follow_log.verify]\nurl = \"http://127.0.0.1:18080/v1/logs/mail\"\n\
             expect = { \"/a\" = 1 }\n",
            "`verify`",
        ),
        (reads, "stream = true\nbody = { a = 1 }\n", "", "body"),
    ] {
        let why = tool(head, request, behind).unwrap_err();
        assert!(why.contains(says), "{says}: {why}");
    }
    let limited = STREAM.replace(
        "result = \"untrusted\"\non_taint = \"pass\"",
        "on_taint = \"pass\"\nresult = { redact = [\"/card\"] }",
    );
    let why = Policy::compile(&PolicyName::parse("stream").unwrap(), &limited).unwrap_err();
    assert!(why.to_string().contains("nobody reads a stream"), "{why}");
    // Whole, it is no larger than before.
    let whole = STREAM.replace("stream = true\n", "");
    let why = Policy::compile(&PolicyName::parse("stream").unwrap(), &whole).unwrap_err();
    assert!(why.to_string().contains("answer_max_bytes"), "{why}");
}
