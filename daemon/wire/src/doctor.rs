//! `custody doctor`: the session that it starts, and forgets.
//!
//! The session is an ordinary one under a built-in policy that gives no tool; its command can be no
//! other than [`PROGRAM`] with [`ARGUMENT`], and it has no workspace and no terminal. So whoever some
//! rule admits to anything may have it, one at a time. The program tries what a session must not be able
//! to do and prints one line for each attempt: its name, a tab, and the errno of the kernel's answer, 0
//! where it succeeded.

use crate::launch::PROGRAMS;

/// The built-in policy. A file of this name in the policies' folder is not taken.
pub const POLICY: &str = "custody-doctor";

/// Its text: what is weakest, so that a session may be asked to be anything.
pub const POLICY_TEXT: &str = "format = 1\n\n[session]\nprofile = \"dev\"\n";

/// The program in a session's folder, below [`PROGRAMS`].
pub const PROGRAM: &str = "custody-bridge";

/// Its argument.
pub const ARGUMENT: &str = "doctor";

/// The most bytes that it prints.
pub const PRINTED_MAX: usize = 16 << 10;

/// The command of such a session (`crate::launch::Role::Command`).
pub fn command() -> Vec<u8> {
    format!("2\0{PROGRAMS}/{PROGRAM}\0{ARGUMENT}\0").into_bytes()
}
