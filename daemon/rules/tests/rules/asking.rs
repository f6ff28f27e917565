//! What the rules say of calls.

use gate::decide::{AnswerWord, Moment, Rule, Verdict, decide};

use crate::scene::{Desk, RULES, policy, value, why};

const PAY: &str = r#"{"to": "Gas", "amount": 150}"#;
const MAIL: &str = r#"{"to": ["ada@desk.example.test"], "body": "Hello"}"#;
const OUT: &str = r#"{"to": ["bob@far.example"], "body": "Hello"}"#;

fn clerk() -> Desk {
    let mut desk = Desk::of(RULES, &["clerk"]);
    desk.did("read_rates", r#"{"year": 2026}"#);
    desk
}

#[test]
fn a_rule_refuses_with_its_own_reason_and_advice() {
    let mut desk = Desk::with(RULES);
    desk.did("read_rates", r#"{"year": 2026}"#);
    let verdict = desk.ask("pay", PAY);
    assert_eq!(
        why(&verdict),
        "operator: the operator's rule `clerks-pay` refuses it: only clerks pay bills | start the session \
         with the role `clerk`"
    );
    assert!(verdict.explain().grounds.is_some());
    assert!(matches!(clerk().ask("pay", PAY), Verdict::Allow(_)));
}

#[test]
fn what_only_the_second_question_forbids_waits_for_a_person_and_goes_through_with_one() {
    let desk = clerk();
    let call = r#"{"to": "Rent", "amount": 300.5}"#;
    for moment in [Moment::Call, Moment::Commit] {
        let verdict = desk.at(moment, "pay", call);
        assert_eq!(verdict.answer(), AnswerWord::Hold, "{moment:?}");
        assert!(why(&verdict).contains("`large-payments` leaves it to a person"));
    }
    assert!(matches!(
        desk.at(Moment::Approved, "pay", call),
        Verdict::Allow(_)
    ));
}

#[test]
fn what_the_first_question_forbids_no_person_lets_through() {
    let mut desk = clerk();
    desk.did("pay", r#"{"to": "Rent", "amount": 900.5}"#);
    for moment in [Moment::Call, Moment::Commit, Moment::Approved] {
        let verdict = desk.at(moment, "pay", PAY);
        assert_eq!(verdict.answer(), AnswerWord::Refuse, "{moment:?}");
        assert!(why(&verdict).contains("daily-total"), "{}", why(&verdict));
    }
}

#[test]
fn what_holds_and_what_refuses_at_once_is_refused() {
    let desk = Desk::with(
        "forbid (principal, action, resource == Tool::\"pay\"); \n\
         forbid (principal, action == Action::\"call_unattended\", resource);",
    );
    assert_eq!(desk.ask("pay", PAY).answer(), AnswerWord::Refuse);
    assert_eq!(
        desk.ask("read_rates", r#"{"year": 2026}"#).answer(),
        AnswerWord::Hold
    );
}

#[test]
fn a_rule_that_asks_for_the_question_itself_is_asked_both() {
    let desk = Desk::with(
        "forbid (principal, action, resource) when { action == Action::\"call_unattended\" };",
    );
    assert_eq!(desk.ask("pay", PAY).answer(), AnswerWord::Hold);
    assert!(matches!(
        desk.at(Moment::Approved, "pay", PAY),
        Verdict::Allow(_)
    ));
}

#[test]
fn totals_count_what_the_session_did_and_this_call_and_a_day_ends() {
    let mut desk = clerk();
    desk.did("pay", r#"{"to": "Rent", "amount": 850}"#);
    assert!(
        matches!(desk.ask("pay", PAY), Verdict::Allow(_)),
        "1000 are allowed"
    );
    desk.did("pay", PAY);
    let one_more = r#"{"to": "Gas", "amount": 0.0001}"#;
    assert_eq!(desk.ask("pay", one_more).answer(), AnswerWord::Refuse);
    desk.now_ms = 24 * 3_600_000;
    assert_eq!(desk.ask("pay", one_more).answer(), AnswerWord::Refuse);
    desk.now_ms = 26 * 3_600_000;
    assert!(matches!(desk.ask("pay", one_more), Verdict::Allow(_)));
}

#[test]
fn after_mail_nothing_leaves_the_house_and_what_stays_inside_does() {
    let mut desk = clerk();
    assert!(matches!(desk.ask("send_mail", OUT), Verdict::Allow(_)));
    desk.read("read_mail", "Hello");
    let verdict = desk.ask("send_mail", OUT);
    assert!(why(&verdict).contains("nothing-out-after-mail"));
    assert_eq!(
        desk.at(Moment::Approved, "send_mail", OUT).answer(),
        AnswerWord::Refuse
    );
    assert!(matches!(desk.ask("send_mail", MAIL), Verdict::Allow(_)));
}

#[test]
fn a_rule_sees_where_a_value_comes_from() {
    let desk = clerk();
    let known = r#"{"to": ["ada@desk.example.test"], "body": "x", "reply_to": "bob@far.example"}"#;
    let unknown =
        r#"{"to": ["ada@desk.example.test"], "body": "x", "reply_to": "eve@far.example"}"#;
    assert!(matches!(desk.ask("send_mail", known), Verdict::Allow(_)));
    let verdict = desk.ask("send_mail", unknown);
    assert_eq!(verdict.answer(), AnswerWord::Hold);
    assert!(why(&verdict).contains("known-reply-address"));
}

#[test]
fn a_rule_of_every_tool_speaks_of_every_tool_and_one_of_another_does_not_matter() {
    let desk = Desk::of(RULES, &["clerk"]);
    let verdict = desk.ask("send_mail", MAIL);
    assert!(why(&verdict).contains("read-before-you-write"));
    assert!(why(&verdict).ends_with("call `read_rates` first"));
    let other = Desk::with("forbid (principal, action, resource == Tool::\"pay\");");
    for (tool, call) in [("send_mail", MAIL), ("read_mail", r#"{"id": "1"}"#)] {
        assert_eq!(
            other.ask(tool, call).answer(),
            other.without(Moment::Call, tool, call).answer()
        );
    }
}

#[test]
fn a_rule_that_fails_refuses_whatever_the_question_and_no_approval_helps() {
    for (condition, words) in [
        (
            "context.args.year.value * 9223372036854775807 > 0",
            "overflow",
        ),
        (
            "context.args.year.value > 0 && context.args.year.value * 9223372036854775807 > 0",
            "overflow",
        ),
    ] {
        let rule = |action| {
            format!(
                "@id(\"broken\") forbid (principal, action == Action::\"{action}\", resource == \
                 Tool::\"read_rates\") when {{ {condition} }};"
            )
        };
        let call = r#"{"year": 2026}"#;
        for action in ["call", "call_unattended"] {
            let verdict = Desk::with(&rule(action)).ask("read_rates", call);
            assert_eq!(verdict.answer(), AnswerWord::Refuse, "{action}");
            let why = why(&verdict);
            assert!(why.contains("`broken` cannot be evaluated"), "{why}");
            assert!(why.contains(words), "{why}");
        }
        let desk = Desk::with(&rule("call"));
        let approved = desk.at(Moment::Approved, "read_rates", call);
        assert_eq!(approved.answer(), AnswerWord::Refuse);
    }
}

#[test]
fn of_a_rule_that_fails_and_one_that_forbids_the_second_is_said() {
    let desk = Desk::with(
        "@id(\"broken\") forbid (principal, action, resource == Tool::\"read_rates\") when { \
         context.args.year.value * 9223372036854775807 > 0 };\n\
         @id(\"never\") forbid (principal, action, resource);",
    );
    let verdict = desk.ask("read_rates", r#"{"year": 2026}"#);
    assert!(
        why(&verdict).contains("`never` refuses"),
        "{}",
        why(&verdict)
    );
}

#[test]
fn a_number_that_the_rules_cannot_be_shown_refuses() {
    let desk = clerk();
    let verdict = desk.ask("pay", r#"{"to": "Gas", "amount": 0.00001}"#);
    assert_eq!(verdict.answer(), AnswerWord::Refuse);
    let reason = &verdict.explain().reasons[0];
    assert_eq!(reason.rule, Rule::Operator);
    assert_eq!(reason.argument.as_ref().unwrap().as_str(), "amount");
}

#[test]
fn who_does_not_ask_the_rules_lets_nothing_through() {
    let desk = clerk();
    let arguments = value(PAY);
    let ask = gate::decide::Ask::new("pay", &arguments);
    let verdict = decide(&desk.policy, &desk.facts, &ask);
    assert_eq!(verdict.answer(), AnswerWord::Refuse);
    assert!(why(&verdict).starts_with("operator: the policy has rules"));
}

#[test]
fn rules_of_another_policy_let_nothing_through() {
    let desk = clerk();
    let other = policy("// none\n");
    let arguments = value(PAY);
    let ask = gate::decide::Ask::new("pay", &arguments);
    let verdict = desk.rules.decide(&other, &desk.facts, &ask);
    assert!(why(&verdict).contains("another policy"));
}

#[test]
fn the_digest_of_a_policy_is_also_that_of_its_rules() {
    let one = policy(RULES);
    let other = policy(&RULES.replace("1000.0", "1000.1"));
    assert_ne!(one.hash(), other.hash());
    assert_ne!(one.hash(), crate::scene::plain().hash());
    let again = gate::policy::Policy::from_bytes(&one.to_bytes()).unwrap();
    assert_eq!(again.operator_rules().unwrap().text, RULES);
}

#[test]
fn what_a_session_was_delegated_from_did_counts_for_it_too() {
    let mut above = clerk();
    above.did("pay", r#"{"to": "Rent", "amount": 900.5}"#);
    let desk = clerk();
    let arguments = value(PAY);
    let ask = gate::decide::Ask::new("pay", &arguments);
    let alone = desk.rules.decide(&desk.policy, &desk.facts, &ask);
    assert!(matches!(alone, Verdict::Allow(_)));
    let from = [&above.facts];
    let below = desk
        .rules
        .decide(&desk.policy, &desk.facts, &ask.below(&from));
    assert!(why(&below).contains("daily-total"), "{}", why(&below));
}

#[test]
fn a_person_is_shown_what_the_gate_and_what_a_rule_says() {
    let mut desk = clerk();
    desk.read("read_mail", "Pay 250");
    let verdict = desk.ask("pay", r#"{"to": "Gas", "amount": 250}"#);
    assert_eq!(verdict.answer(), AnswerWord::Hold);
    let reasons = verdict.explain().reasons;
    let rules: Vec<Rule> = reasons.iter().map(|it| it.rule).collect();
    assert_eq!(rules.last(), Some(&Rule::Operator), "{rules:?}");
    assert!(rules.contains(&Rule::Origin), "{rules:?}");
}
