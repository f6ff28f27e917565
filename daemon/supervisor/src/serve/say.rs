//! Errors and names in the words of messages.

use std::{collections::BTreeSet, io};

use custody_wire::layer::Status;

/// An error with everything that it rests on, in one line: a path in it may hold a newline.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = escaped.is_none().then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_whatever_a_path_in_it_holds() {
        let forged = io::Error::other("`/mnt/a\n2026 INFO ledger head position=99` is not it");
        let said = chain(&forged);
        assert!(!said.contains('\n') && said.contains("\\n2026"), "{said}");
    }
}
