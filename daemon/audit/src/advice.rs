//! What could be looked at. A closed set of kinds, each of which only tightens, or asks a person.

use gate::policy::{ActionClass, FieldLabel, OnTaint};
use serde::Serialize;

use crate::{
    classes::{Classed, Standing},
    declared::Policies,
    labels::{Repeated, Unlabelled},
    load::share,
    tally::{Tally, ToolKey},
};

/// What is advised. There is no kind that weakens a gate, and none that says how to.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A tool changes something and says no class: which is it of?
    NameClasses,
    /// A tool has classes that its policy's write gate does not list.
    GateClasses,
    /// Calls were of classes that the policy does not say of their tool.
    DeclareSeenClasses,
    /// Untrusted text had the values of a field that the policy vouches for.
    LookAtField,
    /// A tool brings results, and nobody said whose words they are.
    NameResult,
    /// Reviewers refuse nearly every call of a tool.
    RefuseUnasked,
    /// Many calls of a tool wait until their time is over.
    LookAtReviewers,
    /// Reviewers approve nearly every call of a tool.
    LookAtHolds,
    /// A tool of the policy was not called.
    RemoveUnused,
}

/// What following an advice does.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// No change is proposed: a person is asked to look, and decides.
    AsksAPerson,
    /// What passes afterwards passed before.
    OnlyTightens,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::NameClasses,
        Self::GateClasses,
        Self::DeclareSeenClasses,
        Self::LookAtField,
        Self::NameResult,
        Self::RefuseUnasked,
        Self::LookAtReviewers,
        Self::LookAtHolds,
        Self::RemoveUnused,
    ];

    /// What following it does.
    pub const fn effect(self) -> Effect {
        match self {
            Self::NameClasses
            | Self::LookAtField
            | Self::NameResult
            | Self::LookAtReviewers
            | Self::LookAtHolds => Effect::AsksAPerson,
            Self::GateClasses
            | Self::DeclareSeenClasses
            | Self::RefuseUnasked
            | Self::RemoveUnused => Effect::OnlyTightens,
        }
    }
}

/// A change of a policy that only tightens.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The tool has these classes too.
    AddClasses(Vec<ActionClass>),
    /// The write gate gates these too.
    AddGated(Vec<ActionClass>),
    /// After untrusted content the tool is not called at all.
    OnTaintRefuse,
    /// The policy has the tool no more.
    RemoveTool,
}

/// An advice.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Advice {
    /// Of what kind.
    pub kind: Kind,
    /// What following it does.
    pub effect: Effect,
    /// The policy.
    pub policy: String,
    /// The tool.
    pub tool: String,
    /// The change, where one is proposed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// It, in words.
    pub text: String,
}

/// How many calls a share is said of.
const ENOUGH: u64 = 10;

/// Everything that could be looked at, by tool.
pub fn all(
    tally: &Tally,
    policies: &Policies,
    classed: &[Classed],
    repeated: &[Repeated],
    unlabelled: &[Unlabelled],
) -> Vec<Advice> {
    let mut all = Vec::new();
    for tool in classed.iter().filter(|it| it.given) {
        of_classes(tool, &mut all);
        of_load(tally, policies, tool, &mut all);
    }
    all.extend(repeated.iter().map(of_field));
    all.extend(unlabelled.iter().map(of_result));
    all.sort_by(|a, b| (&a.policy, &a.tool, a.kind).cmp(&(&b.policy, &b.tool, b.kind)));
    all
}

fn advice(
    kind: Kind,
    (policy, tool): (&str, &str),
    change: Option<Change>,
    text: String,
) -> Advice {
    let asks = match kind.effect() {
        Effect::AsksAPerson => "This asks a person: ",
        Effect::OnlyTightens => "",
    };
    Advice {
        kind,
        effect: kind.effect(),
        policy: policy.into(),
        tool: tool.into(),
        change,
        text: format!("{asks}{text}"),
    }
}

fn of_classes(tool: &Classed, all: &mut Vec<Advice>) {
    let of = (tool.policy.as_str(), tool.tool.as_str());
    let words = |classes: &[ActionClass]| {
        let words: Vec<&str> = classes.iter().map(|it| it.as_str()).collect();
        words.join(", ")
    };
    if tool.standing == Standing::Undeclared {
        let classes: Vec<ActionClass> = ActionClass::ALL
            .into_iter()
            .filter(|it| *it != ActionClass::ValueCarrying)
            .collect();
        let text = format!(
            "which of {} does a call of `{}` do to the world? Until `action_classes` says it, the write gate does not hear of it.",
            words(&classes),
            of.1
        );
        all.push(advice(Kind::NameClasses, of, None, text));
    }
    let ungated: Vec<ActionClass> = tool
        .declared
        .difference(&tool.gated)
        .copied()
        .filter(|it| *it != ActionClass::ValueCarrying)
        .collect();
    if !ungated.is_empty() {
        let text = format!(
            "`{}` is in {}, which `[write_gate] classes` leaves out: list it there, and its calls are gated after untrusted content.",
            of.1,
            words(&ungated)
        );
        all.push(advice(
            Kind::GateClasses,
            of,
            Some(Change::AddGated(ungated)),
            text,
        ));
    }
    let more: Vec<ActionClass> = tool
        .seen
        .keys()
        .copied()
        .filter(|it| !tool.declared.contains(it) && *it != ActionClass::ValueCarrying)
        .collect();
    if !more.is_empty() {
        let text = format!(
            "calls of `{}` were of {}, which the policy does not say of it: add it to its `action_classes`.",
            of.1,
            words(&more)
        );
        let change = Some(Change::AddClasses(more));
        all.push(advice(Kind::DeclareSeenClasses, of, change, text));
    }
}

fn of_load(tally: &Tally, policies: &Policies, tool: &Classed, all: &mut Vec<Advice>) {
    let of = (tool.policy.as_str(), tool.tool.as_str());
    let key = ToolKey {
        policy: tool.policy.clone(),
        tool: tool.tool.clone(),
    };
    let Some(traffic) = tally.tools.get(&key) else {
        let others = tally.tools.keys().any(|it| it.policy == tool.policy);
        if others && policies.contains_key(&tool.policy) {
            let text = format!(
                "nothing that was read called `{}`: a policy without it lets through nothing that was used.",
                of.1
            );
            all.push(advice(
                Kind::RemoveUnused,
                of,
                Some(Change::RemoveTool),
                text,
            ));
        }
        return;
    };
    let load = traffic.load.said();
    let answered = load.answered();
    let ended = answered.saturating_add(load.expired);
    if ended >= ENOUGH && load.expired.saturating_mul(10) >= ended {
        let text = format!(
            "{} of {} calls of `{}` that waited were answered by nobody in their time ({}): who sees them, and is told of them?",
            load.expired,
            ended,
            of.1,
            share(load.expired, ended)
        );
        all.push(advice(Kind::LookAtReviewers, of, None, text));
    }
    if answered < ENOUGH {
        return;
    }
    let refuses = tool.on_taint == Some(OnTaint::Refuse.as_str());
    if !refuses && load.turned_down.saturating_mul(10) >= answered.saturating_mul(9) {
        let text = format!(
            "reviewers refused {} of {} calls of `{}` that they answered ({}): `on_taint = \"refuse\"` refuses them after \
             untrusted content without asking anybody.",
            load.turned_down,
            answered,
            of.1,
            share(load.turned_down, answered)
        );
        all.push(advice(
            Kind::RefuseUnasked,
            of,
            Some(Change::OnTaintRefuse),
            text,
        ));
    }
    if load.approved.saturating_mul(20) >= answered.saturating_mul(19) {
        let text = format!(
            "reviewers approved {} of {} calls of `{}` that they answered ({}). That says nothing of whether they were looked at. \
             Why do they wait, and does who answers them have what he needs to see one that is wrong?",
            load.approved,
            answered,
            of.1,
            share(load.approved, answered)
        );
        all.push(advice(Kind::LookAtHolds, of, None, text));
    }
}

fn of_field(field: &Repeated) -> Advice {
    let of = (field.policy.as_str(), field.tool.as_str());
    let says = match field.label {
        Some(FieldLabel::Authoritative) => "says is as good as the operator's word",
        Some(FieldLabel::System) => "says is a system's own",
        Some(FieldLabel::Untrusted) => "now says is anyone's",
        None => "vouched for when the calls were decided",
    };
    let text = format!(
        "untrusted text had {} of the values that calls took from `{}` of `{}`, which the policy {says}. Does the system alone \
         write that field? If anyone else can, it is \"untrusted\".",
        field.values, field.field, of.1
    );
    advice(Kind::LookAtField, of, None, text)
}

fn of_result(tool: &Unlabelled) -> Advice {
    let of = (tool.policy.as_str(), tool.tool.as_str());
    let text = format!(
        "whose words are the results of `{}`? The policy says nothing of them, so all {} were taken for anyone's. Until somebody \
         who knows says more, that is the safe reading, and writing `result = \"untrusted\"` says that it was looked at.",
        of.1, tool.results
    );
    advice(Kind::NameResult, of, None, text)
}
