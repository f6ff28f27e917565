//! The second key: what a reviewer signed, verified here and not by the gate's word.
//!
//! Which calls need it says the policy, which the vault reads for itself. A statement is spent like a
//! permit: once, in this run of the vault, and it names the run.

use custody_wire::session::Signed;
use gate::{
    approval::{self, Expect, Needs, SshSigError, Statement, StatementError},
    call::Call,
    nonce::Nonce,
    permit::Verified,
    policy::Policy,
    record,
};

use crate::{spent::SpendError, vault::Vault};

/// The most statements that are remembered: each is of a person's hand, and lives a day at most.
pub(crate) const STATEMENTS_MAX: usize = 100_000;

/// Why a call is not let through for what a reviewer signed, or did not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unapproved {
    #[error("the permit names another statement than the one beside it")]
    Another,
    #[error("the permit names a statement, and none is beside it")]
    Missing,
    #[error("a reviewer signs each call like this one, and this one nobody signed")]
    Needed,
    #[error("{0}")]
    Signature(SshSigError),
    #[error("{0}")]
    Statement(StatementError),
    #[error("the statement was used before; what is signed is done once")]
    Spent,
    #[error("{most} statements were used within their lifetime; try again later")]
    TooMany { most: usize },
    #[error("the permit names no statement, and one is beside it")]
    Unnamed,
}

/// Who approved the permitted call, if it needs somebody or somebody is named; and spends what he signed.
/// To be asked last: what is refused for another reason is signed for still.
pub(crate) fn check(
    vault: &Vault,
    policy: &Policy,
    permit: &Verified,
    call: &Call,
    signed: Option<&Signed>,
) -> Result<Option<record::Approval>, Unapproved> {
    let needed = approval::needs(policy, call) == Needs::Signature;
    let (named, signed) = match (permit.approval(), signed) {
        (Some(named), Some(signed)) => (named, signed),
        (Some(_), None) => return Err(Unapproved::Missing),
        (None, Some(_)) => return Err(Unapproved::Unnamed),
        (None, None) if needed => return Err(Unapproved::Needed),
        (None, None) => return Ok(None),
    };
    if Statement::digest_of(&signed.statement) != named {
        return Err(Unapproved::Another);
    }
    let statement = Statement::read(&signed.statement).map_err(Unapproved::Statement)?;
    let now_ms = vault.unix_ms();
    let expect = Expect {
        audience: vault.audience,
        epoch: Nonce(vault.epoch),
        call: permit.call(),
        session: permit.session(),
        policy: permit.policy(),
        tool: permit.tool(),
        now_ms,
    };
    statement.admit(&expect).map_err(Unapproved::Statement)?;
    statement.is_single().map_err(Unapproved::Statement)?;
    let reviewers = vault.reviewers.borrow();
    let key = approval::verify(&signed.signature, &signed.statement, reviewers.keys())
        .map_err(Unapproved::Signature)?;
    let now = vault.clock.boot_ns();
    let left_ms = statement.expires.saturating_sub(now_ms);
    let expires = now.saturating_add(left_ms.saturating_mul(1_000_000));
    vault
        .statements
        .borrow_mut()
        .spend(statement.nonce.0, expires, now)
        .map_err(|error| match error {
            SpendError::Again => Unapproved::Spent,
            SpendError::Full { most } => Unapproved::TooMany { most },
        })?;
    Ok(Some(record::Approval {
        key: Some(key.fingerprint()),
        statement: named,
    }))
}
