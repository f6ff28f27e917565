//! How much a session may have recorded, and what happens beyond.

use super::label::STEPS_MAX;

/// Budgets of one session's index.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Budget {
    /// Most bytes of memory, text and index together.
    pub memory: usize,
    /// Most bytes of text, decodings included. No more than [`Budget::TEXT_MAX`] counts.
    pub text: usize,
}

impl Budget {
    /// 16 MB of text, and three times that for text and index together.
    pub const DEFAULT: Self = Self {
        memory: 3 * 16_000_000,
        text: 16_000_000,
    };

    /// An index knows places up to here.
    pub const TEXT_MAX: usize = (1 << 24) - 1;
}

impl Default for Budget {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Why a session's index is closed. It stays closed: what was not recorded may be anywhere.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Saturated {
    /// A value is deeper than any that is parsed.
    #[error("a recorded value is nested deeper than {STEPS_MAX} levels")]
    Depth,
    /// The index is over its budget.
    #[error("the session's index would take more than {most} bytes of memory; start a new session")]
    Memory {
        /// The budget.
        most: usize,
    },
    /// The text is over its budget.
    #[error("the session has been shown more than {most} bytes of text; start a new session")]
    Text {
        /// The budget.
        most: usize,
    },
}

/// What a session's index takes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Usage {
    /// Text and index together, in bytes of memory.
    pub memory: usize,
    /// Bytes of text that were given to be recorded: strings, keys and numbers.
    pub recorded: usize,
    /// Bytes of text that are kept: each once, decodings included.
    pub text: usize,
}
