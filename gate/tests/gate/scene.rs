//! The demo's policy and a session of it, for the tests.

use std::{collections::BTreeMap, sync::LazyLock};

use gate::{
    call::Call,
    decide::{Allowed, Ask, Refusal, Verdict, decide},
    id::{OwnedName, PolicyName, ToolName, ValueName},
    json::{Limits, Value, parse},
    policy::{Label, Policy},
    session::{Facts, Opening},
};

pub(crate) fn demo() -> Policy {
    static DEMO: LazyLock<Policy> =
        LazyLock::new(|| compile("demo", include_str!("../../../fixtures/policies/demo.toml")));
    DEMO.clone()
}

pub(crate) fn compile(name: &str, toml: &str) -> Policy {
    let name = PolicyName::parse(name).unwrap();
    Policy::compile(&name, toml).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) type Values<'a> = &'a [(&'a str, &'a str)];
pub(crate) type Sets<'a> = &'a [(&'a str, &'a [&'a str])];

pub(crate) fn open(policy: &Policy, values: Values<'_>, sets: Sets<'_>, workspace: bool) -> Facts {
    let values = values
        .iter()
        .map(|(name, text)| (ValueName::parse(name).unwrap(), String::from(*text)));
    let sets = sets.iter().map(|(name, members)| {
        let members = members.iter().map(|it| String::from(*it)).collect();
        (OwnedName::parse(name).unwrap(), members)
    });
    let (values, sets): (BTreeMap<_, _>, BTreeMap<_, _>) = (values.collect(), sets.collect());
    let opening = Opening {
        owned: sets,
        values,
        workspace,
        ..Opening::default()
    };
    Facts::open(policy, opening).unwrap()
}

/// A session of the demo: a customer, two notes, two pages.
pub(crate) fn session(policy: &Policy, workspace: bool) -> Facts {
    open(
        policy,
        &[("customer", "ada@example.test")],
        &[
            ("notes", &["n-1", "n-2"]),
            ("pages", &["deploy-35", "rollback-35"]),
        ],
        workspace,
    )
}

pub(crate) fn json(text: &str) -> Value {
    parse(text.as_bytes(), &Limits::CALL).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub(crate) fn ask(
    policy: &Policy,
    facts: &Facts,
    tool: &str,
    arguments: &Value,
) -> Result<Allowed, Refusal> {
    match decide(policy, facts, &Ask::new(tool, arguments)) {
        Verdict::Allow(allowed) | Verdict::Limit(allowed) => Ok(allowed),
        Verdict::Refuse(refusal) => Err(refusal),
        held @ (Verdict::Defer(_) | Verdict::Hold(_)) => panic!("{held:?}"),
    }
}

/// A call of `tool` without arguments: what a result is of.
pub(crate) fn call(tool: &str) -> Call {
    Call {
        arguments: BTreeMap::new(),
        tool: ToolName::parse(tool).unwrap(),
    }
}

/// A result of `tool` reaches the agent.
pub(crate) fn saw(policy: &Policy, facts: &mut Facts, tool: &str) -> Label {
    facts.record_result(policy, &call(tool), &Value::Null)
}
