//! Where the built programs are, and a copy of them that is root's alone.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// Why there are no programs to run.
#[derive(Debug, thiserror::Error)]
#[error("the built programs: run `cargo xtask build`, or name their folder in CUSTODY_PROGRAMS")]
pub struct Missing;

/// The folder with all programs: `CUSTODY_PROGRAMS`, the folder of the running program, or
/// `custody` in cargo's target folder.
///
/// # Errors
/// When custodyd is in none of them.
pub fn folder() -> Result<PathBuf, Missing> {
    let named = std::env::var_os("CUSTODY_PROGRAMS").map(PathBuf::from);
    let own = std::env::current_exe().unwrap_or_default();
    let around = own
        .ancestors()
        .skip(1)
        .take(4)
        .flat_map(|folder| [folder.to_owned(), folder.join("custody")]);
    named
        .into_iter()
        .chain(around)
        // A folder of cargo's has the program without its `session` folder.
        .find(|folder| folder.join("custodyd").is_file() && folder.join("session").is_dir())
        .ok_or(Missing)
}

/// Puts the programs of `from` into `to`: a link where that is possible, for they are large.
pub(super) fn link(from: &Path, to: &Path) -> anyhow::Result<()> {
    for below in ["", "session"] {
        let folder = from.join(below);
        for entry in fs::read_dir(&folder).with_context(|| format!("`{}`", folder.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let target = to.join(below).join(entry.file_name());
                link_or_copy(&entry.path(), &target)
                    .with_context(|| format!("`{}`", target.display()))?;
            }
        }
    }
    Ok(())
}

fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        // Another file system (link(2), EXDEV), or a protected file.
        Err(_) => fs::copy(from, to).map(drop),
        Ok(()) => Ok(()),
    }
}
