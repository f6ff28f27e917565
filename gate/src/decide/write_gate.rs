//! What a call that changes something needs once untrusted content has come into its session.

use alloc::{
    collections::BTreeSet,
    string::{String, ToString},
    vec::Vec,
};

use super::{
    Reason, Rule,
    origins::Looked,
    shape::{Arguments, because},
};
use crate::{
    id::ToolName,
    policy::{ActionClass, Answer, GateMode, OnTaint, Policy, Release, Risk, Tool, listed},
    session::Facts,
};

/// What the tool as a whole may do in a tainted session.
pub(super) fn tool_wide(
    facts: &Facts,
    tool: &Tool,
    complete: &Arguments,
) -> Option<(Answer, Reason)> {
    let seen = || {
        let reasons: Vec<String> = facts.taint().iter().map(ToString::to_string).collect();
        alloc::format!(
            "the session has seen untrusted content ({})",
            reasons.join(" and ")
        )
    };
    match tool.on_taint {
        OnTaint::Origins | OnTaint::Pass => None,
        OnTaint::Hold => {
            let why = alloc::format!("{}, and after that a person decides on this tool", seen());
            let change = "a person's approval of exactly this call";
            Some((Answer::Hold, because(Rule::Taint, None, why, change)))
        }
        OnTaint::Refuse => {
            let why = alloc::format!(
                "{}, and this tool is not called after that; start a new session for it",
                seen()
            );
            let change = "a new session that has not seen any";
            Some((Answer::Refuse, because(Rule::Taint, None, why, change)))
        }
        OnTaint::TrustedSinks => {
            // A member of an owned set is an approved value, but untrusted content may have chosen
            // which.
            let chosen = complete.keys().find(|name| {
                tool.arguments
                    .get(*name)
                    .is_some_and(|it| it.role.is_target() && !it.authority.is_trusted_value())
            })?;
            let why = alloc::format!(
                "{}, and after that `{chosen}` must be a trusted value, not a choice; start a new \
                 session for it",
                seen()
            );
            let change = "a new session that has not seen any";
            let reason = because(Rule::Taint, Some(chosen), why, change);
            Some((Answer::Refuse, reason))
        }
    }
}

/// Whether the person's words ask for it.
pub(super) fn asked_by(facts: &Facts, tool: &Tool) -> Option<Reason> {
    let missing = tool
        .asked_by
        .iter()
        .find(|group| !facts.words().ask(&[group.as_slice()]))?;
    let why = alloc::format!(
        "the session has seen untrusted content, and the task has none of the words that ask for \
         this: {}",
        missing.join(", ")
    );
    let change = "a person's approval, or a message of the person's that asks for it";
    Some(because(Rule::AskedBy, None, why, change))
}

/// Whether a call that changes something has anything that shows whose will it is.
pub(super) fn anchored(name: &ToolName, risk: Risk, looked: &Looked) -> Option<Reason> {
    // What catches the call already says more.
    let silent = risk == Risk::Read || looked.anchored || !looked.caught.is_empty();
    (!silent).then(|| {
        let why = alloc::format!(
            "the session has seen untrusted content, and nothing in this call of `{name}` shows \
             whose will it is"
        );
        because(
            Rule::Anchor,
            None,
            why,
            "a person's approval of exactly this call",
        )
    })
}

/// Whether a call of these classes is gated, and nothing releases it.
pub(super) fn gated(
    policy: &Policy,
    tool: &Tool,
    classes: &BTreeSet<ActionClass>,
    looked: &Looked,
) -> Option<(Answer, Reason)> {
    let gate = policy.write_gate();
    let caught: Vec<ActionClass> = classes
        .intersection(&gate.classes)
        .copied()
        .filter(|class| match gate.mode {
            GateMode::Uniform => true,
            GateMode::Selective => !released(tool, classes, *class, looked),
        })
        .collect();
    if caught.is_empty() {
        return None;
    }
    let change = match (gate.mode, gate.answer) {
        (_, Answer::Refuse) => "a new session that has not seen any",
        (GateMode::Uniform, Answer::Hold) => "a person's approval of exactly this call",
        (GateMode::Selective, Answer::Hold) => match tool.release {
            Release::Never => "a person's approval of exactly this call",
            Release::Asked => "a person's approval, or targets whose origin is accepted",
            Release::Named => "a person's approval, or targets that the task names",
        },
    };
    let why = alloc::format!(
        "the session has seen untrusted content, and after that a call that is {} is gated",
        listed(&caught)
    );
    Some((gate.answer, because(Rule::WriteGate, None, why, change)))
}

/// Whether the origins of the call's values release it from the gate of `class`.
fn released(
    tool: &Tool,
    classes: &BTreeSet<ActionClass>,
    class: ActionClass,
    looked: &Looked,
) -> bool {
    let values_say = match class {
        ActionClass::AccountModification
        | ActionClass::Bulk
        | ActionClass::External
        | ActionClass::Financial
        | ActionClass::ValueCarrying => true,
        ActionClass::Consequential => classes.contains(&ActionClass::ValueCarrying),
        ActionClass::Deletion | ActionClass::MembershipChange => false,
    };
    let accepted = looked.anchored && looked.caught.is_empty();
    if values_say {
        return accepted;
    }
    match tool.release {
        Release::Never => false,
        // The words that ask are asked for by a rule of their own.
        Release::Asked => accepted && looked.targets,
        Release::Named => accepted && looked.named,
    }
}
