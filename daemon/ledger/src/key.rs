//! A chain's signing key: made once, kept in one file that only its owner reads.
//!
//! The private half is 32 raw bytes (RFC 8032 section 5.1.5) in a file of mode 0600 in the state
//! folder of the program that signs. The public half is 64 hexadecimal digits and a newline in
//! the public folder, for everyone to read.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use ed25519_dalek::{SigningKey, VerifyingKey};
use nix::fcntl::OFlag;
use zeroize::Zeroizing;

/// Why a key could not be had.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file exists, and it is not a key.
    #[error("key file `{path}` is not a key: {why}")]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Others than the owner can read or write it, or another user owns it.
    #[error(
        "key file `{path}` has mode {mode:o} and owner {owner}; it must be a regular file of mode 600 owned by {expected}"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// Who owns it.
        owner: u32,
        /// Who must own it.
        expected: u32,
    },
    /// The published key is not this key's public half.
    #[error(
        "public key `{path}` is not of this signing key; restore the key that the chain was signed with, or move both and the chain away together"
    )]
    Published {
        /// The file.
        path: PathBuf,
    },
    /// The kernel gave no random bytes.
    #[error("getrandom(2) failed: {why}")]
    Random {
        /// Its words.
        why: String,
    },
    /// A file could not be read.
    #[error("cannot read key file `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write key file `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Loads the signing key at `private`, or makes it if there is none, and publishes its public
/// half at `public`. A key that exists is never replaced, neither half.
///
/// # Errors
/// When a file cannot be read or written, is open to others, or the halves do not belong together.
pub fn load_or_create(private: &Path, public: &Path) -> Result<SigningKey, KeyError> {
    let key = match load(private)? {
        Some(key) => key,
        None => create(private)?,
    };
    publish(public, &key.verifying_key())?;
    Ok(key)
}

/// The keys of a start: the one that signs, and the one that signs from here on, if it is rotated.
#[derive(Debug)]
pub struct Signing {
    /// The key.
    pub key: SigningKey,
    /// The next one.
    pub next: Option<SigningKey>,
}

/// As [`load_or_create`]. If a file `PRIVATE.rotate` lies beside the private half, the operator wants
/// another key: it is made, and kept as `PRIVATE.next` until [`rotated`].
///
/// # Errors
/// As [`load_or_create`].
pub fn load_or_rotate(private: &Path, public: &Path) -> Result<Signing, KeyError> {
    let (next_path, wanted) = (beside(private, ".next"), beside(private, ".rotate"));
    let next = match load(&next_path)? {
        Some(next) => Some(next),
        None if wanted.exists() && load(private)?.is_some() => Some(create(&next_path)?),
        None => None,
    };
    if let (Some(next), Some(key), Some(there)) = (&next, load(private)?, published(public)?)
        && there == next.verifying_key()
    {
        // An earlier start came as far as publishing it.
        let next = Some(next.clone());
        return Ok(Signing { key, next });
    }
    let key = load_or_create(private, public)?;
    Ok(Signing { key, next })
}

/// The chain is signed by `next` from here on: it takes the old key's place. The old public half stays
/// beside it, as `NAME.EPOCH.pub`. To be called until it succeeds: each step may have been taken before.
///
/// # Errors
/// When a file cannot be written.
pub fn rotated(
    private: &Path,
    public: &Path,
    signing: &Signing,
    epoch: u64,
) -> Result<(), KeyError> {
    let Some(next) = &signing.next else {
        return Ok(());
    };
    let write = |path: &Path| {
        let path = path.to_owned();
        |source| KeyError::Write { path, source }
    };
    let old = public.with_extension(format!("{}.pub", epoch.saturating_sub(1)));
    publish(&old, &signing.key.verifying_key())?;
    if published(public)? != Some(next.verifying_key()) {
        let new = beside(public, ".next");
        publish(&new, &next.verifying_key())?;
        fs::rename(&new, public).map_err(write(public))?;
    }
    fs::rename(beside(private, ".next"), private).map_err(write(private))?;
    match fs::remove_file(beside(private, ".rotate")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(write(private)(error)),
        Ok(()) | Err(_) => {}
    }
    for folder in [private, public].into_iter().filter_map(Path::parent) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(write(folder))?;
    }
    Ok(())
}

/// Every key of the signer whose newest public half is at `public`: those that were replaced lie beside it.
///
/// # Errors
/// When one cannot be read.
pub fn all_published(public: &Path) -> Result<Vec<VerifyingKey>, KeyError> {
    let read = |source| KeyError::Read {
        path: public.into(),
        source,
    };
    let folder = public.parent().unwrap_or(Path::new("."));
    let stem = public
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut keys = vec![read_public(public)?];
    for entry in fs::read_dir(folder).map_err(read)? {
        let path = entry.map_err(read)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let epoch = name
            .strip_prefix(&format!("{stem}."))
            .and_then(|rest| rest.strip_suffix(".pub"));
        if epoch.is_some_and(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit())) {
            keys.push(read_public(&path)?);
        }
    }
    Ok(keys)
}

fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(more);
    PathBuf::from(name)
}

/// Reads a published key.
///
/// # Errors
/// When the file cannot be read or is not a key.
pub fn read_public(path: &Path) -> Result<VerifyingKey, KeyError> {
    match published(path)? {
        Some(key) => Ok(key),
        None => Err(KeyError::Read {
            path: path.into(),
            source: io::ErrorKind::NotFound.into(),
        }),
    }
}

fn load(path: &Path) -> Result<Option<SigningKey>, KeyError> {
    let read = |source| KeyError::Read {
        path: path.into(),
        source,
    };
    let Some(file) = open(path).map_err(read)? else {
        return Ok(None);
    };
    let about = file.metadata().map_err(read)?;
    let expected = nix::unistd::geteuid().as_raw();
    // Checked on the descriptor, so that what is checked is what is read.
    if !about.is_file() || about.mode() & 0o077 != 0 || about.uid() != expected {
        return Err(KeyError::Open {
            path: path.into(),
            mode: about.mode() & 0o7777,
            owner: about.uid(),
            expected,
        });
    }
    // One byte more than a key, on the stack and wiped, so that no reallocation leaves a copy.
    let mut bytes = Zeroizing::new([0_u8; 33]);
    let mut filled = 0_usize;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match (&file).read(rest) {
            Ok(0) => break,
            Ok(n) => filled = filled.saturating_add(n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read(error)),
        }
    }
    match (filled, bytes.first_chunk::<32>()) {
        (32, Some(secret)) => Ok(Some(SigningKey::from_bytes(secret))),
        _ => Err(KeyError::NotAKey {
            path: path.into(),
            why: "it does not have 32 bytes",
        }),
    }
}

fn create(path: &Path) -> Result<SigningKey, KeyError> {
    let mut secret = Zeroizing::new([0_u8; 32]);
    getrandom::fill(secret.as_mut()).map_err(|error| KeyError::Random {
        why: error.to_string(),
    })?;
    place(path, 0o600, secret.as_ref())?;
    Ok(SigningKey::from_bytes(&secret))
}

fn publish(path: &Path, key: &VerifyingKey) -> Result<(), KeyError> {
    match published(path)? {
        Some(there) if there == *key => Ok(()),
        Some(_other) => Err(KeyError::Published { path: path.into() }),
        None => {
            let mut text: String = key.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
            text.push('\n');
            place(path, 0o644, text.as_bytes())
        }
    }
}

fn published(path: &Path) -> Result<Option<VerifyingKey>, KeyError> {
    let read = |source| KeyError::Read {
        path: path.into(),
        source,
    };
    let Some(file) = open(path).map_err(read)? else {
        return Ok(None);
    };
    let mut text = String::new();
    let _bytes = file.take(128).read_to_string(&mut text).map_err(read)?;
    let not_a_key = |why| KeyError::NotAKey {
        path: path.into(),
        why,
    };
    let digits = text
        .strip_suffix('\n')
        .filter(|digits| digits.len() == 64)
        .ok_or_else(|| not_a_key("it is not 64 hexadecimal digits and a newline"))?;
    let mut bytes = [0_u8; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
            .ok_or_else(|| not_a_key("it is not 64 hexadecimal digits in lower case"))?;
    }
    VerifyingKey::from_bytes(&bytes)
        .map(Some)
        .map_err(|_not_a_point| not_a_key("its digits are not an Ed25519 public key"))
}

fn open(path: &Path) -> io::Result<Option<File>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NOFOLLOW.bits() | OFlag::O_NONBLOCK.bits())
        .open(path);
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file whole or not at all: a name beside it, fsync(2), then link(2), which never
/// replaces.
fn place(path: &Path, mode: u32, bytes: &[u8]) -> Result<(), KeyError> {
    let write = |source| KeyError::Write {
        path: path.into(),
        source,
    };
    let beside = beside(path, ".new");
    // What an earlier crash left there was never used.
    match fs::remove_file(&beside) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(write(error)),
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(&beside)
        .map_err(write)?;
    file.write_all(bytes).map_err(write)?;
    // open(2) takes the umask off the mode; the public half must be readable whatever it is.
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))
        .map_err(write)?;
    file.sync_all().map_err(write)?;
    fs::hard_link(&beside, path).map_err(write)?;
    fs::remove_file(&beside).map_err(write)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn places() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let private = dir.path().join("decisions.key");
        let public = dir.path().join("decisions.pub");
        (dir, private, public)
    }

    #[test]
    fn a_key_is_made_once_and_found_again() {
        let (_dir, private, public) = places();
        let made = load_or_create(&private, &public).unwrap();
        let found = load_or_create(&private, &public).unwrap();
        assert_eq!(made.verifying_key(), found.verifying_key());
        assert_eq!(read_public(&public).unwrap(), made.verifying_key());
        assert_eq!(fs::metadata(&private).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(&public).unwrap().mode() & 0o7777, 0o644);
    }

    #[test]
    fn two_keys_are_never_the_same() {
        let (_a, private_a, public_a) = places();
        let (_b, private_b, public_b) = places();
        assert_ne!(
            load_or_create(&private_a, &public_a)
                .unwrap()
                .verifying_key(),
            load_or_create(&private_b, &public_b)
                .unwrap()
                .verifying_key()
        );
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let (_dir, private, public) = places();
        let _key = load_or_create(&private, &public).unwrap();
        fs::set_permissions(&private, fs::Permissions::from_mode(0o640)).unwrap();
        let error = load_or_create(&private, &public).unwrap_err();
        assert!(
            matches!(error, KeyError::Open { mode: 0o640, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_key_behind_a_symlink_is_refused() {
        let (dir, private, public) = places();
        let _key = load_or_create(&private, &public).unwrap();
        let link = dir.path().join("link.key");
        std::os::unix::fs::symlink(&private, &link).unwrap();
        let error = load_or_create(&link, &public).unwrap_err();
        assert!(matches!(error, KeyError::Read { .. }), "{error}");
    }

    #[test]
    fn a_file_that_is_not_a_key_is_never_replaced() {
        let (_dir, private, public) = places();
        for bad in [&[][..], &[7; 31], &[7; 33]] {
            fs::write(&private, bad).unwrap();
            fs::set_permissions(&private, fs::Permissions::from_mode(0o600)).unwrap();
            let error = load_or_create(&private, &public).unwrap_err();
            assert!(matches!(error, KeyError::NotAKey { .. }), "{error}");
            assert_eq!(fs::read(&private).unwrap(), bad);
        }
    }

    #[test]
    fn a_published_key_of_another_signer_is_refused_and_kept() {
        let (_a, private, public) = places();
        let (_b, private_b, public_b) = places();
        let _a_key = load_or_create(&private, &public).unwrap();
        let other = load_or_create(&private_b, &public_b).unwrap();
        fs::copy(&public_b, &public).unwrap();
        let error = load_or_create(&private, &public).unwrap_err();
        assert!(matches!(error, KeyError::Published { .. }), "{error}");
        assert_eq!(read_public(&public).unwrap(), other.verifying_key());
    }

    /// Wherever it is cut short: the next start has the same two keys, or the new one alone.
    #[test]
    fn a_rotation_that_is_cut_short_is_gone_on_with() {
        let (dir, private, public) = places();
        let old = load_or_rotate(&private, &public)
            .unwrap()
            .key
            .verifying_key();
        fs::write(beside(&private, ".rotate"), "").unwrap();
        let signing = load_or_rotate(&private, &public).unwrap();
        let new = signing.next.as_ref().unwrap().verifying_key();
        assert_eq!(signing.key.verifying_key(), old);
        let again = load_or_rotate(&private, &public).unwrap();
        assert_eq!(again.next.unwrap().verifying_key(), new);
        // Published, and no further.
        let old_public = fs::read(&public).unwrap();
        rotated(&private, &public, &signing, 2).unwrap();
        let done = load_or_rotate(&private, &public).unwrap();
        assert_eq!((done.key.verifying_key(), done.next.is_none()), (new, true));
        assert_eq!(read_public(&public).unwrap(), new);
        let kept = dir.path().join("decisions.1.pub");
        assert_eq!(fs::read(kept).unwrap(), old_public);

        let (_dir, private, public) = places();
        let _old = load_or_rotate(&private, &public).unwrap();
        fs::write(beside(&private, ".rotate"), "").unwrap();
        let signing = load_or_rotate(&private, &public).unwrap();
        let next = signing.next.as_ref().unwrap().verifying_key();
        fs::remove_file(&public).unwrap();
        publish(&public, &next).unwrap();
        let again = load_or_rotate(&private, &public).unwrap();
        assert_eq!(again.key.verifying_key(), signing.key.verifying_key());
        rotated(&private, &public, &again, 2).unwrap();
        assert_eq!(
            load_or_rotate(&private, &public)
                .unwrap()
                .key
                .verifying_key(),
            next
        );
    }

    #[test]
    fn what_a_crash_left_beside_the_key_is_not_taken_for_it() {
        let (dir, private, public) = places();
        fs::write(dir.path().join("decisions.key.new"), [9; 32]).unwrap();
        let key = load_or_create(&private, &public).unwrap();
        assert_ne!(key.to_bytes(), [9; 32]);
        assert!(!dir.path().join("decisions.key.new").exists());
    }

    #[test]
    fn a_published_key_has_one_text() {
        let (_dir, private, public) = places();
        let _key = load_or_create(&private, &public).unwrap();
        let text = fs::read_to_string(&public).unwrap();
        for bad in [
            text.to_uppercase(),
            text.trim_end().into(),
            format!(" {text}"),
            format!("{text}\n"),
        ] {
            fs::write(&public, &bad).unwrap();
            // A key without a letter has the same upper case.
            if bad != text {
                let error = read_public(&public).unwrap_err();
                assert!(
                    matches!(error, KeyError::NotAKey { .. }),
                    "{bad:?}: {error}"
                );
            }
        }
    }
}
