//! One call through all the rules.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::ToString as _,
    vec::Vec,
};

use super::{
    Allowed, Ask, Ground, Grounds, Held, Moment, Reason, Refusal, Rule, Verdict, authority, limits,
    meaning::{self, Established},
    origins::{self, External, Looked},
    shape::{self, Arguments, because},
    verdict::Judged,
    write_gate,
};
use crate::{
    call::Call,
    digest::Digest,
    floor,
    id::ArgumentName,
    json::Value,
    meaning::{Aspect, Voucher},
    mutant::Mutant,
    origin::Origin,
    policy::{ActionClass, Answer, Branch, Commit, OnTaint, Policy, Risk, Tool},
    record::Opening,
    request,
    session::Facts,
};

pub(super) fn judge(
    policy: &Policy,
    facts: &Facts,
    ask: &Ask<'_>,
) -> Result<Verdict, Box<Refusal>> {
    let early = |reason| Box::new(refusal(reason, None));
    let (name, tool) = shape::tool(policy, ask.tool).map_err(early)?;
    if let Some(why) = facts.saturated() {
        let change = "a new session";
        return Err(early(because(Rule::Saturated, None, why, change)));
    }
    let given = shape::exact_fields(tool, ask.arguments).map_err(early)?;
    shape::types_and_bounds(tool, &given).map_err(early)?;
    let branch = tool.branch(&given);
    let authority::Complete {
        sent: complete,
        written,
    } = authority::complete(policy, facts, tool, branch, given).map_err(early)?;

    let (classes, risk) = stakes(policy, tool, branch, &complete, &ask.classes);
    let mut arguments = grounds(tool, &complete);
    let looked = provenance(facts, tool, &written, &complete, &classes, &mut arguments);
    let grounds = Grounds {
        approval: None,
        arguments,
        branch: branch.map(|(name, _)| name.into()),
        classes,
        on_taint: tool.on_taint,
        risk,
        taint: facts.taint().clone(),
    };
    let refuse = |reason| Box::new(refusal(reason, Some(grounds.clone())));
    if !Mutant::GateScope.is_on() {
        authority::scope(facts, name, &complete).map_err(refuse)?;
    }
    let credential = policy.credential(&tool.credential);
    let when = (ask.moment, ask.now_ms);
    let Established { holds, mut meaning } =
        meaning::establish(facts, tool, credential, &complete, when).map_err(refuse)?;
    let mut holds: Vec<Reason> = holds.into_iter().collect();
    if !facts.taint().is_empty() && !Mutant::GateTaint.is_on() {
        for (answer, reason) in tainted(policy, facts, (name, tool), &complete, &grounds, looked) {
            match answer {
                Answer::Hold => holds.push(reason),
                Answer::Refuse if Mutant::GateRefusalFirst.is_on() => holds.push(reason),
                Answer::Refuse => return Err(refuse(reason)),
            }
        }
    }
    let classes = &grounds.classes;
    limits::refuse(facts, name, tool, classes, &complete, ask.now_ms).map_err(refuse)?;
    for above in ask.above.iter().filter(|_| !Mutant::GateDelegation.is_on()) {
        authority::scope(above, name, &complete).map_err(refuse)?;
        limits::refuse(above, name, tool, classes, &complete, ask.now_ms).map_err(refuse)?;
    }

    let call = Call {
        arguments: complete,
        tool: name.clone(),
    };
    let (bytes, origin) = on_floor(policy, tool, &call).map_err(refuse)?;
    meaning.say(
        Aspect::System,
        Voucher::Operator,
        Value::Text(origin.to_string()),
    );
    let digest = Call::digest_of(&bytes);
    unrefused(facts, digest).map_err(refuse)?;
    for above in ask.above.iter().filter(|_| !Mutant::GateDelegation.is_on()) {
        unrefused(above, digest).map_err(refuse)?;
    }
    let confirmation = limits::confirmation(policy, facts, name, tool, classes, risk);
    holds.extend(confirmation);

    let judged = Judged {
        digest,
        bytes,
        credential: tool.credential.clone(),
        grounds,
        idempotent: tool.idempotent,
        meaning,
        opens: Opening::of(tool),
        policy: policy.hash(),
        call,
    };
    answer((policy, facts, tool), ask, judged, holds)
}

/// What a reviewer refused is not asked of the next one.
fn unrefused(facts: &Facts, call: Digest) -> Result<(), Reason> {
    match facts.approvals().refused(call) {
        None => Ok(()),
        Some(record) => {
            let why = alloc::format!(
                "a reviewer refused exactly this call (record {}), and no answer takes that back",
                record.position
            );
            let change = "another call, or a new session";
            Err(because(Rule::Reviewer, None, why, change))
        }
    }
}

/// What is answered to a call that nothing refuses.
fn answer(
    (policy, facts, tool): (&Policy, &Facts, &Tool),
    ask: &Ask<'_>,
    judged: Judged,
    holds: Vec<Reason>,
) -> Result<Verdict, Box<Refusal>> {
    let moment = ask.moment;
    let unheld = moment == Moment::Commit && Mutant::GateCommit.is_on();
    let mut judged = judged;
    if !holds.is_empty() && moment != Moment::Approved && !unheld {
        let held = Held {
            judged,
            reasons: holds,
        };
        let Some(approval) = facts.approvals().covering(policy, &held, ask.now_ms) else {
            return Ok(Verdict::Hold(held));
        };
        // As if the reviewer answered now: what refuses an approved call refuses this one.
        let approved = ask.clone().at(Moment::Approved, ask.now_ms);
        judged = match judge(policy, facts, &approved)? {
            Verdict::Allow(it) | Verdict::Limit(it) => it.resting_on(approval).judged,
            other @ (Verdict::Defer(_) | Verdict::Hold(_) | Verdict::Refuse(_)) => {
                return Ok(other);
            }
        };
    }
    if tool.commit == Commit::EndOfTurn && moment == Moment::Call {
        let why = "this tool's calls are decided at the end of the turn";
        let change = "the end of the turn, which the application says";
        let reason = because(Rule::Turn, None, why.to_string(), change);
        return Ok(Verdict::Defer(Held {
            judged,
            reasons: [reason].into(),
        }));
    }
    let allowed = Allowed { judged };
    Ok(if tool.result.is_whole() {
        Verdict::Allow(allowed)
    } else {
        Verdict::Limit(allowed)
    })
}

fn refusal(reason: Reason, grounds: Option<Grounds>) -> Refusal {
    Refusal {
        rule: reason.rule,
        argument: reason.argument,
        why: reason.why,
        change: reason.change,
        grounds: grounds.map(Box::new),
    }
}

/// What the call does to the world, and what is at stake.
fn stakes(
    policy: &Policy,
    tool: &Tool,
    branch: Option<(&str, &Branch)>,
    complete: &Arguments,
    added: &BTreeSet<ActionClass>,
) -> (BTreeSet<ActionClass>, Risk) {
    let (mut classes, risk) = tool.stakes(policy.domains(), branch, complete);
    // `value_carrying` lightens a gate: the policy's word alone.
    classes.extend(added.iter().filter(|it| **it != ActionClass::ValueCarrying));
    (classes, risk)
}

fn grounds(tool: &Tool, complete: &Arguments) -> BTreeMap<ArgumentName, Ground> {
    complete
        .keys()
        .filter_map(|name| {
            let argument = tool.arguments.get(name)?;
            let ground = Ground {
                authority: argument.authority.clone(),
                in_untrusted: false,
                origin: None,
                role: argument.role,
                said_by: Vec::new(),
            };
            Some((name.clone(), ground))
        })
        .collect()
}

/// Looks where the values come from, if it matters.
fn provenance(
    facts: &Facts,
    tool: &Tool,
    written: &Arguments,
    complete: &Arguments,
    classes: &BTreeSet<ActionClass>,
    grounds: &mut BTreeMap<ArgumentName, Ground>,
) -> Looked {
    let asked = match tool.on_taint {
        OnTaint::Origins => true,
        OnTaint::Hold | OnTaint::Pass | OnTaint::Refuse | OnTaint::TrustedSinks => false,
    };
    if asked && !facts.taint().is_empty() {
        let external = if classes.contains(&ActionClass::External) {
            External::Yes
        } else {
            External::No
        };
        return origins::look(facts, tool, written, complete, external, grounds);
    }
    // Where every sink is a trusted value, there is one that shows whose will the call is.
    let trusted = tool.on_taint == OnTaint::TrustedSinks
        && complete.keys().any(|name| {
            tool.arguments
                .get(name)
                .is_some_and(|it| it.authority.is_trusted_value())
        });
    Looked {
        anchored: trusted,
        caught: Vec::new(),
        named: trusted,
        targets: trusted,
    }
}

/// What catches a call in a tainted session, in the order of the rules.
fn tainted(
    policy: &Policy,
    facts: &Facts,
    (name, tool): (&crate::id::ToolName, &Tool),
    complete: &Arguments,
    grounds: &Grounds,
    mut looked: Looked,
) -> Vec<(Answer, Reason)> {
    let mut caught: Vec<(Answer, Reason)> = write_gate::tool_wide(facts, tool, complete)
        .into_iter()
        .collect();
    let asked = write_gate::asked_by(facts, tool);
    let anchor = (tool.on_taint == OnTaint::Origins)
        .then(|| write_gate::anchored(name, grounds.risk, &looked))
        .flatten();
    let gated = write_gate::gated(policy, tool, &grounds.classes, &looked);
    caught.append(&mut looked.caught);
    caught.extend(asked.map(|it| (Answer::Hold, it)));
    caught.extend(anchor.map(|it| (Answer::Hold, it)));
    caught.extend(gated);
    caught.sort_by_key(|(_, reason)| reason.rule);
    caught
}

/// The vault asks the same again; here the agent still gets a reason.
fn on_floor(policy: &Policy, tool: &Tool, call: &Call) -> Result<(Vec<u8>, Origin), Reason> {
    let refuse = |argument, why, change: &str| Err(because(Rule::Request, argument, why, change));
    let rendered = match request::render(policy, call) {
        Ok(rendered) => rendered,
        Err(why) => {
            let change = "write a value that fits its place";
            return refuse(why.argument(), why.to_string(), change);
        }
    };
    let Some(credential) = policy.credential(&tool.credential) else {
        let why = alloc::format!("the policy has no credential `{}`", tool.credential);
        return refuse(None, why, "the operator's policy");
    };
    if let Err(why) = floor::check(&credential.floor, &rendered) {
        return refuse(None, why.to_string(), "the operator widens the floor");
    }
    let bytes = call.to_bytes();
    if bytes.len() > Call::LIMITS.bytes {
        let why = alloc::format!(
            "the complete call has {} bytes; at most {} are allowed: shorten what you write",
            bytes.len(),
            Call::LIMITS.bytes
        );
        return refuse(None, why, "a shorter call");
    }
    Ok((bytes, rendered.origin))
}
