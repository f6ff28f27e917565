//! Boot time in a signed form.

use alloc::string::{String, ToString as _};

use serde::{Deserialize, Serialize};

/// Nanoseconds of CLOCK_BOOTTIME (clock_gettime(2)). The text form is decimal digits: a JSON number
/// would lose bits after 104 days (2^53 ns).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct BootNanos(pub u64);

/// Why a text is not [`BootNanos`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("boot time is decimal digits, without a sign or a leading zero")]
pub struct BootNanosError;

impl From<BootNanos> for String {
    fn from(nanos: BootNanos) -> Self {
        nanos.0.to_string()
    }
}

impl TryFrom<String> for BootNanos {
    type Error = BootNanosError;

    fn try_from(text: String) -> Result<Self, BootNanosError> {
        match text.parse::<u64>() {
            // One number has one text.
            Ok(nanos) if nanos.to_string() == text => Ok(Self(nanos)),
            Ok(_) | Err(_) => Err(BootNanosError),
        }
    }
}
