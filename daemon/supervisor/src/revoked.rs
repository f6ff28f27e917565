//! What an operator took back: kept in a file of root's, a line each, over every restart.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use custody_wire::revoke::Revoked;
use gate::id::{CredentialLabel, PolicyName, SessionId};

/// The file's name in the state folder.
const FILE: &str = "revoked";

/// Why the file cannot be used. Without it what was taken back might be used: nothing starts.
#[derive(Debug, thiserror::Error)]
pub enum RevokedError {
    /// A line that is none.
    #[error("`{path}`, line {line}: {why}; correct or remove it")]
    Line {
        /// The file.
        path: PathBuf,
        /// Which, from 1.
        line: usize,
        /// Why.
        why: String,
    },
    /// It cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What was taken back.
#[derive(Debug)]
pub(crate) struct Revocations {
    all: BTreeSet<Revoked>,
    folder: PathBuf,
}

impl Revocations {
    /// Reads what is kept in the state folder.
    pub(crate) fn open(folder: &Path) -> Result<Self, RevokedError> {
        let path = folder.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(RevokedError::Read { path, source }),
        };
        let mut all = BTreeSet::new();
        for (index, line) in text.lines().enumerate() {
            let parsed = line
                .split_once(' ')
                .ok_or_else(|| "`KIND NAME` is needed".to_owned())
                .and_then(|(kind, name)| Revoked::parse(kind, name));
            all.insert(parsed.map_err(|why| RevokedError::Line {
                path: path.clone(),
                line: index.saturating_add(1),
                why,
            })?);
        }
        Ok(Self {
            all,
            folder: folder.into(),
        })
    }

    /// From now on it is revoked, whatever becomes of the file: the error says that a restart of
    /// custodyd would not know.
    pub(crate) fn add(&mut self, what: &Revoked) -> io::Result<()> {
        if !self.all.insert(what.clone()) {
            return Ok(());
        }
        let new = self.folder.join(format!("{FILE}.new"));
        let lines: String = self.all.iter().map(|it| format!("{it}\n")).collect();
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(&new)?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.folder.join(FILE))?;
        File::open(&self.folder)?.sync_all()
    }

    /// All.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Revoked> {
        self.all.iter()
    }

    pub(crate) fn has_policy(&self, name: &PolicyName) -> bool {
        self.all.contains(&Revoked::Policy(name.clone()))
    }

    /// Why a worker for this cannot be: what of it was taken back.
    pub(crate) fn hinders(
        &self,
        session: SessionId,
        policy: &PolicyName,
        label: &CredentialLabel,
    ) -> Option<Revoked> {
        [
            Revoked::Session(session),
            Revoked::Policy(policy.clone()),
            Revoked::Credential(label.clone()),
        ]
        .into_iter()
        .find(|it| self.all.contains(it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_back_stays_so_over_a_restart_and_a_bad_line_starts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut kept = Revocations::open(dir.path()).unwrap();
        let label = CredentialLabel::parse("api").unwrap();
        let name = PolicyName::parse("demo").unwrap();
        kept.add(&Revoked::Credential(label.clone())).unwrap();
        kept.add(&Revoked::Policy(name.clone())).unwrap();
        kept.add(&Revoked::Session(SessionId(7))).unwrap();
        let again = Revocations::open(dir.path()).unwrap();
        assert_eq!(again.all, kept.all);
        assert!(again.has_policy(&name));
        let other = PolicyName::parse("other").unwrap();
        assert_eq!(
            again.hinders(SessionId(1), &other, &label),
            Some(Revoked::Credential(label))
        );
        fs::write(dir.path().join(FILE), "credential api\ncredentials api\n").unwrap();
        let why = Revocations::open(dir.path()).unwrap_err().to_string();
        assert!(why.contains("line 2"), "{why}");
    }
}
