//! The operator's own rules, in Cedar: asked after all rules of the gate, and only narrowing.
//!
//! A rule is a `forbid`. Of [`Action::"call"`](schema) it refuses; of `Action::"call_unattended"` alone it
//! holds the call for a person, whose approval is then enough. The rest of a call's way is [`gate::decide`]'s:
//! what the rules say can make its verdict stricter, and nothing else.
//!
//! | module | what |
//! |---|---|
//! | `schema` | what a rule may speak of, for each tool: made of the compiled policy |
//! | `load` | reads the rules, holds each to the schema, and sorts them by tool |
//! | `reads` | what of the context the rules of a tool read: no more is made |
//! | `context` | what the rules are shown of a call and its session |
//! | `ask` | the two questions |
//!
//! The gate's program, `custody why`, `custody policy check` and `custody replay` all decide by
//! [`Rules::decide`].
//!
//! **Invariant:** what cannot be asked refuses: a rule that fails, a value that a rule cannot be shown, rules
//! of another policy, and, without the feature `cedar`, every policy that names rules.
#![forbid(unsafe_code)]

#[cfg(feature = "cedar")]
mod ask;
#[cfg(feature = "cedar")]
mod context;
mod error;
#[cfg(feature = "cedar")]
mod load;
#[cfg(feature = "cedar")]
mod reads;
#[cfg(feature = "cedar")]
mod schema;
#[cfg(not(feature = "cedar"))]
mod without;

use gate::{
    decide::{Ask, Verdict, decide_by},
    policy::Policy,
    session::Facts,
};

pub use error::{Fault, RulesError};
#[cfg(feature = "cedar")]
pub use load::Rules;
#[cfg(not(feature = "cedar"))]
pub use without::Rules;

/// A rule, as an operator is told of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listed {
    /// What records and reasons call it.
    pub name: String,
    /// Where in its file it begins, from 1.
    pub line: usize,
    /// Whether a person may let through what it catches.
    pub holds: bool,
    /// The tool that it speaks of; none if of all.
    pub tool: Option<String>,
}

impl Rules {
    /// Decides by `policy` and by these rules, which are its own.
    pub fn decide(&self, policy: &Policy, facts: &Facts, ask: &Ask<'_>) -> Verdict {
        decide_by(policy, self, facts, ask)
    }
}
