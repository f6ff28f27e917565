//! A program without Cedar: it loads no policy that names rules.

use gate::{
    decide::{About, Narrowing, OperatorRules, Reason, Rule},
    policy::Policy,
};

use crate::{Fault, Listed, RulesError};

const WHY: &str =
    "this program was built without Cedar (feature `cedar`), and does not leave rules out";

/// The rules of a policy that names none.
#[derive(Clone, Debug)]
pub struct Rules(());

impl Rules {
    /// The rules that `policy` names: there are none.
    ///
    /// # Errors
    /// When there are some.
    pub fn load(policy: &Policy) -> Result<Self, RulesError> {
        match policy.operator_rules() {
            None => Ok(Self(())),
            Some(rules) => Err(RulesError {
                policy: policy.name().clone(),
                file: rules.file.clone(),
                faults: vec![Fault {
                    line: 1,
                    rule: None,
                    what: WHY.into(),
                }],
            }),
        }
    }

    /// None.
    pub fn list(&self) -> Vec<Listed> {
        Vec::new()
    }
}

impl OperatorRules for Rules {
    fn ask(&self, _about: &About<'_>) -> Narrowing {
        Narrowing::Refuse(Reason {
            argument: None,
            change: "a program that knows them".into(),
            rule: Rule::Operator,
            why: WHY.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate::{
        decide::{AnswerWord, Ask},
        id::PolicyName,
        json::Value,
        session::{Facts, Opening},
    };

    #[test]
    fn a_policy_that_names_rules_is_not_loaded_and_lets_nothing_through() {
        let name = PolicyName::parse("desk").unwrap();
        let text = include_str!("../../../fixtures/policies/desk.toml");
        let policy = Policy::compile_beside(&name, text, &|_| Ok("// none".into())).unwrap();
        let error = Rules::load(&policy).unwrap_err().to_string();
        assert!(error.contains("desk.cedar:1"), "{error}");
        assert!(error.contains("without Cedar"), "{error}");
        // And if it were loaded.
        let facts = Facts::open(&policy, Opening::default()).unwrap();
        let arguments =
            Value::Object([("year".to_owned(), Value::try_from(2026_i64).unwrap())].into());
        let ask = Ask::new("read_rates", &arguments);
        let verdict = Rules(()).decide(&policy, &facts, &ask);
        assert_eq!(verdict.answer(), AnswerWord::Refuse);
    }

    #[test]
    fn one_that_names_none_is() {
        let name = PolicyName::parse("a").unwrap();
        let policy = Policy::compile(&name, "format = 1").unwrap();
        assert!(Rules::load(&policy).is_ok_and(|it| it.list().is_empty()));
    }
}
