//! Random bytes that name something: a permit, a run of the vault.

use alloc::string::String;

use serde::{Deserialize, Serialize};

/// 16 bytes, drawn at random. The text form is 32 hexadecimal digits, lower case.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Nonce(pub [u8; 16]);

/// Why a text is not a [`Nonce`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a nonce is 32 hexadecimal digits in lower case")]
pub struct NonceError;

impl From<Nonce> for String {
    fn from(nonce: Nonce) -> Self {
        hex::encode(nonce.0)
    }
}

impl TryFrom<String> for Nonce {
    type Error = NonceError;

    fn try_from(text: String) -> Result<Self, NonceError> {
        let mut bytes = [0; 16];
        hex::decode_to_slice(&text, &mut bytes).map_err(|_not_hex| NonceError)?;
        if text.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(NonceError);
        }
        Ok(Self(bytes))
    }
}
