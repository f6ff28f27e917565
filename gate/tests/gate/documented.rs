//! The example in the documentation of `gate::policy` is a policy.

use gate::{id::PolicyName, policy::Policy};

#[test]
fn the_documented_policy_compiles() {
    let toml: String = include_str!("../../src/policy/mod.rs")
        .lines()
        .skip_while(|line| *line != "//! ```toml")
        .skip(1)
        .take_while(|line| *line != "//! ```")
        .map(|line| line.strip_prefix("//!").unwrap().to_owned() + "\n")
        .collect();
    let policy = Policy::compile(&PolicyName::parse("support").unwrap(), &toml)
        .unwrap_or_else(|error| panic!("{error}\n{toml}"));
    let (tool, _) = policy.tools().first_key_value().unwrap();
    assert_eq!(
        String::from_utf8(policy.input_schema(tool).unwrap()).unwrap(),
        r#"{"additionalProperties":false,"properties":{"lang":{"enum":["de","en"],"type":"string"},"text":{"maxLength":4000,"type":"string"},"to":{"description":"The customer's address.","format":"email","maxLength":254,"type":"string"}},"required":["text","to"],"type":"object"}"#
    );
}

const PAGE: &str = include_str!("../../docs/policy.md");

#[test]
fn the_page_says_the_defaults_that_the_compiler_sets() {
    let example = PAGE.split("```toml\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let policy = Policy::compile(&PolicyName::parse("mail").unwrap(), example).unwrap();
    let request = &policy.tools().first_key_value().unwrap().1.request;
    for row in [
        format!("| `timeout_ms` | {} |", request.timeout_ms),
        format!("| `answer_max_bytes` | {} |", request.answer_max_bytes),
    ] {
        assert!(PAGE.contains(&row), "{row}");
    }
}

#[test]
fn each_key_of_a_policy_stands_on_the_page() {
    for key in [
        "[owned.",
        "[values.",
        "[credentials.",
        "[tools.",
        "read_only",
        "limits.memory_mb",
        "limits.processes",
        "workspace",
        "hints.read_only",
        "hints.destructive",
        "hints.idempotent",
        "one_of",
        "optional = true",
        "on_taint",
        "addresses",
        "placement",
        "idempotent = true",
    ] {
        assert!(PAGE.contains(key), "{key}");
    }
}
