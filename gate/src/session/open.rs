//! What a session starts with.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use super::{Boundary, Owned, Scope, ScopeError};
use crate::{
    id::{OwnedName, RoleName, TenantName, ValueName},
    json::{self, Value},
    lineage::Key,
    meaning::Subject,
    policy::{Misfit, Policy},
};

/// The most members of an owned set.
pub const OWNED_MAX: usize = 10_000;

/// The most bytes of all trusted values together: they stand whole in the record of the session's
/// opening.
pub const VALUES_MAX: usize = 64 << 10;

/// The longest task, in bytes: it stands whole in the record of the session's opening.
pub const TASK_MAX: usize = 64 << 10;

/// What the application says of a session when it opens it; never the agent.
#[derive(Clone, Debug)]
pub struct Opening {
    /// When, in milliseconds of the clock that decisions are made by.
    pub at_ms: u64,
    /// How far the subject's data reach, if not as far as the policy says.
    pub boundary: Option<Boundary>,
    /// Who asked for the session: the uid that the kernel said.
    pub caller: Option<u32>,
    /// The session's own key, drawn at random: no answer depends on it, only how hard it is to make
    /// the gate slow.
    pub key: Key,
    /// The members of owned sets, as text.
    pub owned: BTreeMap<OwnedName, Vec<String>>,
    /// The roles that the session has.
    pub roles: BTreeSet<RoleName>,
    /// What the task needs, if not all that the policy has.
    pub scope: Option<Scope>,
    /// The end user for whom the session works.
    pub subject: Option<Subject>,
    /// What the person asked for.
    pub task: Option<String>,
    /// In whose name.
    pub tenant: Option<TenantName>,
    /// The trusted values, as text.
    pub values: BTreeMap<ValueName, String>,
    /// Whether the session has a workspace.
    pub workspace: bool,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            at_ms: 0,
            boundary: None,
            caller: None,
            key: Key::new([0; 16]),
            owned: BTreeMap::new(),
            roles: BTreeSet::new(),
            scope: None,
            subject: None,
            task: None,
            tenant: None,
            values: BTreeMap::new(),
            workspace: false,
        }
    }
}

/// Why a session is not opened.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// The subject's data reach less far.
    #[error(
        "the policy's sessions reach `{}`; an opening says that or less, not `{}`",
        .policy.as_str(), .asked.as_str()
    )]
    Boundary {
        /// What the policy says.
        policy: Boundary,
        /// What was asked for.
        asked: Boundary,
    },
    /// A member of an owned set does not fit its type.
    #[error("member {index} of owned set `{set}` {misfit}")]
    Member {
        /// The set.
        set: OwnedName,
        /// Which member, from 0.
        index: usize,
        /// Why.
        misfit: Misfit,
    },
    /// Too many members.
    #[error("owned set `{set}` has {found} members; at most {OWNED_MAX} are allowed")]
    Members {
        /// The set.
        set: OwnedName,
        /// How many it has.
        found: usize,
    },
    /// The scope is none.
    #[error("{0}")]
    Scope(ScopeError),
    /// The task is too long, or has a NUL.
    #[error("the task has {found} bytes; at most {TASK_MAX} are allowed, and no NUL")]
    Task {
        /// How many it has.
        found: usize,
    },
    /// The policy has no such owned set.
    #[error("the policy has no owned set `{set}`; it has {known}")]
    UnknownOwned {
        /// The set.
        set: OwnedName,
        /// Those that it has.
        known: String,
    },
    /// The policy has no such value.
    #[error("the policy has no value `{value}`; it has {known}")]
    UnknownValue {
        /// The value's name.
        value: ValueName,
        /// Those that it has.
        known: String,
    },
    /// A value does not fit its type.
    #[error("value `{value}` {misfit}")]
    Value {
        /// The value's name.
        value: ValueName,
        /// Why.
        misfit: Misfit,
    },
    /// The values are too much together.
    #[error("the values have {found} bytes together; at most {VALUES_MAX} are allowed")]
    Values {
        /// How many they have.
        found: usize,
    },
}

pub(super) fn check_task(task: Option<&str>) -> Result<(), OpenError> {
    match task {
        Some(task) if task.len() > TASK_MAX || task.contains('\0') => {
            Err(OpenError::Task { found: task.len() })
        }
        Some(_) | None => Ok(()),
    }
}

pub(super) fn read_value(
    policy: &Policy,
    name: ValueName,
    text: &str,
) -> Result<(ValueName, Value), OpenError> {
    let Some(kind) = policy.values().get(&name) else {
        return Err(OpenError::UnknownValue {
            value: name,
            known: listed(policy.values().keys()),
        });
    };
    match kind.parse(text) {
        Ok(value) => Ok((name, value)),
        Err(misfit) => Err(OpenError::Value {
            value: name,
            misfit,
        }),
    }
}

pub(super) fn read_set(
    policy: &Policy,
    set: OwnedName,
    texts: &[String],
) -> Result<(OwnedName, Owned), OpenError> {
    let Some(kind) = policy.owned().get(&set) else {
        return Err(OpenError::UnknownOwned {
            set,
            known: listed(policy.owned().keys()),
        });
    };
    if texts.len() > OWNED_MAX {
        return Err(OpenError::Members {
            set,
            found: texts.len(),
        });
    }
    let mut members = BTreeSet::new();
    for (index, text) in texts.iter().enumerate() {
        match kind.parse(text) {
            Ok(value) => {
                members.insert(json::canonical(&value));
            }
            Err(misfit) => return Err(OpenError::Member { set, index, misfit }),
        }
    }
    Ok((set, members))
}

pub(super) fn listed<T: core::fmt::Display>(names: impl Iterator<Item = T>) -> String {
    let names: Vec<String> = names.map(|it| alloc::format!("`{it}`")).collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}
