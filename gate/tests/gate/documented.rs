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
