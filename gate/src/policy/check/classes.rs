//! What a policy says of action classes, of rates and of totals, says something.

use alloc::{collections::BTreeSet, string::String};

use super::range;
use crate::{
    id::ArgumentName,
    policy::{ActionClass, Kind, Label, Problem, Recipients, Release, Rules, Tool, error::Fault},
};

/// The most groups of `asked_by`, and the most words of one.
const GROUPS_MAX: usize = 16;
const WORDS_MAX: usize = 64;

pub(super) fn policy(policy: &Rules) -> Result<(), Fault> {
    let confirm = &policy.confirm;
    for (place, classes) in [
        (&["write_gate", "classes"][..], &policy.write_gate.classes),
        (&["confirm", "classes"], &confirm.classes),
        (
            &["confirm", "signature", "classes"],
            &confirm.signature.classes,
        ),
    ] {
        if classes.contains(&ActionClass::ValueCarrying) {
            return Err(Problem::ValueCarryingGated.at(place));
        }
    }
    let resource = policy.handoff.as_str();
    if ArgumentName::parse(resource).is_err() || matches!(resource, "from" | "summary" | "task") {
        return Err(Problem::HandoffResource.at(&["handoff", "resource"]));
    }
    for domain in &policy.domains {
        let plain = domain.len() <= 253
            && domain.contains('.')
            && domain.split('.').all(|label| {
                (1..=63).contains(&label.len())
                    && label
                        .bytes()
                        .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            });
        if !plain {
            return Err(Problem::Domain {
                domain: domain.clone(),
            }
            .at(&["own", "domains"]));
        }
    }
    Ok(())
}

pub(super) fn tool(policy: &Rules, tool: &Tool) -> Result<(), Fault> {
    polarity(&tool.classes).map_err(|it| it.at(&["action_classes"]))?;
    if let Some(selector) = &tool.selector {
        for (value, branch) in &selector.cases {
            polarity(&branch.classes)
                .map_err(|it| it.at(&["selector", "cases", value, "action_classes"]))?;
        }
    }
    if tool.asked_by.len() > GROUPS_MAX {
        return Err(Problem::Bounds {
            why: "there are at most 16 groups of words",
        }
        .at(&["asked_by"]));
    }
    for group in &tool.asked_by {
        let plain = |it: &String| {
            let word = it.strip_suffix('*').unwrap_or(it);
            (2..=64).contains(&word.len()) && word.chars().all(char::is_alphanumeric)
        };
        if group.is_empty() || group.len() > WORDS_MAX || !group.iter().all(plain) {
            return Err(Problem::AskedBy.at(&["asked_by"]));
        }
    }
    if tool.release == Release::Asked && tool.asked_by.is_empty() {
        return Err(Problem::ReleaseAsked.at(&["release"]));
    }
    for name in &tool.computed.external {
        known(tool, name).map_err(|it| it.at(&["computed", "external"]))?;
    }
    if !tool.computed.external.is_empty() && policy.domains.is_empty() {
        return Err(Problem::NoDomains.at(&["computed", "external"]));
    }
    if tool.recipients == Recipients::Own && tool.computed.external.is_empty() {
        return Err(Problem::OwnRecipients.at(&["recipients"]));
    }
    for name in tool.computed.bulk.keys() {
        let key = ["computed", "bulk", name.as_str()];
        if !matches!(
            known(tool, name).map_err(|it| it.at(&key))?,
            Kind::List { .. }
        ) {
            return Err(Problem::BulkOfNoList.at(&key));
        }
    }
    for (name, most) in &tool.total.sums {
        let key = ["total", "sums", name.as_str()];
        let kind = known(tool, name).map_err(|it| it.at(&key))?;
        if !(kind.is_amount() && *most >= 0.0) {
            return Err(Problem::SumOfOther.at(&key));
        }
    }
    if tool.result.handoff && tool.result.label != Label::Untrusted {
        return Err(Problem::HandoffTrusted.at(&["result", "label"]));
    }
    if let Some(rate) = &tool.rate {
        range(rate.calls, 1, 100_000, &["rate", "calls"])?;
        range(rate.seconds, 1, 86_400, &["rate", "seconds"])?;
    }
    Ok(())
}

/// What deletes or changes a membership does not say in its values whose will it is; so it is
/// never taken for value-carrying.
fn polarity(classes: &BTreeSet<ActionClass>) -> Result<(), Problem> {
    let has = |it| classes.contains(&it);
    if has(ActionClass::ValueCarrying)
        && (has(ActionClass::Deletion)
            || has(ActionClass::MembershipChange)
            || !has(ActionClass::Consequential))
    {
        return Err(Problem::ValueCarrying);
    }
    Ok(())
}

fn known<'a>(tool: &'a Tool, name: &ArgumentName) -> Result<&'a Kind, Problem> {
    tool.arguments
        .get(name)
        .map(|it| &it.kind)
        .ok_or_else(|| Problem::UnknownArgument {
            argument: name.clone(),
        })
}
