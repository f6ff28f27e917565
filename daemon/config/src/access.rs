//! Who may run what: a rule of the configuration, decided on what the kernel says of the caller.

use gate::id::{OwnedName, PolicyName, ValueName};
use serde::Deserialize;

/// One rule: these callers may use these policies and set these values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Uids.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// Gids; the caller's primary group and its groups at connect count.
    #[serde(default)]
    pub gids: Vec<u32>,
    /// Policies by name.
    pub policies: Vec<PolicyName>,
    /// Trusted values that they may set.
    #[serde(default)]
    pub values: Vec<ValueName>,
    /// Owned sets that they may set.
    #[serde(default)]
    pub owned: Vec<OwnedName>,
}

/// Who asks, by SO_PEERCRED and SO_PEERGROUPS (socket(7), unix(7)).
#[derive(Clone, Debug)]
pub struct Caller {
    /// Effective uid.
    pub uid: u32,
    /// Effective gid and the supplementary groups.
    pub gids: Vec<u32>,
}

impl Access {
    /// Whether this rule speaks of `caller`.
    pub fn covers(&self, caller: &Caller) -> bool {
        self.uids.contains(&caller.uid) || self.gids.iter().any(|gid| caller.gids.contains(gid))
    }

    /// Whether any of `rules` lets `caller` use `policy` with all of `values` and `owned`.
    /// Root may do everything: it could change the rules.
    pub fn admits<'a>(
        rules: &[Self],
        caller: &Caller,
        policy: &PolicyName,
        values: impl Iterator<Item = &'a ValueName> + Clone,
        owned: impl Iterator<Item = &'a OwnedName> + Clone,
    ) -> bool {
        caller.uid == 0
            || rules.iter().any(|rule| {
                rule.covers(caller)
                    && rule.policies.contains(policy)
                    && values.clone().all(|value| rule.values.contains(value))
                    && owned.clone().all(|set| rule.owned.contains(set))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Access {
        Access {
            uids: vec![1000],
            gids: vec![50],
            policies: vec![PolicyName::parse("mail").unwrap()],
            values: vec![ValueName::parse("customer").unwrap()],
            owned: vec![],
        }
    }

    fn admits(uid: u32, gids: &[u32], policy: &str, values: &[&str]) -> bool {
        let values: Vec<_> = values
            .iter()
            .map(|v| ValueName::parse(v).unwrap())
            .collect();
        Access::admits(
            &[rule()],
            &Caller {
                uid,
                gids: gids.to_vec(),
            },
            &PolicyName::parse(policy).unwrap(),
            values.iter(),
            [].iter(),
        )
    }

    #[test]
    fn a_caller_that_no_rule_covers_may_do_nothing() {
        assert!(!admits(1001, &[1001], "mail", &[]));
    }

    #[test]
    fn a_rule_gives_its_policies_and_its_values_and_no_more() {
        assert!(admits(1000, &[], "mail", &["customer"]));
        assert!(admits(7, &[50], "mail", &[]));
        assert!(!admits(1000, &[], "other", &[]));
        assert!(!admits(1000, &[], "mail", &["amount"]));
    }

    #[test]
    fn root_could_change_the_rules_and_is_not_asked() {
        assert!(admits(0, &[], "other", &["amount"]));
    }
}
