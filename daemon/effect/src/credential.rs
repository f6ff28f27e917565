//! The one credential of this worker.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::fd::OwnedFd,
};

use custody_sys::memory::Locked;
use custody_wire::perform::Placement;
use gate::id::CredentialLabel;
use http::{HeaderName, HeaderValue};
use zeroize::Zeroizing;

/// The most bytes of a credential: ten times the largest token in use, and what header limits of
/// common servers are far below.
pub const SECRET_MAX: usize = 64 << 10;

/// The fewest bytes of a credential. What is scrubbed can be asked for by echo: guess, and see
/// whether the guess comes back. From eight bytes on that takes too many guesses.
pub const SECRET_MIN: usize = 8;

/// The fewest different bytes of a credential, for the same reason.
const DIFFERENT_MIN: usize = 4;

/// A credential in custody. Not `Clone`, not `Serialize`; `Debug` is redacted, and the bytes are in
/// locked memory that is wiped at the end.
pub struct Credential {
    label: CredentialLabel,
    header: HeaderName,
    prefix: String,
    secret: Locked,
    /// What else gives the credential away: user and password inside a `Basic` one.
    inside: Vec<Locked>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("label", &self.label.as_str())
            .finish_non_exhaustive()
    }
}

/// Why a credential is not usable. Its bytes are never in it.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A byte that cannot stand in a header field.
    #[error(
        "credential `{label}` holds a byte that no header field may have (RFC 9110 section 5.5)"
    )]
    Byte {
        /// Which credential.
        label: CredentialLabel,
    },
    /// The field itself cannot be used.
    #[error("credential `{label}` is to be put into `{name}`, which is not a usable header field")]
    Field {
        /// Which credential.
        label: CredentialLabel,
        /// The field's name.
        name: String,
    },
    /// Guessable by its echo.
    #[error(
        "credential `{label}` is too short or too simple: at least {SECRET_MIN} bytes, {DIFFERENT_MIN} of them different, are needed to scrub it"
    )]
    Guessable {
        /// Which credential.
        label: CredentialLabel,
    },
    /// The password inside is guessable by its echo.
    #[error(
        "credential `{label}` holds a password that is too short or too simple: at least {SECRET_MIN} bytes, {DIFFERENT_MIN} of them different, are needed to scrub it"
    )]
    Password {
        /// Which credential.
        label: CredentialLabel,
    },
    /// It cannot be read, or there is no locked memory for it.
    #[error("credential `{label}` cannot be read into locked memory")]
    Read {
        /// Which credential.
        label: CredentialLabel,
        /// The kernel's answer.
        source: io::Error,
    },
    /// More than [`SECRET_MAX`].
    #[error("credential `{label}` has more than {SECRET_MAX} bytes")]
    TooLong {
        /// Which credential.
        label: CredentialLabel,
    },
}

impl Credential {
    /// Reads the credential from `from`, once, and closes it.
    ///
    /// # Errors
    /// When it cannot be read, put where `placement` says, or scrubbed.
    pub fn read(
        from: OwnedFd,
        label: CredentialLabel,
        placement: &Placement,
    ) -> Result<Self, CredentialError> {
        let failed = |source| CredentialError::Read {
            label: label.clone(),
            source,
        };
        let mut file = File::from(from);
        // A memory file's position came along with it; a pipe has none (lseek(2), ESPIPE).
        if let Err(error) = file.seek(SeekFrom::Start(0))
            && error.kind() != io::ErrorKind::NotSeekable
        {
            return Err(failed(error));
        }
        let mut buffer = Locked::zeroed(SECRET_MAX.saturating_add(1)).map_err(failed)?;
        let mut len = 0_usize;
        while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match file.read(rest) {
                Ok(0) => break,
                Ok(read) => len = len.saturating_add(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let Some(secret) = buffer.get(..len).filter(|_| len <= SECRET_MAX) else {
            return Err(CredentialError::TooLong { label });
        };
        Self::new(secret, label, placement)
    }

    fn new(
        secret: &[u8],
        label: CredentialLabel,
        placement: &Placement,
    ) -> Result<Self, CredentialError> {
        let Placement::Header { name, prefix } = placement;
        let header = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .filter(|header| !crate::request::is_reserved(header))
            .ok_or_else(|| CredentialError::Field {
                label: label.clone(),
                name: name.clone(),
            })?;
        let plain = |byte: &u8| matches!(byte, b' '..=b'~');
        if !secret.iter().all(plain) || !prefix.as_bytes().iter().all(plain) {
            return Err(CredentialError::Byte { label });
        }
        if is_guessable(secret) {
            return Err(CredentialError::Guessable { label });
        }
        let failed = |source| CredentialError::Read {
            label: label.clone(),
            source,
        };
        let mut inside = Vec::new();
        if prefix.trim().eq_ignore_ascii_case("basic") {
            let pair = decode_base64(secret);
            // Without a password the user is the secret: so some services take a key.
            let mut parts = pair.splitn(2, |&byte| byte == b':');
            let user = parts.next().unwrap_or_default();
            let alone = parts.next().filter(|it| !it.is_empty()).unwrap_or(user);
            // What is not scrubbed is not used either.
            if is_guessable(alone) {
                return Err(CredentialError::Password { label });
            }
            for part in [pair.as_slice(), alone] {
                inside.push(Locked::copy_of(part).map_err(failed)?);
            }
        }
        Ok(Self {
            header,
            prefix: prefix.clone(),
            secret: Locked::copy_of(secret).map_err(failed)?,
            inside,
            label,
        })
    }

    /// Its label, which may be said.
    pub fn label(&self) -> &CredentialLabel {
        &self.label
    }

    /// The header field that it goes into, and the field's value, marked as sensitive. hyper keeps
    /// this copy on the heap until the request is written; the process leaves no core file.
    pub(crate) fn field(&self) -> (HeaderName, Option<HeaderValue>) {
        let mut value = Zeroizing::new(self.prefix.clone().into_bytes());
        value.extend_from_slice(&self.secret);
        let value = HeaderValue::from_bytes(&value).ok().map(|mut value| {
            value.set_sensitive(true);
            value
        });
        (self.header.clone(), value)
    }

    /// Lends every byte string that must not come back, for this call.
    pub(crate) fn lend_each<T>(&self, use_them: impl FnOnce(&[&[u8]]) -> T) -> T {
        let mut all: Vec<&[u8]> = vec![&self.secret];
        all.extend(self.inside.iter().map(|part| &**part));
        use_them(&all)
    }

    #[cfg(test)]
    pub(crate) fn from_bytes(secret: &[u8], prefix: &str) -> Result<Self, CredentialError> {
        let placement = Placement::Header {
            name: "authorization".into(),
            prefix: prefix.into(),
        };
        let label = CredentialLabel::parse("test").unwrap();
        Self::new(secret, label, &placement)
    }
}

fn is_guessable(secret: &[u8]) -> bool {
    let different = (0..=u8::MAX).filter(|byte| secret.contains(byte)).count();
    secret.len() < SECRET_MIN || different < DIFFERENT_MIN
}

/// What base64 (RFC 4648 section 4) holds; what does not decode ends it.
fn decode_base64(text: &[u8]) -> Zeroizing<Vec<u8>> {
    // Room for all of it, so that no growing leaves a copy behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let (mut word, mut bits) = (0_u32, 0_u32);
    for &digit in text {
        let value = match digit {
            b'A'..=b'Z' => digit.wrapping_sub(b'A'),
            b'a'..=b'z' => digit.wrapping_sub(b'a').wrapping_add(26),
            b'0'..=b'9' => digit.wrapping_sub(b'0').wrapping_add(52),
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        word = word << 6 | u32::from(value);
        bits = bits.saturating_add(6);
        if bits >= 8 {
            bits = bits.saturating_sub(8);
            bytes.push(word.wrapping_shr(bits).to_le_bytes()[0]);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use custody_sys::{channel, memfd};

    fn placement(name: &str) -> Placement {
        Placement::Header {
            name: name.into(),
            prefix: "Bearer ".into(),
        }
    }

    fn read(bytes: &[u8]) -> Result<Credential, CredentialError> {
        let fd = memfd::sealed(c"test", bytes).unwrap();
        let label = CredentialLabel::parse("token").unwrap();
        Credential::read(fd, label, &placement("authorization"))
    }

    #[test]
    fn a_credential_goes_into_its_field_and_is_marked_sensitive() {
        let credential = read(b"fake-token-for-tests").unwrap();
        let (name, value) = credential.field();
        let value = value.unwrap();
        assert_eq!(name, "authorization");
        assert_eq!(value.as_bytes(), b"Bearer fake-token-for-tests");
        assert!(value.is_sensitive());
    }

    #[test]
    fn debug_and_errors_never_hold_the_credential() {
        let credential = read(b"fake-token-for-tests").unwrap();
        assert!(!format!("{credential:?}").contains("fake"));
        let error = read(b"fake-token-for\ntests").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("fake"));
    }

    #[test]
    fn what_a_header_cannot_hold_is_refused() {
        for bad in [
            &b"fake-token\r\nx: y"[..],
            b"fake-token\0",
            b"fake-token\x7f",
            "fake-tokén".as_bytes(),
        ] {
            assert!(matches!(read(bad), Err(CredentialError::Byte { .. })));
        }
    }

    #[test]
    fn what_can_be_guessed_by_its_echo_is_refused() {
        for bad in [&b""[..], b"abcdefg", b"abcabcabcabc"] {
            assert!(matches!(read(bad), Err(CredentialError::Guessable { .. })));
        }
        assert!(read(b"abcdefgh").is_ok());
    }

    #[test]
    fn a_credential_over_the_limit_is_refused() {
        let long = b"abcdefgh".repeat(SECRET_MAX / 8);
        assert!(read(&long).is_ok());
        let longer = [long.as_slice(), b"x"].concat();
        assert!(matches!(
            read(&longer),
            Err(CredentialError::TooLong { .. })
        ));
    }

    #[test]
    fn a_field_that_frames_the_request_is_not_a_place_for_it() {
        let (a, _b) = channel::pair_stream().unwrap();
        for bad in ["host", "content-length", "connection", "a b", ""] {
            let label = CredentialLabel::parse("token").unwrap();
            let error =
                Credential::new(b"fake-token-for-tests", label, &placement(bad)).unwrap_err();
            assert!(matches!(error, CredentialError::Field { .. }), "{bad}");
        }
        drop(a);
    }

    #[test]
    fn the_password_inside_a_basic_credential_is_scrubbed_too() {
        // user:fake-password-1
        let credential = Credential::from_bytes(b"dXNlcjpmYWtlLXBhc3N3b3JkLTE=", "Basic ").unwrap();
        let credential = std::sync::Arc::new(credential);
        for echo in [
            &b"user:fake-password-1"[..],
            b"fake-password-1",
            b"dXNlcjpmYWtlLXBhc3N3b3JkLTE",
        ] {
            let (out, count) = crate::scrub::whole(&credential, echo);
            assert_eq!((out.as_slice(), count), (crate::scrub::MARK, 1));
        }
    }

    #[test]
    fn a_basic_credential_whose_password_could_be_guessed_is_refused() {
        // user-of-some-length:short, user-of-some-length:aaaaaaaaaaaa, and a short key alone.
        for bad in [
            &b"dXNlci1vZi1zb21lLWxlbmd0aDpzaG9ydA=="[..],
            b"dXNlci1vZi1zb21lLWxlbmd0aDphYWFhYWFhYWFhYWE=",
            b"c2hvcnQ6",
        ] {
            let error = Credential::from_bytes(bad, "Basic ").unwrap_err();
            assert!(matches!(error, CredentialError::Password { .. }), "{error}");
            assert!(Credential::from_bytes(bad, "Bearer ").is_ok());
        }
        // fake-key-alone: - a key as the user of no password.
        let credential = Credential::from_bytes(b"ZmFrZS1rZXktYWxvbmU6", "Basic ").unwrap();
        let credential = std::sync::Arc::new(credential);
        let (out, _count) = crate::scrub::whole(&credential, b"fake-key-alone");
        assert_eq!(out.as_slice(), crate::scrub::MARK);
    }
}
