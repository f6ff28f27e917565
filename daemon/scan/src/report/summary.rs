//! A first look: what there is, and what to look at first.

use serde::Serialize;

use super::Document;
use crate::infer::{Authority, Confidence, Standing, Tier};

/// Counts of a report, and where to look first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Sentences, the most pressing first.
    pub first_look: Vec<String>,
    /// Files.
    pub documents: usize,
    /// Tools.
    pub tools: usize,
    /// Tools that a person has to look at.
    pub tools_to_review: usize,
    /// Arguments, nested ones included.
    pub arguments: usize,
    /// Of these, nested ones.
    pub nested: usize,
    /// Locked for sure.
    pub locked_high: usize,
    /// Locked for want of knowledge.
    pub locked_uncertain: usize,
    /// Open within bounds.
    pub bounded: usize,
    /// Anybody's words.
    pub payload: usize,
    /// Arguments that a person has to look at.
    pub arguments_to_review: usize,
    /// Things to look at, of tools and of arguments.
    pub obligations: usize,
    /// Tools whose risk is not known.
    pub risk_unknown: usize,
    /// Tools whose declared risk is not what the name says.
    pub risk_conflicts: usize,
    /// Annotations that say otherwise than what is known.
    pub annotation_conflicts: usize,
    /// Tools that choose among branches.
    pub branching_tools: usize,
    /// Tools whose schema takes arguments that it does not name.
    pub open_schemas: usize,
}

impl Summary {
    pub(super) fn of(documents: &[Document]) -> Self {
        let mut sum = Self {
            documents: documents.len(),
            ..Self::default()
        };
        for tool in documents.iter().flat_map(|document| &document.tools) {
            sum.tools += 1;
            sum.tools_to_review += usize::from(tool.review_required);
            sum.obligations += tool.obligations.len();
            sum.risk_unknown += usize::from(tool.risk.effective == Tier::Unknown);
            sum.risk_conflicts += usize::from(tool.risk.agreement == "conflict");
            sum.branching_tools += usize::from(tool.branches.is_some());
            sum.open_schemas += usize::from(tool.unknown_arguments == "taken");
            let conflicts = tool.annotations.iter();
            sum.annotation_conflicts += conflicts
                .filter(|it| it.standing == Standing::Conflict)
                .count();
            for argument in &tool.arguments {
                sum.arguments += 1;
                sum.nested += usize::from(argument.path.matches('/').count() > 1);
                sum.arguments_to_review += usize::from(argument.review_required);
                sum.obligations += argument.obligations.len();
                match (argument.authority, argument.confidence) {
                    (Authority::Locked, Confidence::High) => sum.locked_high += 1,
                    (Authority::Locked, Confidence::Uncertain) => sum.locked_uncertain += 1,
                    (Authority::Bounded, _) => sum.bounded += 1,
                    (Authority::Payload, _) => sum.payload += 1,
                }
            }
        }
        sum.first_look = sum.sentences();
        sum
    }

    fn sentences(&self) -> Vec<String> {
        let locked = self.locked_high.saturating_add(self.locked_uncertain);
        let mut said = vec![format!(
            "Arguments that are locked: {locked} of {}. What {} of them are, name or type says; {} are locked because \
             nothing says what they are.",
            self.arguments, self.locked_high, self.locked_uncertain
        )];
        let mut say = |count: usize, what: &str, act: &str| {
            if count > 0 {
                said.push(format!("{what}: {count}. {act}"));
            }
        };
        say(
            self.payload,
            "Arguments where anybody's words may stand (payload)",
            "Go through them first.",
        );
        say(
            self.risk_conflicts,
            "Tools whose name contradicts the risk that is declared",
            "Neither is relied on.",
        );
        say(
            self.annotation_conflicts,
            "Annotations that say otherwise than what is known of their tool",
            "None is a proof.",
        );
        say(
            self.branching_tools,
            "Tools that choose among branches by an argument",
            "Each of its values has a risk of its own.",
        );
        say(
            self.risk_unknown,
            "Tools without a risk that may be relied on",
            "Declare it, or have each call confirmed.",
        );
        say(
            self.open_schemas,
            "Tools whose schema takes arguments that it does not name",
            "Close it (`additionalProperties: false`).",
        );
        say(
            self.obligations,
            "Things in the schemas that are not decided on here",
            "A person looks.",
        );
        said
    }
}
