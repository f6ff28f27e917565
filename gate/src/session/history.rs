//! What a session did: how often it called each tool, how much in all, and what a person approved.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use crate::{
    call::Call,
    id::{ArgumentName, ToolName},
    json::Value,
    policy::{Policy, Tool},
};

/// The calls of a session that were let through.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(BTreeMap<ToolName, Made>);

/// The hours whose calls are of the last day: the 24 before this one, and this one. What is counted so is
/// never less than what the last 24 hours had.
const HOURS: u64 = 24;

const HOUR_MS: u64 = 3_600_000;

#[derive(Clone, Debug, Default)]
struct Made {
    approved: u32,
    calls: u32,
    /// By the hour, as far back as a day looks.
    hours: BTreeMap<u64, Hour>,
    /// When, as far back as the tool's rate looks.
    recent: VecDeque<u64>,
    sums: BTreeMap<ArgumentName, f64>,
}

/// What was called within one hour of the clock.
#[derive(Clone, Debug, Default)]
struct Hour {
    calls: u32,
    sums: BTreeMap<ArgumentName, f64>,
}

impl Made {
    fn day(&self, now_ms: u64) -> impl Iterator<Item = &Hour> {
        let first = (now_ms / HOUR_MS).saturating_sub(HOURS);
        self.hours.range(first..).map(|(_, hour)| hour)
    }
}

impl History {
    pub(super) fn record(&mut self, policy: &Policy, call: &Call, at_ms: u64, approved: bool) {
        let Some(tool) = policy.tools().get(&call.tool) else {
            return;
        };
        let made = self.0.entry(call.tool.clone()).or_default();
        made.calls = made.calls.saturating_add(1);
        if approved {
            made.approved = made.approved.saturating_add(1);
        }
        if let Some(rate) = &tool.rate {
            made.recent.push_back(at_ms);
            let kept = usize::try_from(rate.calls).unwrap_or(usize::MAX);
            while made.recent.len() > kept {
                made.recent.pop_front();
            }
        }
        let now = at_ms / HOUR_MS;
        made.hours = made.hours.split_off(&now.saturating_sub(HOURS));
        let hour = made.hours.entry(now).or_default();
        hour.calls = hour.calls.saturating_add(1);
        for (name, value) in amounts(&call.arguments) {
            *made.sums.entry(name.clone()).or_default() += value;
            *hour.sums.entry(name.clone()).or_default() += value;
        }
    }

    /// How often the tool was called.
    pub(crate) fn calls(&self, tool: &ToolName) -> u32 {
        self.0.get(tool).map_or(0, |it| it.calls)
    }

    /// How often a person approved a call of it.
    pub(crate) fn approved(&self, tool: &ToolName) -> u32 {
        self.0.get(tool).map_or(0, |it| it.approved)
    }

    /// What the argument's values were together.
    pub(crate) fn sum(&self, tool: &ToolName, argument: &ArgumentName) -> f64 {
        self.0
            .get(tool)
            .and_then(|it| it.sums.get(argument))
            .copied()
            .unwrap_or(0.0)
    }

    /// How often the tool was called in the last day.
    pub(crate) fn calls_of_day(&self, tool: &ToolName, now_ms: u64) -> u32 {
        let hours = self.0.get(tool).into_iter().flat_map(|it| it.day(now_ms));
        hours.fold(0, |sum, it| sum.saturating_add(it.calls))
    }

    /// What the argument's values were together in the last day.
    pub(crate) fn sum_of_day(&self, tool: &ToolName, argument: &ArgumentName, now_ms: u64) -> f64 {
        let hours = self.0.get(tool).into_iter().flat_map(|it| it.day(now_ms));
        hours.filter_map(|it| it.sums.get(argument)).sum()
    }

    /// When the tool may be called again, in milliseconds from `now_ms`; 0 is now.
    pub(crate) fn wait(&self, name: &ToolName, tool: &Tool, now_ms: u64) -> u64 {
        let (Some(rate), Some(made)) = (&tool.rate, self.0.get(name)) else {
            return 0;
        };
        let span = u64::from(rate.seconds).saturating_mul(1_000);
        let full = u32::try_from(made.recent.len()).map_or(true, |it| it >= rate.calls);
        match made.recent.front() {
            // The clock never runs back; if it did, nothing would be let through early.
            Some(first) if full => first.saturating_add(span).saturating_sub(now_ms),
            Some(_) | None => 0,
        }
    }
}

fn amounts(arguments: &BTreeMap<ArgumentName, Value>) -> Vec<(&ArgumentName, f64)> {
    arguments
        .iter()
        .filter_map(|(name, value)| Some((name, amount(value)?)))
        .collect()
}

/// The number that a value is.
pub(crate) fn amount(value: &Value) -> Option<f64> {
    match value {
        Value::Int(n) => Some(n.as_f64()),
        Value::Real(x) => Some(x.get()),
        Value::Bool(_) | Value::List(_) | Value::Null | Value::Object(_) | Value::Text(_) => None,
    }
}
