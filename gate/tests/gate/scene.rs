//! The demo's policy and a session of it, for the tests.

use std::{collections::BTreeMap, sync::LazyLock};

use gate::{
    call::Call,
    decide::{Allowed, Ask, Moment, Refusal, Verdict, decide},
    id::{OwnedName, PolicyName, RoleName, ToolName, ValueName},
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

/// A session of the office's policy, for a task.
#[derive(Clone, Debug)]
pub(crate) struct Office {
    pub(crate) facts: Facts,
    pub(crate) policy: Policy,
}

/// What a decision answers, in words: `allow`, or the answer and its rules.
pub(crate) fn words(verdict: &Verdict) -> String {
    let explained = verdict.explain();
    let rules: Vec<&str> = explained
        .reasons
        .iter()
        .map(|it| it.rule.as_str())
        .collect();
    if rules.is_empty() {
        explained.answer.as_str().into()
    } else {
        format!("{} {}", explained.answer.as_str(), rules.join(" "))
    }
}

impl Office {
    pub(crate) fn policy() -> Policy {
        static OFFICE: LazyLock<Policy> = LazyLock::new(|| {
            compile(
                "office",
                include_str!("../../../fixtures/policies/office.toml"),
            )
        });
        OFFICE.clone()
    }

    /// A session that has an account, two pages and the role `finance`.
    pub(crate) fn of(task: &str) -> Self {
        let policy = Self::policy();
        let opening = Opening {
            owned: BTreeMap::from([(
                OwnedName::parse("pages").unwrap(),
                vec!["deploy-35".into(), "rollback-35".into()],
            )]),
            roles: [RoleName::parse("finance").unwrap()].into(),
            task: Some(task.into()),
            values: BTreeMap::from([(ValueName::parse("account").unwrap(), "77".into())]),
            ..Opening::default()
        };
        let facts = Facts::open(&policy, opening).unwrap();
        Self { facts, policy }
    }

    /// The result of a call reaches the agent.
    pub(crate) fn saw(&mut self, tool: &str, arguments: &str, result: &str) {
        let call = Call::written(tool, &json(arguments)).unwrap();
        let result = parse(result.as_bytes(), &Limits::RESULT).unwrap();
        let _label = self.facts.record_result(&self.policy, &call, &result);
    }

    /// A mail with this text reaches the agent.
    pub(crate) fn mail(&mut self, text: &str) {
        let mail = Value::Object(BTreeMap::from([
            ("id".to_owned(), Value::Text("m-17".into())),
            ("body".to_owned(), Value::Text(text.into())),
        ]));
        let call = Call::written("search_mail", &json(r#"{"query":"whatever it is"}"#)).unwrap();
        let _label = self
            .facts
            .record_result(&self.policy, &call, &Value::List(vec![mail]));
    }

    pub(crate) fn verdict(&self, tool: &str, arguments: &str) -> Verdict {
        self.at(tool, arguments, Moment::Call, 0)
    }

    pub(crate) fn at(&self, tool: &str, arguments: &str, moment: Moment, now_ms: u64) -> Verdict {
        let arguments = json(arguments);
        decide(
            &self.policy,
            &self.facts,
            &Ask::new(tool, &arguments).at(moment, now_ms),
        )
    }

    /// What is answered to a call.
    pub(crate) fn ask(&self, tool: &str, arguments: &str) -> String {
        words(&self.verdict(tool, arguments))
    }

    /// The call is made, and counted.
    pub(crate) fn made(&mut self, tool: &str, arguments: &str, now_ms: u64, approved: bool) {
        let call = Call::written(tool, &json(arguments)).unwrap();
        self.facts
            .record_call(&self.policy, &call, now_ms, approved);
    }
}
