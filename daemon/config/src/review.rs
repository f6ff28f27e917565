//! Who may answer for which calls: rules of the configuration, decided on what the kernel says of the
//! caller.

use gate::{
    id::{PolicyName, ToolName},
    policy::ActionClass,
};
use serde::Deserialize;

use crate::Caller;

/// One rule: these callers may review these calls.
///
/// Where no rule speaks of a call, whoever runs the session may: a single user reviews his own agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// Uids.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// Gids; the caller's primary group and its groups at connect count.
    #[serde(default)]
    pub gids: Vec<u32>,
    /// Policies by name.
    pub policies: Vec<PolicyName>,
    /// Of them these tools; all if none is named here and no class is.
    #[serde(default)]
    pub tools: Vec<ToolName>,
    /// And calls of these classes.
    #[serde(default)]
    pub classes: Vec<ActionClass>,
    /// Nobody answers by this rule for a session of his own.
    #[serde(default)]
    pub separate: bool,
}

/// What a rule looks at of a call.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Who runs the session.
    pub owner: u32,
    /// The policy.
    pub policy: &'a PolicyName,
    /// The tool.
    pub tool: &'a ToolName,
    /// What it does to the world.
    pub classes: &'a [String],
}

/// What the rules say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reviews {
    /// He may answer.
    May,
    /// He may not.
    Never,
    /// Another would have to: the session is his own.
    OwnSession,
}

impl Review {
    /// Whether this rule speaks of `caller`.
    pub fn covers(&self, caller: &Caller) -> bool {
        self.uids.contains(&caller.uid) || self.gids.iter().any(|gid| caller.gids.contains(gid))
    }

    /// Whether this rule speaks of the call.
    fn concerns(&self, question: &Question<'_>) -> bool {
        let all = self.tools.is_empty() && self.classes.is_empty();
        self.policies.contains(question.policy)
            && (all
                || self.tools.contains(question.tool)
                || self
                    .classes
                    .iter()
                    .any(|class| question.classes.iter().any(|it| it == class.as_str())))
    }

    /// What `rules` say of `caller` and a call. Root may answer whatever anybody may: it could change
    /// the rules.
    pub fn ask(rules: &[Self], caller: &Caller, question: &Question<'_>) -> Reviews {
        let own = caller.uid == question.owner;
        let mut speaking = rules
            .iter()
            .filter(|rule| rule.concerns(question))
            .peekable();
        if speaking.peek().is_none() {
            return if own || caller.uid == 0 {
                Reviews::May
            } else {
                Reviews::Never
            };
        }
        let mut answer = Reviews::Never;
        for rule in speaking.filter(|rule| caller.uid == 0 || rule.covers(caller)) {
            if own && rule.separate {
                answer = Reviews::OwnSession;
            } else {
                return Reviews::May;
            }
        }
        answer
    }
}

/// How often a person may be asked, and may say yes: whoever is asked all day says yes to everything.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Approvals {
    /// New calls of one session that are shown in a minute; what is beyond is refused.
    pub questions_per_minute: u32,
    /// Calls that one reviewer approves in a minute.
    pub answers_per_minute: u32,
}

impl Default for Approvals {
    /// A question every six seconds is more than anybody reads; an answer every other second more than
    /// anybody thinks about.
    fn default() -> Self {
        Self {
            questions_per_minute: 10,
            answers_per_minute: 30,
        }
    }
}

/// The reviewers' page.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Where it listens: an address of this host's loopback, and a port.
    pub listen: std::net::SocketAddr,
}

/// How reviewers hear that a call waits. Neither way carries anything of the call but its number, its
/// tool and its policy, which are the operator's words.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Notify {
    /// A program and its arguments, run as custody-control and confined as it is: without a network. It
    /// is told on standard input.
    pub command: Vec<String>,
    /// A unix stream socket that somebody listens on: he is sent one line of JSON.
    pub socket: Option<std::path::PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(uids: &[u32], tools: &[&str], separate: bool) -> Review {
        Review {
            uids: uids.to_vec(),
            gids: vec![50],
            policies: vec![PolicyName::parse("bank").unwrap()],
            tools: tools
                .iter()
                .map(|it| ToolName::parse(it).unwrap())
                .collect(),
            classes: Vec::new(),
            separate,
        }
    }

    fn ask(rules: &[Review], uid: u32, tool: &str) -> Reviews {
        let caller = Caller {
            uid,
            gids: vec![uid],
        };
        let question = Question {
            owner: 1000,
            policy: &PolicyName::parse("bank").unwrap(),
            tool: &ToolName::parse(tool).unwrap(),
            classes: &["financial".into()],
        };
        Review::ask(rules, &caller, &question)
    }

    #[test]
    fn without_a_rule_whoever_runs_the_session_reviews_it_and_nobody_else() {
        assert_eq!(ask(&[], 1000, "pay"), Reviews::May);
        assert_eq!(ask(&[], 0, "pay"), Reviews::May);
        assert_eq!(ask(&[], 1001, "pay"), Reviews::Never);
        // A rule that speaks of other calls changes nothing.
        assert_eq!(
            ask(&[rule(&[1001], &["read"], true)], 1000, "pay"),
            Reviews::May
        );
    }

    #[test]
    fn a_rule_that_speaks_of_a_call_says_who_and_nobody_else_may() {
        let rules = [rule(&[1001], &["pay"], false)];
        assert_eq!(ask(&rules, 1001, "pay"), Reviews::May);
        assert_eq!(ask(&rules, 50, "pay"), Reviews::May);
        assert_eq!(ask(&rules, 1000, "pay"), Reviews::Never);
        assert_eq!(ask(&rules, 0, "pay"), Reviews::May);
        assert_eq!(ask(&rules, 1001, "read"), Reviews::Never);
    }

    #[test]
    fn separate_means_another_than_whoever_runs_the_session() {
        let rules = [rule(&[1000, 1001], &[], true)];
        assert_eq!(ask(&rules, 1000, "pay"), Reviews::OwnSession);
        assert_eq!(ask(&rules, 1001, "pay"), Reviews::May);
        // One rule that is not separate is enough; a rule's silence is none.
        let both = [rule(&[1000], &[], true), rule(&[1000], &[], false)];
        assert_eq!(ask(&both, 1000, "pay"), Reviews::May);
        assert_eq!(ask(&rules, 1002, "pay"), Reviews::Never);
    }

    #[test]
    fn a_rule_may_speak_of_classes() {
        let mut rule = rule(&[1001], &["other"], false);
        rule.classes = vec![ActionClass::Financial];
        assert_eq!(ask(&[rule], 1001, "pay"), Reviews::May);
    }
}
