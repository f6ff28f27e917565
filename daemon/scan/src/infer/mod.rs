//! What is inferred of a tool: who may author each argument, its risk, what its annotations are worth.
//!
//! Name and type decide, and they only ever lock; descriptions, formats, patterns, samples and other tools' results
//! are hints for the reviewer, which may lock too. Nothing that a tool says of itself frees anything.

mod annotations;
mod around;
mod authority;
mod branches;
mod hints;
mod names;
mod payload;
mod risk;
mod tier;
mod vocabulary;

use std::collections::{BTreeMap, BTreeSet};

pub use annotations::{Against, Assessment, Says, Standing};
pub use authority::{Authority, Confidence, Inferred, Reason};
pub use branches::Branches;
pub use hints::{Cue, Hint, Source, Weight};
pub use names::{Form, Name};
pub use risk::{Agreement, Confirmation, RiskFinding};
pub use tier::Tier;

use crate::{
    input::{Export, InputError, Tool},
    schema::{self, Argument, Schema},
};
use annotations::Reach;
use around::Around;
use authority::Targets;
use hints::Results;

/// A tool, and all that was found of it.
#[derive(Clone, Debug)]
pub struct Scanned<'a> {
    /// As it was exported.
    pub tool: &'a Tool,
    /// What it takes.
    pub schema: Schema,
    /// What was inferred of each argument of the schema, in its order.
    pub judged: Vec<Judged>,
    /// Its risk.
    pub risk: RiskFinding,
    /// What it hints of itself.
    pub annotations: Vec<Assessment>,
    /// Its branches, where an argument chooses among them.
    pub branches: Option<Branches>,
}

/// What was found of one argument.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Who may author it.
    pub inferred: Inferred,
    /// What its schema hints at.
    pub hints: BTreeSet<Hint>,
}

impl Scanned<'_> {
    /// Every argument, and what was found of it.
    pub fn arguments(&self) -> impl Iterator<Item = (&Argument, &Judged)> {
        self.schema.arguments.iter().zip(&self.judged)
    }
}

/// Scans the tools of an export. `declared` says the risk that somebody declares for a tool, by its name: it bears on
/// risk and annotations, and on no argument ([`Inferred::under`] says what it would leave open).
///
/// # Errors
/// When a schema cannot be read within the limits.
pub fn scan<'a>(
    export: &'a Export,
    declared: &dyn Fn(&str) -> Tier,
) -> Result<Vec<Scanned<'a>>, InputError> {
    let results = Results::of(&export.tools);
    let schemas = schema::read(export)?;
    let tools = export.tools.iter().zip(schemas);
    Ok(tools
        .map(|(tool, schema)| judge(tool, schema, declared(&tool.name), &results))
        .collect())
}

fn judge<'a>(tool: &'a Tool, schema: Schema, declared: Tier, results: &Results) -> Scanned<'a> {
    let risk = risk::of(&tool.name, declared);
    let around = Around::of(tool);
    // Sorted by path, an argument comes before what stands inside it.
    let mut targets: BTreeMap<&str, Targets> = BTreeMap::new();
    let mut judged = Vec::with_capacity(schema.arguments.len());
    for argument in &schema.arguments {
        let above = above(&argument.path, &targets);
        let hints = hints::of(argument, results);
        let inferred = authority::infer(argument, &hints, &around, above);
        let name = Name::of(&argument.name);
        let shades = vocabulary::looked_for(&name).or(vocabulary::run(&name));
        let inside = if inferred.is_target() || shades.is_some() {
            Targets::Above
        } else {
            above
        };
        targets.insert(&argument.path, inside);
        judged.push(Judged { inferred, hints });
    }
    let out = |it: &Judged| it.inferred.is_target() && vocabulary::is_open(&it.inferred.word);
    let reach = if judged.iter().any(out) {
        Reach::Out
    } else {
        Reach::NotSeen
    };
    let annotations = annotations::of(tool, declared, risk.inferred, reach);
    let branches = branches::of(&schema);
    Scanned {
        tool,
        schema,
        judged,
        risk,
        annotations,
        branches,
    }
}

/// Whether an argument that `path` stands inside of is a target. The items of an array are no argument of their own.
fn above(path: &str, targets: &BTreeMap<&str, Targets>) -> Targets {
    let mut rest = path;
    while let Some((parent, _)) = rest.rsplit_once('/') {
        if let Some(found) = targets.get(parent) {
            return *found;
        }
        rest = parent;
    }
    Targets::None
}
