//! What was found, for people and for machines: one report, in JSON or in Markdown.
//!
//! A report says nothing of a time, a host or a user, so the same files give the same bytes. Foreign text in it is
//! inert: names and single words of the exports stand in it, descriptions do not.

mod build;
mod markdown;
mod names;
mod remedy;
mod summary;

use std::collections::BTreeMap;

use custody_shown::inert;
use gate::{digest::Digest, json::Value};
use serde::Serialize;

pub use names::Names;
pub use remedy::{Fallback, Preferred, Remedy, Standing};
pub use summary::Summary;

use crate::{
    controls::{Case, Controls, Stated, StatedArgument, StatedRisk, Unexposed},
    infer::{self, Authority, Confidence, Hint, Reason, Says, Scanned, Tier},
    input::{Dialect, Export, InputError},
};

/// The version of the form. A reader refuses one that it does not know.
pub const VERSION: u32 = 1;

/// A report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`VERSION`].
    pub report_version: u32,
    /// What wrote it.
    pub generator: Generator,
    /// What was left out.
    pub privacy: Privacy,
    /// A first look.
    pub summary: Summary,
    /// What somebody states, and that nothing verified it; none if no file of controls was given.
    pub controls: Option<ControlsNote>,
    /// Each file.
    pub documents: Vec<Document>,
}

/// What wrote a report.
#[derive(Clone, Debug, Serialize)]
pub struct Generator {
    /// The command.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// What of the files is in a report.
#[derive(Clone, Debug, Serialize)]
pub struct Privacy {
    /// Whether names are in it.
    pub names: Names,
    /// What that means.
    pub note: &'static str,
}

/// That controls are nobody's proof.
#[derive(Clone, Debug, Serialize)]
pub struct ControlsNote {
    /// SHA-256 of the file; none where names are left out.
    pub sha256: Option<Digest>,
    /// Always `unverified`.
    pub standing: &'static str,
    /// What that means.
    pub note: &'static str,
}

/// One file.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// Its name.
    pub file: String,
    /// SHA-256 of its bytes.
    pub sha256: Option<Digest>,
    /// Whose form it has.
    pub dialect: Dialect,
    /// Keys beside the tools that were not looked at.
    pub ignored_keys: Vec<String>,
    /// Its tools, in its order.
    pub tools: Vec<ToolReport>,
}

/// One tool.
#[derive(Clone, Debug, Serialize)]
pub struct ToolReport {
    /// Its name.
    pub name: String,
    /// Where it stands in the file.
    pub pointer: String,
    /// Whether a person has to look at it.
    pub review_required: bool,
    /// Its risk.
    pub risk: RiskReport,
    /// The argument that chooses among branches, and its values.
    pub branches: Option<BranchesReport>,
    /// What it says of itself: hints that nothing verified.
    pub annotations: Vec<AnnotationReport>,
    /// What the schema does with arguments that it does not name: `refused` or `taken`.
    pub unknown_arguments: &'static str,
    /// SHA-256 over the RFC 8785 form of its schema.
    pub schema_sha256: Option<Digest>,
    /// The same of what is not modelled; none if everything is.
    pub unmodelled_sha256: Option<Digest>,
    /// What a person has to look at of the tool as a whole.
    pub obligations: Vec<ObligationReport>,
    /// Every argument, nested ones too, by path.
    pub arguments: Vec<ArgumentReport>,
    /// What somebody states of it.
    pub controls: Option<StatedReport>,
}

/// A tool's risk.
#[derive(Clone, Debug, Serialize)]
pub struct RiskReport {
    /// What somebody declares.
    pub declared: Tier,
    /// What the name says.
    pub inferred: Tier,
    /// The word of the name that says it.
    pub word: Option<&'static str>,
    /// What may be relied on.
    pub effective: Tier,
    /// `agree`, `conflict` or `undeclared`.
    pub agreement: &'static str,
    /// Whether a person should confirm each call.
    pub confirmation_needed: bool,
}

/// An argument that chooses among branches.
#[derive(Clone, Debug, Serialize)]
pub struct BranchesReport {
    /// Its path.
    pub argument: String,
    /// Its values.
    pub cases: Vec<BranchCase>,
}

/// One value of an argument that chooses.
#[derive(Clone, Debug, Serialize)]
pub struct BranchCase {
    /// The value; none where names are left out.
    pub value: Option<String>,
    /// What it says.
    pub inferred: Tier,
}

/// One annotation.
#[derive(Clone, Debug, Serialize)]
pub struct AnnotationReport {
    /// Its key.
    pub hint: String,
    /// What it says.
    pub says: Says,
    /// How that stands to what is known.
    pub standing: infer::Standing,
    /// Against what it was held.
    pub against: infer::Against,
    /// Always `unverified_hint`.
    pub worth: &'static str,
}

/// Something to look at.
#[derive(Clone, Debug, Serialize)]
pub struct ObligationReport {
    /// What kind.
    pub kind: &'static str,
    /// Where in the file; none where names are left out.
    pub pointer: Option<String>,
    /// The keyword or name that it is about.
    pub about: Option<String>,
    /// What a person is asked.
    pub ask: &'static str,
}

/// One argument.
#[derive(Clone, Debug, Serialize)]
pub struct ArgumentReport {
    /// Where it stands in a call.
    pub path: String,
    /// Where its schema stands in the file; none where names are left out.
    pub pointer: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether a call must have it.
    pub required: bool,
    /// Who may author it.
    pub authority: Authority,
    /// How sure that is.
    pub confidence: Confidence,
    /// Why, in a word.
    pub reason: Reason,
    /// Why, in a sentence.
    pub because: &'static str,
    /// The word that the reason rests on.
    pub word: Option<String>,
    /// Whether a person has to look at it.
    pub review_required: bool,
    /// What to do about it; none where anybody's words are meant to stand.
    pub remediation: Option<Remedy>,
    /// Its bounds, by keyword; none where names are left out.
    pub bounds: Option<BTreeMap<&'static str, Value>>,
    /// The values that it is one of; none where names are left out.
    pub choices: Option<Choices>,
    /// What its schema hints at.
    pub hints: Vec<HintReport>,
    /// What a person has to look at.
    pub obligations: Vec<ObligationReport>,
    /// SHA-256 of its schema.
    pub schema_sha256: Option<Digest>,
    /// What somebody states of it.
    pub controls: Option<StatedArgumentReport>,
}

/// The values that an argument is one of.
#[derive(Clone, Debug, Serialize)]
pub struct Choices {
    /// How many.
    pub count: usize,
    /// SHA-256 over the RFC 8785 form of the list.
    pub sha256: Digest,
}

/// One hint.
#[derive(Clone, Debug, Serialize)]
pub struct HintReport {
    /// What it hints at, where, and how much it says.
    #[serde(flatten)]
    pub hint: Hint,
}

/// What somebody states of a tool.
#[derive(Clone, Debug, Serialize)]
pub struct StatedReport {
    /// Always `unverified`.
    pub standing: &'static str,
    /// Its risk.
    pub risk: Option<StatedRisk>,
    /// The argument that chooses.
    pub selector: Option<String>,
    /// Its values.
    pub cases: Vec<Case>,
    /// What the server fixes.
    pub unexposed_arguments: BTreeMap<String, Unexposed>,
}

/// What somebody states of an argument.
#[derive(Clone, Debug, Serialize)]
pub struct StatedArgumentReport {
    /// Always `unverified`.
    pub standing: &'static str,
    /// What.
    #[serde(flatten)]
    pub stated: StatedArgument,
    /// How that stands to what is inferred: `same`, `stricter` or `looser`.
    pub beside_inference: &'static str,
}

impl Report {
    /// Scans `exports`, and says what was found.
    ///
    /// # Errors
    /// When a schema cannot be read within the limits.
    pub fn of(
        exports: &[Export],
        controls: Option<&Controls>,
        names: Names,
    ) -> Result<Self, InputError> {
        let stated = |name: &str| controls.and_then(|it| it.tools.get(name));
        let declared = |name: &str| stated(name).map_or(Tier::Unknown, Stated::tier);
        let mut documents = Vec::with_capacity(exports.len());
        for (index, export) in exports.iter().enumerate() {
            let scanned: Vec<Scanned<'_>> = infer::scan(export, &declared)?;
            documents.push(build::document(index, export, &scanned, &stated, names));
        }
        Ok(Self {
            report_version: VERSION,
            generator: Generator {
                name: "custody scan",
                version: env!("CARGO_PKG_VERSION"),
            },
            privacy: Privacy {
                names,
                note: names.note(),
            },
            summary: Summary::of(&documents),
            controls: controls.map(|it| ControlsNote {
                sha256: names.shown(it.sha256),
                standing: UNVERIFIED,
                note: "stated by somebody and verified by nothing; it stands beside what is inferred and changes \
                       no argument",
            }),
            documents,
        })
    }

    /// As JSON, in ASCII: nothing in it acts on a terminal.
    ///
    /// # Errors
    /// When it cannot be written, which no report's content brings about.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        let pretty = serde_json::to_string_pretty(self)?;
        // A line ends between values alone.
        Ok(pretty
            .lines()
            .map(|line| inert::json(line) + "\n")
            .collect())
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        markdown::of(self)
    }
}

const UNVERIFIED: &str = "unverified";
