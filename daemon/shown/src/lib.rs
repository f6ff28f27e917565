//! What a reviewer is shown of a call that waits: the same in the terminal and on the page.
//!
//! | module | what |
//! |---|---|
//! | [`inert`] | foreign text that does nothing |
//! | [`sheet`] | a call on one sheet: its own values, where they come from, why it waits |
//! | [`words`] | times and spans for people |
//!
//! **Invariant:** the digest is taken here from the bytes that are shown, and where it is not the one that
//! the service says there is no sheet. Every text on a sheet is inert: plain characters without controls,
//! marks that turn or hide text, or line ends. It is still text: whoever writes HTML escapes it.
#![forbid(unsafe_code)]

pub mod inert;
pub mod sheet;
pub mod words;

pub use sheet::{Sheet, SheetError};
