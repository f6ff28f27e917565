//! Approvals through the whole service: a confined agent's call waits, a reviewer answers in a terminal of
//! his own, and the effect's server says what came of it.
#![cfg(test)] // a helper may unwrap like the tests that it helps

mod answers;
#[path = "../../../daemon/review/tests/page/driver.rs"]
mod browser;
mod desk;
mod ends;
mod many;
mod page;
mod scopes;
mod signed;
mod terminal;
