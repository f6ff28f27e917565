//! Signatures as OpenSSH makes them: `ssh-keygen -Y sign` (PROTOCOL.sshsig), with an Ed25519 key (RFC 8032,
//! RFC 8709) or one in a security key (PROTOCOL.u2f, `sk-ssh-ed25519@openssh.com`).
//!
//! Read strictly: one form, nothing behind it, no other algorithm. Of a security key's signature it is
//! asked that somebody touched the key.

use alloc::{string::String, vec::Vec};

use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest as _, Sha256, Sha512};

use super::base64;
use crate::mutant::Mutant;

const MAGIC: &[u8] = b"SSHSIG";
const VERSION: u32 = 1;
const ED25519: &str = "ssh-ed25519";
const SK_ED25519: &str = "sk-ssh-ed25519@openssh.com";
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----\n";
const END: &str = "-----END SSH SIGNATURE-----\n";

/// Somebody touched the security key (PROTOCOL.u2f).
const USER_PRESENT: u8 = 0x01;

/// The most bytes of an armoured signature; one is some 300 long.
const ARMOURED_MAX: usize = 8 << 10;

/// The most bytes of a key's line.
const LINE_MAX: usize = 4 << 10;

/// A reviewer's public key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PublicKey {
    kind: Kind,
    point: VerifyingKey,
    /// As it goes over the wire: what signatures name it by.
    blob: Vec<u8>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Kind {
    Plain,
    /// In a security key, under this name.
    Touched {
        application: Vec<u8>,
    },
}

/// Why a line is no key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KeyError {
    /// Not `TYPE BASE64 COMMENT`, or its parts do not agree.
    #[error("it is no line of the form `ssh-ed25519 AAAA… comment`")]
    Form,
    /// Another kind of key.
    #[error("only keys of the types `{ED25519}` and `{SK_ED25519}` count")]
    Type,
    /// A point of small order: anybody could sign for it.
    #[error("the key is none that one person alone can sign with")]
    Weak,
}

/// Why a signature does not count.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SshSigError {
    /// Not in the form of `ssh-keygen -Y sign`.
    #[error("the signature is none of the form that `ssh-keygen -Y sign` writes")]
    Form,
    /// A hash that is not asked for.
    #[error("the signature's hash is neither sha512 nor sha256")]
    Hash,
    /// By a key that is no reviewer's.
    #[error("the signature is by a key of no reviewer")]
    Key,
    /// For another purpose.
    #[error(
        "the signature is for another purpose: sign with `-n {}`",
        super::NAMESPACE
    )]
    Namespace,
    /// Nobody touched the security key.
    #[error("the security key was not touched for this signature")]
    Touch,
    /// Of something else.
    #[error("the signature is not of this statement")]
    Wrong,
}

impl PublicKey {
    /// Reads a line of a `.pub` file.
    ///
    /// # Errors
    /// When it is no key that counts.
    pub fn read(line: &str) -> Result<Self, KeyError> {
        if line.len() > LINE_MAX {
            return Err(KeyError::Form);
        }
        let mut words = line.trim().splitn(3, ' ');
        let (Some(named), Some(text)) = (words.next(), words.next()) else {
            return Err(KeyError::Form);
        };
        if named != ED25519 && named != SK_ED25519 {
            return Err(KeyError::Type);
        }
        let blob = base64::decode(text.as_bytes()).ok_or(KeyError::Form)?;
        let key = Self::of_blob(blob)?;
        let agrees = match &key.kind {
            Kind::Plain => named == ED25519,
            Kind::Touched { .. } => named == SK_ED25519,
        };
        if agrees { Ok(key) } else { Err(KeyError::Form) }
    }

    fn of_blob(blob: Vec<u8>) -> Result<Self, KeyError> {
        let mut rest = Reader(&blob);
        let named = rest.string().ok_or(KeyError::Form)?;
        let point = rest.string().ok_or(KeyError::Form)?;
        let kind = if named == ED25519.as_bytes() {
            Kind::Plain
        } else if named == SK_ED25519.as_bytes() {
            let application = rest.string().ok_or(KeyError::Form)?.to_vec();
            Kind::Touched { application }
        } else {
            return Err(KeyError::Type);
        };
        rest.end().ok_or(KeyError::Form)?;
        let point = <[u8; 32]>::try_from(point).map_err(|_length| KeyError::Form)?;
        let point = VerifyingKey::from_bytes(&point).map_err(|_no_point| KeyError::Weak)?;
        if point.is_weak() {
            return Err(KeyError::Weak);
        }
        Ok(Self { kind, point, blob })
    }

    /// What people and records call it: as `ssh-keygen -l` does.
    pub fn fingerprint(&self) -> String {
        let digest: [u8; 32] = Sha256::digest(&self.blob).into();
        let mut text = String::from("SHA256:");
        text.push_str(base64::encode(&digest).trim_end_matches('='));
        text
    }

    /// Whether it is in a security key, which somebody touches.
    pub const fn is_touched(&self) -> bool {
        match self.kind {
            Kind::Plain => false,
            Kind::Touched { .. } => true,
        }
    }
}

/// By which of `keys` the armoured signature is, of `message` and in our namespace.
///
/// # Errors
/// See [`SshSigError`].
pub fn verify<'k>(
    armoured: &[u8],
    message: &[u8],
    keys: impl IntoIterator<Item = &'k PublicKey>,
) -> Result<&'k PublicKey, SshSigError> {
    let blob = unarmour(armoured).ok_or(SshSigError::Form)?;
    let signed = Signed::read(&blob).ok_or(SshSigError::Form)?;
    if signed.namespace != super::NAMESPACE.as_bytes() {
        return Err(SshSigError::Namespace);
    }
    let hash = match signed.hash {
        b"sha512" => Sha512::digest(message).to_vec(),
        b"sha256" => Sha256::digest(message).to_vec(),
        _other => return Err(SshSigError::Hash),
    };
    let key = keys
        .into_iter()
        .find(|key| key.blob == signed.key)
        .ok_or(SshSigError::Key)?;
    let mut said = Vec::from(MAGIC);
    for part in [signed.namespace, b"", signed.hash, &hash] {
        put(&mut said, part);
    }
    let by = key.is_signed(&said, signed.signature);
    match by {
        Err(SshSigError::Wrong) if Mutant::VaultApprovalSignature.is_on() => Ok(key),
        by => by.map(|()| key),
    }
}

impl PublicKey {
    fn is_signed(&self, said: &[u8], signature: &[u8]) -> Result<(), SshSigError> {
        let mut rest = Reader(signature);
        let named = rest.string().ok_or(SshSigError::Form)?;
        let raw = rest.string().ok_or(SshSigError::Form)?;
        let raw = <[u8; 64]>::try_from(raw).map_err(|_length| SshSigError::Form)?;
        let raw = Signature::from_bytes(&raw);
        let verified = match &self.kind {
            Kind::Plain => {
                rest.end().ok_or(SshSigError::Form)?;
                if named != ED25519.as_bytes() {
                    return Err(SshSigError::Form);
                }
                self.point.verify_strict(said, &raw)
            }
            Kind::Touched { application } => {
                let flags = rest.byte().ok_or(SshSigError::Form)?;
                let counter = rest.u32().ok_or(SshSigError::Form)?;
                rest.end().ok_or(SshSigError::Form)?;
                if named != SK_ED25519.as_bytes() {
                    return Err(SshSigError::Form);
                }
                if flags & USER_PRESENT == 0 {
                    return Err(SshSigError::Touch);
                }
                let mut whole = Vec::from(<[u8; 32]>::from(Sha256::digest(application)));
                whole.push(flags);
                whole.extend_from_slice(&counter.to_be_bytes());
                whole.extend_from_slice(&<[u8; 32]>::from(Sha256::digest(said)));
                self.point.verify_strict(&whole, &raw)
            }
        };
        verified.map_err(|_wrong| SshSigError::Wrong)
    }
}

/// The parts of a signature.
struct Signed<'a> {
    key: &'a [u8],
    namespace: &'a [u8],
    hash: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Signed<'a> {
    fn read(blob: &'a [u8]) -> Option<Self> {
        let mut rest = Reader(blob.strip_prefix(MAGIC)?);
        if rest.u32()? != VERSION {
            return None;
        }
        let (key, namespace, reserved) = (rest.string()?, rest.string()?, rest.string()?);
        let (hash, signature) = (rest.string()?, rest.string()?);
        rest.end()?;
        // What is reserved has no meaning yet, and nothing without one is signed.
        reserved.is_empty().then_some(Self {
            key,
            namespace,
            hash,
            signature,
        })
    }
}

fn unarmour(armoured: &[u8]) -> Option<Vec<u8>> {
    if armoured.len() > ARMOURED_MAX {
        return None;
    }
    let text = core::str::from_utf8(armoured).ok()?;
    let inside = text.strip_prefix(BEGIN)?.strip_suffix(END)?;
    let digits: Vec<u8> = inside.bytes().filter(|b| *b != b'\n').collect();
    base64::decode(&digits)
}

fn put(to: &mut Vec<u8>, part: &[u8]) {
    let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
    to.extend_from_slice(&len.to_be_bytes());
    to.extend_from_slice(part);
}

/// Reads what RFC 4251, section 5, writes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*head))
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u32()?).ok()?;
        let (part, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(part)
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
