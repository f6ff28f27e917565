//! Rows are signed: whoever can write the file, and has not the key, gives no approval.
//!
//! What is signed is the whole row as it is stored, its state included. The columns beside it, which
//! queries go by, are compared with it. A row that is put back to what it once was has a good signature;
//! for that a taken approval is noted a second time, see [`crate::sqlite`], and the gate lets a held call
//! go only once.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use crate::Approval;

/// Before what is signed, so that a row is never another text of ours.
const DOMAIN: &[u8] = b"custody approval row v1\0";

/// A row as it is stored: its text and the signature on it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Signed {
    /// The row, as JSON.
    pub body: String,
    /// On it.
    pub signature: [u8; Signature::BYTE_SIZE],
}

/// Signs `row`. None where it cannot be written as JSON, which no row of ours is.
pub fn sign(row: &Approval, key: &SigningKey) -> Option<Signed> {
    let body = serde_json::to_string(row).ok()?;
    let signature = key.sign(&message(&body)).to_bytes();
    Some(Signed { body, signature })
}

/// The row, if `signature` is on `body`.
///
/// # Errors
/// What is wrong.
pub fn read(body: &str, signature: &[u8], key: &VerifyingKey) -> Result<Approval, &'static str> {
    let signature = Signature::from_slice(signature).map_err(|_len| "its signature is none")?;
    key.verify_strict(&message(body), &signature)
        .map_err(|_bad| "its signature is not on what it says")?;
    serde_json::from_str(body).map_err(|_json| "it is signed and cannot be read")
}

fn message(body: &str) -> Vec<u8> {
    [DOMAIN, body.as_bytes()].concat()
}
