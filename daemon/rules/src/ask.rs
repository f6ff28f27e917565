//! The two questions that are asked of the rules on a call.
//!
//! `call` is asked always: who forbids it refuses, and no person changes that. `call_unattended` is asked
//! besides, until a person has approved: who forbids it holds. A rule that fails says neither yes nor no, and
//! refuses.

use cedar_policy::{AuthorizationError, Context, Entities, EntityUid, PolicySet, Request};
use gate::{
    decide::{About, Moment, Narrowing, OperatorRules, Reason, Rule},
    excerpt::excerpt,
    id::ArgumentName,
};

use crate::{
    Rules,
    context::Unshown,
    load::{Said, Slice},
};

impl OperatorRules for Rules {
    fn ask(&self, about: &About<'_>) -> Narrowing {
        self.answer(about)
            .unwrap_or_else(|reason| Narrowing::Refuse(*reason))
    }
}

/// Who asks what of which tool.
struct Question<'a> {
    caller: EntityUid,
    context: Context,
    entities: Entities,
    slice: &'a Slice,
}

impl Rules {
    fn answer(&self, about: &About<'_>) -> Result<Narrowing, Box<Reason>> {
        if about.policy.hash() != self.policy {
            let why = "the operator's rules at hand are those of another policy".into();
            return Err(refusal(None, why, None));
        }
        // No rule can speak of it.
        let Some(slice) = self.tools.get(&about.call.tool) else {
            return Ok(Narrowing::Nothing);
        };
        let question = self.question(about, slice).map_err(|unshown| {
            let change = "a value that the rules can be shown, or other rules";
            refusal(unshown.argument(), unshown.to_string(), Some(change))
        })?;
        if let Some(caught) = self.forbidden(&question, &self.call, &slice.call)?.first() {
            let why = format!(
                "the operator's rule `{}` refuses it{}",
                caught.listed.name,
                because(caught)
            );
            let change = caught.advice.as_deref();
            return Err(refusal(None, why, change));
        }
        if about.ask.moment == Moment::Approved {
            return Ok(Narrowing::Nothing);
        }
        let Some(rules) = &slice.unattended else {
            return Ok(Narrowing::Nothing);
        };
        let caught = self.forbidden(&question, &self.unattended, rules)?;
        if caught.is_empty() {
            return Ok(Narrowing::Nothing);
        }
        let reasons = caught.into_iter().map(|it| Reason {
            argument: None,
            change: match &it.advice {
                Some(advice) => format!("a person's approval of exactly this call; {advice}"),
                None => "a person's approval of exactly this call".into(),
            },
            rule: Rule::Operator,
            why: format!(
                "the operator's rule `{}` leaves it to a person{}",
                it.listed.name,
                because(it)
            ),
        });
        Ok(Narrowing::Hold(reasons.collect()))
    }

    fn question<'a>(
        &'a self,
        about: &About<'_>,
        slice: &'a Slice,
    ) -> Result<Question<'a>, Unshown> {
        let Some(tool) = about.policy.tools().get(&about.call.tool) else {
            return Err(Unshown::Whole("the tool is unknown".into()));
        };
        let (caller, entities) = self.types.caller(about.facts, &slice.reads)?;
        Ok(Question {
            caller,
            context: self.types.context(about, tool, &slice.reads)?,
            entities,
            slice,
        })
    }

    /// The rules that forbid `action`, in the order of the file.
    fn forbidden(
        &self,
        question: &Question<'_>,
        action: &EntityUid,
        rules: &PolicySet,
    ) -> Result<Vec<&Said>, Box<Reason>> {
        let request = Request::new(
            question.caller.clone(),
            action.clone(),
            question.slice.tool.clone(),
            question.context.clone(),
            None,
        )
        .map_err(|error| failed(None, &error.to_string()))?;
        let response = self
            .authorizer
            .is_authorized(&request, rules, &question.entities);
        let diagnostics = response.diagnostics();
        let mut caught = Vec::new();
        for id in diagnostics.reason() {
            let rule = self.said.get(id);
            caught.push(rule.ok_or_else(|| failed(None, "a rule that nobody wrote"))?);
        }
        caught.sort_by_key(|it: &&Said| it.listed.line);
        let failure = diagnostics.errors().min_by_key(|it| self.line(it));
        match failure {
            None => Ok(caught),
            // What one rule forbids is forbidden, whatever became of another.
            Some(_) if *action == self.call && !caught.is_empty() => Ok(caught),
            Some(AuthorizationError::PolicyEvaluationError(error)) => {
                let rule = self.said.get(error.policy_id());
                Err(failed(rule, &error.inner().to_string()))
            }
        }
    }

    fn line(&self, error: &AuthorizationError) -> usize {
        let AuthorizationError::PolicyEvaluationError(error) = error;
        self.said
            .get(error.policy_id())
            .map_or(0, |it| it.listed.line)
    }
}

fn because(rule: &Said) -> String {
    rule.reason
        .as_ref()
        .map_or_else(String::new, |it| format!(": {it}"))
}

/// In Cedar's words there may be an agent's.
fn failed(rule: Option<&Said>, words: &str) -> Box<Reason> {
    let rule = rule.map_or_else(String::new, |it| format!(" `{}`", it.listed.name));
    let why = format!(
        "the operator's rule{rule} cannot be evaluated on this call: {}",
        excerpt(words)
    );
    refusal(None, why, Some("other values, or another rule"))
}

fn refusal(argument: Option<&ArgumentName>, why: String, change: Option<&str>) -> Box<Reason> {
    Box::new(Reason {
        argument: argument.cloned(),
        change: change
            .unwrap_or("another call, or the operator's rules; no approval changes it")
            .into(),
        rule: Rule::Operator,
        why,
    })
}
