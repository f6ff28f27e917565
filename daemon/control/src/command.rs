//! The command's memory file: sealed, so that it cannot change after this; small enough; well
//! formed (`custody_wire::launch::Role::Command`).

use std::{io, os::fd::AsFd};

use custody_wire::launch::COMMAND_CAP;

/// Why a command is not taken.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It is not a list of strings as agreed.
    #[error("the command is malformed: {why}")]
    Form {
        /// What is wrong.
        why: &'static str,
    },
    /// It is not sealed, too long, or cannot be read.
    #[error("the command's memory file is not taken: {why}")]
    Read {
        /// Why.
        why: io::Error,
    },
}

/// Checks the command in `fd`. custody-launch reads the same bytes: the seals keep them.
///
/// # Errors
/// See [`CommandError`].
pub fn check(fd: impl AsFd) -> Result<(), CommandError> {
    let bytes =
        custody_sys::memfd::read(fd, COMMAND_CAP).map_err(|why| CommandError::Read { why })?;
    form(&bytes).map_err(|why| CommandError::Form { why })
}

fn form(bytes: &[u8]) -> Result<(), &'static str> {
    let Some((0, text)) = bytes.split_last() else {
        return Err("it does not end with a NUL");
    };
    let mut strings = text.split(|byte| *byte == 0);
    let count = strings
        .next()
        .and_then(|count| std::str::from_utf8(count).ok())
        .filter(|count| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|count| count.parse::<usize>().ok())
        .ok_or("it does not begin with the count of arguments")?;
    if count == 0 {
        return Err("it has no arguments");
    }
    let mut arguments = strings.by_ref().take(count);
    match arguments.next() {
        None => return Err("arguments are missing"),
        Some([]) => return Err("the program's name is empty"),
        Some(_) => {}
    }
    if arguments.count() != count.saturating_sub(1) {
        return Err("arguments are missing");
    }
    for variable in strings {
        match variable.iter().position(|byte| *byte == b'=') {
            None | Some(0) => return Err("an environment variable is not NAME=VALUE"),
            Some(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_its_count_its_arguments_and_its_environment() {
        for good in [&b"1\0true\0"[..], b"2\0echo\0\0", b"1\0a\0A=\0B=c=d\0"] {
            form(good).unwrap();
        }
        for bad in [
            &b""[..],
            b"1\0true",
            b"\0",
            b"0\0",
            b"1\0",
            b"1\0\0",
            b"3\0a\0b\0",
            b"+1\0a\0",
            b"99999999999999999999999\0a\0",
            b"1\0a\0B\0",
            b"1\0a\0=b\0",
        ] {
            form(bad).unwrap_err();
        }
    }

    #[test]
    fn the_doctors_command_is_well_formed() {
        form(&custody_wire::doctor::command()).unwrap();
    }

    #[test]
    fn only_a_sealed_memory_file_is_a_command() {
        let sealed = custody_sys::memfd::sealed(c"command", b"1\0true\0").unwrap();
        check(&sealed).unwrap();
        let mut plain = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut plain, b"1\0true\0").unwrap();
        assert!(matches!(check(&plain), Err(CommandError::Read { .. })));
        let malformed = custody_sys::memfd::sealed(c"command", b"true").unwrap();
        assert!(matches!(check(&malformed), Err(CommandError::Form { .. })));
        let huge = custody_sys::memfd::sealed(c"command", &vec![b'x'; COMMAND_CAP + 1]).unwrap();
        assert!(matches!(check(&huge), Err(CommandError::Read { .. })));
    }
}
