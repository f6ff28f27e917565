//! Credentials in custody.

use std::{
    collections::BTreeMap,
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

    /// A sealed memory file of it, for one worker. The caller sends it and drops it.
    ///
    /// # Errors
    /// When memfd_create(2) or sealing fails.
    pub fn hand_over(&self) -> io::Result<OwnedFd> {
        self.lend(|secret| memfd::sealed(c"credential", secret))
    }
}

/// Every credential of the configuration, or why one of them is not here.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    by_label: BTreeMap<CredentialLabel, Result<Credential, String>>,
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
    /// Takes the credential in `fd` into custody. A newer one replaces it.
    pub(crate) fn take(&mut self, label: CredentialLabel, fd: OwnedFd) {
        let credential = Credential::read(fd).map_err(|error| reason::chain_of(&error));
        match &credential {
            Ok(_) => tracing::info!(credential = %label, "in custody"),
            Err(why) => tracing::error!(credential = %label, why, "credential refused"),
        }
        drop(self.by_label.insert(label, credential));
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
}
