//! Credentials in custody.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    io::{self, Read as _},
    os::fd::OwnedFd,
};

use custody_service::reason;
use custody_sys::{memfd, memory::Locked};
use gate::id::CredentialLabel;

/// The most bytes of a credential's file.
pub const FILE_MAX: usize = 64 << 10;

/// The fewest bytes of a credential. A worker scrubs answers of it; what is shorter could be asked
/// for by echo: guess, and see whether the guess comes back.
pub const SECRET_MIN: usize = 8;

/// The fewest different bytes of a credential, for the same reason.
pub const DIFFERENT_MIN: usize = 4;

/// A credential in custody. Not `Clone`, not `Serialize`; `Debug` is redacted, and the bytes are
/// in locked memory that is wiped at the end.
pub struct Credential {
    secret: Locked,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").finish_non_exhaustive()
    }
}

/// Why a credential is not taken into custody. Its bytes are never in it.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A byte that no header field may have.
    #[error(
        "it holds a byte that is not printable ASCII, such as a line break inside; keep one line"
    )]
    Byte,
    /// The password inside a `Basic` one.
    #[error(
        "its password (it is to be base64 of `user:password`, RFC 7617) has fewer than {SECRET_MIN} bytes or {DIFFERENT_MIN} different ones, so that its echo could be guessed"
    )]
    Password,
    /// It cannot be read, or there is no locked memory for it.
    #[error("it cannot be read into locked memory")]
    Read(#[source] io::Error),
    /// More than [`FILE_MAX`].
    #[error("its file has more than {FILE_MAX} bytes")]
    TooLong,
    /// Fewer than [`SECRET_MIN`].
    #[error("it has fewer than {SECRET_MIN} bytes, too few to be found in what a server echoes")]
    TooShort,
    /// Fewer than [`DIFFERENT_MIN`] different ones.
    #[error("it has fewer than {DIFFERENT_MIN} different bytes, so that its echo could be guessed")]
    TooSimple,
}

impl Credential {
    /// Reads the credential from `from`, once, and closes it. One line break at the end is not
    /// part of it: editors put it there.
    ///
    /// # Errors
    /// When it cannot be read, or cannot stand in a header field.
    pub fn read(from: OwnedFd) -> Result<Self, CredentialError> {
        let mut file = File::from(from);
        // One byte more than is allowed, and no copy outside locked memory.
        let mut buffer =
            Locked::zeroed(FILE_MAX.saturating_add(1)).map_err(CredentialError::Read)?;
        let mut len = 0_usize;
        while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match file.read(rest) {
                Ok(0) => break,
                Ok(read) => len = len.saturating_add(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CredentialError::Read(error)),
            }
        }
        let secret = buffer
            .get(..len)
            .filter(|_| len <= FILE_MAX)
            .ok_or(CredentialError::TooLong)?;
        let secret = secret.strip_suffix(b"\n").unwrap_or(secret);
        let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
        if secret.len() < SECRET_MIN {
            return Err(CredentialError::TooShort);
        }
        // RFC 9110 section 5.5, without what is obsolete.
        if !secret.iter().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(CredentialError::Byte);
        }
        let different = (b' '..=b'~').filter(|byte| secret.contains(byte)).count();
        if different < DIFFERENT_MIN {
            return Err(CredentialError::TooSimple);
        }
        Ok(Self {
            secret: Locked::copy_of(secret).map_err(CredentialError::Read)?,
        })
    }

    /// Lends the secret to `use_it`, inside this process and for this call.
    fn lend<T>(&self, use_it: impl FnOnce(&[u8]) -> T) -> T {
        use_it(&self.secret)
    }

    /// Whether a worker can scrub it when `prefix` stands before it: a server that echoes a `Basic`
    /// credential may do so decoded.
    ///
    /// # Errors
    /// When what is inside could be guessed by its echo.
    pub fn stands_behind(&self, prefix: &str) -> Result<(), CredentialError> {
        let basic = prefix.trim().eq_ignore_ascii_case("basic");
        if basic && self.lend(password_is_guessable) {
            return Err(CredentialError::Password);
        }
        Ok(())
    }

    /// A sealed memory file of it, for one worker. The caller sends it and drops it.
    ///
    /// # Errors
    /// When memfd_create(2) or sealing fails.
    pub fn hand_over(&self) -> io::Result<OwnedFd> {
        self.lend(|secret| memfd::sealed(c"credential", secret))
    }
}

/// Looks at the password, or at the user where there is none, without a copy of either.
fn password_is_guessable(base64: &[u8]) -> bool {
    let user_ends = decoded(base64).position(|byte| byte == b':');
    let password = |skip| decoded(base64).skip(skip);
    let (skip, len) = match user_ends.map(|end| (end, end.saturating_add(1))) {
        Some((_end, after)) if password(after).next().is_some() => (after, usize::MAX),
        Some((end, _after)) => (0, end),
        None => (0, usize::MAX),
    };
    let alone = || password(skip).take(len);
    let different = (0..=u8::MAX)
        .filter(|wanted| alone().any(|byte| byte == *wanted))
        .count();
    alone().count() < SECRET_MIN || different < DIFFERENT_MIN
}

/// What base64 (RFC 4648 section 4) holds, byte by byte; what does not decode ends it.
fn decoded(base64: &[u8]) -> impl Iterator<Item = u8> {
    let digits = base64.iter().map_while(|digit| {
        Some(u32::from(match digit {
            b'A'..=b'Z' => digit.wrapping_sub(b'A'),
            b'a'..=b'z' => digit.wrapping_sub(b'a').wrapping_add(26),
            b'0'..=b'9' => digit.wrapping_sub(b'0').wrapping_add(52),
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        }))
    });
    let (mut word, mut bits) = (0_u32, 0_u32);
    digits.filter_map(move |value| {
        word = word << 6 | value;
        bits = bits.saturating_add(6);
        let full = bits.checked_sub(8)?;
        bits = full;
        Some(word.wrapping_shr(full).to_le_bytes()[0])
    })
}

/// Every credential of the configuration, or why one of them is not here.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    by_label: BTreeMap<CredentialLabel, Result<Credential, String>>,
    revoked: BTreeSet<CredentialLabel>,
}

/// Why there is no such credential.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum NoCredential {
    /// The configuration does not name it.
    #[error("credential `{label}` is not in the configuration")]
    Unknown {
        /// Which.
        label: CredentialLabel,
    },
    /// It was refused when it was read.
    #[error("credential `{label}` is not usable: {why}")]
    Unusable {
        /// Which.
        label: CredentialLabel,
        /// Why.
        why: String,
    },
}

impl Credentials {
    /// It is used no more, and no newer file brings it back.
    pub(crate) fn revoke(&mut self, label: &CredentialLabel) {
        self.revoked.insert(label.clone());
        let _old = self
            .by_label
            .insert(label.clone(), Err("it was revoked".into()));
    }

    /// Takes the credential in `fd` into custody. A newer one replaces it.
    pub(crate) fn take(&mut self, label: CredentialLabel, fd: OwnedFd) {
        if self.revoked.contains(&label) {
            tracing::warn!(%label, "a credential that was revoked is not taken");
            return;
        }
        let credential = Credential::read(fd).map_err(|error| reason::chain_of(&error));
        match &credential {
            Ok(_) => tracing::info!(credential = %label, "in custody"),
            Err(why) => tracing::error!(credential = %label, why, "credential refused"),
        }
        drop(self.by_label.insert(label, credential));
    }

    /// The credential with this label, which is to be put behind `prefix`.
    pub(crate) fn find_for(
        &self,
        label: &CredentialLabel,
        prefix: &str,
    ) -> Result<&Credential, NoCredential> {
        let credential = self.find(label)?;
        match credential.stands_behind(prefix) {
            Ok(()) => Ok(credential),
            Err(why) => Err(NoCredential::Unusable {
                label: label.clone(),
                why: why.to_string(),
            }),
        }
    }

    /// The credential with this label.
    pub(crate) fn find(&self, label: &CredentialLabel) -> Result<&Credential, NoCredential> {
        match self.by_label.get(label) {
            Some(Ok(credential)) => Ok(credential),
            Some(Err(why)) => Err(NoCredential::Unusable {
                label: label.clone(),
                why: why.clone(),
            }),
            None => Err(NoCredential::Unknown {
                label: label.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek as _, Write as _};

    fn file(bytes: &[u8]) -> OwnedFd {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file.into()
    }

    fn handed_over(credential: &Credential) -> Vec<u8> {
        memfd::read(credential.hand_over().unwrap(), FILE_MAX).unwrap()
    }

    #[test]
    fn one_line_break_at_the_end_is_not_part_of_the_credential() {
        for written in ["fake-token", "fake-token\n", "fake-token\r\n"] {
            let credential = Credential::read(file(written.as_bytes())).unwrap();
            assert_eq!(handed_over(&credential), b"fake-token");
        }
    }

    #[test]
    fn what_cannot_be_a_credential_is_refused_and_not_told() {
        let long = "fake-token".repeat(FILE_MAX);
        for bad in [
            "",
            "\n",
            "fake-to",
            "fake-to\n",
            "fake\ntoken",
            "fake-token\n\n",
            "fake\0token",
            "fake-tokén",
            "fake-token\t",
            "fafafafafa",
            &long,
        ] {
            let error = Credential::read(file(bad.as_bytes())).unwrap_err();
            assert!(!reason::chain_of(&error).contains("fake"), "{error}");
        }
    }

    #[test]
    fn debug_never_holds_the_credential() {
        let credential = Credential::read(file(b"fake-token")).unwrap();
        assert!(!format!("{credential:?}").contains("fake"));
        let mut all = Credentials::default();
        let label = CredentialLabel::parse("token").unwrap();
        all.take(label.clone(), file(b"fake-token"));
        assert!(!format!("{all:?}").contains("fake"));
        assert!(all.find(&label).is_ok());
    }

    #[test]
    fn an_unusable_credential_says_why() {
        let mut all = Credentials::default();
        let label = CredentialLabel::parse("token").unwrap();
        all.take(label.clone(), file(b"short"));
        let why = all.find(&label).unwrap_err().to_string();
        assert!(why.contains("fewer than 8 bytes"), "{why}");
        let other = CredentialLabel::parse("other").unwrap();
        let why = all.find(&other).unwrap_err().to_string();
        assert!(why.contains("not in the configuration"), "{why}");
    }

    #[test]
    fn a_basic_credential_whose_password_could_be_guessed_says_why() {
        let mut all = Credentials::default();
        let label = CredentialLabel::parse("token").unwrap();
        // user-of-some-length:short, user-of-some-length:aaaaaaaaaaaa, short:
        for bad in [
            &b"dXNlci1vZi1zb21lLWxlbmd0aDpzaG9ydA=="[..],
            b"dXNlci1vZi1zb21lLWxlbmd0aDphYWFhYWFhYWFhYWE=",
            b"c2hvcnQ6",
        ] {
            all.take(label.clone(), file(bad));
            let why = all.find_for(&label, "Basic ").unwrap_err().to_string();
            assert!(why.contains("password") && !why.contains("short"), "{why}");
            assert!(all.find_for(&label, "Bearer ").is_ok());
        }
        // user:fake-password-1, fake-key-alone:
        for good in [
            &b"dXNlcjpmYWtlLXBhc3N3b3JkLTE="[..],
            b"ZmFrZS1rZXktYWxvbmU6",
        ] {
            all.take(label.clone(), file(good));
            assert!(all.find_for(&label, "basic ").is_ok());
        }
    }
}
