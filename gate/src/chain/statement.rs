//! What is signed: in-toto statements (in-toto Attestation Framework v1.0), in the envelope form of DSSE
//! v1.0, so that tools which know neither us nor our lines can check a signature.
//!
//! A signature is Ed25519 (RFC 8032) over the pre-authentication encoding
//! `DSSEv1 SP LEN(type) SP type SP LEN(body) SP body`, where the body is the statement in RFC 8785 form.
//! The predicate's type stands in the statement, so that no statement of one kind is one of another.

use alloc::{format, string::String, vec::Vec};

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use crate::{
    digest::Digest,
    json::{Value, canonical},
};

/// The media type of a statement (in-toto Attestation Framework, "Envelope").
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// What a statement says of its subjects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Predicate {
    /// A key was certified by the instance's.
    Certificate,
    /// The subjects are the records of a chain behind the checkpoint before.
    Checkpoint,
    /// A key of a chain was replaced.
    Rotation,
}

impl Predicate {
    /// The predicate's type, a URI.
    pub const fn uri(self) -> &'static str {
        match self {
            Self::Certificate => "urn:custody:ledger:certificate:1",
            Self::Checkpoint => "urn:custody:ledger:checkpoint:1",
            Self::Rotation => "urn:custody:ledger:rotation:1",
        }
    }
}

/// A statement in RFC 8785 form. The names of the subjects are ours: printable ASCII without quotes.
pub fn statement(
    predicate: Predicate,
    says: &Value,
    subjects: impl IntoIterator<Item = (String, Digest)>,
) -> Vec<u8> {
    let mut out = b"{\"_type\":\"https://in-toto.io/Statement/v1\",\"predicate\":".to_vec();
    out.extend_from_slice(&canonical(says));
    out.extend_from_slice(
        format!(",\"predicateType\":\"{}\",\"subject\":[", predicate.uri()).as_bytes(),
    );
    for (at, (name, digest)) in subjects.into_iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let subject =
            format!("{comma}{{\"digest\":{{\"sha256\":\"{digest}\"}},\"name\":\"{name}\"}}");
        out.extend_from_slice(subject.as_bytes());
    }
    out.extend_from_slice(b"]}");
    out
}

/// The bytes that are signed (DSSE v1.0, "Signature Definition").
pub fn pre_authentication(body: &[u8]) -> Vec<u8> {
    let (kind, len) = (PAYLOAD_TYPE, body.len());
    let mut out = format!("DSSEv1 {} {kind} {len} ", kind.len()).into_bytes();
    out.extend_from_slice(body);
    out
}

/// Signs a statement; 128 hexadecimal digits.
pub(super) fn sign(body: &[u8], key: &SigningKey) -> String {
    hex::encode(key.sign(&pre_authentication(body)).to_bytes())
}

/// Whether `signature` is of this statement by `key`.
pub fn is_signed(body: &[u8], key: &VerifyingKey, signature: &Signature) -> bool {
    let message = pre_authentication(body);
    key.verify_strict(&message, signature).is_ok()
}
