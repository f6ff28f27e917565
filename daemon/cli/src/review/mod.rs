//! `custody pending`, `show`, `approve`, `refuse`, `review`: the reviewer's side.
//!
//! What is approved is the digest that this program takes from the bytes that it shows; the service's own
//! word for it is compared, never used.

pub mod answer;
pub mod list;
pub mod sign;
pub mod terminal;
pub mod walk;

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;
use custody_shown::Sheet;
use custody_wire::operator::{Answer, Request, Shown};
use gate::id::SessionId;

use crate::connect::Control;

/// A call, and its sheet.
///
/// # Errors
/// When there is none that the caller may see, or its bytes are not those of its digest.
pub(crate) fn fetch(
    control: &mut Control,
    pending: u64,
    session: Option<SessionId>,
) -> anyhow::Result<(Box<Shown>, Sheet)> {
    let Answer::Shown(shown) = control.ask(&Request::Show { pending, session })? else {
        bail!(crate::list::UNEXPECTED);
    };
    let sheet = Sheet::of(&shown, now())?;
    Ok((shown, sheet))
}

/// In milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}
