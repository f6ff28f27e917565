//! What the gate knows of a session: what the application said, whose each value is that came in,
//! taint with its reasons, and what was done.
//!
//! Taint says where content came from, not that an attack was seen. It only grows: nothing in a
//! session takes a reason away, and there is no function here that could.

mod approvals;
mod delegate;
mod handoff;
mod history;
mod named;
mod open;
mod origins;
mod results;
mod scope;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    chain::Place,
    digest::{Digest, Domain},
    id::{ArgumentName, OwnedName, RoleName, TenantName, ToolName, ValueName},
    json::{self, Value},
    lineage::{self, Lineage, Source},
    meaning::Subject,
    policy::{Boundary, Label, Policy},
    selection::Selection,
    task_words::TaskWords,
};
pub(crate) use approvals::Approvals;
pub use approvals::{Reviewed, STANDING_MAX, Standing, StandingError};
pub use delegate::{DelegateError, Delegation};
pub use handoff::{Handoff, HandoffError, RESOURCE};
pub(crate) use history::{History, amount};
use named::Named;
pub use open::{OWNED_MAX, OpenError, Opening, TASK_MAX, VALUES_MAX};
pub(crate) use origins::Found;
pub use origins::{Origin, Said};
pub(crate) use results::each_leaf;
pub use scope::{Scope, ScopeError, ToolScope};

/// The facts of one session.
#[derive(Clone, Debug)]
pub struct Facts {
    approvals: Approvals,
    /// Whether untrusted text came in that the index does not have.
    blind: bool,
    boundary: Boundary,
    caller: Option<u32>,
    history: History,
    /// When the person last spoke.
    intent_ms: u64,
    lineage: Lineage,
    named: Named,
    owned: BTreeMap<OwnedName, Owned>,
    roles: BTreeSet<RoleName>,
    scope: Option<Scope>,
    selection: Selection,
    subject: Option<Subject>,
    taint: BTreeSet<Taint>,
    task: Option<String>,
    tenant: Option<TenantName>,
    values: BTreeMap<ValueName, Value>,
    words: TaskWords,
}

/// An owned set: its members by their RFC 8785 form, so that they are compared type and all.
type Owned = BTreeSet<Vec<u8>>;

/// Why a session is tainted.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Taint {
    /// What somebody passed on, however well it was formed.
    Handoff,
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
            Self::Handoff => f.write_str("a handoff"),
            Self::Result { tool } => write!(f, "a result of `{tool}`"),
            Self::Workspace => f.write_str("an unlabelled workspace"),
        }
    }
}

impl Facts {
    /// The facts that a session starts with. Texts are read by the types of the policy. A value or
    /// set that the policy has and the application leaves out is not there: a call that needs it
    /// is refused.
    ///
    /// # Errors
    /// When the application names something that the policy has not, or a text does not fit.
    pub fn open(policy: &Policy, opening: Opening) -> Result<Self, OpenError> {
        let Opening {
            at_ms,
            boundary,
            caller,
            key,
            owned,
            roles,
            scope,
            subject,
            task,
            tenant,
            values,
            workspace,
        } = opening;
        open::check_task(task.as_deref())?;
        let found = values
            .values()
            .fold(0, |sum: usize, it| sum.saturating_add(it.len()));
        if found > VALUES_MAX {
            return Err(OpenError::Values { found });
        }
        let reach = policy.session().boundary;
        if let Some(asked) = boundary.filter(|it| *it > reach) {
            return Err(OpenError::Boundary {
                policy: reach,
                asked,
            });
        }
        if let Some(scope) = &scope {
            scope.check(policy).map_err(OpenError::Scope)?;
        }
        let mut taint = BTreeSet::new();
        if workspace && policy.session().workspace == Label::Untrusted {
            taint.insert(Taint::Workspace);
        }
        let mut facts = Self {
            approvals: Approvals::default(),
            blind: false,
            boundary: boundary.unwrap_or(reach),
            caller,
            history: History::default(),
            intent_ms: at_ms,
            lineage: origins::index(&key, policy.session().provenance_bytes),
            named: Named::default(),
            owned: owned
                .into_iter()
                .map(|(set, members)| open::read_set(policy, set, &members))
                .collect::<Result<_, _>>()?,
            roles,
            scope,
            selection: Selection::default(),
            subject,
            taint,
            task: None,
            tenant,
            values: values
                .into_iter()
                .map(|(name, text)| open::read_value(policy, name, &text))
                .collect::<Result<_, _>>()?,
            words: TaskWords::default(),
        };
        facts.begin(task);
        Ok(facts)
    }

    /// What a session is told before anything else: its values, and what the person asked for.
    fn begin(&mut self, task: Option<String>) {
        for (name, value) in self.values.clone() {
            let labels = lineage::Labels::all(lineage::Label::Authoritative);
            self.note(Source::Value { name }, &value, &labels);
        }
        if let Some(task) = task {
            let digest = Digest::of(Domain::Result, task.as_bytes());
            self.said(Source::Task { digest }, &task);
            self.task = Some(task);
        }
    }

    /// Text of the person's or the operator's, at `now_ms` of the clock that decisions are made by: over
    /// the control socket, never through the agent.
    pub fn record_message(&mut self, text: &str, now_ms: u64) {
        let digest = Digest::of(Domain::Result, text.as_bytes());
        self.said(Source::Message { digest }, text);
        self.intent_ms = self.intent_ms.max(now_ms);
    }

    fn said(&mut self, source: Source, text: &str) {
        self.note_text(source, text);
        self.words.add(text);
        self.named.add(text);
    }

    /// A handoff reaches the agent: every field of it is anyone's, the claimed sender too.
    pub fn record_handoff(&mut self, handoff: &Handoff) {
        let digest = origins::digest(handoff.value());
        let labels = lineage::Labels::all(lineage::Label::Untrusted);
        self.note(Source::Handoff { digest }, handoff.value(), &labels);
        self.taint.insert(Taint::Handoff);
    }

    /// A call is let through, at `now_ms` of a clock that does not run back; `approved` by a person
    /// or not.
    pub fn record_call(&mut self, policy: &Policy, call: &Call, now_ms: u64, approved: bool) {
        self.history.record(policy, call, now_ms, approved);
    }

    /// Whether an approval of more than one call may be given for this one.
    ///
    /// # Errors
    /// When the call is signed for, or too many stand.
    pub fn may_stand(&self, policy: &Policy, call: &Call) -> Result<(), StandingError> {
        self.approvals.room(policy, call)
    }

    /// From `now_ms` on an approval stands.
    ///
    /// # Errors
    /// As [`Facts::may_stand`].
    pub fn record_approval(
        &mut self,
        policy: &Policy,
        standing: Standing,
        now_ms: u64,
    ) -> Result<(), StandingError> {
        self.may_stand(policy, &standing.call)?;
        self.approvals.stand(standing, now_ms);
        Ok(())
    }

    /// A reviewer refused exactly this call, by the record at `record`. Nothing takes it back.
    pub fn record_refusal(&mut self, call: Digest, record: Place) {
        self.approvals.refuse(call, record);
    }

    /// Narrows what the session may ask for. Nothing that is left out comes back.
    ///
    /// # Errors
    /// When the scope names what the policy has not; nothing is narrowed then.
    pub fn narrow(&mut self, policy: &Policy, scope: Scope) -> Result<(), ScopeError> {
        scope.check(policy)?;
        match &mut self.scope {
            Some(mine) => mine.narrow(scope),
            None => self.scope = Some(scope),
        }
        Ok(())
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

    /// The end user for whom the session works, if the application named one.
    pub const fn subject(&self) -> Option<&Subject> {
        self.subject.as_ref()
    }

    /// In whose name it works, if the application said so.
    pub const fn tenant(&self) -> Option<&TenantName> {
        self.tenant.as_ref()
    }

    /// When the person last spoke: the session's opening, or the last message.
    pub(crate) const fn intent_ms(&self) -> u64 {
        self.intent_ms
    }

    /// What the person asked for.
    pub fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Why the session is tainted; empty if it is not.
    pub const fn taint(&self) -> &BTreeSet<Taint> {
        &self.taint
    }

    /// How often the tool was called.
    pub fn calls(&self, tool: &ToolName) -> u32 {
        self.history.calls(tool)
    }

    /// How often a person approved a call of the tool.
    pub fn approved(&self, tool: &ToolName) -> u32 {
        self.history.approved(tool)
    }

    /// What the values of an argument were together, of all calls of the tool.
    pub fn sum(&self, tool: &ToolName, argument: &ArgumentName) -> f64 {
        self.history.sum(tool, argument)
    }

    /// How often the tool was called in the last day before `now_ms`, and up to an hour more.
    pub fn calls_of_day(&self, tool: &ToolName, now_ms: u64) -> u32 {
        self.history.calls_of_day(tool, now_ms)
    }

    /// The same of an argument's values together.
    pub fn sum_of_day(&self, tool: &ToolName, argument: &ArgumentName, now_ms: u64) -> f64 {
        self.history.sum_of_day(tool, argument, now_ms)
    }

    /// Who asked for the session, if that is known.
    pub const fn caller(&self) -> Option<u32> {
        self.caller
    }

    /// The scope, if the session has one.
    pub const fn scope(&self) -> Option<&Scope> {
        self.scope.as_ref()
    }

    /// The roles.
    pub const fn roles(&self) -> &BTreeSet<RoleName> {
        &self.roles
    }

    pub(crate) const fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    /// How far the subject's data reach.
    pub const fn boundary(&self) -> Boundary {
        self.boundary
    }

    pub(crate) const fn history(&self) -> &History {
        &self.history
    }

    pub(crate) const fn words(&self) -> &TaskWords {
        &self.words
    }
}
