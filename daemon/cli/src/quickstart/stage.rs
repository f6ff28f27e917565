//! A session of the gate's, with effects that are counted and not performed.

use std::collections::BTreeMap;

use anyhow::Context as _;
use custody_rules::Rules;
use gate::{
    decide::{Allowed, Ask, Verdict},
    id::ValueName,
    json::Value,
    policy::Policy,
    request,
    session::{Facts, Opening},
};

/// Whom the application says that a message goes to.
pub(super) const CUSTOMER: &str = "ada@customer.example";

/// Which page it says.
pub(super) const PAGE: &str = "release-notes";

/// A session, and what its allowed calls reach.
pub(super) struct Stage<'p> {
    policy: &'p Policy,
    rules: Rules,
    facts: Facts,
    effects: Simulated,
}

/// What was said of a call.
pub(super) struct Answered {
    pub(super) answer: &'static str,
    /// Which rule, and why.
    pub(super) why: String,
    /// What was simulated, if it was let through.
    pub(super) effect: Option<String>,
    allowed: Option<Allowed>,
}

/// What stands for the vault: it counts, and nothing else.
#[derive(Default)]
struct Simulated {
    invocations: u32,
}

impl Simulated {
    /// Takes the gate's proof that the call was allowed: without one there is no invocation.
    fn perform(&mut self, policy: &Policy, allowed: &Allowed) -> anyhow::Result<String> {
        self.invocations = self.invocations.saturating_add(1);
        let request = request::render(policy, allowed.call())?;
        Ok(format!(
            "{} {}{}",
            request.method, request.origin, request.target
        ))
    }
}

impl<'p> Stage<'p> {
    /// A new session, in which nothing untrusted was seen.
    pub(super) fn open(policy: &'p Policy) -> anyhow::Result<Self> {
        let value = |name: &str, text: &str| -> anyhow::Result<(ValueName, String)> {
            Ok((ValueName::parse(name)?, text.into()))
        };
        let values = [value("to", CUSTOMER)?, value("page_id", PAGE)?];
        let opening = Opening {
            task: Some("Answer the customer, and publish the release notes.".into()),
            values: BTreeMap::from(values),
            ..Opening::default()
        };
        Ok(Self {
            policy,
            rules: Rules::load(policy)?,
            facts: Facts::open(policy, opening)?,
            effects: Simulated::default(),
        })
    }

    /// How often something was performed.
    pub(super) const fn invocations(&self) -> u32 {
        self.effects.invocations
    }

    /// The agent asks for a call; what is allowed is performed.
    pub(super) fn call(
        &mut self,
        tool: &str,
        arguments: &[(&str, &str)],
    ) -> anyhow::Result<Answered> {
        let arguments = arguments
            .iter()
            .map(|(name, text)| ((*name).to_owned(), Value::Text((*text).to_owned())));
        let arguments = Value::Object(arguments.collect());
        let ask = Ask::new(tool, &arguments);
        let verdict = self.rules.decide(self.policy, &self.facts, &ask);
        let explained = verdict.explain();
        let reasons = explained.reasons.iter();
        let reasons: Vec<String> = reasons
            .map(|it| format!("rule {}: {}", it.rule, it.why))
            .collect();
        let allowed = match verdict {
            Verdict::Allow(allowed) | Verdict::Limit(allowed) => Some(allowed),
            Verdict::Defer(_) | Verdict::Hold(_) | Verdict::Refuse(_) => None,
        };
        let effect = match &allowed {
            Some(allowed) => {
                self.facts
                    .record_call(self.policy, allowed.call(), 0, false);
                Some(self.effects.perform(self.policy, allowed)?)
            }
            None => None,
        };
        Ok(Answered {
            answer: explained.answer.as_str(),
            why: if reasons.is_empty() {
                "no rule says anything against it".into()
            } else {
                reasons.join("; ")
            },
            effect,
            allowed,
        })
    }

    /// What an allowed call brought reaches the agent.
    pub(super) fn bring(&mut self, answered: &Answered, text: &str) -> anyhow::Result<()> {
        let allowed = answered.allowed.as_ref().context("nothing was brought")?;
        let result = Value::Text(text.into());
        let _label = self
            .facts
            .record_result(self.policy, allowed.call(), &result);
        Ok(())
    }
}
