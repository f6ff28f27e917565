//! What changed between two exports: where authority grew, where it shrank, and what a person has to look at.
//!
//! Both are exports as they came, never reports. A change that makes the schema say less about a value is an
//! increase, one that makes it say more is a protection, and what is neither, or cannot be told, is for a person. A
//! diff authenticates neither file and proves nothing of what an implementation does.

mod arguments;
mod report;
mod stated;
mod tools;

use std::collections::BTreeMap;

use serde::Serialize;

pub use report::VERSION;

use crate::{
    controls::Controls,
    infer::{self, Agreement, Scanned, Standing, Tier},
    input::{Export, InputError},
    schema::Moved,
};

/// One of the two.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The export.
    pub export: &'a Export,
    /// What somebody states of it.
    pub controls: Option<&'a Controls>,
}

/// What a change does to authority.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Whoever writes the arguments decides more.
    AuthorityIncrease,
    /// A person has to look: it may be either, or cannot be told.
    Review,
    /// He decides less.
    ProtectionIncrease,
}

impl Effect {
    /// Its name in a diff.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AuthorityIncrease => "authority_increase",
            Self::ProtectionIncrease => "protection_increase",
            Self::Review => "review",
        }
    }

    /// What moving bounds does.
    const fn of_moved(moved: Moved) -> Self {
        match moved {
            Moved::Looser => Self::AuthorityIncrease,
            Moved::Otherwise => Self::Review,
            Moved::Tighter => Self::ProtectionIncrease,
        }
    }
}

/// What changed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// What the tool says of itself in annotations.
    Annotations,
    /// An argument is new.
    ArgumentAdded,
    /// An argument is gone.
    ArgumentRemoved,
    /// What an argument says of itself for people and models.
    ArgumentText,
    /// Who may author an argument.
    Authority,
    /// A bound in numbers.
    Bound,
    /// The argument that chooses among branches, or what it chooses among.
    Branches,
    /// The values that an argument is one of.
    Choices,
    /// How sure it is who may author an argument.
    Confidence,
    /// What somebody states of an argument's author.
    ControlAuthority,
    /// A bound that somebody states.
    ControlBound,
    /// What somebody states of a tool's risk or branches.
    ControlRisk,
    /// What somebody states that the server fixes.
    ControlUnexposed,
    /// A file's form.
    Dialect,
    /// Formats: a word for people, which many validators do not enforce.
    Format,
    /// The types of an array's items.
    Items,
    /// Something to look at is new.
    ObligationAdded,
    /// Something to look at is gone.
    ObligationCleared,
    /// What a tool's results are.
    Output,
    /// Patterns.
    Pattern,
    /// Whether a call must have an argument.
    Presence,
    /// A schema, in a way that none of the others says.
    Schema,
    /// A tool is new.
    ToolAdded,
    /// A tool is gone.
    ToolRemoved,
    /// What a tool says of itself for people and models.
    ToolText,
    /// The types of an argument.
    Type,
    /// What becomes of arguments that the schema does not name.
    UnknownArguments,
    /// What is not modelled.
    Unmodelled,
}

/// One change. All texts are foreign.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Change {
    /// What it does.
    pub effect: Effect,
    /// Of which tool; none of the file as a whole.
    pub tool: Option<String>,
    /// Of which argument, by its path.
    pub argument: Option<String>,
    /// What changed.
    pub what: What,
    /// The keyword, kind or name that it is about.
    pub about: Option<String>,
    /// What stood there.
    pub before: Option<String>,
    /// What stands there.
    pub after: Option<String>,
}

/// What changed.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// Every change, the increases first.
    pub changes: Vec<Change>,
    /// What a person has to look at in the newer one, whether it is new or not: how many obligations and
    /// conflicts, by tool.
    pub debt: BTreeMap<String, usize>,
}

impl Diff {
    /// What changed from `before` to `after`.
    ///
    /// # Errors
    /// When a schema cannot be read within the limits.
    pub fn of(before: Side<'_>, after: Side<'_>) -> Result<Self, InputError> {
        let (old, new) = (before.scan()?, after.scan()?);
        let mut found = Found::default();
        if before.export.dialect != after.export.dialect {
            found.at(None, None).changed(
                Effect::Review,
                What::Dialect,
                before.export.dialect.as_str(),
                after.export.dialect.as_str(),
            );
        }
        tools::compare(&old, &new, &mut found);
        stated::compare(before.controls, after.controls, &mut found);
        found.changes.sort();
        Ok(Self {
            changes: found.changes,
            debt: new.iter().filter_map(debt).collect(),
        })
    }

    /// How many changes have this effect.
    pub fn count(&self, effect: Effect) -> usize {
        self.changes.iter().filter(|it| it.effect == effect).count()
    }
}

impl<'a> Side<'a> {
    fn scan(self) -> Result<Vec<Scanned<'a>>, InputError> {
        let declared = |name: &str| {
            let stated = self.controls.and_then(|it| it.tools.get(name));
            stated.map_or(Tier::Unknown, crate::controls::Stated::tier)
        };
        infer::scan(self.export, &declared)
    }
}

/// What a person has to look at in a tool. That nothing is known of an argument is none of it: it is locked.
fn debt(scanned: &Scanned<'_>) -> Option<(String, usize)> {
    let conflicts = scanned
        .annotations
        .iter()
        .filter(|it| it.standing == Standing::Conflict)
        .count()
        .saturating_add(usize::from(scanned.risk.agreement == Agreement::Conflict));
    let inside: usize = scanned
        .schema
        .arguments
        .iter()
        .map(|it| it.obligations.len())
        .sum();
    let all = scanned
        .schema
        .obligations
        .len()
        .saturating_add(inside)
        .saturating_add(conflicts);
    (all > 0).then(|| (scanned.tool.name.clone(), all))
}

/// The changes, as they are found.
#[derive(Default)]
struct Found {
    changes: Vec<Change>,
}

impl Found {
    fn at<'a>(&'a mut self, tool: Option<&'a str>, argument: Option<&'a str>) -> Place<'a> {
        Place {
            found: self,
            tool,
            argument,
        }
    }
}

/// Where changes are found.
struct Place<'a> {
    found: &'a mut Found,
    tool: Option<&'a str>,
    argument: Option<&'a str>,
}

impl Place<'_> {
    fn add(
        &mut self,
        effect: Effect,
        what: What,
        about: Option<String>,
        before: Option<String>,
        after: Option<String>,
    ) {
        self.found.changes.push(Change {
            effect,
            tool: self.tool.map(Into::into),
            argument: self.argument.map(Into::into),
            what,
            about,
            before,
            after,
        });
    }

    /// A change with nothing more to say.
    fn is(&mut self, effect: Effect, what: What) {
        self.add(effect, what, None, None, None);
    }

    fn changed(&mut self, effect: Effect, what: What, before: &str, after: &str) {
        self.add(effect, what, None, Some(before.into()), Some(after.into()));
    }
}
