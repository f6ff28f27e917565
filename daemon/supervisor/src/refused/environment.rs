//! Credentials in the command's environment. The launcher makes the rest of it anew, so what the
//! command memory file says is all that there is.

use std::os::fd::AsFd;

use custody_wire::{launch::COMMAND_CAP, refused::Refused};

use super::{Finding, credentials};

/// Looks through the sealed command (`custody_wire::launch::Role::Command`).
pub fn look(command: impl AsFd) -> Vec<Finding> {
    match custody_sys::memfd::read(command, COMMAND_CAP) {
        Ok(bytes) => found_in(&bytes),
        Err(error) => vec![Finding::unseen(
            Refused::EnvironmentCredential,
            "the command",
            &error,
        )],
    }
}

fn found_in(bytes: &[u8]) -> Vec<Finding> {
    let mut strings = bytes.split(|byte| *byte == 0);
    let arguments = strings
        .next()
        .and_then(|count| std::str::from_utf8(count).ok()?.parse().ok())
        .unwrap_or(usize::MAX);
    strings
        .skip(arguments)
        .filter_map(|variable| {
            let at = variable.iter().position(|byte| *byte == b'=')?;
            let (name, value) = variable.split_at_checked(at)?;
            let value = value.strip_prefix(b"=").unwrap_or(value);
            // Its name alone: the value is what nobody is to see.
            credentials::is_variable(name, value).then(|| {
                let name = String::from_utf8_lossy(name);
                Finding::new(Refused::EnvironmentCredential, format!("variable `{name}`"))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_with_a_credential_is_named_and_its_value_is_not() {
        let command =
            b"2\0true\0OPENAI_API_KEY=in-an-argument\0LANG=C\0OPENAI_API_KEY=fake-for-tests\0";
        let found = found_in(command);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].found, "variable `OPENAI_API_KEY`");
        assert!(found_in(b"1\0true\0LANG=C\0").is_empty());
    }

    #[test]
    fn what_is_not_a_sealed_command_counts_as_found() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(look(&file).len(), 1);
    }
}
