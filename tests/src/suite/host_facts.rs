//! Where a run took place, and with which programs.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};

use super::{policy, scene::Scene};
use crate::{
    evidence::{self, LayerSaid},
    host::Host,
};

/// The host of a run.
///
/// # Errors
/// When a program cannot be read.
pub(super) fn of(
    host: &Host,
    started_unix_ms: u64,
    hooks: BTreeMap<String, String>,
) -> anyhow::Result<evidence::Host> {
    let uname = nix::sys::utsname::uname()?;
    let words = [uname.sysname(), uname.release(), uname.machine()];
    let kernel: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Ok(evidence::Host {
        kernel: kernel.join(" "),
        lsm: read("/sys/kernel/security/lsm"),
        version: env!("CARGO_PKG_VERSION").into(),
        started_unix_ms,
        programs: programs(&host.programs())?,
        hooks,
    })
}

/// The kernel's release, as uname(2) says it.
///
/// # Errors
/// When uname(2) fails.
pub(super) fn release() -> anyhow::Result<String> {
    let uname = nix::sys::utsname::uname()?;
    Ok(uname.release().to_string_lossy().into_owned())
}

/// The digest of each program in `folder`.
///
/// # Errors
/// When a program cannot be read.
pub(super) fn programs(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for below in ["", "session"] {
        for entry in fs::read_dir(folder.join(below))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let digest = Sha256::digest(fs::read(entry.path())?);
                let hex = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                let name = Path::new(below).join(entry.file_name());
                found.insert(name.display().to_string(), hex);
            }
        }
    }
    Ok(found)
}

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_else(|error| format!("not known: {error}"))
}

/// What each layer of a session says of itself, as `custody run --layers` shows it.
///
/// # Errors
/// When no session starts, or it says nothing of its layers.
pub(super) fn layers(host: &Host, scene: &Scene) -> anyhow::Result<Vec<LayerSaid>> {
    let output = host
        .cli()
        .args(["run", "--layers", "--policy", policy::NAME, "--value"])
        .arg(format!("{}={}", policy::RECIPIENT, scene.recipient))
        .args(["--", "/bin/true"])
        .output()
        .context("custody run --layers")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let layers: Vec<LayerSaid> = text
        .lines()
        .filter_map(|line| {
            let (_, said) = line.split_once("layer ")?;
            let (layer, status) = said.split_once(": ")?;
            Some(LayerSaid {
                layer: layer.into(),
                status: status.into(),
            })
        })
        .collect();
    ensure!(
        !layers.is_empty(),
        "a session says nothing of its layers: {text}"
    );
    Ok(layers)
}
