//! Reviewers' signatures: those that `ssh-keygen -Y sign` made, and others.

use ed25519_dalek::{Signer as _, SigningKey};
use gate::approval::{KeyError, PublicKey, SshSigError, verify};
use proptest::prelude::*;
use sha2::{Digest as _, Sha256, Sha512};

const ALICE: &str = include_str!("../../../fixtures/approvals/alice.pub");
const GOOD: &str = include_str!("../../../fixtures/approvals/good.sig");
const SHA256: &str = include_str!("../../../fixtures/approvals/sha256.sig");
/// Signed with `-n git`.
const NAMESPACE: &str = include_str!("../../../fixtures/approvals/namespace.sig");
const SAID: &[u8] = b"a statement";

fn alice() -> PublicKey {
    PublicKey::read(ALICE).unwrap()
}

fn by_alice(signature: &str, said: &[u8]) -> Result<String, SshSigError> {
    let key = alice();
    verify(signature.as_bytes(), said, [&key]).map(PublicKey::fingerprint)
}

#[test]
fn what_ssh_keygen_signed_is_verified_and_names_the_key_as_ssh_keygen_does() {
    let fingerprint = "SHA256:IIqEbQhOCbSGMz/AjjxdG9tn+91ARhsYVSKup1M9PQA";
    assert_eq!(by_alice(GOOD, SAID).as_deref(), Ok(fingerprint));
    assert_eq!(by_alice(SHA256, SAID).as_deref(), Ok(fingerprint));
    assert!(!alice().is_touched());
}

#[test]
fn another_text_namespace_or_key_is_refused() {
    assert_eq!(by_alice(GOOD, b"another"), Err(SshSigError::Wrong));
    assert_eq!(by_alice(NAMESPACE, SAID), Err(SshSigError::Namespace));
    assert_eq!(
        verify(GOOD.as_bytes(), SAID, []).map(PublicKey::fingerprint),
        Err(SshSigError::Key)
    );
    let other = line(&SigningKey::from_bytes(&[9; 32]), None);
    let other = PublicKey::read(&other).unwrap();
    assert_eq!(
        verify(GOOD.as_bytes(), SAID, [&other]).map(PublicKey::fingerprint),
        Err(SshSigError::Key)
    );
}

#[test]
fn a_key_of_another_kind_or_form_is_none() {
    let text = ALICE.split(' ').nth(1).unwrap();
    for (line, error) in [
        ("", KeyError::Form),
        ("ssh-ed25519", KeyError::Form),
        ("ssh-rsa AAAA x", KeyError::Type),
        ("ssh-ed25519 AAAA x", KeyError::Form),
        ("sk-ssh-ed25519@openssh.com AAAA x", KeyError::Form),
        (
            &format!("sk-ssh-ed25519@openssh.com {text}"),
            KeyError::Form,
        ),
        (&format!("cert-authority {text}"), KeyError::Type),
        (
            &format!("no-touch-required ssh-ed25519 {text}"),
            KeyError::Type,
        ),
        (&format!("ssh-ed25519 {text}="), KeyError::Form),
    ] {
        assert_eq!(PublicKey::read(line), Err(error), "{line}");
    }
    // The neutral element: everybody's signature would be its.
    let mut blob = Vec::new();
    put(&mut blob, b"ssh-ed25519");
    let mut point = [0; 32];
    point[0] = 1;
    put(&mut blob, &point);
    let weak = format!("ssh-ed25519 {}", base64(&blob));
    assert_eq!(PublicKey::read(&weak), Err(KeyError::Weak));
}

fn put(to: &mut Vec<u8>, part: &[u8]) {
    to.extend_from_slice(&u32::try_from(part.len()).unwrap().to_be_bytes());
    to.extend_from_slice(part);
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut held = [0; 3];
        held[..three.len()].copy_from_slice(three);
        let held = u32::from_be_bytes([0, held[0], held[1], held[2]]);
        for place in 0..4 {
            let six = held >> (18 - 6 * place) & 63;
            text.push(if place <= u32::try_from(three.len()).unwrap() {
                char::from(DIGITS[usize::try_from(six).unwrap()])
            } else {
                '='
            });
        }
    }
    text
}

const SK: &[u8] = b"sk-ssh-ed25519@openssh.com";

fn blob(key: &SigningKey, application: Option<&[u8]>) -> Vec<u8> {
    let mut blob = Vec::new();
    put(&mut blob, application.map_or(b"ssh-ed25519", |_| SK));
    put(&mut blob, key.verifying_key().as_bytes());
    if let Some(application) = application {
        put(&mut blob, application);
    }
    blob
}

fn line(key: &SigningKey, application: Option<&[u8]>) -> String {
    let kind = application.map_or("ssh-ed25519", |_| "sk-ssh-ed25519@openssh.com");
    format!("{kind} {} bob", base64(&blob(key, application)))
}

/// What a security key signs (PROTOCOL.u2f), with these flags.
fn touched(key: &SigningKey, flags: u8, reserved: &[u8], behind: &[u8]) -> String {
    let mut said = b"SSHSIG".to_vec();
    for part in [
        &b"custody-approval@v1"[..],
        reserved,
        b"sha512",
        &Sha512::digest(SAID),
    ] {
        put(&mut said, part);
    }
    let mut whole = Sha256::digest(b"ssh:").to_vec();
    whole.push(flags);
    whole.extend_from_slice(&7_u32.to_be_bytes());
    whole.extend_from_slice(&Sha256::digest(&said));
    let mut signature = Vec::new();
    put(&mut signature, SK);
    put(&mut signature, &key.sign(&whole).to_bytes());
    signature.push(flags);
    signature.extend_from_slice(&7_u32.to_be_bytes());
    let mut out = b"SSHSIG\0\0\0\x01".to_vec();
    for part in [
        &blob(key, Some(b"ssh:"))[..],
        b"custody-approval@v1",
        reserved,
        b"sha512",
        &signature,
    ] {
        put(&mut out, part);
    }
    out.extend_from_slice(behind);
    format!(
        "-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n",
        base64(&out)
    )
}

#[test]
fn a_security_key_signs_when_somebody_touched_it() {
    let key = SigningKey::from_bytes(&[5; 32]);
    let public = PublicKey::read(&line(&key, Some(b"ssh:"))).unwrap();
    assert!(public.is_touched());
    let verified = |text: &str| verify(text.as_bytes(), SAID, [&public]).map(|_| ());
    assert_eq!(verified(&touched(&key, 1, b"", b"")), Ok(()));
    assert_eq!(verified(&touched(&key, 5, b"", b"")), Ok(()));
    assert_eq!(
        verified(&touched(&key, 0, b"", b"")),
        Err(SshSigError::Touch)
    );
    assert_eq!(
        verified(&touched(&key, 4, b"", b"")),
        Err(SshSigError::Touch)
    );
    assert_eq!(
        verified(&touched(&key, 1, b"x", b"")),
        Err(SshSigError::Form)
    );
    assert_eq!(
        verified(&touched(&key, 1, b"", b"\0")),
        Err(SshSigError::Form)
    );
    let other = SigningKey::from_bytes(&[6; 32]);
    assert_eq!(
        verified(&touched(&other, 1, b"", b"")),
        Err(SshSigError::Key)
    );
}

proptest! {
    #[test]
    fn a_signature_with_a_digit_changed_cut_or_added_is_refused(
        at in 0..400_usize, to in "[A-Za-z0-9+/=\\n -]", cut: bool,
    ) {
        let at = at % GOOD.len();
        let (before, rest) = GOOD.split_at(at);
        let changed = if cut {
            before.to_owned()
        } else {
            let after: String = rest.chars().skip(1).collect();
            format!("{before}{to}{after}")
        };
        // Where lines are broken says nothing.
        let digits = |text: &str| text.replace('\n', "");
        prop_assume!(digits(&changed) != digits(GOOD));
        prop_assert!(by_alice(&changed, SAID).is_err());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let key = alice();
        prop_assert!(verify(&bytes, SAID, [&key]).is_err());
        let armoured = format!(
            "-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n",
            base64(&[b"SSHSIG\0\0\0\x01", &bytes[..]].concat())
        );
        prop_assert!(verify(armoured.as_bytes(), SAID, [&key]).is_err());
    }
}
