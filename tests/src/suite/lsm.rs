//! BPF LSM in an isolating run, with the hooks of a cgroup or without them.
//!
//! The LSM programs are one for the whole machine and look at one folder of cgroups. custodyd's
//! look at the folder of its sessions, where its hooks of a cgroup cannot be left out. So the same
//! object is loaded once more here, for a folder of the suite's own.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, ensure};
use custody_supervisor::hooks::{Hooks, Pins};
use custody_sys::cgroup::Cgroup;
use custody_wire::{layer::Status, profile::Profile};

use crate::host::Host;

/// The programs, for one folder.
#[derive(Debug)]
pub struct Lsm {
    folder: PathBuf,
    hooks: Mutex<Hooks>,
    pins: Option<Pins>,
}

impl Lsm {
    /// Loads and attaches them, for a folder in `host`'s cgroup. `credential` and what the
    /// installation keeps is what no session may touch.
    ///
    /// # Errors
    /// When this program's object is not custodyd's, or not all of the programs are attached.
    pub fn beside(host: &Host, credential: &Path) -> anyhow::Result<Self> {
        let object = Hooks::object().context("this program was built without the eBPF object")?;
        ensure!(
            host.log().contains(&format!("object=\"{object}\"")),
            "custodyd's eBPF object is not the one of this program ({object})"
        );
        let folder = host.cgroup().join("isolated");
        let cgroup = Cgroup::ensure(&folder).with_context(|| format!("`{}`", folder.display()))?;
        let mut hooks = Hooks::load(&cgroup)?;
        let pins = Pins::open(&folder)?;
        let objects = ["custodyd.toml", "policies", "run", "state"]
            .into_iter()
            .map(|name| host.folder().join(name))
            // custodyd's own pins, which are not those of this object.
            .chain([credential.to_owned(), host.pin_folder()])
            .collect::<Vec<_>>();
        hooks.attach_lsm(&objects, &pins)?;
        let status = hooks.lsm_status(&pins);
        ensure!(status == Status::Full, "BPF LSM for the suite: {status:?}");
        Ok(Self {
            folder,
            hooks: Mutex::new(hooks),
            pins: Some(pins),
        })
    }

    /// The folder that they look at.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The mark that the launcher's channel must have.
    pub fn mark(&self) -> Option<u32> {
        self.hooks().mark()
    }

    /// Lets custody-launch work in the cgroup at `path`.
    ///
    /// # Errors
    /// When the cgroup or the map cannot be had.
    pub fn open(&self, path: &Path, profile: Profile) -> anyhow::Result<()> {
        Ok(self.hooks().open(Cgroup::open(path)?.id(), profile)?)
    }

    /// Takes that back, before anything of the agent's is executed.
    ///
    /// # Errors
    /// When the cgroup or the map cannot be had.
    pub fn seal(&self, path: &Path, profile: Profile) -> anyhow::Result<()> {
        Ok(self.hooks().seal(Cgroup::open(path)?.id(), profile)?)
    }

    fn hooks(&self) -> MutexGuard<'_, Hooks> {
        // Every change of the maps is one call: nothing is half done.
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lsm {
    fn drop(&mut self) {
        if let Some(pins) = self.pins.take() {
            // The programs go with this process; a pin that stays is named by the leak checks.
            drop(pins.remove());
        }
    }
}
