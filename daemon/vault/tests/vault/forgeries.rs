//! Properties A, B and C: permits and statements that are not what they say they are, each refused by a real
//! vault for its own reason, counted. `cargo xtask forgeries` prints the table.

use custody_wire::{permit::Answer, session::Signed};
use ed25519_dalek::{Signer as _, SigningKey};
use gate::{
    approval::{Reach, Scope, Statement},
    call::Call,
    digest::{Digest, Domain},
    id::{SessionId, ToolName},
    json,
    nonce::Nonce,
};

use crate::{
    approvals::{
        NOW, alice, ask, base64, blob, mallory, put, reviewers, sign_for, signed, statement,
        transfer,
    },
    harness::{Bench, Wish, hex, run, yes},
};

/// What was tried, the reason that it must be refused for, and what was said.
struct Tried {
    family: &'static str,
    what: String,
    reason: &'static str,
    said: String,
}

/// A table of what was tried.
#[derive(Default)]
struct Table(Vec<Tried>);

impl Table {
    fn note(&mut self, family: &'static str, what: &str, reason: &'static str, said: String) {
        self.0.push(Tried {
            family,
            what: what.into(),
            reason,
            said,
        });
    }

    /// Whatever was not refused, or for another reason, in words.
    fn print(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for Tried {
            family,
            what,
            reason,
            said,
        } in &self.0
        {
            println!("forgery | {family} | {what} | {said}");
            if said.starts_with("NOT REFUSED") || !said.contains(reason) {
                wrong.push(format!("{family}: {what}: not `{reason}`: {said}"));
            }
        }
        wrong
    }
}

fn why(answer: Answer) -> String {
    match answer {
        Answer::Refused { why, .. } => why,
        other => format!("NOT REFUSED: {other:?}"),
    }
}

/// The signed form of a permit whose signature is over `message`.
fn over(wish: &Wish, message: &[u8], key: &SigningKey) -> Vec<u8> {
    let signature = hex(&key.sign(message).to_bytes());
    let signed = serde_json::json!({ "permit": wish.permit, "signature": signature });
    json::to_canonical(&signed).unwrap()
}

fn with_domain(domain: &[u8], wish: &Wish) -> Vec<u8> {
    let mut message = domain.to_vec();
    message.extend(json::to_canonical(&wish.permit).unwrap());
    message
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.into()).unwrap()
}

/// Adds the group's order to the second half of a signature (RFC 8032, section 5.1.7, forbids it): the same
/// signature to a verifier that is not strict.
fn malleated(signature: &str) -> String {
    const ORDER: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut bytes: Vec<u8> = (0..signature.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(signature.get(at..at + 2).unwrap(), 16).unwrap())
        .collect();
    let mut carry = 0_u16;
    for (byte, order) in bytes[32..].iter_mut().zip(ORDER) {
        let sum = u16::from(*byte) + u16::from(order) + carry;
        *byte = u8::try_from(sum & 0xff).unwrap();
        carry = sum >> 8;
    }
    hex(&bytes)
}

/// Permits whose signed form is spoilt.
async fn forms(bench: &mut Bench, table: &mut Table) {
    let family = "permit";
    let gate = bench.gate.key.clone();
    let other = SigningKey::from_bytes(&[1; 32]);
    let wish = bench.send("hello");
    let good = text(&wish.signed(&gate));
    let another = text(&bench.send("another").signed(&gate));
    let signature_of = |signed: &str| {
        let read: serde_json::Value = serde_json::from_str(signed).unwrap();
        read["signature"].as_str().unwrap().to_owned()
    };
    let permit = text(&json::to_canonical(&wish.permit).unwrap());
    let signature = signature_of(&good);
    let replaced = good.replace(&signature, &signature_of(&another));
    let shouted = good.replace(&signature, &signature.to_uppercase());
    let malleated = good.replace(&signature, &malleated(&signature));
    let reordered = format!("{{\"signature\":\"{signature}\",\"permit\":{permit}}}");
    let twice =
        format!("{{\"permit\":{permit},\"permit\":{permit},\"signature\":\"{signature}\"}}");
    let tool_twice = good.replace("\"tool\":\"send\"", "\"tool\":\"send\",\"tool\":\"read\"");
    let shifted = good.replace("\"tool\":\"send\"", "\"tool\":\"send\\u0000\"");
    let unread = "cannot be read";
    let unsigned = "signature";
    for (what, reason, bytes) in [
        ("signed by another key", unsigned, wish.signed(&other)),
        (
            "another permit's signature",
            unsigned,
            replaced.into_bytes(),
        ),
        (
            "the signature of an empty message",
            unsigned,
            over(&wish, b"", &gate),
        ),
        (
            "signed without its domain",
            unsigned,
            over(&wish, &with_domain(b"", &wish), &gate),
        ),
        (
            "signed in the domain of the ledger's lines",
            unsigned,
            over(
                &wish,
                &with_domain(b"custody signed line v1\0", &wish),
                &gate,
            ),
        ),
        (
            "signed in the domain of the next format",
            unsigned,
            over(&wish, &with_domain(b"custody permit v2\0", &wish), &gate),
        ),
        (
            "the border's NUL left out",
            unsigned,
            over(&wish, &with_domain(b"custody permit v1", &wish), &gate),
        ),
        (
            "the border's NUL doubled",
            unsigned,
            over(&wish, &with_domain(b"custody permit v1\0\0", &wish), &gate),
        ),
        (
            "the signature malleated (S + L)",
            unsigned,
            malleated.into_bytes(),
        ),
        ("the signature in capitals", unsigned, shouted.into_bytes()),
        (
            "truncated by a byte",
            unread,
            good.as_bytes()[..good.len() - 1].to_vec(),
        ),
        (
            "truncated in the middle",
            unread,
            good.as_bytes()[..good.len() / 2].to_vec(),
        ),
        ("nothing", unread, Vec::new()),
        ("a byte behind it", unread, format!("{good}\n").into_bytes()),
        ("its two parts re-ordered", unread, reordered.into_bytes()),
        ("the permit twice", unread, twice.into_bytes()),
        ("a key twice, signed once", unread, tool_twice.into_bytes()),
        ("a name with a NUL behind it", unread, shifted.into_bytes()),
    ] {
        let answer = bench.ask_signed(bytes, wish.call.clone()).await;
        table.note(family, what, reason, why(answer));
    }
    // Nothing of that spent it.
    assert!(matches!(bench.ask(&wish).await, Answer::Done { .. }));
    let answer = bench.ask(&wish).await;
    table.note(family, "replayed", "used before", why(answer));
    let nonce = wish.permit["nonce"].clone();
    let answer = bench.ask(&bench.send("another").with("nonce", nonce)).await;
    table.note(
        family,
        "its nonce replayed with another call",
        "used before",
        why(answer),
    );
}

/// Permits that the gate's own key signed, and that say something else.
async fn terms(bench: &mut Bench, table: &mut Table) {
    let family = "permit";
    let now = bench.clock.get();
    let at = |ns: u64| ns.to_string();
    let zero = "0".repeat(64);
    let other = bench.send("another").permit["call"].clone();
    for (what, field, value, reason) in [
        (
            "another audience",
            "audience",
            zero.clone(),
            "another vault",
        ),
        (
            "another epoch",
            "epoch",
            hex(&[3; 16]),
            "another run of the vault",
        ),
        ("its span empty", "expires", at(now), "span is empty"),
        (
            "good for too long",
            "expires",
            at(now + 31_000_000_000),
            "longer than 30 s",
        ),
        (
            "a clock ahead: not good yet",
            "not_before",
            at(now + 1_000_000_000),
            "not good yet",
        ),
        ("another policy", "policy", zero, "another policy"),
        (
            "another session",
            "session",
            "00000000000000ff".into(),
            "is not open",
        ),
        (
            "another call's digest",
            "call",
            other.as_str().unwrap().into(),
            "not the one that the permit binds",
        ),
        (
            "another tool",
            "tool",
            "read".into(),
            "not the one that the permit binds",
        ),
        (
            "another credential",
            "credential",
            "far".into(),
            "is performed with `api`",
        ),
    ] {
        let wish = bench.send("hello").with(field, value);
        let answer = bench.ask(&wish).await;
        table.note(family, what, reason, why(answer));
    }
    let wish = bench.send("hello").with(
        "meaning",
        serde_json::json!({ "system": { "by": "operator", "value": "https://other.test" } }),
    );
    let answer = bench.ask(&wish).await;
    table.note(
        family,
        "another system in its meaning",
        "the call's system is not",
        why(answer),
    );
    let wish = bench.send("hello").with("format", 2);
    let answer = bench.ask(&wish).await;
    table.note(family, "another format", "format 2", why(answer));
    let wish = bench.send("hello").with("extra", 1);
    let answer = bench.ask(&wish).await;
    table.note(
        family,
        "a field that no permit has",
        "cannot be read",
        why(answer),
    );
    // Of these the permit binds the very bytes.
    for (what, reason, call) in [
        (
            "the call's keys re-ordered",
            "the call cannot be read: json is not in RFC 8785 form",
            &br#"{"tool":"send","arguments":{"text":"a"}}"#[..],
        ),
        (
            "an argument twice",
            "the call cannot be read: json has a key twice",
            br#"{"arguments":{"text":"a","text":"b"},"tool":"send"}"#,
        ),
        (
            "an argument with a NUL behind it",
            "the call cannot be read: json has a NUL",
            br#"{"arguments":{"text":"a\u0000"},"tool":"send"}"#,
        ),
        (
            "the call truncated",
            "the call cannot be read: not json",
            br#"{"arguments":{"text":"a"},"tool"#,
        ),
    ] {
        let mut wish = bench.send("a");
        wish.call = call.to_vec();
        let wish = wish.with("call", Call::digest_of(call).to_string());
        let answer = bench.ask(&wish).await;
        table.note("call", what, reason, why(answer));
    }
    let late = bench.send("later");
    bench.clock.set(now + 11_000_000_000);
    let answer = bench.ask(&late).await;
    table.note(
        family,
        "a clock behind: its time is over",
        "expired",
        why(answer),
    );
}

/// An armoured signature of these parts, whatever they say of each other.
fn armoured(key: &[u8], namespace: &[u8], hash: &[u8], signature: &[u8]) -> Vec<u8> {
    let mut out = b"SSHSIG\0\0\0\x01".to_vec();
    for part in [key, namespace, b"", hash, signature] {
        put(&mut out, part);
    }
    format!(
        "-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n",
        base64(&out)
    )
    .into_bytes()
}

/// Statements of reviewers (SSHSIG).
async fn statements(bench: &mut Bench, table: &mut Table) {
    let family = "statement";
    const PURPOSE: &[u8] = b"custody-approval@v1";
    reviewers(bench, &[&alice()], &[]);
    let wish = transfer(bench, 5);
    let good = statement(bench, &wish);
    let other = Digest::of(Domain::Call, b"another");
    let change = |change: &dyn Fn(&mut Statement)| {
        let mut changed = good.clone();
        change(&mut changed);
        signed(&changed, &alice())
    };
    let bytes = good.to_bytes().unwrap();
    let right = sign_for(PURPOSE, &bytes, &alice());
    let of = |statement: &[u8], signature: Vec<u8>| Signed {
        statement: statement.into(),
        signature,
    };
    let said_by_alice = |statement: String| {
        let signature = sign_for(PURPOSE, statement.as_bytes(), &alice());
        of(statement.as_bytes(), signature)
    };
    let plain = text(&bytes);
    let mut ed25519 = Vec::new();
    put(&mut ed25519, b"ssh-ed25519");
    put(&mut ed25519, &mallory().sign(b"anything").to_bytes());
    let unread = "cannot be read";
    for (what, reason, approval) in [
        (
            "signed by nobody's reviewer",
            "no reviewer",
            of(&bytes, sign_for(PURPOSE, &bytes, &mallory())),
        ),
        (
            "a reviewer's key with another's signature",
            "not of this statement",
            of(
                &bytes,
                armoured(&blob(&alice()), PURPOSE, b"sha512", &ed25519),
            ),
        ),
        (
            "a signature of something else",
            "not of this statement",
            of(&bytes, sign_for(PURPOSE, b"else", &alice())),
        ),
        (
            "signed for git",
            "another purpose",
            of(&bytes, sign_for(b"git", &bytes, &alice())),
        ),
        (
            "signed for a longer purpose",
            "another purpose",
            of(&bytes, sign_for(b"custody-approval@v10", &bytes, &alice())),
        ),
        (
            "a NUL behind the purpose",
            "another purpose",
            of(&bytes, sign_for(b"custody-approval@v1\0", &bytes, &alice())),
        ),
        (
            "a hash that is not taken",
            "neither sha512 nor sha256",
            of(&bytes, armoured(&blob(&alice()), PURPOSE, b"md5", &ed25519)),
        ),
        ("no signature", "ssh-keygen -Y sign", of(&bytes, Vec::new())),
        (
            "the signature truncated",
            "ssh-keygen -Y sign",
            of(&bytes, right[..right.len() - 1].to_vec()),
        ),
        (
            "the statement truncated",
            unread,
            of(&bytes[..bytes.len() - 1], right.clone()),
        ),
        (
            "a byte behind the statement, signed",
            unread,
            said_by_alice(format!("{plain}\n")),
        ),
        (
            "a key twice, signed",
            unread,
            said_by_alice(plain.replacen('{', "{\"format\":1,", 1)),
        ),
        (
            "its keys re-ordered, signed",
            unread,
            said_by_alice({
                let inside = plain.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
                let (head, rest) = inside.split_once(',').unwrap();
                format!("{{{rest},{head}}}")
            }),
        ),
        (
            "another call",
            "another call",
            change(&|it| it.call = other),
        ),
        (
            "another audience",
            "another vault",
            change(&|it| it.audience = other),
        ),
        (
            "another epoch",
            "earlier run",
            change(&|it| it.epoch = Nonce([0; 16])),
        ),
        (
            "another policy",
            "another policy",
            change(&|it| it.policy = other),
        ),
        (
            "another session",
            "another session",
            change(&|it| it.session = SessionId(8)),
        ),
        (
            "another tool",
            "another tool",
            change(&|it| it.tool = ToolName::parse("send").unwrap()),
        ),
        ("its time over", "expired", change(&|it| it.expires = NOW)),
        (
            "good for more than a day",
            "more than 24 hours",
            change(&|it| it.expires = NOW + 90_000_000),
        ),
        (
            "for more than one call",
            "more than one call",
            change(&|it| {
                it.scope = Scope {
                    reach: Reach::Target,
                    until: None,
                };
            }),
        ),
        ("another format", "format 2", change(&|it| it.format = 2)),
    ] {
        let wish = transfer(bench, 5);
        let answer = ask(bench, &wish, &approval).await;
        table.note(family, what, reason, why(answer));
    }
    let wish = transfer(bench, 5);
    let bare = of(&bytes, right.clone());
    let answer = bench.ask_approved(&wish, Some(bare.clone())).await;
    table.note(
        family,
        "beside a permit that names none",
        "names no statement",
        why(answer),
    );
    let wish = transfer(bench, 5).with("approval", other.to_string());
    let answer = bench.ask_approved(&wish, Some(bare.clone())).await;
    table.note(
        family,
        "beside a permit that names another",
        "another statement",
        why(answer),
    );
    let wish = transfer(bench, 5);
    let answer = ask(bench, &wish, &bare).await;
    assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
    let wish = transfer(bench, 5);
    let answer = ask(bench, &wish, &bare).await;
    table.note(family, "replayed", "used before", why(answer));
}

#[test]
fn each_permit_and_statement_that_is_forged_is_refused_for_its_own_reason() {
    run(yes, async |mut bench| {
        let mut table = Table::default();
        statements(&mut bench, &mut table).await;
        forms(&mut bench, &mut table).await;
        terms(&mut bench, &mut table).await;
        let wrong = table.print();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        println!("forgeries of permits and statements: {}", table.0.len());
        assert_eq!(table.0.len(), 64);
        // The two that were good are all that the server saw.
        assert_eq!(bench.server.received().len(), 2);
    });
}
