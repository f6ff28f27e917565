//! Where kernels and images are kept, and who may make them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::places::{self, Places};

/// Names the folder.
const VARIABLE: &str = "CUSTODY_GUEST_CACHE";

/// The folder, locked: two commands at once make nothing twice.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    _lock: fs::File,
}

impl Cache {
    /// `CUSTODY_GUEST_CACHE`; the one that `.ci/run` keeps, where it is; `<target>/guest`.
    pub(super) fn open(places: &Places) -> Result<Self> {
        let named = env::var_os(VARIABLE).map(PathBuf::from);
        let folder = named
            .or_else(kept_by_ci)
            .unwrap_or_else(|| places.target.join("guest"));
        let error = || format!("the guests' cache `{}`", folder.display());
        fs::create_dir_all(&folder).with_context(error)?;
        let folder = folder.canonicalize().with_context(error)?;
        let lock = fs::File::create(folder.join("lock")).with_context(error)?;
        lock.lock().with_context(error)?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// An empty folder to make `name` in; what a former command left half-made goes.
    pub(super) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let fresh = self.at(&format!("{name}.new"));
        remove(&fresh)?;
        fs::create_dir(&fresh).with_context(|| format!("`{}`", fresh.display()))?;
        Ok(fresh)
    }

    /// Whole or not at all: what was made is kept under its name.
    pub(super) fn keep(&self, fresh: &Path, name: &str) -> Result<PathBuf> {
        let kept = self.at(name);
        remove(&kept)?;
        fs::rename(fresh, &kept).with_context(|| format!("`{}`", kept.display()))?;
        Ok(kept)
    }
}

/// Removes a file or a folder, root's too.
pub(crate) fn remove(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let mut command = places::as_root("rm");
    crate::stage::must(command.arg("-rf").arg("--one-file-system").arg(path))
}

fn kept_by_ci() -> Option<PathBuf> {
    let caches = env::var_os("XDG_CACHE_HOME").map_or_else(|| "/var/cache".into(), PathBuf::from);
    let folder = caches.join("custody-ci/guest");
    nix::unistd::access(&folder, nix::unistd::AccessFlags::W_OK)
        .is_ok()
        .then_some(folder)
}
