//! What is wrong with a rule is said when it is loaded, with file, line and what to do.

use custody_rules::Rules;

use crate::scene::{RULES, policy, refused};

fn rule(resource: &str, condition: &str) -> String {
    format!("\n\nforbid (principal, action, {resource})\nwhen {{\n  {condition}\n}};\n")
}

#[test]
fn each_bad_rule_is_refused_with_its_line_and_what_is_wrong() {
    let pay = "resource == Tool::\"pay\"";
    for (text, line, said) in [
        (rule(pay, "context.args.ammount.value == decimal(\"1.0\")"), 5, "ammount"),
        (rule(pay, "context.args.amount == 1"), 5, "compatible types"),
        (rule(pay, "context.args.amount.value > 1"), 5, "decimal"),
        (rule(pay, "context.args.to.origin == Origin::\"untrsted\""), 5, "untrsted"),
        (rule(pay, "context.call.classes.contains(Class::\"outside\")"), 5, "outside"),
        (rule(pay, "context.history.pays.calls > 1"), 5, "pays"),
        (rule(pay, "context.args.amount.value.greaterThan(decimal(\"much\"))"), 5, "much"),
        (rule("resource == Tool::\"send_mail\"", "context.args.reply_to.value == \"x\""), 5, "reply_to"),
        (rule("resource == Tool::\"transfer\"", "true"), 3, "no tool `transfer`"),
        (rule("resource == File::\"pay\"", "true"), 3, "always a tool"),
        (rule("resource", "context.args.amount.value == decimal(\"1.0\")"), 5, "`read_mail`"),
        ("\nforbid (principal, action == Action::\"cal\", resource);".into(), 2, "there is no action"),
        ("\n\npermit (principal, action, resource);".into(), 3, "only narrow"),
        ("\nforbid (principal == ?principal, action, resource);".into(), 1, "slots"),
        ("@reson(\"x\")\nforbid (principal, action, resource);".into(), 1, "`@reson`"),
        ("@id(\"Not A Name\")\nforbid (principal, action, resource);".into(), 1, "`@id`"),
        ("@reason(\"a\\nb\")\nforbid (principal, action, resource);".into(), 1, "one line"),
        (
            "@id(\"a\") forbid (principal, action, resource);\n@id(\"a\") forbid (principal, action, resource);"
                .into(),
            2,
            "two rules",
        ),
        (rule(pay, "context.call.risk == Risk::\"read\" && false"), 3, "never apply"),
        ("\nforbid (principal, action, resource)\nwhen { };\n".into(), 3, ""),
        ("\nforbid (principal action, resource);\n".into(), 2, ""),
        ("\n\nforbid (principal, action, resource) when { context.args.\u{202e}x };".into(), 3, ""),
    ] {
        let error = refused(&text);
        let fault = &error.faults[0];
        assert_eq!(fault.line, line, "{text}\n{error}");
        assert!(error.to_string().contains(said), "{text}\n{error}");
        let whole = error.to_string();
        assert!(whole.starts_with("the rules of policy `desk`: desk.cedar:"), "{whole}");
        assert!(!whole.contains("policy0"), "{whole}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let text = format!(
        "{}{}",
        rule("resource == Tool::\"pay\"", "context.args.x"),
        rule("resource == Tool::\"pay\"", "context.args.y")
    );
    let lines: Vec<usize> = refused(&text).faults.iter().map(|it| it.line).collect();
    assert!(lines.contains(&5) && lines.contains(&11), "{lines:?}");
}

#[test]
fn the_rules_are_listed_in_the_order_of_their_file() {
    let listed = Rules::load(&policy(RULES)).unwrap().list();
    let listed: Vec<_> = listed
        .iter()
        .map(|it| (it.name.as_str(), it.holds, it.tool.as_deref()))
        .collect();
    assert_eq!(
        listed,
        [
            ("clerks-pay", false, Some("pay")),
            ("daily-total", false, Some("pay")),
            ("large-payments", true, Some("pay")),
            ("nothing-out-after-mail", false, Some("send_mail")),
            ("known-reply-address", true, Some("send_mail")),
            ("read-before-you-write", false, None),
        ]
    );
}

#[test]
fn a_tool_with_branches_lists_and_optional_arguments_has_a_schema() {
    let office = include_str!("../../../../fixtures/policies/office.toml");
    let text = format!("{office}\n[rules]\ncedar = \"office.cedar\"\n");
    let rules = r#"
        forbid (principal, action, resource == Tool::"send_mail")
        when { context.args.to.count > 3 || context.args.to.value.contains("x@y.example") };
        forbid (principal, action, resource)
        when { context.call has branch && context.call.branch == "close" };
    "#;
    let policy =
        gate::policy::Policy::compile_beside(&crate::scene::name("office"), &text, &|_| {
            Ok(rules.into())
        })
        .unwrap();
    Rules::load(&policy).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_documented_rules_are_those_of_the_desk() {
    let page = include_str!("../../../../gate/docs/policy.md");
    let example = page.split("```cedar\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    assert!(RULES.ends_with(example));
}
