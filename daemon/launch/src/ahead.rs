//! What is the same in every session, done before a plan is there: custodyd may keep a launcher or
//! two that have come this far and wait ([`custody_wire::launch::Ready`]). Such a launcher has
//! heard of no session and serves one.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use custody_wire::{
    launch::{Plan, Session},
    layer::Layer,
};
use nix::{sys::stat, unistd::setsid};

use crate::{
    dev, etc,
    failure::{Failure, Step as _},
    identity,
    observe::Apart,
    plan::Without,
    root::{self, Root},
    session::HOSTNAME,
};

/// A process that has left its parent's session, and the part of its root that every session has.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) apart: Apart,
    /// None where the plan keeps the host's.
    pub(crate) root: Option<Root>,
    programs: PathBuf,
    /// The host's files that the root was made from, as they were.
    made_from: Vec<Stamp>,
}

impl Ahead {
    pub(crate) fn build(programs: &Path, without: Without<'_>) -> Result<Self, Failure> {
        let apart = Apart::from_parent()?;
        for (layer, needed) in [
            // Needed as a vessel even where the session's own root is left out of it.
            (Layer::MountNamespace, true),
            (Layer::PidNamespace, without.keeps(Layer::PidNamespace)),
            (Layer::UtsNamespace, without.keeps(Layer::UtsNamespace)),
        ] {
            // What follows would change the host's.
            if needed && !apart.has(layer) {
                return Err(Failure::refused(
                    Some(layer),
                    format!(
                        "the {} is shared with the parent",
                        layer.name().replace('_', " ")
                    ),
                ));
            }
        }
        setsid().step(|| "setsid(2)".into())?;
        stat::umask(stat::Mode::from_bits_truncate(0o022));
        if without.keeps(Layer::ResourceLimits) {
            identity::expendable()?;
        }
        if without.keeps(Layer::UtsNamespace) {
            nix::unistd::sethostname(HOSTNAME)
                .of(Layer::UtsNamespace, || "sethostname(2)".into())?;
        }
        identity::drop_bounds(without)?;
        let mut ahead = Self {
            apart,
            root: None,
            programs: programs.to_owned(),
            made_from: Vec::new(),
        };
        if without.keeps(Layer::MountNamespace) {
            ahead.make_root()?;
        }
        Ok(ahead)
    }

    /// The same, for a plan that came afterwards.
    pub(crate) fn for_plan(mut self, plan: &Plan, session: &Session) -> Result<Self, Failure> {
        // What is done is done: nothing of it can be left out.
        if !plan.without.is_empty() || session.programs != self.programs {
            return Err(Failure::refused(
                None,
                "the plan asks a launcher that was ready for what it is not".into(),
            ));
        }
        if self.made_from.iter().any(Stamp::is_stale) {
            // Over the former one, which goes with the host's root.
            self.make_root()?;
        }
        Ok(self)
    }

    fn make_root(&mut self) -> Result<(), Failure> {
        // Before they are read: a change meanwhile makes them stale.
        self.made_from = root::NAMES
            .iter()
            .map(|name| format!("/{name}"))
            .chain(etc::names())
            .chain(["/usr".into(), self.programs.display().to_string()])
            .map(Stamp::of)
            .collect();
        let root = Root::new()?;
        root.system(&self.programs)?;
        etc::common(&root)?;
        dev::build(&root)?;
        dev::proc(&root)?;
        self.root = Some(root);
        Ok(())
    }
}

/// A file, folder or symlink as it is, or that it is not there.
#[derive(Debug)]
struct Stamp {
    path: String,
    seen: Option<[i64; 4]>,
}

impl Stamp {
    fn of(path: String) -> Self {
        let seen = seen(&path);
        Self { path, seen }
    }

    fn is_stale(&self) -> bool {
        seen(&self.path) != self.seen
    }
}

/// Inode and time of the last change of anything in it (inode(7)).
fn seen(path: &str) -> Option<[i64; 4]> {
    let found = fs::symlink_metadata(path).ok()?;
    Some([
        found.dev().cast_signed(),
        found.ino().cast_signed(),
        found.ctime(),
        found.ctime_nsec(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_which_a_program_was_replaced_is_stale() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, "old").unwrap();
        let stamp = Stamp::of(folder.path().display().to_string());
        assert!(!stamp.is_stale());
        let new = folder.path().join("new");
        fs::write(&new, "new").unwrap();
        fs::rename(new, program).unwrap();
        assert!(stamp.is_stale());
    }
}
