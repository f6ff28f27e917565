//! What a policy says of a tool and its arguments.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use super::{
    ActionClass, Boundary, Computed, Kind, MeaningRules, Precondition, ResultRules, Verify,
};
use crate::{
    id::{ArgumentName, CatalogueName, CredentialLabel, OwnedName, RoleName, ValueName},
    json::Value,
    request::Template,
};

/// A tool.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its arguments.
    pub arguments: BTreeMap<ArgumentName, Argument>,
    /// Groups of words, `add` or `creat*` for all that begin so: in a tainted session authoritative
    /// text has a word of each group, or the call is held. Nothing is asked where there is none.
    pub asked_by: Vec<Vec<String>>,
    /// How far the data reach that it touches.
    pub boundary: Boundary,
    /// What it does to the world.
    pub classes: BTreeSet<ActionClass>,
    /// When it is decided: at once, or at the end of the turn.
    pub commit: Commit,
    /// Classes that follow from the arguments of a call.
    pub computed: Computed,
    /// Whether a person confirms its calls, tainted session or not.
    pub confirm: Confirm,
    /// The credential that it is performed with.
    pub credential: CredentialLabel,
    /// What it does, in the operator's words.
    pub description: String,
    /// What MCP clients are told.
    pub hints: Hints,
    /// Whether its target performs requests with one `Idempotency-Key` once.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub idempotency_key: bool,
    /// Whether it may be repeated without another effect.
    pub idempotent: bool,
    /// What a call means, as far as it has to be vouched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meaning: Option<MeaningRules>,
    /// Whether a tainted session may call it.
    pub on_taint: OnTaint,
    /// How often it may be called, if there is a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// To whom it may go.
    pub recipients: Recipients,
    /// What releases a call that deletes or changes a membership in a tainted session.
    pub release: Release,
    /// What must still be so when it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precondition: Option<Precondition>,
    /// How a call becomes a request.
    pub request: Template,
    /// What is known of its results.
    pub result: ResultRules,
    /// What is at stake.
    pub risk: Risk,
    /// The roles that a session needs one of; none said is anyone, none listed is nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roles: Option<BTreeSet<RoleName>>,
    /// The argument whose value says which branch of the tool is meant, if it has branches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// What a session may do with it in all.
    pub total: Total,
    /// How its effect is read back, if it can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

impl Tool {
    /// The branch that a call with `arguments` takes, with its name; none where the tool has none,
    /// or the call does not say which.
    pub fn branch<'a>(
        &'a self,
        arguments: &BTreeMap<ArgumentName, Value>,
    ) -> Option<(&'a str, &'a Branch)> {
        let selector = self.selector.as_ref()?;
        match arguments.get(&selector.argument) {
            Some(Value::Text(text)) => selector
                .cases
                .get_key_value(text)
                .map(|(name, branch)| (name.as_str(), branch)),
            Some(_) | None => None,
        }
    }

    /// What a call of this branch does to the world, as far as the policy says it, and what is at stake.
    pub fn stakes(
        &self,
        own: &BTreeSet<String>,
        branch: Option<(&str, &Branch)>,
        arguments: &BTreeMap<ArgumentName, Value>,
    ) -> (BTreeSet<ActionClass>, Risk) {
        let (declared, risk) = match branch {
            Some((_, branch)) => (&branch.classes, branch.risk),
            None => (&self.classes, self.risk),
        };
        let mut classes = self.computed.classes(own, arguments);
        classes.extend(declared);
        (classes, risk)
    }

    /// Whether a call of this branch may carry the argument.
    pub fn is_active(branch: Option<(&str, &Branch)>, name: &ArgumentName) -> bool {
        branch.is_none_or(|(_, branch)| branch.arguments.contains(name))
    }
}

/// The argument whose value says which branch of a tool is meant.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Selector {
    /// An enum that every call carries.
    pub argument: ArgumentName,
    /// One branch for each of its values.
    pub cases: BTreeMap<String, Branch>,
}

/// What one value of a selector means.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Branch {
    /// The arguments that a call of this branch may carry, the selector among them.
    pub arguments: BTreeSet<ArgumentName>,
    /// What it does to the world, in place of what the tool says.
    pub classes: BTreeSet<ActionClass>,
    /// What is at stake, in place of what the tool says.
    pub risk: Risk,
}

/// What is at stake when a tool is called.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Something is destroyed, or cannot be undone.
    Destructive,
    /// Code runs.
    Execute,
    /// Money moves.
    Financial,
    /// Nothing changes.
    Read,
    /// Something is made or changed.
    Write,
}

impl Risk {
    /// Every one, in the order of their names.
    pub const ALL: [Self; 5] = [
        Self::Destructive,
        Self::Execute,
        Self::Financial,
        Self::Read,
        Self::Write,
    ];

    /// The risk's name in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Destructive => "destructive",
            Self::Execute => "execute",
            Self::Financial => "financial",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What a tainted session may do with a tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTaint {
    /// Ask for it; a person decides.
    Hold,
    /// Call it where the origin of every value is accepted.
    Origins,
    /// Call it as if there were no taint; only for tools that read.
    Pass,
    /// Not call it.
    Refuse,
    /// Call it where every sink is a trusted value, injected or verified.
    TrustedSinks,
}

impl OnTaint {
    /// Its name in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Origins => "origins",
            Self::Pass => "pass",
            Self::Refuse => "refuse",
            Self::TrustedSinks => "trusted_sinks",
        }
    }
}

/// When a call is decided.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Commit {
    /// When it is made.
    AtOnce,
    /// When it is made, and again at the end of the turn; only then is it performed.
    EndOfTurn,
}

/// Whether a person confirms a tool's calls, tainted session or not.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confirm {
    /// Each.
    Always,
    /// The first of a session.
    First,
    /// None.
    Never,
    /// Each, by his signature, which the vault verifies.
    Signature,
}

/// To whom a tool's calls may go.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipients {
    /// To anyone whom the other rules let pass.
    Any,
    /// Within the operator's own domains.
    Own,
}

/// What releases a call that deletes or changes a membership in a tainted session: the operator's
/// explicit word.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// That authoritative text asks for it, in the words of `asked_by`, and that the origin of
    /// every target is accepted.
    Asked,
    /// That authoritative text names every target: each sink and each identifier.
    Named,
    /// Nothing.
    Never,
}

/// So many calls in so long.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// So many.
    pub calls: u32,
    /// In so many seconds.
    pub seconds: u32,
}

/// What a session may do with a tool in all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Total {
    /// The most calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u32>,
    /// The most that an argument's values may be together.
    pub sums: BTreeMap<ArgumentName, f64>,
}

/// What MCP clients are told about a tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hints {
    /// It may destroy something.
    pub destructive: bool,
    /// It may be repeated without another effect.
    pub idempotent: bool,
    /// It changes nothing.
    pub read_only: bool,
}

/// An argument of a tool.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// Whether its words, where they are the person's or those of one known value, show whose will
    /// the call is.
    pub anchor: bool,
    /// Who may author it.
    pub authority: Authority,
    /// What it is for, in the operator's words.
    pub description: String,
    /// Its type and bounds.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Whether addresses and links in it need an origin too, as those of a sink do.
    pub links: Links,
    /// Whether it names one of a closed group, such as the accounts of a workspace: then a value
    /// of the system's own is enough where the call's payloads are the person's own words.
    pub member: bool,
    /// What a call is answered whose value comes from elsewhere than `origins` says.
    pub on_origin: super::Answer,
    /// Whether a call may leave it out.
    pub optional: bool,
    /// Where its value may come from in a tainted session.
    pub origins: BTreeSet<OriginClass>,
    /// What it is to the effect.
    pub role: Role,
}

impl Argument {
    /// Whether the origin of its value says anything.
    pub fn is_constrained(&self) -> bool {
        self.origins.len() < OriginClass::ALL.len()
    }
}

/// What an argument is to the effect.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Which thing of a system the effect is on.
    Identifier,
    /// What is said there.
    Payload,
    /// Where the effect goes, or how much of it.
    Sink,
    /// A value that its type and bounds say enough of: a time, a flag.
    Typed,
}

impl Role {
    /// The role's name in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Identifier => "identifier",
            Self::Payload => "payload",
            Self::Sink => "sink",
            Self::Typed => "typed",
        }
    }

    /// Whether it chooses what the effect is on, rather than what is said there.
    pub const fn is_target(self) -> bool {
        match self {
            Self::Identifier | Self::Sink => true,
            Self::Payload | Self::Typed => false,
        }
    }

    /// Where the value of such an argument may come from in a tainted session, where the policy
    /// does not say.
    pub fn origins(self) -> BTreeSet<OriginClass> {
        match self {
            Self::Identifier | Self::Sink => {
                BTreeSet::from([OriginClass::Authoritative, OriginClass::Derived])
            }
            Self::Payload | Self::Typed => OriginClass::ALL.into(),
        }
    }
}

/// Where a value comes from, in the words of a policy.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OriginClass {
    /// From the task, a message of the operator's, a trusted value.
    Authoritative,
    /// From a field that a system itself writes, of a record that the person's words select.
    Derived,
    /// From a field that a system itself writes, of a record that nobody trusted selected: the
    /// thing is there, and who chose it is open.
    System,
    /// From untrusted content, as it stands there or decoded.
    Untrusted,
    /// From nowhere that is known.
    Unknown,
}

impl OriginClass {
    /// Every one, from the best to the worst.
    pub const ALL: [Self; 5] = [
        Self::Authoritative,
        Self::Derived,
        Self::System,
        Self::Untrusted,
        Self::Unknown,
    ];

    /// Its name in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authoritative => "authoritative",
            Self::Derived => "derived",
            Self::System => "system",
            Self::Untrusted => "untrusted",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether addresses and links within a text need an origin.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Links {
    /// No.
    Any,
    /// Each comes from where a sink may come from.
    Known,
}

/// Who may author an argument.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Authority {
    /// The agent.
    Agent,
    /// The agent names an entry of a closed catalogue, and the call carries the entry's value.
    Catalogue {
        /// Which catalogue.
        catalogue: CatalogueName,
    },
    /// The application: its value is put in, and the agent does not see the argument.
    Injected {
        /// Which value.
        value: ValueName,
    },
    /// The agent chooses among what the application holds for the subject.
    Owned {
        /// The set.
        set: OwnedName,
    },
    /// The application: the call must carry exactly its value.
    Verified {
        /// Which value.
        value: ValueName,
    },
}

impl Authority {
    /// Whether the application alone says the value.
    pub const fn is_trusted_value(&self) -> bool {
        match self {
            Self::Injected { .. } | Self::Verified { .. } => true,
            Self::Agent | Self::Catalogue { .. } | Self::Owned { .. } => false,
        }
    }

    /// Whether the agent writes the argument into its call.
    pub const fn in_call(&self) -> bool {
        match self {
            Self::Injected { .. } => false,
            Self::Agent | Self::Catalogue { .. } | Self::Owned { .. } | Self::Verified { .. } => {
                true
            }
        }
    }

    /// Its name in a policy.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Catalogue { .. } => "catalogue",
            Self::Injected { .. } => "injected",
            Self::Owned { .. } => "owned",
            Self::Verified { .. } => "verified",
        }
    }
}
