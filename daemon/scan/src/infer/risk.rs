//! A tool's risk: what somebody declares, what the name says, and what is left where they differ.

use gate::policy::Risk;

use super::{
    names::{Form, Name},
    tier::{self, Tier},
};

/// A tool's risk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RiskFinding {
    /// What somebody declares; unknown if nobody does.
    pub declared: Tier,
    /// What the name says.
    pub inferred: Tier,
    /// The word of the name that says it.
    pub word: Option<&'static str>,
    /// What may be relied on: the declaration, and only where nothing says otherwise.
    pub effective: Tier,
    /// How the two stand to each other.
    pub agreement: Agreement,
    /// Whether a person should confirm each call.
    pub confirmation: Confirmation,
}

/// How a declaration and a name stand to each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Agreement {
    /// They say the same, or the name says nothing.
    Agree,
    /// They differ: neither is relied on.
    Conflict,
    /// Nobody declares anything.
    Undeclared,
}

/// Whether a person should confirm each call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Confirmation {
    /// The risk is unknown, or one that does not come back.
    Needed,
    /// It reads or writes, by a declaration that nothing contradicts.
    NotNeeded,
}

/// The risk of the tool `name`.
pub(super) fn of(name: &str, declared: Tier) -> RiskFinding {
    let name = Name::of(name);
    let (inferred, word) = tier::of_name(&name);
    // A name that may look like what it is not says nothing.
    let readable = name.form() == Form::Plain;
    let (effective, agreement) = match (declared, inferred) {
        (Tier::Unknown, _) => (Tier::Unknown, Agreement::Undeclared),
        (Tier::Known(a), Tier::Known(b)) if a != b => (Tier::Unknown, Agreement::Conflict),
        (Tier::Known(_), _) if readable => (declared, Agreement::Agree),
        (Tier::Known(_), _) => (Tier::Unknown, Agreement::Agree),
    };
    let confirmation = match effective {
        Tier::Known(Risk::Read | Risk::Write) => Confirmation::NotNeeded,
        Tier::Known(Risk::Destructive | Risk::Execute | Risk::Financial) | Tier::Unknown => {
            Confirmation::Needed
        }
    };
    RiskFinding {
        declared,
        inferred,
        word,
        effective,
        agreement,
        confirmation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_undeclared_or_contradicted_is_unknown_and_needs_a_person() {
        for (name, declared, effective) in [
            ("get_page", Tier::Unknown, Tier::Unknown),
            ("get_page", Tier::Known(Risk::Read), Tier::Known(Risk::Read)),
            ("send_money", Tier::Known(Risk::Financial), Tier::Unknown),
            ("tabs", Tier::Known(Risk::Write), Tier::Known(Risk::Write)),
            ("g\u{435}t", Tier::Known(Risk::Read), Tier::Unknown),
        ] {
            let found = of(name, declared);
            assert_eq!(found.effective, effective, "{name}");
            assert_eq!(
                found.confirmation == Confirmation::Needed,
                effective == Tier::Unknown,
                "{name}"
            );
        }
    }

    #[test]
    fn the_worst_word_of_a_name_wins() {
        for (name, tier) in [
            ("listAndDelete", Risk::Destructive),
            ("run_query", Risk::Execute),
            ("create_payment", Risk::Financial),
            ("search_files", Risk::Read),
        ] {
            assert_eq!(
                of(name, Tier::Unknown).inferred,
                Tier::Known(tier),
                "{name}"
            );
        }
        assert_eq!(of("together", Tier::Unknown).inferred, Tier::Unknown);
    }
}
