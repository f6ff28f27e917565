//! Names and numbers that cannot be wrong: each is parsed once, at the edge.

use alloc::string::String;
use core::{borrow::Borrow, fmt};

use serde::{Deserialize, Serialize};

/// Why a text is not a name.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameError {
    /// A byte outside the alphabet.
    #[error("`{name}` contains {found:?}; only a-z, 0-9, `_` and `-` are allowed")]
    BadCharacter {
        /// The text, as given.
        name: String,
        /// The first character that is not allowed.
        found: char,
    },
    /// The first character is not a letter.
    #[error("`{name}` must start with a letter a-z")]
    BadStart {
        /// The text, as given.
        name: String,
    },
    /// No character at all.
    #[error("a name is empty")]
    Empty,
    /// More than [`NAME_MAX`] bytes.
    #[error("a name has {len} bytes; at most {NAME_MAX} are allowed")]
    TooLong {
        /// How many it has.
        len: usize,
    },
}

/// The longest name in bytes: one cgroup directory, one systemd credential and one log field
/// hold it whole (each takes 255 at least, and we add prefixes).
pub const NAME_MAX: usize = 64;

fn check(name: &str) -> Result<(), NameError> {
    if name.len() > NAME_MAX {
        return Err(NameError::TooLong { len: name.len() });
    }
    match name.chars().next() {
        None => return Err(NameError::Empty),
        Some('a'..='z') => {}
        Some(_) => return Err(NameError::BadStart { name: name.into() }),
    }
    match name
        .chars()
        .find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '_' | '-'))
    {
        Some(found) => Err(NameError::BadCharacter {
            name: name.into(),
            found,
        }),
        None => Ok(()),
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// 1 to 64 of `a-z 0-9 _ -`, starting with a letter.
        #[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Parses `name`.
            ///
            /// # Errors
            /// When `name` is not of the form above.
            pub fn parse(name: &str) -> Result<Self, NameError> {
                check(name)?;
                Ok(Self(name.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(name: String) -> Result<Self, NameError> {
                check(&name)?;
                Ok(Self(name))
            }
        }

        // Ordered and compared as its text is: a map of names is asked with plain text.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// Name of an argument of a tool, or of a member of an object.
    ArgumentName;
    /// Name of a closed catalogue.
    CatalogueName;
    /// Label of a credential. Labels are said freely; values never.
    CredentialLabel;
    /// Name of an owned set: values that the application holds for the subject.
    OwnedName;
    /// Name of a policy: the file `NAME.toml` of the policy directory.
    PolicyName;
    /// Name of a role that a session may have.
    RoleName;
    /// Name of a tenant: in whose name a session works.
    TenantName;
    /// Name of a tool. Compared byte by byte: no case folding, no Unicode.
    ToolName;
    /// Name of a trusted value that the application supplies for a session.
    ValueName;
}

/// One confined run of one agent. Drawn at random by `custody-control`, unique on this host;
/// its text form is 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Why a text is not a [`SessionId`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a session id is 16 hexadecimal digits in lower case")]
pub struct SessionIdError;

impl SessionId {
    /// Parses the text form.
    ///
    /// # Errors
    /// When `text` is not 16 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Result<Self, SessionIdError> {
        let plain =
            text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !plain {
            return Err(SessionIdError);
        }
        u64::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_not_hex| SessionIdError)
    }
}

impl Serialize for SessionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    #[test]
    fn a_name_is_plain_ascii_that_starts_with_a_letter() {
        assert!(ToolName::parse("send_message").is_ok());
        for bad in [
            "",
            "Send",
            "9a",
            "a b",
            "a\0",
            "sеnd",
            "a/b",
            &"a".repeat(65),
        ] {
            assert!(ToolName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_session_id_survives_its_text_and_nothing_else_parses() {
        let id = SessionId(0x0123_4567_89ab_cdef);
        assert_eq!(SessionId::parse(&id.to_string()), Ok(id));
        for bad in [
            "",
            "0",
            "0123456789ABCDEF",
            "+123456789abcdef",
            "0123456789abcdef0",
        ] {
            assert_eq!(SessionId::parse(bad), Err(SessionIdError), "{bad:?}");
        }
    }
}
