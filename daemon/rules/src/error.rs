//! Why rules are not loaded.

use std::fmt;

use gate::id::PolicyName;

/// Why the rules of a policy are not loaded. Then the policy is not, either.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct RulesError {
    /// The policy.
    pub policy: PolicyName,
    /// The file of the rules.
    pub file: String,
    /// Everything that is wrong, in the order of the file; never empty.
    pub faults: Vec<Fault>,
}

/// What is wrong with one rule, or with the text.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// The rule, if it is one rule's.
    pub rule: Option<String>,
    /// What is wrong, and what to do.
    pub what: String,
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rules of policy `{}`: ", self.policy)?;
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{}:{}: {fault}", self.file, fault.line)?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rule) = &self.rule {
            write!(f, "rule `{rule}`: ")?;
        }
        f.write_str(&self.what)
    }
}
