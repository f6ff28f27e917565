//! What the rules are shown of a call and its session.
//!
//! A value of a call becomes a value of Cedar's, never text that Cedar parses: what an agent wrote cannot
//! be more than it is.

use std::collections::BTreeMap;

use cedar_policy::{
    Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, RestrictedExpression,
};
use gate::{
    decide::{About, class_of},
    id::ArgumentName,
    json::Value,
    policy::{Argument, Kind, OriginClass, Tool},
    session::{Facts, Taint},
};

use crate::{
    reads::{Part, Reads},
    schema::{ACTION, BOUNDARY, CALLER, CLASS, ORIGIN, RISK, ROLE, TOOL},
};

/// Who asks, where nobody knows: `custody replay` of a recording.
const NOBODY: &str = "unknown";

/// What cannot be shown to the rules, in a sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unshown {
    #[error("argument `{0}` is too large for the operator's rules, or has more than four decimals")]
    Number(ArgumentName),
    #[error(
        "the operator's rules look at where `{0}` comes from, and this session read untrusted text that \
         is not kept (a stream, or what a session above it read): nobody can say whether a value that is \
         found nowhere is of it"
    )]
    Origin(ArgumentName),
    #[error("what the rules are shown cannot be made: {0}")]
    Whole(String),
}

impl Unshown {
    pub(crate) fn argument(&self) -> Option<&ArgumentName> {
        match self {
            Self::Number(name) | Self::Origin(name) => Some(name),
            Self::Whole(_) => None,
        }
    }

    fn whole(error: impl ToString) -> Self {
        Self::Whole(gate::excerpt::excerpt(&error.to_string()))
    }
}

/// The types of our entities, parsed once.
#[derive(Clone, Debug)]
pub(crate) struct Types(BTreeMap<&'static str, EntityTypeName>);

impl Types {
    pub(crate) fn new() -> Result<Self, Unshown> {
        let all = [BOUNDARY, CALLER, CLASS, ORIGIN, RISK, ROLE, TOOL, ACTION];
        let parsed = all
            .into_iter()
            .map(|it| Ok((it, it.parse().map_err(Unshown::whole)?)));
        parsed.collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn uid(&self, of: &'static str, id: &str) -> Result<EntityUid, Unshown> {
        let name = self.0.get(of).ok_or_else(|| Unshown::whole(of))?;
        Ok(EntityUid::from_type_name_and_id(
            name.clone(),
            EntityId::new(id),
        ))
    }

    fn entity(&self, of: &'static str, id: &str) -> Result<RestrictedExpression, Unshown> {
        self.uid(of, id).map(RestrictedExpression::new_entity_uid)
    }

    /// Who asks, and what has to be known of him for these rules: his roles.
    pub(crate) fn caller(
        &self,
        facts: &Facts,
        reads: &Reads,
    ) -> Result<(EntityUid, Entities), Unshown> {
        let id = facts.caller().map(|it| it.to_string());
        let uid = self.uid(CALLER, id.as_deref().unwrap_or(NOBODY))?;
        if !reads.principal {
            return Ok((uid, Entities::empty()));
        }
        let roles = facts.roles().iter().map(|it| self.uid(ROLE, it.as_str()));
        let caller = Entity::new_no_attrs(uid.clone(), roles.collect::<Result<_, _>>()?);
        let entities = Entities::from_entities([caller], None).map_err(Unshown::whole)?;
        Ok((uid, entities))
    }

    /// The context of a call, as far as it is read.
    pub(crate) fn context(
        &self,
        about: &About<'_>,
        tool: &Tool,
        reads: &Reads,
    ) -> Result<Context, Unshown> {
        let mut shown = Shown::of(&reads.context);
        shown.put("after", |part| after(about, tool, part))?;
        shown.put("args", |part| self.arguments(about, tool, part))?;
        shown.put("call", |part| self.call(about, tool, part))?;
        shown.put("history", |part| history(about, part))?;
        shown.put("session", |part| self.session(about, part))?;
        Context::from_pairs(shown.members).map_err(Unshown::whole)
    }

    fn arguments(
        &self,
        about: &About<'_>,
        tool: &Tool,
        part: &Part,
    ) -> Result<RestrictedExpression, Unshown> {
        let mut shown = Shown::of(part);
        for (name, value) in &about.call.arguments {
            let Some(argument) = tool.arguments.get(name) else {
                continue;
            };
            shown.put(name.as_str(), |part| {
                let mut of = Shown::of(part);
                if let Value::List(items) = value {
                    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
                    of.put("count", |_| Ok(RestrictedExpression::new_long(count)))?;
                }
                of.put("origin", |_| self.origin(about, name, argument, value))?;
                of.put("value", |_| {
                    let value = expression(&argument.kind, value);
                    value.ok_or_else(|| Unshown::Number(name.clone()))
                })?;
                of.record()
            })?;
        }
        shown.record()
    }

    /// What the gate found, where it looked; else the same look.
    fn origin(
        &self,
        about: &About<'_>,
        name: &ArgumentName,
        argument: &Argument,
        value: &Value,
    ) -> Result<RestrictedExpression, Unshown> {
        let found = about.grounds.arguments.get(name).and_then(|it| it.origin);
        let class = found.unwrap_or_else(|| {
            let written = match about.ask.arguments {
                Value::Object(members) => members.get(name.as_str()),
                Value::Bool(_)
                | Value::Int(_)
                | Value::List(_)
                | Value::Null
                | Value::Real(_)
                | Value::Text(_) => None,
            };
            class_of(about.facts, argument, written.unwrap_or(value))
        });
        // It may stand in a stream's text, which nobody indexed: a rule on either would be wrong.
        if class == OriginClass::Unknown && about.facts.is_blind() {
            return Err(Unshown::Origin(name.clone()));
        }
        self.entity(ORIGIN, class.as_str())
    }

    fn call(
        &self,
        about: &About<'_>,
        tool: &Tool,
        part: &Part,
    ) -> Result<RestrictedExpression, Unshown> {
        let text = |it: &str| Ok(RestrictedExpression::new_string(it.into()));
        let grounds = about.grounds;
        let mut shown = Shown::of(part);
        if let Some(branch) = &grounds.branch {
            shown.put("branch", |_| text(branch))?;
        }
        shown.put("classes", |_| {
            let classes = grounds.classes.iter();
            let classes = classes.map(|it| self.entity(CLASS, it.as_str()));
            Ok(RestrictedExpression::new_set(
                classes.collect::<Result<Vec<_>, _>>()?,
            ))
        })?;
        shown.put("credential", |_| text(tool.credential.as_str()))?;
        shown.put("risk", |_| self.entity(RISK, grounds.risk.as_str()))?;
        shown.record()
    }

    fn session(&self, about: &About<'_>, part: &Part) -> Result<RestrictedExpression, Unshown> {
        let yes = |it| Ok(RestrictedExpression::new_bool(it));
        let facts = about.facts;
        let taint = facts.taint();
        let mut shown = Shown::of(part);
        shown.put("boundary", |_| {
            self.entity(BOUNDARY, facts.boundary().as_str())
        })?;
        shown.put("handoff", |_| yes(taint.contains(&Taint::Handoff)))?;
        shown.put("scoped", |_| yes(facts.scope().is_some()))?;
        shown.put("tainted", |_| yes(!taint.is_empty()))?;
        shown.put("tainted_by", |_| {
            let tools = taint.iter().filter_map(|it| match it {
                Taint::Result { tool } => Some(self.entity(TOOL, tool.as_str())),
                Taint::Handoff | Taint::Workspace => None,
            });
            Ok(RestrictedExpression::new_set(
                tools.collect::<Result<Vec<_>, _>>()?,
            ))
        })?;
        shown.put("workspace", |_| yes(taint.contains(&Taint::Workspace)))?;
        shown.record()
    }
}

/// A record, as far as it is read.
struct Shown<'r> {
    members: Vec<(String, RestrictedExpression)>,
    part: &'r Part,
}

impl<'r> Shown<'r> {
    const fn of(part: &'r Part) -> Self {
        Self {
            members: Vec::new(),
            part,
        }
    }

    /// A member, if it is read.
    fn put(
        &mut self,
        name: &str,
        make: impl FnOnce(&'r Part) -> Result<RestrictedExpression, Unshown>,
    ) -> Result<(), Unshown> {
        if let Some(part) = self.part.of(name) {
            self.members.push((name.into(), make(part)?));
        }
        Ok(())
    }

    fn record(self) -> Result<RestrictedExpression, Unshown> {
        RestrictedExpression::new_record(self.members).map_err(Unshown::whole)
    }
}

/// The session, and those that it was delegated from: they count its calls too.
fn all<'a>(about: &About<'a>) -> impl Iterator<Item = &'a Facts> {
    std::iter::once(about.facts).chain(about.ask.above.iter().copied())
}

fn count(
    about: &About<'_>,
    more: i64,
    of: &dyn Fn(&Facts) -> u32,
) -> Result<RestrictedExpression, Unshown> {
    let most = all(about).map(of).max().unwrap_or_default();
    let sum = i64::from(most).saturating_add(more);
    Ok(RestrictedExpression::new_long(sum))
}

fn sums(
    about: &About<'_>,
    tool: &Tool,
    part: &Part,
    more: &dyn Fn(&ArgumentName) -> f64,
    of: &dyn Fn(&Facts, &ArgumentName) -> f64,
) -> Result<RestrictedExpression, Unshown> {
    let mut shown = Shown::of(part);
    for (name, argument) in tool.arguments.iter().filter(|(_, it)| it.kind.is_amount()) {
        shown.put(name.as_str(), |_| {
            let most = all(about).map(|it| of(it, name)).fold(0.0, f64::max);
            let sum = sum(&argument.kind, most + more(name));
            sum.ok_or_else(|| Unshown::Number(name.clone()))
        })?;
    }
    shown.record()
}

/// What the session will have done of this tool with this call.
fn after(about: &About<'_>, tool: &Tool, part: &Part) -> Result<RestrictedExpression, Unshown> {
    let name = &about.call.tool;
    let now = about.ask.now_ms;
    let more = |it: &ArgumentName| match about.call.arguments.get(it) {
        Some(Value::Int(n)) => n.as_f64(),
        Some(Value::Real(x)) => x.get(),
        Some(Value::Bool(_) | Value::List(_) | Value::Null | Value::Object(_) | Value::Text(_))
        | None => 0.0,
    };
    let mut shown = Shown::of(part);
    shown.put("calls", |_| count(about, 1, &|it| it.calls(name)))?;
    shown.put("day", |part| {
        let mut day = Shown::of(part);
        day.put("calls", |_| {
            count(about, 1, &|it| it.calls_of_day(name, now))
        })?;
        day.put("sums", |part| {
            let of = |it: &Facts, of: &ArgumentName| it.sum_of_day(name, of, now);
            sums(about, tool, part, &more, &of)
        })?;
        day.record()
    })?;
    shown.put("sums", |part| {
        sums(about, tool, part, &more, &|it, of| it.sum(name, of))
    })?;
    shown.record()
}

/// What the session did, before this call.
fn history(about: &About<'_>, part: &Part) -> Result<RestrictedExpression, Unshown> {
    let now = about.ask.now_ms;
    let none = |_: &ArgumentName| 0.0;
    let mut shown = Shown::of(part);
    for (name, tool) in about.policy.tools() {
        shown.put(name.as_str(), |part| {
            let mut shown = Shown::of(part);
            shown.put("approved", |_| count(about, 0, &|it| it.approved(name)))?;
            shown.put("calls", |_| count(about, 0, &|it| it.calls(name)))?;
            shown.put("day", |part| {
                let mut day = Shown::of(part);
                day.put("calls", |_| {
                    count(about, 0, &|it| it.calls_of_day(name, now))
                })?;
                day.put("sums", |part| {
                    let of = |it: &Facts, of: &ArgumentName| it.sum_of_day(name, of, now);
                    sums(about, tool, part, &none, &of)
                })?;
                day.record()
            })?;
            shown.put("sums", |part| {
                sums(about, tool, part, &none, &|it, of| it.sum(name, of))
            })?;
            shown.record()
        })?;
    }
    shown.record()
}

/// What values of this type are together; rounded up at the fourth decimal. Amounts are never negative.
fn sum(kind: &Kind, sum: f64) -> Option<RestrictedExpression> {
    match kind {
        Kind::Integer { .. } => {
            let long = format!("{:.0}", sum.ceil()).parse();
            Some(RestrictedExpression::new_long(long.unwrap_or(i64::MAX)))
        }
        Kind::Boolean
        | Kind::Email { .. }
        | Kind::Enum { .. }
        | Kind::List { .. }
        | Kind::Number { .. }
        | Kind::Object { .. }
        | Kind::String { .. } => {
            let nearest = (sum * STEPS).round();
            // What adding made of it is no more than this.
            let near = (sum * STEPS - nearest).abs() <= 1e-9 * nearest.abs().max(1.0);
            let steps = if near { nearest } else { (sum * STEPS).ceil() };
            decimal(&format!("{:.4}", steps / STEPS))
        }
    }
}

/// The parts of one that a decimal of Cedar's knows.
const STEPS: f64 = 10_000.0;

fn decimal(text: &str) -> Option<RestrictedExpression> {
    // Its greatest is 2^63 - 1 parts.
    let most = 922_337_203_685_477.0;
    let fits = text.parse::<f64>().is_ok_and(|it| it.abs() <= most);
    fits.then(|| RestrictedExpression::new_decimal(text))
}

/// A value of a call, which its type's check let through. None where Cedar has no such number.
fn expression(kind: &Kind, value: &Value) -> Option<RestrictedExpression> {
    Some(match (kind, value) {
        (Kind::Number { .. }, Value::Int(n)) => decimal(&format!("{}.0", n.get()))?,
        (Kind::Number { .. }, Value::Real(x)) => {
            let text = format!("{:.4}", x.get());
            if text.parse() != Ok(x.get()) {
                return None;
            }
            decimal(&text)?
        }
        (_, Value::Bool(it)) => RestrictedExpression::new_bool(*it),
        (_, Value::Int(n)) => RestrictedExpression::new_long(n.get()),
        (_, Value::Text(text)) => RestrictedExpression::new_string(text.clone()),
        (Kind::List { items, .. }, Value::List(found)) => {
            let found = found.iter().map(|it| expression(items, it));
            RestrictedExpression::new_set(found.collect::<Option<Vec<_>>>()?)
        }
        (Kind::Object { members }, Value::Object(found)) => {
            let found = found.iter().map(|(name, it)| {
                let member = members.get(name.as_str())?;
                Some((name.clone(), expression(&member.kind, it)?))
            });
            RestrictedExpression::new_record(found.collect::<Option<Vec<_>>>()?).ok()?
        }
        (_, Value::List(_) | Value::Null | Value::Object(_) | Value::Real(_)) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_never_shown_smaller_than_it_is() {
        let number = Kind::Number { max: 1.0, min: 0.0 };
        let shown = |it: f64| sum(&number, it).map(|it| format!("{it:?}"));
        let exact = |it: &str| decimal(it).map(|it| format!("{it:?}"));
        assert_eq!(shown(0.1 + 0.2), exact("0.3000"));
        assert_eq!(shown(0.300_01), exact("0.3001"));
        assert_eq!(shown(7.0), exact("7.0000"));
        assert_eq!(shown(1e15), None);
    }

    #[test]
    fn a_number_with_more_than_four_decimals_is_not_shown_as_another() {
        let number = Kind::Number { max: 1e9, min: 0.0 };
        let value = |text: &[u8]| gate::json::parse(text, &gate::json::Limits::CALL).unwrap();
        for (text, shown) in [
            ("12.3456", true),
            ("12", true),
            ("0.00001", false),
            ("12.34567", false),
            ("900000000000000.5", true),
            ("2000000000000000.5", false),
        ] {
            let found = expression(&number, &value(text.as_bytes()));
            assert_eq!(found.is_some(), shown, "{text}");
        }
    }
}
