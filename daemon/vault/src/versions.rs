//! The versions that a session last read, of things that a tool of its policy changes only where they
//! are still the same.

use std::{cell::RefCell, collections::BTreeMap};

use gate::{
    freshness::version_in,
    id::ToolName,
    policy::{Policy, Precondition},
};

/// The most versions that one session has. One more forgets all: then they are read again.
const VERSIONS_MAX: usize = 1_024;

/// The versions by the tool that rests on them and what was asked for when they were read.
#[derive(Debug, Default)]
pub(crate) struct Versions(RefCell<BTreeMap<(ToolName, String), String>>);

impl Versions {
    /// Keeps what `tool` read at `target`, where another tool rests on it.
    pub(crate) fn seen(
        &self,
        policy: &Policy,
        tool: &ToolName,
        target: &str,
        etag: Option<&str>,
        answer: &[u8],
    ) {
        let resting = policy
            .tools()
            .iter()
            .filter_map(|(name, it)| match &it.precondition {
                Some(Precondition::LastRead { field, tool: reads }) if reads == tool => {
                    Some((name, field))
                }
                Some(_) | None => None,
            });
        for (name, field) in resting {
            let version = match field {
                None => etag.map(Into::into),
                Some(field) => version_in(answer, field),
            };
            let mut all = self.0.borrow_mut();
            let key = (name.clone(), target.to_owned());
            // What was read and has no version now has none.
            drop(all.remove(&key));
            if let Some(version) = version {
                if all.len() >= VERSIONS_MAX {
                    all.clear();
                }
                drop(all.insert(key, version));
            }
        }
    }

    /// What `tool` rests on, of what was read at `target`.
    pub(crate) fn of(&self, tool: &ToolName, target: &str) -> Option<String> {
        let key = (tool.clone(), target.to_owned());
        self.0.borrow().get(&key).cloned()
    }
}
