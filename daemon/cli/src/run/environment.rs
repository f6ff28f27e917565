//! The command and its environment, as they go to the session: made anew, never inherited.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
};

use anyhow::{Context as _, bail};
use custody_wire::launch::COMMAND_CAP;

/// What is taken from the caller's environment besides what he names: how to show text and time.
/// Of the locale the names of locale(7) and no other `LC_`: Proxmox puts a ticket into one.
const TAKEN: [&str; 17] = [
    "COLORTERM",
    "LANG",
    "LC_ADDRESS",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TIME",
    "TERM",
    "TZ",
];

/// In the name of a variable these say that a credential is in it.
const SECRETIVE: [&str; 7] = [
    "CREDENTIAL",
    "KEY",
    "PASSWD",
    "PASSWORD",
    "SECRET",
    "TOKEN",
    "AUTH",
];

/// An environment that was made anew.
#[derive(Debug)]
pub struct Made {
    environment: BTreeMap<OsString, OsString>,
    secretive: Vec<String>,
}

impl Made {
    /// Its variables, in the order of their names.
    pub const fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.environment
    }

    /// Those by name that seem to hold a credential.
    pub fn secretive(&self) -> &[String] {
        &self.secretive
    }
}

/// Of `inherited` what is always taken, and `more`, and what `named` adds.
///
/// # Errors
/// When a variable is not NAME or NAME=VALUE or is not there.
pub fn made(
    named: &[OsString],
    inherited: impl Iterator<Item = (OsString, OsString)>,
    more: &[&str],
) -> anyhow::Result<Made> {
    let inherited: BTreeMap<OsString, OsString> = inherited.collect();
    let mut environment: BTreeMap<OsString, OsString> = inherited
        .iter()
        .filter(|(name, _)| is_taken(name) || more.iter().any(|it| *it == name.as_os_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut secretive = Vec::new();
    for variable in named {
        let (name, value) = split(variable);
        let shown = name.to_string_lossy().into_owned();
        if name.is_empty() {
            bail!("--env needs a name, as in --env NAME or --env NAME=VALUE");
        }
        let value = match value {
            Some(value) => value.to_owned(),
            None => inherited.get(name).cloned().with_context(|| {
                format!("--env {shown}: there is no such variable in your environment")
            })?,
        };
        let upper = shown.to_ascii_uppercase();
        if SECRETIVE.iter().any(|part| upper.contains(part)) {
            secretive.push(shown);
        }
        environment.insert(name.to_owned(), value);
    }
    Ok(Made {
        environment,
        secretive,
    })
}

/// A command with its environment.
#[derive(Debug)]
pub struct Command {
    bytes: Vec<u8>,
    /// Variables by name that seem to hold a credential.
    pub secretive: Vec<String>,
}

impl Command {
    /// `arguments`, and an environment of what is taken from `inherited` and what `named` adds.
    ///
    /// # Errors
    /// When a variable is not NAME or NAME=VALUE or is not there, or all is too long.
    pub fn new(
        arguments: &[OsString],
        named: &[OsString],
        inherited: impl Iterator<Item = (OsString, OsString)>,
    ) -> anyhow::Result<Self> {
        let Made {
            environment,
            secretive,
        } = made(named, inherited, &[])?;

        let mut bytes = Vec::new();
        let mut string = |parts: &[&[u8]]| {
            for part in parts {
                bytes.extend_from_slice(part);
            }
            bytes.push(0);
        };
        string(&[arguments.len().to_string().as_bytes()]);
        for argument in arguments {
            string(&[argument.as_bytes()]);
        }
        for (name, value) in &environment {
            string(&[name.as_bytes(), b"=", value.as_bytes()]);
        }
        if bytes.len() > COMMAND_CAP {
            bail!(
                "the command and its environment have {} bytes; at most {COMMAND_CAP} are allowed",
                bytes.len()
            );
        }
        Ok(Self { bytes, secretive })
    }

    /// As the session gets it: a sealed memory file.
    ///
    /// # Errors
    /// When the kernel gives none.
    pub fn sealed(&self) -> anyhow::Result<OwnedFd> {
        custody_sys::memfd::sealed(c"command", &self.bytes).context("memfd_create(2)")
    }
}

fn is_taken(name: &OsStr) -> bool {
    TAKEN.iter().any(|taken| name == *taken)
}

fn split(variable: &OsStr) -> (&OsStr, Option<&OsStr>) {
    let bytes = variable.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        None => (variable, None),
        Some(at) => {
            let (name, value) = bytes.split_at_checked(at).unwrap_or((bytes, &[]));
            let value = value.strip_prefix(b"=").unwrap_or(value);
            (OsStr::from_bytes(name), Some(OsStr::from_bytes(value)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(named: &[&str]) -> anyhow::Result<Command> {
        let named: Vec<OsString> = named.iter().map(OsString::from).collect();
        let inherited = [
            ("HOME", "/root"),
            ("LANG", "C.UTF-8"),
            ("LC_PVE_TICKET", "fake-token-for-tests"),
            ("LC_TIME", "de_DE"),
            ("LD_PRELOAD", "/x.so"),
            ("OPENAI_API_KEY", "fake-token-for-tests"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("TERM", "xterm"),
        ]
        .map(|(name, value)| (name.into(), value.into()));
        Command::new(&["ls".into(), "-l".into()], &named, inherited.into_iter())
    }

    #[test]
    fn only_what_shows_text_and_time_is_taken_unasked() {
        let command = command(&[]).unwrap();
        assert_eq!(
            command.bytes,
            b"2\0ls\0-l\0LANG=C.UTF-8\0LC_TIME=de_DE\0TERM=xterm\0"
        );
        assert!(command.secretive.is_empty());
    }

    #[test]
    fn what_is_named_is_taken_or_set_and_a_credential_is_noticed() {
        let command = command(&["HOME", "A=b=c", "E=", "OPENAI_API_KEY", "TERM=dumb"]).unwrap();
        let text = String::from_utf8(command.bytes).unwrap();
        for part in ["HOME=/root\0", "A=b=c\0", "E=\0", "TERM=dumb\0"] {
            assert!(text.contains(part), "{text:?}");
        }
        assert!(!text.contains("xterm"));
        assert_eq!(command.secretive, ["OPENAI_API_KEY"]);
    }

    #[test]
    fn a_variable_that_is_not_there_or_has_no_name_is_refused() {
        assert!(command(&["NONE"]).unwrap_err().to_string().contains("NONE"));
        assert!(command(&["=x"]).is_err());
    }

    #[test]
    fn too_much_is_refused() {
        let long = vec![OsString::from("x".repeat(COMMAND_CAP))];
        assert!(Command::new(&long, &[], std::iter::empty()).is_err());
    }
}
