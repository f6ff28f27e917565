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
    id::{ArgumentName, ToolName},
    json::Value,
    policy::{Argument, Kind, Tool},
    session::{Facts, Taint},
};

use crate::{
    reads::Reads,
    schema::{ACTION, BOUNDARY, CALLER, CLASS, ORIGIN, RISK, ROLE, TOOL},
};

/// Who asks, where nobody knows: `custody replay` of a recording.
const NOBODY: &str = "unknown";

/// What cannot be shown to the rules, in a sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unshown {
    #[error("argument `{0}` is too large for the operator's rules, or has more than four decimals")]
    Number(ArgumentName),
    #[error("what the rules are shown cannot be made: {0}")]
    Whole(String),
}

impl Unshown {
    pub(crate) fn argument(&self) -> Option<&ArgumentName> {
        match self {
            Self::Number(name) => Some(name),
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
        let mut context = Vec::new();
        if reads.has(&["after"]) {
            context.push(("after".into(), after(about, tool)?));
        }
        if reads.has(&["args"]) {
            context.push(("args".into(), self.arguments(about, tool, reads)?));
        }
        if reads.has(&["call"]) {
            context.push(("call".into(), self.call(about, tool)?));
        }
        if reads.has(&["history"]) {
            context.push(("history".into(), history(about, reads)?));
        }
        if reads.has(&["session"]) {
            context.push(("session".into(), self.session(about)?));
        }
        Context::from_pairs(context).map_err(Unshown::whole)
    }

    fn arguments(
        &self,
        about: &About<'_>,
        tool: &Tool,
        reads: &Reads,
    ) -> Result<RestrictedExpression, Unshown> {
        let mut shown = Vec::new();
        for (name, value) in &about.call.arguments {
            let Some(argument) = tool.arguments.get(name) else {
                continue;
            };
            let wants = |what| reads.has(&["args", name.as_str(), what]);
            let mut of = Vec::new();
            if let (Value::List(items), true) = (value, wants("count")) {
                let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
                of.push(("count".into(), RestrictedExpression::new_long(count)));
            }
            if wants("origin") {
                of.push(("origin".into(), self.origin(about, name, argument, value)?));
            }
            if wants("value") {
                let value = expression(&argument.kind, value);
                let value = value.ok_or_else(|| Unshown::Number(name.clone()))?;
                of.push(("value".into(), value));
            }
            if reads.has(&["args", name.as_str()]) {
                shown.push((name.as_str().into(), record(of)?));
            }
        }
        record(shown)
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
        self.entity(ORIGIN, class.as_str())
    }

    fn call(&self, about: &About<'_>, tool: &Tool) -> Result<RestrictedExpression, Unshown> {
        let text = |it: &str| RestrictedExpression::new_string(it.into());
        let grounds = about.grounds;
        let classes = grounds.classes.iter();
        let classes = classes.map(|it| self.entity(CLASS, it.as_str()));
        let mut of = vec![
            (
                "classes".into(),
                RestrictedExpression::new_set(classes.collect::<Result<Vec<_>, _>>()?),
            ),
            ("credential".into(), text(tool.credential.as_str())),
            ("risk".into(), self.entity(RISK, grounds.risk.as_str())?),
        ];
        if let Some(branch) = &grounds.branch {
            of.push(("branch".into(), text(branch)));
        }
        record(of)
    }

    fn session(&self, about: &About<'_>) -> Result<RestrictedExpression, Unshown> {
        let yes = RestrictedExpression::new_bool;
        let facts = about.facts;
        let taint = facts.taint();
        let tools = taint.iter().filter_map(|it| match it {
            Taint::Result { tool } => Some(self.entity(TOOL, tool.as_str())),
            Taint::Handoff | Taint::Workspace => None,
        });
        record(vec![
            (
                "boundary".into(),
                self.entity(BOUNDARY, facts.boundary().as_str())?,
            ),
            ("handoff".into(), yes(taint.contains(&Taint::Handoff))),
            ("scoped".into(), yes(facts.scope().is_some())),
            ("tainted".into(), yes(!taint.is_empty())),
            (
                "tainted_by".into(),
                RestrictedExpression::new_set(tools.collect::<Result<Vec<_>, _>>()?),
            ),
            ("workspace".into(), yes(taint.contains(&Taint::Workspace))),
        ])
    }
}

/// What the session will have done of this tool with this call.
fn after(about: &About<'_>, tool: &Tool) -> Result<RestrictedExpression, Unshown> {
    let name = &about.call.tool;
    let now = about.ask.now_ms;
    let with = |of: &dyn Fn(&Facts) -> u32| {
        let most = i64::from(most(about, of));
        RestrictedExpression::new_long(most.saturating_add(1))
    };
    let sum = |of: &dyn Fn(&Facts) -> f64| greatest(about, of);
    let more = |it: &ArgumentName| match about.call.arguments.get(it) {
        Some(Value::Int(n)) => n.as_f64(),
        Some(Value::Real(x)) => x.get(),
        Some(Value::Bool(_) | Value::List(_) | Value::Null | Value::Object(_) | Value::Text(_))
        | None => 0.0,
    };
    let day = record(vec![
        ("calls".into(), with(&|it| it.calls_of_day(name, now))),
        (
            "sums".into(),
            sums(tool, &|of| {
                sum(&|it| it.sum_of_day(name, of, now)) + more(of)
            })?,
        ),
    ])?;
    record(vec![
        ("calls".into(), with(&|it| it.calls(name))),
        ("day".into(), day),
        (
            "sums".into(),
            sums(tool, &|of| sum(&|it| it.sum(name, of)) + more(of))?,
        ),
    ])
}

/// The session, and those that it was delegated from: they count its calls too.
fn all<'a>(about: &About<'a>) -> impl Iterator<Item = &'a Facts> {
    std::iter::once(about.facts).chain(about.ask.above.iter().copied())
}

fn most(about: &About<'_>, of: &dyn Fn(&Facts) -> u32) -> u32 {
    all(about).map(of).max().unwrap_or_default()
}

fn greatest(about: &About<'_>, of: &dyn Fn(&Facts) -> f64) -> f64 {
    all(about).map(of).fold(0.0, f64::max)
}

/// What the session did, before this call.
fn history(about: &About<'_>, reads: &Reads) -> Result<RestrictedExpression, Unshown> {
    let count = |of: &dyn Fn(&Facts) -> u32| {
        let most = most(about, of);
        RestrictedExpression::new_long(most.into())
    };
    let sum = |of: &dyn Fn(&Facts) -> f64| greatest(about, of);
    let now = about.ask.now_ms;
    let mut shown = Vec::new();
    for (name, tool) in about.policy.tools() {
        if !reads.has(&["history", name.as_str()]) {
            continue;
        }
        let day = record(vec![
            ("calls".into(), count(&|it| it.calls_of_day(name, now))),
            (
                "sums".into(),
                sums(tool, &|of| sum(&|it| it.sum_of_day(name, of, now)))?,
            ),
        ])?;
        let of = record(vec![
            ("approved".into(), count(&|it| it.approved(name))),
            ("calls".into(), count(&|it| it.calls(name))),
            ("day".into(), day),
            (
                "sums".into(),
                sums(tool, &|of| sum(&|it| it.sum(name, of)))?,
            ),
        ])?;
        shown.push((String::from(ToolName::as_str(name)), of));
    }
    record(shown)
}

fn sums(tool: &Tool, of: &dyn Fn(&ArgumentName) -> f64) -> Result<RestrictedExpression, Unshown> {
    let amounts = tool.arguments.iter().filter(|(_, it)| it.kind.is_amount());
    let sums = amounts.map(|(name, argument)| {
        let sum = sum(&argument.kind, of(name));
        let sum = sum.ok_or_else(|| Unshown::Number(name.clone()))?;
        Ok((name.as_str().into(), sum))
    });
    record(sums.collect::<Result<_, _>>()?)
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

fn record(members: Vec<(String, RestrictedExpression)>) -> Result<RestrictedExpression, Unshown> {
    RestrictedExpression::new_record(members).map_err(Unshown::whole)
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
