//! The second key: what a gate that lies cannot have performed. Each permit here is signed by the gate's
//! own key; whether a reviewer signed too is what is asked.

use std::{fs::File, io::Seek as _, os::fd::OwnedFd};

use custody_sys::memfd;
use custody_wire::{permit::Answer, session::Signed, supervise::VaultNotice};
use ed25519_dalek::{Signer as _, SigningKey};
use gate::{
    approval::{FORMAT, Reach, Scope, Statement},
    call::Call,
    chain::Place,
    digest::{Digest, Domain},
    id::{SessionId, ToolName},
    nonce::Nonce,
    record::Effect,
};
use sha2::{Digest as _, Sha512};

use crate::harness::{Bench, SESSION, Wish, run, yes};

/// The host's time when each of these vaults starts.
pub(crate) const NOW: u64 = 1_700_000_000_000;

pub(crate) fn alice() -> SigningKey {
    SigningKey::from_bytes(&[21; 32])
}

pub(crate) fn mallory() -> SigningKey {
    SigningKey::from_bytes(&[22; 32])
}

pub(crate) fn put(to: &mut Vec<u8>, part: &[u8]) {
    to.extend_from_slice(&u32::try_from(part.len()).unwrap().to_be_bytes());
    to.extend_from_slice(part);
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut held = [0; 3];
        held[..three.len()].copy_from_slice(three);
        let held = u32::from_be_bytes([0, held[0], held[1], held[2]]);
        for place in 0..4_usize {
            let six = usize::try_from(held >> (18 - 6 * place) & 63).unwrap();
            text.push(if place <= three.len() {
                char::from(DIGITS[six])
            } else {
                '='
            });
        }
    }
    text
}

pub(crate) fn blob(key: &SigningKey) -> Vec<u8> {
    let mut blob = Vec::new();
    put(&mut blob, b"ssh-ed25519");
    put(&mut blob, key.verifying_key().as_bytes());
    blob
}

fn line(key: &SigningKey) -> String {
    format!("ssh-ed25519 {} somebody\n", base64(&blob(key)))
}

fn fingerprint(key: &SigningKey) -> String {
    let digest = sha2::Sha256::digest(blob(key));
    format!("SHA256:{}", base64(&digest).trim_end_matches('='))
}

/// As `ssh-keygen -Y sign -n namespace` does.
pub(crate) fn sign_for(namespace: &[u8], said: &[u8], key: &SigningKey) -> Vec<u8> {
    let mut message = b"SSHSIG".to_vec();
    for part in [namespace, b"", b"sha512", &Sha512::digest(said)] {
        put(&mut message, part);
    }
    let mut signature = Vec::new();
    put(&mut signature, b"ssh-ed25519");
    put(&mut signature, &key.sign(&message).to_bytes());
    let mut out = b"SSHSIG\0\0\0\x01".to_vec();
    for part in [&blob(key)[..], namespace, b"", b"sha512", &signature] {
        put(&mut out, part);
    }
    format!(
        "-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n",
        base64(&out)
    )
    .into_bytes()
}

pub(crate) fn signed(statement: &Statement, key: &SigningKey) -> Signed {
    let statement = statement.to_bytes().unwrap();
    Signed {
        signature: sign_for(b"custody-approval@v1", &statement, key),
        statement,
    }
}

fn file(text: &str) -> OwnedFd {
    let mut file = File::from(memfd::sealed(c"reviewer", text.as_bytes()).unwrap());
    // Read from the beginning, as a file that was just opened.
    file.rewind().unwrap();
    file.into()
}

/// Sends these as all the reviewers that there are.
pub(crate) fn reviewers(bench: &Bench, keys: &[&SigningKey], revoked: &[&SigningKey]) {
    for key in keys {
        let name = "alice".into();
        bench.notice(&VaultNotice::Reviewer { name }, &[&file(&line(key))]);
    }
    if !revoked.is_empty() {
        let lines: Vec<String> = revoked.iter().map(|key| fingerprint(key)).collect();
        bench.notice(&VaultNotice::RevokedKeys, &[&file(&lines.join("\n"))]);
    }
    bench.notice(&VaultNotice::Reviewers, &[]);
}

pub(crate) fn transfer(bench: &Bench, amount: u32) -> Wish {
    bench.wish("transfer", serde_json::json!({ "amount": amount }))
}

pub(crate) fn statement(bench: &Bench, wish: &Wish) -> Statement {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).unwrap();
    Statement {
        audience: bench.gate.audience,
        call: Call::digest_of(&wish.call),
        decision: Place {
            digest: Digest::ZERO,
            position: 1,
        },
        epoch: Nonce(bench.gate.epoch),
        expires: NOW + 60_000,
        format: FORMAT,
        nonce: Nonce(nonce),
        policy: bench.policy.hash(),
        scope: Scope::ONCE,
        session: SESSION,
        tool: ToolName::parse("transfer").unwrap(),
    }
}

/// Asks with the permit naming the statement, as the gate does.
pub(crate) async fn ask(bench: &mut Bench, wish: &Wish, approval: &Signed) -> Answer {
    let digest = Statement::digest_of(&approval.statement);
    let wish = wish.with("approval", digest.to_string());
    bench.ask_approved(&wish, Some(approval.clone())).await
}

async fn refused(bench: &mut Bench, wish: &Wish, approval: &Signed) -> String {
    let before = bench.server.received().len();
    match ask(bench, wish, approval).await {
        Answer::Refused { why, .. } => {
            assert_eq!(bench.server.received().len(), before, "{why}");
            why
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_reviewer_signed_is_performed_once_and_its_receipt_names_his_key() {
    run(yes, async |mut bench| {
        reviewers(&bench, &[&alice()], &[]);
        let wish = transfer(&bench, 5);
        let good = signed(&statement(&bench, &wish), &alice());
        let answer = ask(&mut bench, &wish, &good).await;
        assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
        let chain = bench.chain();
        let Some((_, Effect::Receipt { effect, .. })) = chain.last() else {
            panic!("{chain:?}")
        };
        let rests = effect.approval.as_ref().unwrap();
        assert_eq!(rests.key.as_deref(), Some(&*fingerprint(&alice())));
        assert_eq!(rests.statement, Statement::digest_of(&good.statement));
        // The same statement with another permit, and signed again: it was used.
        let again = transfer(&bench, 5);
        let resigned = Signed {
            signature: sign_for(b"custody-approval@v1", &good.statement, &alice()),
            ..good.clone()
        };
        for used in [&good, &resigned] {
            let why = refused(&mut bench, &again, used).await;
            assert!(why.contains("was used before"), "{why}");
            let again = transfer(&bench, 5);
            let why = refused(&mut bench, &again, used).await;
            assert!(why.contains("was used before"), "{why}");
        }
        assert_eq!(bench.server.received().len(), 1);
    });
}

#[test]
fn a_gate_that_lies_cannot_pay() {
    run(yes, async |mut bench| {
        reviewers(&bench, &[&alice()], &[]);
        let wish = transfer(&bench, 5);
        let why = bench.refused(&wish).await;
        assert!(why.contains("nobody signed"), "{why}");
        // It names a statement and has none; has one and does not name it; names another.
        let wish = transfer(&bench, 5);
        let good = signed(&statement(&bench, &wish), &alice());
        let named = wish.with(
            "approval",
            Statement::digest_of(&good.statement).to_string(),
        );
        let Answer::Refused { why, .. } = bench.ask_approved(&named, None).await else {
            panic!("paid")
        };
        assert!(why.contains("none is beside it"), "{why}");
        let wish = transfer(&bench, 5);
        let Answer::Refused { why, .. } = bench.ask_approved(&wish, Some(good.clone())).await
        else {
            panic!("paid")
        };
        assert!(why.contains("names no statement"), "{why}");
        let other = Digest::of(Domain::Approval, b"another").to_string();
        let wish = transfer(&bench, 5).with("approval", other);
        let Answer::Refused { why, .. } = bench.ask_approved(&wish, Some(good)).await else {
            panic!("paid")
        };
        assert!(why.contains("another statement"), "{why}");
        assert_eq!(bench.server.received().len(), 0);
    });
}

#[test]
fn a_statement_of_anything_else_or_signed_by_anybody_else_is_refused_with_its_reason() {
    run(yes, async |mut bench| {
        reviewers(&bench, &[&alice()], &[]);
        let wish = transfer(&bench, 5);
        let good = statement(&bench, &wish);
        let other = Digest::of(Domain::Call, b"another");
        for (wrong, why) in [
            (
                Statement {
                    call: other,
                    ..good.clone()
                },
                "another call",
            ),
            (
                Statement {
                    audience: other,
                    ..good.clone()
                },
                "another vault",
            ),
            (
                Statement {
                    policy: other,
                    ..good.clone()
                },
                "another policy",
            ),
            (
                Statement {
                    session: SessionId(8),
                    ..good.clone()
                },
                "another session",
            ),
            (
                Statement {
                    epoch: Nonce([0; 16]),
                    ..good.clone()
                },
                "earlier run",
            ),
            (
                Statement {
                    tool: ToolName::parse("send").unwrap(),
                    ..good.clone()
                },
                "another tool",
            ),
            (
                Statement {
                    expires: NOW,
                    ..good.clone()
                },
                "expired",
            ),
            (
                Statement {
                    expires: NOW + 90_000_000,
                    ..good.clone()
                },
                "more than 24 hours",
            ),
            (
                Statement {
                    scope: Scope {
                        reach: Reach::Once,
                        until: Some(NOW),
                    },
                    ..good.clone()
                },
                "expired",
            ),
            (
                Statement {
                    scope: Scope {
                        reach: Reach::Target,
                        until: None,
                    },
                    ..good.clone()
                },
                "more than one call",
            ),
            (
                Statement {
                    format: 2,
                    ..good.clone()
                },
                "format 2",
            ),
        ] {
            let wish = transfer(&bench, 5);
            let said = refused(&mut bench, &wish, &signed(&wrong, &alice())).await;
            assert!(said.contains(why), "{why}: {said}");
        }
        let bytes = good.to_bytes().unwrap();
        let of = |statement: &[u8], signature: Vec<u8>| Signed {
            statement: statement.into(),
            signature,
        };
        let right = sign_for(b"custody-approval@v1", &bytes, &alice());
        let mut spaced = bytes.clone();
        spaced.push(b'\n');
        let spaced_right = sign_for(b"custody-approval@v1", &spaced, &alice());
        for (wrong, why) in [
            (
                of(&bytes, sign_for(b"custody-approval@v1", &bytes, &mallory())),
                "no reviewer",
            ),
            (
                of(&bytes, sign_for(b"custody-approval@v1", b"else", &alice())),
                "not of this statement",
            ),
            (
                of(&bytes, sign_for(b"git", &bytes, &alice())),
                "another purpose",
            ),
            (
                of(&bytes, sign_for(b"custody-approval@v10", &bytes, &alice())),
                "another purpose",
            ),
            (of(&bytes, Vec::new()), "ssh-keygen -Y sign"),
            (
                of(&bytes, right[..right.len() - 1].to_vec()),
                "ssh-keygen -Y sign",
            ),
            (
                of(&bytes[..bytes.len() - 1], right.clone()),
                "cannot be read",
            ),
            (of(&spaced, spaced_right), "cannot be read"),
        ] {
            let wish = transfer(&bench, 5);
            let said = refused(&mut bench, &wish, &wrong).await;
            assert!(said.contains(why), "{why}: {said}");
        }
        // Nothing of that used it up.
        let wish = transfer(&bench, 5);
        let answer = ask(&mut bench, &wish, &of(&bytes, right)).await;
        assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
    });
}

#[test]
fn a_key_counts_from_when_it_is_there_until_it_is_gone_or_revoked() {
    run(yes, async |mut bench| {
        let try_it = async |bench: &mut Bench| {
            let wish = transfer(bench, 5);
            let good = signed(&statement(bench, &wish), &alice());
            match ask(bench, &wish, &good).await {
                Answer::Done { .. } => None,
                Answer::Refused { why, .. } => Some(why),
                other => panic!("{other:?}"),
            }
        };
        let none = |said: Option<String>| said.is_some_and(|why| why.contains("no reviewer"));
        assert!(none(try_it(&mut bench).await), "before any was sent");
        let name = || VaultNotice::Reviewer {
            name: "alice".into(),
        };
        bench.notice(&name(), &[&file(&line(&alice()))]);
        assert!(none(try_it(&mut bench).await), "before all were sent");
        bench.notice(&VaultNotice::Reviewers, &[]);
        assert_eq!(try_it(&mut bench).await, None);
        // Signed while the key counted, used when it does not.
        let wish = transfer(&bench, 6);
        let early = signed(&statement(&bench, &wish), &alice());
        reviewers(&bench, &[&mallory()], &[]);
        assert!(
            refused(&mut bench, &wish, &early)
                .await
                .contains("no reviewer")
        );
        reviewers(&bench, &[&alice()], &[]);
        assert_eq!(try_it(&mut bench).await, None);
        reviewers(&bench, &[&alice()], &[&alice()]);
        assert!(none(try_it(&mut bench).await), "revoked");
        // A list that cannot be read revokes all; a file with one bad line gives no key.
        bench.notice(&name(), &[&file(&line(&alice()))]);
        bench.notice(&VaultNotice::RevokedKeys, &[&file("SHA256:short")]);
        bench.notice(&VaultNotice::Reviewers, &[]);
        assert!(none(try_it(&mut bench).await), "unreadable list");
        let two = format!("{}ssh-rsa AAAA bob\n", line(&alice()));
        bench.notice(&name(), &[&file(&two)]);
        bench.notice(&VaultNotice::Reviewers, &[]);
        assert!(none(try_it(&mut bench).await), "a bad line");
        let commented = format!("# alice, until May\n\n{}", line(&alice()));
        bench.notice(&name(), &[&file(&commented)]);
        bench.notice(&VaultNotice::Reviewers, &[]);
        assert_eq!(try_it(&mut bench).await, None);
    });
}

#[test]
fn a_statement_ends_by_a_clock_that_nobody_sets_back_and_with_the_vaults_run() {
    run(yes, async |mut bench| {
        reviewers(&bench, &[&alice()], &[]);
        let wish = transfer(&bench, 5);
        let good = signed(&statement(&bench, &wish), &alice());
        // The host's clock stands still, as if it were set back each minute; the boot clock does not.
        bench.clock.set(bench.clock.get() + 60_000_000_000);
        let wish = transfer(&bench, 5);
        let why = refused(&mut bench, &wish, &good).await;
        assert!(why.contains("expired"), "{why}");

        let wish = transfer(&bench, 5);
        let mut late = statement(&bench, &wish);
        late.expires = NOW + 120_000;
        let late = signed(&late, &alice());
        bench.restart().await;
        reviewers(&bench, &[&alice()], &[]);
        let wish = transfer(&bench, 5);
        let why = refused(&mut bench, &wish, &late).await;
        assert!(why.contains("earlier run of the vault"), "{why}");
    });
}

#[test]
fn copies_of_one_statement_race_to_one_effect() {
    run(yes, async |mut bench| {
        reviewers(&bench, &[&alice()], &[]);
        let wish = transfer(&bench, 5);
        let good = signed(&statement(&bench, &wish), &alice());
        let digest = Statement::digest_of(&good.statement).to_string();
        bench
            .gate
            .say(&custody_wire::permit::Request::Durable { position: 1 })
            .await;
        for _ in 0..16 {
            let wish = transfer(&bench, 5).with("approval", digest.clone());
            let permit = wish.signed(&bench.gate.key);
            bench
                .gate
                .perform_approved(permit, wish.call.clone(), Some(good.clone()))
                .await;
        }
        let mut performed = 0;
        for _ in 0..16 {
            match bench.gate.answer().await {
                Answer::Done { .. } => performed += 1,
                Answer::Refused { why, .. } => assert!(why.contains("used before"), "{why}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((performed, bench.server.received().len()), (1, 1));
    });
}
