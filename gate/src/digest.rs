//! SHA-256 digests (FIPS 180-4), separated by domain.

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What a digest is of. Each domain is hashed first, with a NUL behind it, so that the digest of
/// one kind of thing is never the digest of another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Domain {
    /// What a reviewer says to a call: the statement, in RFC 8785 form.
    Approval,
    /// A call: the tool's name and every argument, in RFC 8785 form.
    Call,
    /// One field of a record, behind its salt (`crate::chain::fields`).
    Field,
    /// The fields of an object, each by its name and its digest.
    Fields,
    /// An Ed25519 public key: what a key is called (key id, audience).
    Key,
    /// A decision record or a receipt: its place in the chain, and its fields by their digest.
    Line,
    /// The salt of one field, drawn from the record's.
    Salt,
    /// A line of a chain that is signed itself: a checkpoint, or one about keys.
    Signed,
    /// A compiled policy.
    Policy,
    /// What an effect answered.
    Result,
}

impl Domain {
    const fn tag(self) -> &'static [u8] {
        match self {
            Self::Approval => b"custody approval v1\0",
            Self::Call => b"custody call v1\0",
            Self::Field => b"custody field v1\0",
            Self::Fields => b"custody fields v1\0",
            Self::Key => b"custody key v1\0",
            Self::Line => b"custody line v1\0",
            Self::Salt => b"custody salt v1\0",
            Self::Signed => b"custody signed line v1\0",
            Self::Policy => b"custody policy v1\0",
            Self::Result => b"custody result v1\0",
        }
    }
}

/// A SHA-256 digest. Its text form is 64 hexadecimal digits, lower case.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// Before the first line of a chain.
    pub const ZERO: Self = Self([0; 32]);

    /// The digest of `bytes` in `domain`.
    pub fn of(domain: Domain, bytes: &[u8]) -> Self {
        Self::of_parts(domain, [bytes])
    }

    /// The digest of `parts`, one behind the other, in `domain`. Where a part's length is not fixed,
    /// it stands in the part before it.
    pub fn of_parts<'a>(domain: Domain, parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(domain.tag());
        for part in parts {
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// A digest that was taken elsewhere.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest's bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// SHA-256 of bytes as they come, without a domain: what `sha256sum` says of them.
#[derive(Clone, Debug, Default)]
pub struct Running(Sha256);

impl Running {
    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of everything up to now.
    pub fn so_far(&self) -> Digest {
        Digest(self.0.clone().finalize().into())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        hex::encode(digest.0)
    }
}

/// Why a text is not a [`Digest`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a digest is 64 hexadecimal digits in lower case")]
pub struct DigestError;

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(&text, &mut bytes).map_err(|_not_hex| DigestError)?;
        // `hex` takes upper case too; one digest has one text.
        if text.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(DigestError);
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    #[test]
    fn the_same_bytes_in_two_domains_have_two_digests() {
        assert_ne!(
            Digest::of(Domain::Call, b"x"),
            Digest::of(Domain::Line, b"x")
        );
    }

    #[test]
    fn a_digest_survives_its_text_and_upper_case_is_refused() {
        let digest = Digest::of(Domain::Result, b"");
        assert_eq!(Digest::try_from(digest.to_string()), Ok(digest));
        assert_eq!(
            Digest::try_from(digest.to_string().to_uppercase()),
            Err(DigestError)
        );
    }
}
