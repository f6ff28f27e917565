//! A session that is given a part of what another has. It only narrows, by construction: everything in it
//! is taken out of the other's facts, and there is no way to put in what they have not.
//!
//! What the other spends of its limits is not its to spend twice: a call of the delegated session is
//! asked of, and counted in, every session above it ([`crate::decide::Ask::below`]). What taints one of
//! these later taints it too ([`Facts::tainted_as`]): they may share a folder.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use super::{Facts, History, Named, Owned, Scope, Selection, Taint, TaskWords, open, origins};
use crate::{
    id::{OwnedName, RoleName, ValueName},
    lineage::Key,
    policy::{Boundary, Label, Policy},
};

/// What is given of a session. What is not said is given whole.
#[derive(Clone, Debug)]
pub struct Delegation {
    /// When, in milliseconds of the clock that decisions are made by.
    pub at_ms: u64,
    /// How far the data reach.
    pub boundary: Option<Boundary>,
    /// The new session's own key.
    pub key: Key,
    /// The members of owned sets, as text.
    pub owned: BTreeMap<OwnedName, Vec<String>>,
    /// The roles; those that the session has not are not given.
    pub roles: Option<BTreeSet<RoleName>>,
    /// What is needed of what the session may ask for.
    pub scope: Option<Scope>,
    /// What is to be done: the application's words.
    pub task: Option<String>,
    /// The trusted values that go along; none said is all.
    pub values: Option<BTreeSet<ValueName>>,
    /// Whether the new session has a workspace: one that the policy does not label taints it.
    pub workspace: bool,
}

/// Why something cannot be given.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DelegateError {
    /// It reaches further.
    #[error("the session reaches `{}`, and cannot give `{}`", .has.as_str(), .asked.as_str())]
    Boundary {
        /// How far the session reaches.
        has: Boundary,
        /// What was asked for.
        asked: Boundary,
    },
    /// A member that the session's set has not, or a set that it has not.
    #[error("the session has no `{member}` in its owned set `{set}`, and cannot give it")]
    Member {
        /// The set.
        set: OwnedName,
        /// The member.
        member: String,
    },
    /// Something does not fit its type, or is too much.
    #[error("{0}")]
    Open(super::OpenError),
    /// A value that the session has not.
    #[error("the session has no value `{value}`, and cannot give it")]
    Value {
        /// The value.
        value: ValueName,
    },
}

impl Facts {
    /// The facts of a session that is given this part of what the session has. Whatever tainted the
    /// one has tainted the other.
    ///
    /// # Errors
    /// When more is asked for than the session has. Nothing is given then.
    pub fn delegate(&self, policy: &Policy, part: Delegation) -> Result<Self, DelegateError> {
        let Delegation {
            at_ms,
            boundary,
            key,
            owned,
            roles,
            scope,
            task,
            values,
            workspace,
        } = part;
        if let Some(asked) = boundary.filter(|it| *it > self.boundary) {
            return Err(DelegateError::Boundary {
                has: self.boundary,
                asked,
            });
        }
        open::check_task(task.as_deref()).map_err(DelegateError::Open)?;
        let mut narrowed = self.scope.clone();
        if let Some(scope) = scope {
            scope
                .check(policy)
                .map_err(|error| DelegateError::Open(super::OpenError::Scope(error)))?;
            match &mut narrowed {
                Some(mine) => mine.narrow(scope),
                None => narrowed = Some(scope),
            }
        }
        let mut facts = Self {
            // What was approved was approved for the session that asked; what was refused stays refused.
            approvals: self.approvals.refusals(),
            // Its index begins empty: what untrusted text the other one read, it has not.
            blind: self.blind || !self.taint.is_empty(),
            boundary: boundary.unwrap_or(self.boundary),
            caller: self.caller,
            history: History::default(),
            // Words of the person's begin it anew; without any the old ones grow no younger.
            intent_ms: if task.is_some() {
                at_ms
            } else {
                self.intent_ms
            },
            lineage: origins::index(&key, policy.session().provenance_bytes),
            named: Named::default(),
            owned: self.owned_part(policy, owned)?,
            roles: match roles {
                Some(roles) => self.roles.intersection(&roles).cloned().collect(),
                None => self.roles.clone(),
            },
            scope: narrowed,
            selection: Selection::default(),
            subject: self.subject.clone(),
            taint: self.taint.clone(),
            task: None,
            tenant: self.tenant.clone(),
            values: self.values.clone(),
            words: TaskWords::default(),
        };
        if let Some(names) = values {
            if let Some(value) = names.iter().find(|it| !facts.values.contains_key(*it)) {
                return Err(DelegateError::Value {
                    value: value.clone(),
                });
            }
            facts.values.retain(|name, _value| names.contains(name));
        }
        if workspace && policy.session().workspace == Label::Untrusted {
            facts.taint.insert(Taint::Workspace);
        }
        facts.begin(task);
        Ok(facts)
    }

    /// From now on it is tainted by whatever taints `above`, a session that it was delegated from.
    pub fn tainted_as(&mut self, above: &Self) {
        if !above.taint.is_subset(&self.taint) {
            self.taint.extend(above.taint.iter().cloned());
            self.blind = true;
        }
        self.blind |= above.blind;
    }

    /// The owned sets that are given: the session's own, but for those of which less is said.
    fn owned_part(
        &self,
        policy: &Policy,
        asked: BTreeMap<OwnedName, Vec<String>>,
    ) -> Result<BTreeMap<OwnedName, Owned>, DelegateError> {
        let mut given = self.owned.clone();
        for (set, members) in asked {
            let (set, wanted) =
                open::read_set(policy, set, &members).map_err(DelegateError::Open)?;
            let has = self.owned.get(&set);
            let stranger = wanted
                .iter()
                .find(|it| !has.is_some_and(|has| has.contains(*it)));
            if let Some(stranger) = stranger {
                return Err(DelegateError::Member {
                    set,
                    member: crate::excerpt::excerpt(&String::from_utf8_lossy(stranger)),
                });
            }
            given.insert(set, wanted);
        }
        Ok(given)
    }
}
