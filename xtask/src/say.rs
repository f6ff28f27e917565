//! The printer: the one place that writes to the person's terminal.

use std::fmt::Display;

/// One line of what a command found or did.
#[expect(clippy::print_stdout, reason = "this is the printer")]
pub(crate) fn line(text: impl Display) {
    println!("{text}");
}

/// One line of what went wrong.
#[expect(clippy::print_stderr, reason = "this is the printer")]
pub(crate) fn error(text: impl Display) {
    eprintln!("{text}");
}

/// The head of a step.
pub(crate) fn step(text: impl Display) {
    line(format_args!("==> {text}"));
}
