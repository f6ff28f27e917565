//! Who is at the other end, and what the rules let him do.

use std::{io, os::fd::AsFd};

use custody_config::{Access, Asked, Caller, Review, Uids};
use custody_wire::operator;
use gate::id::PolicyName;

/// Why a caller may not.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotAllowed {
    /// His uid is one of those that sessions and workers get.
    #[error("uid {uid} is reserved for sessions; nothing inside a session may ask for another")]
    Inside {
        /// His uid.
        uid: u32,
    },
    /// No rule lets him use the policy.
    #[error(
        "uid {uid} may not use policy `{policy}`; an `[[access]]` rule of custodyd.toml says who may"
    )]
    Policy {
        /// His uid.
        uid: u32,
        /// The policy.
        policy: PolicyName,
    },
    /// No rule lets him use the policy and set all of these.
    #[error(
        "uid {uid} may use policy `{policy}` but not set {names} with it; an `[[access]]` rule of \
         custodyd.toml says which values and owned sets"
    )]
    Values {
        /// His uid.
        uid: u32,
        /// The policy.
        policy: PolicyName,
        /// What he wants to set.
        names: String,
    },
}

/// What a caller is, in the eyes of the rules.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Standing {
    /// Some rule lets him use some policy, or review some call.
    Operator,
    /// He may do everything.
    Root,
    /// He may see that the service runs, and nothing else.
    Stranger,
}

/// What `caller` is.
pub fn standing(rules: &[Access], reviews: &[Review], caller: &Caller) -> Standing {
    match caller.uid {
        0 => Standing::Root,
        _ if may_anything(rules, caller) => Standing::Operator,
        _ if reviews.iter().any(|rule| rule.covers(caller)) => Standing::Operator,
        _ => Standing::Stranger,
    }
}

/// Who connected, as the kernel noted at connect(2).
///
/// # Errors
/// When getsockopt(2) fails.
pub fn at(socket: impl AsFd) -> io::Result<Caller> {
    let peer = custody_sys::peer::credentials(&socket)?;
    let mut gids = custody_sys::peer::groups(&socket)?;
    gids.push(peer.gid);
    Ok(Caller {
        uid: peer.uid,
        gids,
    })
}

/// Whether `caller` may ask for anything at all.
///
/// # Errors
/// When he has a session's uid: a second lock, for no session reaches this socket.
pub const fn outside(uids: &Uids, caller: &Caller) -> Result<(), NotAllowed> {
    let uid = caller.uid;
    if uids.agents.contains(uid) || uids.fronts.contains(uid) || uids.workers.contains(uid) {
        Err(NotAllowed::Inside { uid })
    } else {
        Ok(())
    }
}

/// Whether the rules let `caller` use `policy` and say what `request` says.
///
/// # Errors
/// When they do not.
pub fn may_run(
    rules: &[Access],
    caller: &Caller,
    policy: &PolicyName,
    request: &operator::Run,
) -> Result<(), NotAllowed> {
    let asked = Asked {
        policy,
        values: request.values.keys().collect(),
        owned: request.owned.keys().collect(),
        subject: request.subject.is_some(),
        tenant: request.tenant.as_ref(),
    };
    if Access::admits(rules, caller, &asked) {
        return Ok(());
    }
    if !may_use(rules, caller, policy) {
        return Err(NotAllowed::Policy {
            uid: caller.uid,
            policy: policy.clone(),
        });
    }
    let names: Vec<String> = asked
        .values
        .iter()
        .map(|name| format!("`{name}`"))
        .chain(asked.owned.iter().map(|name| format!("`{name}`")))
        .chain(asked.subject.then(|| "a subject".into()))
        .chain(asked.tenant.map(|name| format!("tenant `{name}`")))
        .collect();
    Err(NotAllowed::Values {
        uid: caller.uid,
        policy: policy.clone(),
        names: names.join(", "),
    })
}

/// Whether the rules let `caller` use `policy` at all.
pub fn may_use(rules: &[Access], caller: &Caller, policy: &PolicyName) -> bool {
    Access::admits(rules, caller, &Asked::plain(policy))
}

/// Whether some rule lets `caller` use any policy.
pub fn may_anything(rules: &[Access], caller: &Caller) -> bool {
    let gives = |rule: &Access| rule.covers(caller) && !rule.policies.is_empty();
    caller.uid == 0 || rules.iter().any(gives)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_of_a_pair_is_this_process_with_its_groups() {
        let (a, _b) = custody_sys::channel::pair_stream().unwrap();
        let caller = at(&a).unwrap();
        assert_eq!(caller.uid, nix::unistd::geteuid().as_raw());
        assert!(caller.gids.contains(&nix::unistd::getegid().as_raw()));
    }

    #[test]
    fn a_sessions_uid_may_ask_for_nothing() {
        let uids = Uids::default();
        let caller = |uid| Caller {
            uid,
            gids: Vec::new(),
        };
        outside(&uids, &caller(1000)).unwrap();
        for range in [uids.agents, uids.fronts, uids.workers] {
            assert!(outside(&uids, &caller(range.first)).is_err());
        }
    }
}
