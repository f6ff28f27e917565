//! Errors and names in the words of messages.

use std::{collections::BTreeSet, io};

use custody_wire::layer::Status;

pub(super) use custody_service::reason::chain_of as chain;

/// The errno in an error's chain, 0 where there is none.
pub(super) fn errno_of(error: &(dyn std::error::Error + 'static)) -> i32 {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        if let Some(errno) = io.and_then(io::Error::raw_os_error) {
            return errno;
        }
        next = error.source();
    }
    0
}

/// How much of a layer holds, in a few words.
pub(super) fn status(status: &Status) -> String {
    match status {
        Status::Full => "full".into(),
        Status::None { step, errno } => {
            format!("none: {step}{}", super::standing::in_words(*errno))
        }
        Status::NotNeeded => "not needed".into(),
        Status::Partial { missing } => format!("partial, without {missing}"),
    }
}

/// Labels that a policy has, for a message.
pub(super) fn listed<T: ToString>(names: impl Iterator<Item = T>) -> String {
    let names: BTreeSet<String> = names
        .map(|name| format!("`{}`", name.to_string()))
        .collect();
    if names.is_empty() {
        "none".into()
    } else {
        names.into_iter().collect::<Vec<_>>().join(", ")
    }
}
