//! Our programs: there, executable, and root's alone to change.

use std::{
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use custody_config::{Untrusted, root_owned};

/// Where our programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    folder: PathBuf,
}

/// Why they cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProgramsError {
    /// Not a program.
    #[error("`{path}` is not an executable file; install Custody again")]
    NotExecutable {
        /// Which.
        path: PathBuf,
    },
    /// custodyd's own place is not known.
    #[error("cannot find the folder of custodyd's own executable; set `paths.programs`")]
    Own(#[source] io::Error),
    /// It is missing, or others may change it.
    #[error("program `{path}` cannot be used; see `paths.programs`")]
    Untrusted {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Untrusted,
    },
}

/// The programs that custodyd starts, and those of a session, below the folder of them all.
pub const NAMES: [&str; 9] = [
    "custody-control",
    "custody-effect",
    "custody-front",
    "custody-gate",
    "custody-launch",
    "custody-review",
    "custody-vault",
    "session/custody-bridge",
    "session/custody-init",
];

impl Programs {
    /// Finds them in `folder`, or beside custodyd's own executable.
    ///
    /// # Errors
    /// See [`ProgramsError`].
    pub fn find(folder: Option<&Path>) -> Result<Self, ProgramsError> {
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => {
                let own = std::env::current_exe().map_err(ProgramsError::Own)?;
                own.parent().unwrap_or(Path::new("/")).to_owned()
            }
        };
        for name in NAMES {
            let path = folder.join(name);
            root_owned(&path).map_err(|source| ProgramsError::Untrusted {
                path: path.clone(),
                source,
            })?;
            let executable = path
                .metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
            if !executable {
                return Err(ProgramsError::NotExecutable { path });
            }
        }
        Ok(Self { folder })
    }

    /// The program of this name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder of them all.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that a session is shown.
    pub fn session(&self) -> PathBuf {
        self.folder.join("session")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_missing_program_is_named_and_so_is_one_that_cannot_be_executed() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("session")).unwrap();
        for name in NAMES {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Programs::find(Some(folder.path())).unwrap();
        let vault = folder.path().join("custody-vault");
        fs::set_permissions(&vault, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(
            Programs::find(Some(folder.path())),
            Err(ProgramsError::NotExecutable { path }) if path == vault
        ));
        fs::remove_file(&vault).unwrap();
        assert!(matches!(
            Programs::find(Some(folder.path())),
            Err(ProgramsError::Untrusted { path, .. }) if path == vault
        ));
    }
}
