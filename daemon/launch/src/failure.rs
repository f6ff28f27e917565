//! What stopped the launch: the step, in the kernel's words, and its errno.

use std::io;

use custody_wire::{launch::Report, layer::Layer};

/// Why nothing was executed.
#[derive(Debug, thiserror::Error)]
#[error("{step}: errno {errno}")]
pub(crate) struct Failure {
    /// The layer that could not be had; none for a failure outside the layers.
    pub(crate) layer: Option<Layer>,
    /// A system call with its object, or a sentence where no call failed.
    pub(crate) step: String,
    /// errno(3), 0 where no call failed.
    pub(crate) errno: i32,
}

impl Failure {
    /// A refusal of ours: no call failed.
    pub(crate) fn refused(layer: Option<Layer>, why: String) -> Self {
        Self {
            layer,
            step: why,
            errno: 0,
        }
    }

    /// As a report for custodyd. The step is cut where a path makes it longer than a message.
    pub(crate) fn report(&self) -> Report {
        /// The longest path is 4096 bytes (PATH_MAX); far below the report's cap.
        const LONGEST: usize = 8192;
        Report::Failed {
            layer: self.layer,
            step: self.step.chars().take(LONGEST).collect(),
            errno: self.errno,
        }
    }
}

/// Names the step of an operation that failed.
pub(crate) trait Step<T> {
    /// As `step` of `layer`.
    fn of(self, layer: Layer, step: impl FnOnce() -> String) -> Result<T, Failure>;
    /// As `step`, outside the layers.
    fn step(self, step: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn of(self, layer: Layer, step: impl FnOnce() -> String) -> Result<T, Failure> {
        self.step(step).map_err(|failure| Failure {
            layer: Some(layer),
            ..failure
        })
    }

    fn step(self, step: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| {
            let error = error.into();
            match error.raw_os_error() {
                Some(errno) => Failure {
                    layer: None,
                    step: step(),
                    errno,
                },
                None => Failure::refused(None, format!("{}: {error}", step())),
            }
        })
    }
}
