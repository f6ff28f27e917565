//! The key of a signature, by its name: what `ssh-keygen -l` calls it.
//!
//! For readers of a record. Whoever made the signature wrote the key in it too; the vault verifies both.

use base64ct::{Base64, Base64Unpadded, Encoding as _};
use sha2::{Digest as _, Sha256};

/// The frame of an armoured signature (PROTOCOL.sshsig of OpenSSH).
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";

/// Before everything else in it.
const MAGIC: &[u8] = b"SSHSIG";

/// `SHA256:…` of the public key in `armoured`; none if it is no signature.
pub fn of(armoured: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(armoured).ok()?.trim();
    let body = text.strip_prefix(BEGIN)?.strip_suffix(END)?;
    let base64: String = body.split_ascii_whitespace().collect();
    let blob = Base64::decode_vec(&base64).ok()?;
    // The magic, a version, and the key behind its length (RFC 4251 section 5).
    let (_version, rest) = blob.strip_prefix(MAGIC)?.split_at_checked(4)?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let key = rest.get(..usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
    let digest = Sha256::digest(key);
    Some(format!("SHA256:{}", Base64Unpadded::encode_string(&digest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with `ssh-keygen -Y sign -n custody-approval@v1`; the name is what `ssh-keygen -l` says.
    const SIGNATURE: &str = include_str!("../tests/data/statement.sig");
    const NAME: &str = include_str!("../tests/data/fingerprint");

    #[test]
    fn a_key_has_the_name_that_ssh_keygen_gives_it() {
        assert_eq!(of(SIGNATURE.as_bytes()).as_deref(), Some(NAME.trim()));
    }

    #[test]
    fn what_is_no_signature_has_no_key() {
        for bad in [
            "",
            BEGIN,
            "-----BEGIN SSH SIGNATURE-----\n!\n-----END SSH SIGNATURE-----",
            "-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAf////8=\n-----END SSH SIGNATURE-----",
        ] {
            assert_eq!(of(bad.as_bytes()), None, "{bad}");
        }
    }
}
