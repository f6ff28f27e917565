//! Folders, the lock and the operators' socket: made with the owners and modes that they need.
//!
//! | place | owner | mode |
//! |---|---|---|
//! | `<runtime>` | root | 0755 |
//! | `<runtime>/control.sock` | root | 0666; SO_PEERCRED decides |
//! | `<runtime>/policies/NAME.policy` | root | 0644 |
//! | `<state>`, `<state>/public` | root | 0755 |
//! | `<state>/approvals` | control | 0700 |
//! | `<state>/decisions`, `<state>/gate` | gate | 0700 |
//! | `<state>/receipts`, `<state>/vault` | vault | 0700 |
//! | `<state>/public/decisions` | gate | 0755 |
//! | `<state>/public/receipts` | vault | 0755 |

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::{
        fs::{
            DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown,
        },
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use custody_sys::channel::{self, Rights};
use nix::fcntl::{Flock, FlockArg};

use crate::{
    checks::{
        policies::Policies,
        users::{Ids, Users},
    },
    kept,
};

/// Why a place could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Another custodyd has the lock.
    #[error("another custodyd runs here: it has the lock `{path}`")]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("cannot make `{path}`")]
    Make {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is there and is somebody else's.
    #[error(
        "`{path}` belongs to uid {found}, not {expected}; `chown -R {expected} {path}` if it is Custody's"
    )]
    Owner {
        /// Which.
        path: PathBuf,
        /// Whose it is.
        found: u32,
        /// Whose it should be.
        expected: u32,
    },
}

/// The places of one run.
#[derive(Debug)]
pub struct Places {
    /// Sockets and compiled policies.
    pub runtime: PathBuf,
    /// The ledger and its public keys.
    pub state: PathBuf,
    /// Held as long as custodyd runs.
    _lock: Flock<File>,
}

const ROOT: Ids = Ids::same(0);

impl Places {
    /// Makes the runtime folder and takes the lock in it; nothing else is touched before that.
    ///
    /// # Errors
    /// See [`PlaceError`].
    pub fn lock(runtime: &Path, state: &Path) -> Result<Self, PlaceError> {
        folder(runtime, ROOT, 0o755)?;
        let path = runtime.join("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(make(&path))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_file, _errno)| PlaceError::Busy { path })?;
        Ok(Self {
            runtime: runtime.into(),
            state: state.into(),
            _lock: lock,
        })
    }

    /// Makes the folders of the services.
    ///
    /// # Errors
    /// See [`PlaceError`].
    pub fn make(&self, users: &Users) -> Result<(), PlaceError> {
        folder(&self.state, ROOT, 0o755)?;
        for (name, ids, mode) in [
            ("approvals", users.control, 0o700),
            ("decisions", users.gate, 0o700),
            ("gate", users.gate, 0o700),
            ("receipts", users.vault, 0o700),
            ("vault", users.vault, 0o700),
            ("public", ROOT, 0o755),
            ("public/decisions", users.gate, 0o755),
            ("public/receipts", users.vault, 0o755),
        ] {
            folder(&self.state.join(name), ids, mode)?;
        }
        Ok(())
    }

    /// The folder of the compiled policies.
    pub fn policies(&self) -> PathBuf {
        self.runtime.join("policies")
    }

    /// Writes the compiled policies and removes those that are no more.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, policies: &Policies) -> Result<(), PlaceError> {
        let folder_path = self.policies();
        folder(&folder_path, ROOT, 0o755)?;
        for entry in fs::read_dir(&folder_path).map_err(make(&folder_path))? {
            let path = entry.map_err(make(&folder_path))?.path();
            fs::remove_file(&path).map_err(make(&path))?;
        }
        for (name, policy) in policies {
            let path = folder_path.join(format!("{name}.policy"));
            let written = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o644)
                .open(&path)
                .and_then(|mut file| {
                    file.set_permissions(fs::Permissions::from_mode(0o644))?;
                    file.write_all(&policy.to_bytes())
                });
            written.map_err(make(&path))?;
        }
        Ok(())
    }

    /// The operators' socket: the one that was kept, if it is still there.
    ///
    /// # Errors
    /// When it cannot be made, or something else than a socket lies there.
    pub fn listen(&self, kept: Option<UnixListener>) -> Result<UnixListener, PlaceError> {
        let path = self.runtime.join("control.sock");
        if let Some(kept) = kept.filter(|kept| kept::is_at(kept, &path)) {
            tracing::info!("the operators' listener was kept");
            refuse_descriptors(&kept, &path)?;
            return Ok(kept);
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(make(&path)(error));
            }
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&path).map_err(make(&path))?;
        refuse_descriptors(&listener, &path)?;
        // Everyone may connect; who he is the kernel says, what he may do the configuration.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).map_err(make(&path))?;
        kept::give(&listener);
        Ok(listener)
    }

    /// Removes the operators' socket: nobody serves it any more.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn unlisten(&self) -> Result<(), PlaceError> {
        let path = self.runtime.join("control.sock");
        fs::remove_file(&path).map_err(make(&path))
    }
}

/// Control asks for descriptors when it knows who would give them. Where the kernel cannot refuse them
/// until then, it closes what nobody asked for on threads of their own.
fn refuse_descriptors(listener: &UnixListener, path: &Path) -> Result<(), PlaceError> {
    let known = channel::set_rights(listener, Rights::Refused).map_err(make(path))?;
    if !known {
        tracing::info!(
            "the kernel is older than 6.16: every user can send custody-control descriptors"
        );
    }
    Ok(())
}

fn folder(path: &Path, ids: Ids, mode: u32) -> Result<(), PlaceError> {
    match fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => {
            chown(path, Some(ids.uid), Some(ids.gid)).map_err(make(path))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A missing parent is root's, as custody_config::root_owned wants it.
            let parent = path.parent().ok_or_else(|| make(path)(error))?;
            folder(parent, ROOT, 0o755)?;
            return folder(path, ids, mode);
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let meta = path.symlink_metadata().map_err(make(path))?;
            if !meta.is_dir() {
                return Err(make(path)(io::ErrorKind::NotADirectory.into()));
            }
            if meta.uid() != ids.uid {
                return Err(PlaceError::Owner {
                    path: path.into(),
                    found: meta.uid(),
                    expected: ids.uid,
                });
            }
        }
        Err(error) => return Err(make(path)(error)),
    }
    // The umask may have taken bits, an older version may have set others.
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(make(path))
}

fn make(path: &Path) -> impl FnOnce(io::Error) -> PlaceError {
    let path = path.to_owned();
    |source| PlaceError::Make { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> Users {
        Users {
            control: Ids::same(901),
            gate: Ids::same(902),
            resolver: Ids::same(903),
            review: None,
            vault: Ids::same(904),
        }
    }

    #[test]
    fn each_folder_has_its_owner_and_mode_and_a_second_custodyd_is_refused() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let top = tempfile::tempdir().unwrap();
        let (runtime, state) = (top.path().join("a/run"), top.path().join("b/lib"));
        let places = Places::lock(&runtime, &state).unwrap();
        places.make(&users()).unwrap();
        places.make(&users()).unwrap();
        let check = |name: &str, uid: u32, mode: u32| {
            let meta = state.join(name).metadata().unwrap();
            assert_eq!((meta.uid(), meta.mode() & 0o7777), (uid, mode), "{name}");
        };
        check("approvals", 901, 0o700);
        check("decisions", 902, 0o700);
        check("vault", 904, 0o700);
        check("public", 0, 0o755);
        check("public/receipts", 904, 0o755);
        assert!(matches!(
            Places::lock(&runtime, &state),
            Err(PlaceError::Busy { .. })
        ));

        chown(state.join("vault"), Some(902), None).unwrap();
        assert!(matches!(
            places.make(&users()),
            Err(PlaceError::Owner {
                found: 902,
                expected: 904,
                ..
            })
        ));
    }

    #[test]
    fn compiled_policies_replace_what_was_there() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let top = tempfile::tempdir().unwrap();
        let places = Places::lock(&top.path().join("run"), &top.path().join("lib")).unwrap();
        fs::create_dir(places.policies()).unwrap();
        fs::write(places.policies().join("old.policy"), "x").unwrap();
        let policies = crate::checks::policies::compile(
            Path::new("/no/such/folder"),
            &std::collections::BTreeMap::new(),
        )
        .unwrap();
        places.write(&policies).unwrap();
        let files: Vec<_> = fs::read_dir(places.policies())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(files, ["sealed.policy"]);
    }
}
