//! The compiled policies, each with its digest.

use std::{collections::BTreeMap, path::Path, rc::Rc};

use custody_service::policies::{self, PoliciesError};
use gate::{digest::Digest, id::PolicyName, policy::Policy};

/// A policy with its digest, which is taken once.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) policy: Policy,
    pub(crate) hash: Digest,
}

/// The policies by name.
pub(crate) type Policies = BTreeMap<PolicyName, Rc<Loaded>>;

/// Loads every policy in `folder`, which must be `owner`'s.
pub(crate) fn load(folder: &Path, owner: u32) -> Result<Policies, PoliciesError> {
    let policies = policies::load(folder, owner)?;
    let loaded = |(name, policy): (PolicyName, Policy)| {
        let hash = policy.hash();
        (name, Rc::new(Loaded { policy, hash }))
    };
    Ok(policies.into_iter().map(loaded).collect())
}
