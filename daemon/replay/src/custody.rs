//! Our gate, as a decider: the policy and the functions that custody-gate itself uses.

use custody_rules::{Rules, RulesError};
use gate::{
    call::Call,
    decide::{Ask, Explanation, Moment, Verdict},
    json::Value,
    policy::Policy,
    session::{self, Facts, Scope},
};

use crate::{
    decider::{Answer, Decider, Opening, Recorded, Session},
    trace::Trace,
};

/// The gate under a policy.
#[derive(Debug)]
pub struct Custody<'p> {
    policy: &'p Policy,
    rules: Rules,
    scope: Option<Scope>,
}

impl<'p> Custody<'p> {
    /// Under `policy`, and the rules that it names.
    ///
    /// # Errors
    /// When those are not good.
    pub fn new(policy: &'p Policy) -> Result<Self, RulesError> {
        Ok(Self {
            policy,
            rules: Rules::load(policy)?,
            scope: None,
        })
    }

    /// The same, each session within `scope`.
    #[must_use]
    pub fn within(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }
}

impl Decider for Custody<'_> {
    fn name(&self) -> &str {
        "custody"
    }

    fn open(&self, opening: &Opening) -> Result<Box<dyn Session + '_>, String> {
        Ok(Box::new(self.gated(opening)?))
    }
}

impl Custody<'_> {
    fn gated(&self, opening: &Opening) -> Result<Gated<'_>, String> {
        let opening = session::Opening {
            caller: opening.caller,
            owned: opening.owned.clone(),
            roles: opening.roles.clone(),
            scope: self.scope.clone(),
            subject: opening.subject.clone(),
            task: opening.task.clone(),
            tenant: opening.tenant.clone(),
            values: opening.values.clone(),
            workspace: opening.workspace,
            ..session::Opening::default()
        };
        let facts = Facts::open(self.policy, opening).map_err(|error| error.to_string())?;
        Ok(Gated {
            asked: 0,
            facts,
            policy: self.policy,
            rules: &self.rules,
        })
    }

    /// The decision on the last call of a recorded session, after what the others brought; with the
    /// call's tool.
    ///
    /// # Errors
    /// When the session cannot be opened, or has no call.
    pub fn explain(&self, trace: &Trace) -> Result<(String, Explanation), String> {
        let mut session = self.gated(&trace.opening)?;
        let Some((last, past)) = trace.calls.split_last() else {
            return Err("the session has no call".into());
        };
        for call in past {
            session.asked = session.asked.saturating_add(1);
            if let Some(back) = &call.back {
                session.record(&call.tool, &call.arguments, back);
            }
        }
        let verdict = session.verdict(&last.tool, &last.arguments, Moment::Call);
        Ok((last.tool.clone(), verdict.explain()))
    }
}

struct Gated<'p> {
    /// Recorded calls have no time; one a second is as good as any, and hurries no rate.
    asked: u64,
    facts: Facts,
    policy: &'p Policy,
    rules: &'p Rules,
}

impl Gated<'_> {
    fn now_ms(&self) -> u64 {
        self.asked.saturating_mul(1_000)
    }

    fn verdict(&self, tool: &str, arguments: &Value, moment: Moment) -> Verdict {
        let ask = Ask::new(tool, arguments).at(moment, self.now_ms());
        self.rules.decide(self.policy, &self.facts, &ask)
    }
}

impl Session for Gated<'_> {
    fn decide(&mut self, tool: &str, arguments: &Value) -> Answer {
        self.asked = self.asked.saturating_add(1);
        let first = self.verdict(tool, arguments, Moment::Call);
        // A deferred call is answered at the end of its turn, which here is at once.
        let verdict = match first {
            Verdict::Defer(_) => self.verdict(tool, arguments, Moment::Commit),
            other @ (Verdict::Allow(_)
            | Verdict::Hold(_)
            | Verdict::Limit(_)
            | Verdict::Refuse(_)) => other,
        };
        let explanation = verdict.explain();
        let why = || {
            let reasons = explanation.reasons.iter();
            let reasons: Vec<String> = reasons
                .map(|it| format!("rule `{}`: {}", it.rule, it.why))
                .collect();
            reasons.join("; ")
        };
        match verdict {
            Verdict::Allow(_) | Verdict::Limit(_) => Answer::Allow,
            Verdict::Defer(_) | Verdict::Hold(_) => Answer::Hold(why()),
            Verdict::Refuse(_) => Answer::Refuse(why()),
        }
    }

    fn record(&mut self, tool: &str, arguments: &Value, result: &Recorded) {
        let approved = self.verdict(tool, arguments, Moment::Approved);
        let call = match approved {
            Verdict::Allow(it) | Verdict::Limit(it) => it.call().clone(),
            Verdict::Defer(it) | Verdict::Hold(it) => it.call().clone(),
            // It was performed once, whatever is said of it now: what came back was seen.
            Verdict::Refuse(_) => match Call::written(tool, arguments) {
                Some(call) => call,
                None => return,
            },
        };
        let allowed = match self.verdict(tool, arguments, Moment::Call) {
            Verdict::Allow(_) | Verdict::Limit(_) => true,
            Verdict::Defer(_) | Verdict::Hold(_) | Verdict::Refuse(_) => false,
        };
        self.facts
            .record_call(self.policy, &call, self.now_ms(), !allowed);
        let _label = match result {
            Recorded::Failed(why) => self.facts.record_words(self.policy, &call, why),
            Recorded::Result(result) => {
                let mut result = result.clone();
                if let Some(tool) = self.policy.tools().get(&call.tool) {
                    let _taken = tool.result.limit(&mut result);
                }
                self.facts.record_result(self.policy, &call, &result)
            }
        };
    }
}
