//! A desk with a policy and rules, and a session at it.

use std::collections::BTreeMap;

use custody_rules::{Rules, RulesError};
use gate::{
    call::Call,
    decide::{Ask, Moment, Verdict, decide},
    id::{ArgumentName, PolicyName, RoleName, ToolName},
    json::{self, Limits, Value},
    policy::Policy,
    session::{Facts, Opening},
};

pub(crate) const DESK: &str = include_str!("../../../../fixtures/policies/desk.toml");
pub(crate) const RULES: &str = include_str!("../../../../fixtures/policies/desk.cedar");

pub(crate) fn name(text: &str) -> PolicyName {
    PolicyName::parse(text).unwrap()
}

/// The desk's policy with these rules.
pub(crate) fn policy(rules: &str) -> Policy {
    let beside = |file: &str| {
        assert_eq!(file, "desk.cedar");
        Ok(rules.to_owned())
    };
    Policy::compile_beside(&name("desk"), DESK, &beside).unwrap()
}

/// The desk's policy without any.
pub(crate) fn plain() -> Policy {
    let text = DESK.replace("[rules]\ncedar = \"desk.cedar\"\n", "");
    Policy::compile(&name("desk"), &text).unwrap()
}

/// Why these rules are not loaded.
pub(crate) fn refused(rules: &str) -> RulesError {
    match Rules::load(&policy(rules)) {
        Ok(_) => panic!("they are loaded: {rules}"),
        Err(error) => error,
    }
}

pub(crate) fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::CALL).unwrap()
}

/// A session at the desk.
pub(crate) struct Desk {
    pub(crate) facts: Facts,
    pub(crate) plain: Policy,
    pub(crate) policy: Policy,
    pub(crate) rules: Rules,
    pub(crate) now_ms: u64,
}

impl Desk {
    pub(crate) fn with(rules: &str) -> Self {
        Self::of(rules, &[])
    }

    pub(crate) fn of(rules: &str, roles: &[&str]) -> Self {
        Self::open(rules, roles).unwrap_or_else(|| panic!("{}", refused(rules)))
    }

    /// None where the rules are not loaded.
    pub(crate) fn open(rules: &str, roles: &[&str]) -> Option<Self> {
        let policy = policy(rules);
        let opening = Opening {
            caller: Some(1000),
            roles: roles
                .iter()
                .map(|it| RoleName::parse(it).unwrap())
                .collect(),
            task: Some(
                "Pay Gas 150 and Rent 300.5, and tell ada@desk.example.test and bob@far.example"
                    .into(),
            ),
            ..Opening::default()
        };
        Some(Self {
            facts: Facts::open(&policy, opening).unwrap(),
            plain: plain(),
            rules: Rules::load(&policy).ok()?,
            policy,
            now_ms: 0,
        })
    }

    pub(crate) fn at(&self, moment: Moment, tool: &str, arguments: &str) -> Verdict {
        let arguments = value(arguments);
        let ask = Ask::new(tool, &arguments).at(moment, self.now_ms);
        self.rules.decide(&self.policy, &self.facts, &ask)
    }

    pub(crate) fn ask(&self, tool: &str, arguments: &str) -> Verdict {
        self.at(Moment::Call, tool, arguments)
    }

    /// What the gate says of it without any rule.
    pub(crate) fn without(&self, moment: Moment, tool: &str, arguments: &str) -> Verdict {
        let arguments = value(arguments);
        let ask = Ask::new(tool, &arguments).at(moment, self.now_ms);
        decide(&self.plain, &self.facts, &ask)
    }

    /// The call was let through.
    pub(crate) fn did(&mut self, tool: &str, arguments: &str) {
        let Value::Object(members) = value(arguments) else {
            panic!("no object")
        };
        let arguments: BTreeMap<_, _> = members
            .into_iter()
            .map(|(name, value)| (ArgumentName::parse(&name).unwrap(), value))
            .collect();
        let call = Call {
            arguments,
            tool: ToolName::parse(tool).unwrap(),
        };
        self.facts
            .record_call(&self.policy, &call, self.now_ms, false);
    }

    /// Its result reaches the agent.
    pub(crate) fn read(&mut self, tool: &str, result: &str) {
        let call = Call {
            arguments: BTreeMap::new(),
            tool: ToolName::parse(tool).unwrap(),
        };
        let _label = self
            .facts
            .record_result(&self.policy, &call, &Value::Text(result.into()));
    }
}

/// Why a call is not let through, each reason with what would change it.
pub(crate) fn why(verdict: &Verdict) -> String {
    let reasons = verdict.explain().reasons;
    let reasons: Vec<String> = reasons
        .iter()
        .map(|it| format!("{}: {} | {}", it.rule, it.why, it.change))
        .collect();
    reasons.join("\n")
}
