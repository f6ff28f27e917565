//! custody-review: the reviewers' page.
//!
//! A browser on this host shows what `custody show` shows, from the same sheet, and sends what `custody
//! approve` sends. The program has a uid of its own and no rights: it asks custody-control with a ticket
//! that control gave to a reviewer at the control socket, and control does what that reviewer may. custodyd
//! makes its listener and its channel to control; it makes no socket and opens no file.
//!
//! | module | what |
//! |---|---|
//! | [`control`] | asks custody-control, with a reviewer's ticket |
//! | [`forms`] | what a form says, read strictly |
//! | [`guard`] | which requests are the page's own |
//! | [`html`] | HTML that no text can break out of |
//! | [`pages`] | the pages |
//! | [`serve`] | the listener and its limits |
//!
//! **Invariant:** no right of its own, no script, no state but what a browser and control hold. Text enters a
//! page through [`html::Html::text`] or an attribute's value, both escaped; tags are literals of this crate.
#![forbid(unsafe_code)]

pub mod control;
pub mod forms;
pub mod guard;
pub mod html;
pub mod pages;
pub mod serve;
