//! Whatever rules of an operator's say, they only narrow; and who does not ask them lets nothing through.

use gate::{
    decide::{
        About, AnswerWord, Ask, Moment, Narrowing, OperatorRules, Reason, Rule, decide, decide_by,
    },
    id::PolicyName,
    json::{Limits, Value, parse},
    policy::Policy,
    session::{Facts, Opening},
};

const DESK: &str = include_str!("../../../fixtures/policies/desk.toml");

/// Says the same of every call.
struct Says(Narrowing);

impl OperatorRules for Says {
    fn ask(&self, _about: &About<'_>) -> Narrowing {
        self.0.clone()
    }
}

fn reason() -> Reason {
    Reason {
        argument: None,
        change: "nothing".into(),
        // Not one's own to choose.
        rule: Rule::Limits,
        why: "because".into(),
    }
}

fn policy() -> Policy {
    let name = PolicyName::parse("desk").unwrap();
    Policy::compile_beside(&name, DESK, &|_| Ok("// read elsewhere".into())).unwrap()
}

fn arguments() -> Value {
    parse(br#"{"year": 2026}"#, &Limits::CALL).unwrap()
}

fn answer(says: Narrowing, moment: Moment, tool: &str) -> (AnswerWord, Vec<Rule>) {
    let policy = policy();
    let facts = Facts::open(&policy, Opening::default()).unwrap();
    let arguments = arguments();
    let ask = Ask::new(tool, &arguments).at(moment, 0);
    let explained = decide_by(&policy, &Says(says), &facts, &ask).explain();
    let rules = explained.reasons.iter().map(|it| it.rule).collect();
    (explained.answer, rules)
}

#[test]
fn a_hold_holds_until_a_person_approves_and_a_refusal_refuses_all_the_same() {
    let operator = vec![Rule::Operator];
    for moment in [Moment::Call, Moment::Commit] {
        for reasons in [vec![reason()], Vec::new()] {
            let (answer, rules) = answer(Narrowing::Hold(reasons), moment, "read_rates");
            assert_eq!(
                (answer, &rules),
                (AnswerWord::Hold, &operator),
                "{moment:?}"
            );
        }
    }
    let held = answer(
        Narrowing::Hold(vec![reason()]),
        Moment::Approved,
        "read_rates",
    );
    assert_eq!(held.0, AnswerWord::Allow);
    for moment in [Moment::Call, Moment::Commit, Moment::Approved] {
        let (answer, rules) = answer(Narrowing::Refuse(reason()), moment, "read_rates");
        assert_eq!(
            (answer, &rules),
            (AnswerWord::Refuse, &operator),
            "{moment:?}"
        );
    }
}

#[test]
fn what_the_gate_refuses_no_rule_is_asked_about() {
    for says in [Narrowing::Nothing, Narrowing::Hold(vec![reason()])] {
        let (answer, rules) = answer(says, Moment::Approved, "read_mail");
        assert_eq!((answer, rules), (AnswerWord::Refuse, vec![Rule::Arguments]));
    }
}

#[test]
fn who_does_not_ask_the_rules_that_a_policy_names_lets_nothing_through() {
    let policy = policy();
    let facts = Facts::open(&policy, Opening::default()).unwrap();
    let arguments = arguments();
    for moment in [Moment::Call, Moment::Commit, Moment::Approved] {
        let ask = Ask::new("read_rates", &arguments).at(moment, 0);
        let answer = decide(&policy, &facts, &ask).answer();
        assert_eq!(answer, AnswerWord::Refuse, "{moment:?}");
    }
}
