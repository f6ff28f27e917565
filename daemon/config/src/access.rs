//! Who may run what: a rule of the configuration, decided on what the kernel says of the caller.

use std::collections::BTreeSet;

use gate::id::{OwnedName, PolicyName, RoleName, TenantName, ValueName};
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
    /// Whether they may say for which end user a session works: that of a host application, which knows
    /// its users.
    #[serde(default)]
    pub subjects: bool,
    /// In whose names their sessions may work.
    #[serde(default)]
    pub tenants: Vec<TenantName>,
}

/// Who asks, by SO_PEERCRED and SO_PEERGROUPS (socket(7), unix(7)).
#[derive(Clone, Debug)]
pub struct Caller {
    /// Effective uid.
    pub uid: u32,
    /// Effective gid and the supplementary groups.
    pub gids: Vec<u32>,
}

/// What a caller asks for.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The policy.
    pub policy: &'a PolicyName,
    /// The trusted values that he says.
    pub values: Vec<&'a ValueName>,
    /// The owned sets that he says.
    pub owned: Vec<&'a OwnedName>,
    /// Whether he says for whom the session works.
    pub subject: bool,
    /// In whose name he says that it works.
    pub tenant: Option<&'a TenantName>,
}

impl<'a> Asked<'a> {
    /// The policy, and nothing said.
    pub const fn plain(policy: &'a PolicyName) -> Self {
        Self {
            policy,
            values: Vec::new(),
            owned: Vec::new(),
            subject: false,
            tenant: None,
        }
    }
}

impl Access {
    /// Whether this rule speaks of `caller`.
    pub fn covers(&self, caller: &Caller) -> bool {
        self.uids.contains(&caller.uid) || self.gids.iter().any(|gid| caller.gids.contains(gid))
    }

    /// Whether any of `rules` lets `caller` have all that is asked for. Root may do everything: it could
    /// change the rules.
    pub fn admits(rules: &[Self], caller: &Caller, asked: &Asked<'_>) -> bool {
        caller.uid == 0
            || rules.iter().any(|rule| {
                rule.covers(caller)
                    && rule.policies.contains(asked.policy)
                    && asked.values.iter().all(|it| rule.values.contains(it))
                    && asked.owned.iter().all(|it| rule.owned.contains(it))
                    && (rule.subjects || !asked.subject)
                    && asked.tenant.is_none_or(|it| rule.tenants.contains(it))
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
            subjects: false,
            tenants: vec![],
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
        let caller = Caller {
            uid,
            gids: gids.to_vec(),
        };
        let policy = PolicyName::parse(policy).unwrap();
        let asked = Asked {
            values: values.iter().collect(),
            ..Asked::plain(&policy)
        };
        Access::admits(&[rule()], &caller, &asked)
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
    fn for_whom_and_in_whose_name_a_session_works_only_an_application_says_that_may() {
        let caller = |uid| Caller { uid, gids: vec![] };
        let policy = PolicyName::parse("mail").unwrap();
        let (acme, globex) = (
            TenantName::parse("acme").unwrap(),
            TenantName::parse("globex").unwrap(),
        );
        let application = Access {
            subjects: true,
            tenants: vec![acme.clone()],
            ..rule()
        };
        let asks = |rules: &[Access], uid, subject, tenant: Option<&TenantName>| {
            let asked = Asked {
                subject,
                tenant,
                ..Asked::plain(&policy)
            };
            Access::admits(rules, &caller(uid), &asked)
        };
        let both = [application];
        assert!(asks(&both, 1000, true, Some(&acme)));
        assert!(!asks(&both, 1000, true, Some(&globex)));
        assert!(!asks(&both, 1001, true, None));
        assert!(!asks(&[rule()], 1000, true, None));
        assert!(!asks(&[rule()], 1000, false, Some(&acme)));
        assert!(asks(&[], 0, true, Some(&globex)));
    }

    #[test]
    fn root_could_change_the_rules_and_is_not_asked() {
        assert!(admits(0, &[], "other", &["amount"]));
    }
}
