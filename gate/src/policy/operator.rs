//! The operator's own rules, as they are written: carried and hashed here, read elsewhere.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::Problem;
use crate::id::PolicyName;

/// The most bytes of the operator's rules. With them the compiled policy stays within its limit.
pub const OPERATOR_MAX: usize = 256 << 10;

/// What the name of their file ends with.
const EXTENSION: &str = ".cedar";

/// The operator's own rules, in Cedar. This crate does not know what they mean: who decides by a policy
/// that has some asks them, or refuses every call ([`crate::decide::OperatorRules`]).
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorText {
    /// The name of the file that they lie in, beside the policy.
    pub file: String,
    /// They.
    pub text: String,
}

impl OperatorText {
    /// Why no file is called `file`: it would lie elsewhere than beside the policy, or be another's.
    pub(super) fn name_problem(file: &str) -> Option<Problem> {
        let stem = file.strip_suffix(EXTENSION);
        match stem.map(PolicyName::parse) {
            Some(Ok(_)) => None,
            Some(Err(_)) | None => Some(Problem::RulesFile { file: file.into() }),
        }
    }

    /// Why these are none to carry.
    pub(super) fn problem(&self) -> Option<Problem> {
        if let Some(problem) = Self::name_problem(&self.file) {
            return Some(problem);
        }
        let found = self.text.len();
        if found > OPERATOR_MAX {
            return Some(Problem::TextLength {
                found,
                most: OPERATOR_MAX,
            });
        }
        self.text.contains('\0').then(|| Problem::RulesUnread {
            file: self.file.clone(),
            why: "it has a NUL character".into(),
        })
    }
}
