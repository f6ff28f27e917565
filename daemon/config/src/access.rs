//! Who may run what: a rule of the configuration, decided on what the kernel says of the caller.

use std::collections::BTreeSet;

use gate::id::{OwnedName, PolicyName, RoleName, ValueName};
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
    /// Roles that their sessions have.
    #[serde(default)]
    pub roles: Vec<RoleName>,
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

    /// The roles of a session of `caller` under `policy`: those of every rule that speaks of both.
    /// Root has what any rule of the policy gives.
    pub fn roles(rules: &[Self], caller: &Caller, policy: &PolicyName) -> BTreeSet<RoleName> {
        rules
            .iter()
            .filter(|rule| caller.uid == 0 || rule.covers(caller))
            .filter(|rule| rule.policies.contains(policy))
            .flat_map(|rule| rule.roles.iter().cloned())
            .collect()
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
            roles: vec![RoleName::parse("support").unwrap()],
        }
    }

    #[test]
    fn a_rule_gives_its_roles_to_whom_it_speaks_of() {
        let roles = |uid, policy| {
            let caller = Caller { uid, gids: vec![] };
            Access::roles(&[rule()], &caller, &PolicyName::parse(policy).unwrap()).len()
        };
        assert_eq!(roles(1000, "mail"), 1);
        assert_eq!(roles(0, "mail"), 1);
        assert_eq!(roles(1001, "mail"), 0);
        assert_eq!(roles(1000, "other"), 0);
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
