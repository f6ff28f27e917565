//! The instance's key: root's alone, and 32 bytes. It is the one secret that custodyd reads itself.

use std::{fs::File, io, io::Read as _};

use custody_config::CredentialSource;
use ed25519_dalek::SigningKey;
use gate::id::CredentialLabel;
use zeroize::Zeroizing;

use super::credentials::{self, CredentialError};

/// The private half of a key (RFC 8032, section 5.1.5).
const BYTES: usize = 32;

/// Why the instance's key cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Its file is not taken.
    #[error("the instance's key cannot be used")]
    File(#[source] CredentialError),
    /// It is no key.
    #[error(
        "the instance's key has not just {BYTES} bytes; make one with \
         `head -c {BYTES} /dev/urandom`, sealed by `systemd-creds encrypt` or in a file of mode 0600"
    )]
    NotAKey,
    /// It cannot be read.
    #[error("the instance's key cannot be read")]
    Read(#[source] io::Error),
}

/// Reads the key.
///
/// # Errors
/// See [`InstanceError`].
pub fn read(source: &CredentialSource) -> Result<SigningKey, InstanceError> {
    let label = CredentialLabel::parse("instance").map_err(|_never| InstanceError::NotAKey)?;
    let fd = credentials::open(&label, source).map_err(InstanceError::File)?;
    // One byte more than it may have.
    let mut bytes = Zeroizing::new(Vec::with_capacity(BYTES + 1));
    File::from(fd)
        .take(BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(InstanceError::Read)?;
    let bytes = <&[u8; BYTES]>::try_from(bytes.as_slice());
    bytes
        .map(SigningKey::from_bytes)
        .map_err(|_length| InstanceError::NotAKey)
}
