//! What the call means, and whether somebody other than the agent vouches for it.

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use super::{
    Moment, Reason, Rule,
    authority::shown,
    origins,
    shape::{Arguments, because},
};
use crate::{
    id::{ArgumentName, TenantName},
    json::{self, Int, Value},
    meaning::{Aspect, Meaning, Voucher},
    mutant::Mutant,
    policy::{Authority, Credential, MeaningRules, OriginClass, Tool},
    session::{Facts, each_leaf},
};

/// What was found of a call's meaning: what is established, and what a person would have to vouch for.
pub(super) struct Established {
    pub(super) holds: Option<Reason>,
    pub(super) meaning: Meaning,
}

/// Establishes all of it but the system, which the request says.
pub(super) fn establish(
    facts: &Facts,
    tool: &Tool,
    credential: Option<&Credential>,
    complete: &Arguments,
    (moment, now_ms): (Moment, u64),
) -> Result<Established, Reason> {
    let mut meaning = Meaning::default();
    if let Some(subject) = facts.subject() {
        let value = Value::Text(subject.as_str().into());
        meaning.say(Aspect::Subject, Voucher::Application, value);
    }
    if let Some(tenant) = facts.tenant() {
        let value = Value::Text(tenant.as_str().into());
        meaning.say(Aspect::Tenant, Voucher::Application, value);
    }
    let mut holds = None;
    let rules = tool.meaning.as_ref();
    if let Some(rules) = rules {
        let effect = Value::Text(rules.effect.clone());
        meaning.say(Aspect::Effect, Voucher::Operator, effect);
    }
    if !Mutant::GateMeaning.is_on() {
        if let Some(credential) = credential {
            in_whose_name(facts, tool, credential)?;
        }
        if let Some(rules) = rules {
            for_whom(facts, rules, complete)?;
        }
    }
    if let Some(rules) = rules {
        if let Some(name) = &rules.resource {
            holds = resource(facts, tool, (name, rules), complete, moment, &mut meaning)?;
        }
        if let Some(seconds) = rules.window_seconds {
            until(facts, seconds, now_ms, &mut meaning)?;
        }
    }
    Ok(Established { holds, meaning })
}

fn in_whose_name(facts: &Facts, tool: &Tool, credential: &Credential) -> Result<(), Reason> {
    let change = "start a session in the name of a tenant that the credential acts for";
    match facts.tenant() {
        _ if credential.tenants.is_empty() => Ok(()),
        Some(tenant) if credential.tenants.contains(tenant) => Ok(()),
        other => {
            let ours: Vec<String> = credential.tenants.iter().map(quoted).collect();
            let why = alloc::format!(
                "credential `{}` acts in the name of {}; this session is {}",
                tool.credential,
                ours.join(", "),
                other.map_or_else(
                    || "in nobody's".to_string(),
                    |it| alloc::format!("in that of `{it}`")
                )
            );
            Err(because(Rule::Meaning, None, why, change))
        }
    }
}

fn quoted(tenant: &TenantName) -> String {
    alloc::format!("`{tenant}`")
}

fn for_whom(facts: &Facts, rules: &MeaningRules, complete: &Arguments) -> Result<(), Reason> {
    if rules.subject && facts.subject().is_none() {
        let why = "this tool acts for an end user, and the application named none for this session";
        let change = "start a session for a subject: `custody run --subject …`";
        return Err(because(Rule::Meaning, None, why.to_string(), change));
    }
    if !rules.wants_tenant() {
        return Ok(());
    }
    let Some(tenant) = facts.tenant() else {
        let why =
            "this tool acts in a tenant's name, and the application named none for this session";
        let change = "start a session in a tenant's name: `custody run --tenant …`";
        return Err(because(Rule::Meaning, None, why.to_string(), change));
    };
    let Some(name) = &rules.tenant_argument else {
        return Ok(());
    };
    match complete.get(name) {
        Some(Value::Text(text)) if text == tenant.as_str() => Ok(()),
        other => {
            let why = alloc::format!(
                "`{name}` says in whose name the call is; this session is in that of `{tenant}`, \
                 and `{}` is not",
                other.map_or_else(|| "nothing".to_string(), shown)
            );
            Err(because(
                Rule::Meaning,
                Some(name),
                why,
                "write the session's tenant",
            ))
        }
    }
}

/// The thing that the effect is on: one that somebody vouches for, and that is held for the subject.
fn resource(
    facts: &Facts,
    tool: &Tool,
    (name, rules): (&ArgumentName, &MeaningRules),
    complete: &Arguments,
    moment: Moment,
    meaning: &mut Meaning,
) -> Result<Option<Reason>, Reason> {
    let Some(value) = complete.get(name) else {
        let why =
            alloc::format!("`{name}` names what the effect is on, and the call leaves it out");
        return Err(because(
            Rule::Meaning,
            Some(name),
            why,
            "name what the effect is on",
        ));
    };
    let bytes = json::canonical(value).len();
    if bytes > Meaning::RESOURCE_MAX {
        let why = alloc::format!(
            "`{name}` names what the effect is on, and has {bytes} bytes; at most {} are allowed",
            Meaning::RESOURCE_MAX
        );
        let change = "name fewer things, or name them shorter";
        return Err(because(Rule::Meaning, Some(name), why, change));
    }
    if let Some(set) = &rules.held_by
        && !Mutant::GateMeaning.is_on()
    {
        let mut stranger = None;
        each_leaf(value, &mut |leaf| {
            if facts.owns(set, leaf) != Some(true) && stranger.is_none() {
                stranger = Some(leaf.clone());
            }
        });
        if let Some(stranger) = stranger {
            let why = alloc::format!(
                "`{name}` is `{}`, which is none of the `{set}` that the application holds for the \
                 subject; that the call names it exactly does not make it the subject's",
                shown(&stranger)
            );
            let change = alloc::format!("name one of the session's `{set}`");
            return Err(because(Rule::Meaning, Some(name), why, change));
        }
    }
    let (by, holds) = match voucher(facts, tool, name, value, rules) {
        Some(by) => (by, None),
        None if moment == Moment::Approved || Mutant::GateMeaning.is_on() => {
            (Voucher::Reviewer, None)
        }
        None => {
            let why = alloc::format!(
                "`{name}` names what the effect is on, and nobody but the agent says that it is `{}`",
                shown(value)
            );
            let change = "a person's approval, or a value of the application's, of the person's words, \
                          or of a record that these selected";
            let reason = because(Rule::Meaning, Some(name), why, change);
            (Voucher::Reviewer, Some(reason))
        }
    };
    meaning.say(Aspect::Resource, by, value.clone());
    Ok(holds)
}

/// Who vouches for the resource, if anybody does.
fn voucher(
    facts: &Facts,
    tool: &Tool,
    name: &ArgumentName,
    value: &Value,
    rules: &MeaningRules,
) -> Option<Voucher> {
    let argument = tool.arguments.get(name)?;
    match &argument.authority {
        Authority::Injected { .. } | Authority::Owned { .. } | Authority::Verified { .. } => {
            Some(Voucher::Application)
        }
        Authority::Catalogue { .. } => Some(Voucher::Operator),
        // Looked at above: each of them is.
        Authority::Agent if rules.held_by.is_some() => Some(Voucher::Application),
        Authority::Agent => match origins::worst(facts, argument, value)? {
            OriginClass::Authoritative => Some(Voucher::Person),
            OriginClass::Derived => Some(Voucher::System),
            OriginClass::System | OriginClass::Untrusted | OriginClass::Unknown => None,
        },
    }
}

/// Until when the person's word is acted on.
fn until(facts: &Facts, seconds: u32, now_ms: u64, meaning: &mut Meaning) -> Result<(), Reason> {
    let until = facts
        .intent_ms()
        .saturating_add(u64::from(seconds).saturating_mul(1_000));
    if until <= now_ms && !Mutant::GateMeaning.is_on() {
        let why = alloc::format!(
            "the person's word is {} s old, and this tool acts on it for {seconds} s",
            now_ms.saturating_sub(facts.intent_ms()) / 1_000
        );
        let change = "a new message of the person's: `custody tell SESSION --message …`";
        return Err(because(Rule::Meaning, None, why, change));
    }
    let number = i64::try_from(until).ok().and_then(Int::new);
    let Some(number) = number else {
        let why = "the time is beyond what a number of ours can say".to_string();
        return Err(because(Rule::Meaning, None, why, "a shorter window"));
    };
    meaning.say(Aspect::Until, Voucher::Person, Value::Int(number));
    Ok(())
}
