//! What the gate knows of a session: trusted values, owned sets, and taint with its reasons.
//!
//! Taint says where content came from, not that an attack was seen. It only grows: nothing in a
//! session takes a reason away, and there is no function here that could.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::{
    id::{OwnedName, ToolName, ValueName},
    json::{self, Value},
    policy::{Label, Misfit, Policy},
};

/// The most members of an owned set.
pub const OWNED_MAX: usize = 10_000;

/// The most bytes of all trusted values together: they stand whole in the record of the session's
/// opening.
pub const VALUES_MAX: usize = 64 << 10;

/// The longest task, in bytes: it stands whole in the record of the session's opening.
pub const TASK_MAX: usize = 64 << 10;

/// The facts of one session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Facts {
    owned: BTreeMap<OwnedName, Owned>,
    taint: BTreeSet<Taint>,
    task: Option<String>,
    values: BTreeMap<ValueName, Value>,
}

/// An owned set: its members by their RFC 8785 form, so that they are compared type and all.
type Owned = BTreeSet<Vec<u8>>;

/// Why a session is tainted.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Taint {
    /// The result of a tool whose results are anyone's words.
    Result {
        /// The tool.
        tool: ToolName,
    },
    /// A workspace that the operator does not vouch for.
    Workspace,
}

impl core::fmt::Display for Taint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Result { tool } => write!(f, "a result of `{tool}`"),
            Self::Workspace => f.write_str("an unlabelled workspace"),
        }
    }
}

/// Why a session is not opened.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum OpenError {
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

impl Facts {
    /// The facts that a session starts with. Texts are read by the types of the policy. A value or
    /// set that the policy has and the application leaves out is not there: a call that needs it
    /// is refused.
    ///
    /// # Errors
    /// When the application names something that the policy has not, or a text does not fit.
    pub fn open(
        policy: &Policy,
        values: BTreeMap<ValueName, String>,
        owned: BTreeMap<OwnedName, Vec<String>>,
        task: Option<String>,
        workspace: bool,
    ) -> Result<Self, OpenError> {
        if let Some(task) = &task
            && (task.len() > TASK_MAX || task.contains('\0'))
        {
            return Err(OpenError::Task { found: task.len() });
        }
        let found = values
            .values()
            .fold(0, |sum: usize, it| sum.saturating_add(it.len()));
        if found > VALUES_MAX {
            return Err(OpenError::Values { found });
        }
        let mut taint = BTreeSet::new();
        if workspace && policy.session().workspace == Label::Untrusted {
            taint.insert(Taint::Workspace);
        }
        Ok(Self {
            owned: owned
                .into_iter()
                .map(|(set, members)| read_set(policy, set, &members))
                .collect::<Result<_, _>>()?,
            taint,
            task,
            values: values
                .into_iter()
                .map(|(name, text)| read_value(policy, name, &text))
                .collect::<Result<_, _>>()?,
        })
    }

    /// A result of `tool` reaches the agent. Says how it is labelled; an untrusted one taints the
    /// session, and so does the result of a tool that the policy has not.
    #[must_use]
    pub fn record_result(&mut self, policy: &Policy, tool: &ToolName) -> Label {
        let label = policy
            .tools()
            .get(tool)
            .map_or(Label::Untrusted, |it| it.result);
        if label == Label::Untrusted {
            self.taint.insert(Taint::Result { tool: tool.clone() });
        }
        label
    }

    /// A trusted value.
    pub fn value(&self, name: &ValueName) -> Option<&Value> {
        self.values.get(name)
    }

    /// Every trusted value.
    pub const fn values(&self) -> &BTreeMap<ValueName, Value> {
        &self.values
    }

    /// Whether `value`, type and all, is a member of the set; `None` if the session has no such set.
    pub fn owns(&self, set: &OwnedName, value: &Value) -> Option<bool> {
        let members = self.owned.get(set)?;
        Some(members.contains(&json::canonical(value)))
    }

    /// Each owned set and how many members it has.
    pub fn owned_sizes(&self) -> BTreeMap<OwnedName, usize> {
        self.owned
            .iter()
            .map(|(set, members)| (set.clone(), members.len()))
            .collect()
    }

    /// What the person asked for.
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Why the session is tainted; empty if it is not.
    pub const fn taint(&self) -> &BTreeSet<Taint> {
        &self.taint
    }
}

fn read_value(
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

fn read_set(
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

fn listed<T: core::fmt::Display>(names: impl Iterator<Item = T>) -> String {
    let names: Vec<String> = names.map(|it| alloc::format!("`{it}`")).collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    }
}
