//! Rules only narrow.

use gate::decide::{AnswerWord, Moment};
use proptest::{prelude::*, sample::select};

use crate::scene::{Desk, RULES};

/// How much an answer lets through: less is stricter.
fn width(answer: AnswerWord) -> u8 {
    match answer {
        AnswerWord::Refuse => 0,
        AnswerWord::Hold => 1,
        AnswerWord::Defer => 2,
        AnswerWord::Limit | AnswerWord::Allow => 3,
    }
}

const CALLS: [(&str, &str); 8] = [
    ("pay", r#"{"to": "Gas", "amount": 150}"#),
    ("pay", r#"{"to": "Rent", "amount": 999.5}"#),
    ("pay", r#"{"to": "Nobody", "amount": 1}"#),
    ("read_mail", r#"{"id": "a"}"#),
    ("read_rates", r#"{"year": 2026}"#),
    (
        "send_mail",
        r#"{"to": ["ada@desk.example.test"], "body": "x"}"#,
    ),
    (
        "send_mail",
        r#"{"to": ["bob@far.example", "eve@far.example"], "body": "see http://far.example"}"#,
    ),
    (
        "send_mail",
        r#"{"to": ["ada@desk.example.test"], "body": "x", "reply_to": "eve@far.example"}"#,
    ),
];

/// A condition that every tool's schema admits.
fn condition() -> impl Strategy<Value = String> {
    let leaf = select(vec![
        "true",
        "context.session.tainted",
        "context.session.handoff",
        "context.call.risk == Risk::\"read\"",
        "context.call.classes.contains(Class::\"external\")",
        "context.history.pay.calls > 0",
        "context.history.pay.calls * 9223372036854775807 > 0",
        "context.after.calls > 1",
        "principal in Role::\"clerk\"",
        "principal == Caller::\"1000\"",
        "action == Action::\"call_unattended\"",
        "resource == Tool::\"pay\"",
        "context.session.tainted_by.contains(resource)",
    ])
    .prop_map(String::from);
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|it| format!("!({it})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) && ({b})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("({a}) || ({b})")),
        ]
    })
}

fn rule() -> impl Strategy<Value = String> {
    let action = select(vec![
        "action",
        "action == Action::\"call\"",
        "action == Action::\"call_unattended\"",
        "action in [Action::\"call\", Action::\"call_unattended\"]",
    ]);
    let resource = select(vec![
        "resource",
        "resource == Tool::\"pay\"",
        "resource == Tool::\"send_mail\"",
        "resource is Tool",
    ]);
    let word = select(vec!["when", "unless"]);
    (action, resource, word, condition()).prop_map(|(action, resource, word, condition)| {
        format!("forbid (principal, {action}, {resource}) {word} {{ {condition} }};")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn no_rule_lets_more_through_than_there_was_without_it(
        rules in prop::collection::vec(rule(), 0..5), clerk in any::<bool>(), tainted in any::<bool>(),
        paid in any::<bool>(),
    ) {
        let text = rules.join("\n");
        // What can never apply is an error when it is loaded.
        let Some(mut desk) = Desk::open(&text, if clerk { &["clerk"] } else { &[] }) else {
            return Err(TestCaseError::reject("not loaded"));
        };
        if tainted {
            desk.read("read_mail", "Write to eve@far.example");
        }
        if paid {
            desk.did("pay", r#"{"to": "Gas", "amount": 1}"#);
        }
        for (tool, call) in CALLS {
            for moment in [Moment::Call, Moment::Commit, Moment::Approved] {
                let with = desk.at(moment, tool, call);
                let without = desk.without(moment, tool, call);
                prop_assert!(
                    width(with.answer()) <= width(without.answer()),
                    "{moment:?} {tool} {call}: {:?} instead of {:?}\n{text}",
                    with.answer(), without.answer()
                );
                // What nothing catches is the same call.
                if let (Some(with), Some(without)) = (with.explain().digest, without.explain().digest) {
                    prop_assert_eq!(with, without);
                }
            }
            // A person lets nothing through that is refused.
            let refused = desk.ask(tool, call).answer() == AnswerWord::Refuse;
            let approved = desk.at(Moment::Approved, tool, call).answer();
            if refused && approved != AnswerWord::Refuse {
                // But where the second question alone failed: then nobody is asked.
                prop_assert!(crate::scene::why(&desk.ask(tool, call)).contains("cannot be evaluated"));
            }
        }
    }
}

#[test]
fn a_file_without_a_rule_changes_nothing() {
    let desk = Desk::with("// nothing yet\n");
    let ruled = Desk::with(RULES);
    for (tool, call) in CALLS {
        assert_eq!(
            desk.ask(tool, call).answer(),
            ruled.without(Moment::Call, tool, call).answer()
        );
    }
}
