//! The floor of a credential: where it may be sent. No permit lifts it.

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};
use core::{fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::{
    address::Addresses,
    mutant::Mutant,
    origin::Origin,
    request::{HttpRequest, Method},
};

/// Where a credential may be sent.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// Which addresses a host may resolve to.
    pub addresses: Addresses,
    /// With which methods.
    pub methods: Vec<Method>,
    /// To which origins.
    pub origins: Vec<Origin>,
    /// On which paths.
    pub paths: Vec<PathPattern>,
}

/// Why a request does not stand on the floor.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FloorError {
    /// Another method.
    #[error("the credential's floor does not have method {method}")]
    Method {
        /// The method.
        method: Method,
    },
    /// Another host.
    #[error("the credential's floor does not have origin `{origin}`")]
    Origin {
        /// The origin.
        origin: Origin,
    },
    /// Another path.
    #[error("the credential's floor has no path that matches `{path}`")]
    Path {
        /// The path, shortened and escaped.
        path: String,
    },
}

/// Checks that `request` stands on `floor`.
///
/// # Errors
/// When the floor has not its origin, its method or its path.
pub fn check(floor: &Floor, request: &HttpRequest) -> Result<(), FloorError> {
    if Mutant::GateFloor.is_on() {
        return Ok(());
    }
    if !floor.origins.contains(&request.origin) {
        return Err(FloorError::Origin {
            origin: request.origin.clone(),
        });
    }
    if !floor.methods.contains(&request.method) {
        return Err(FloorError::Method {
            method: request.method,
        });
    }
    let path = request.path();
    if floor.paths.iter().any(|it| it.matches(path)) {
        Ok(())
    } else {
        Err(FloorError::Path {
            path: crate::excerpt::excerpt(path),
        })
    }
}

impl Floor {
    /// Whether a worker may connect to `address`.
    pub fn admits_address(&self, address: IpAddr) -> bool {
        self.addresses.admits(address)
    }
}

/// A path with holes: `/v1/pages/{}/publish`. A `{}` is exactly one segment.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathPattern(Vec<Segment>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Segment {
    Any,
    Literal(String),
}

/// Why a text is not a [`PathPattern`] or the path of a URL.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PathError {
    /// A character that a literal segment may not have.
    #[error(
        "`{path}` has {found:?} in a path; letters, digits and `-._~!$&'()*+,;=:@` are allowed, \
         and `{{}}` as a whole segment in a floor"
    )]
    Character {
        /// The text.
        path: String,
        /// The first character that is not allowed.
        found: char,
    },
    /// `.` or `..`, alone or before a `;`.
    #[error(
        "`{path}` has a segment `.` or `..`, alone or before a `;`; servers take these for another \
         path"
    )]
    Dots {
        /// The text.
        path: String,
    },
    /// An empty segment that is not the last.
    #[error("`{path}` has an empty segment (`//`)")]
    Empty {
        /// The text.
        path: String,
    },
    /// It does not start with a slash.
    #[error("`{path}` must start with `/`")]
    Start {
        /// The text.
        path: String,
    },
}

impl PathPattern {
    /// Parses the text form.
    ///
    /// # Errors
    /// When `text` is not a path of literal segments and `{}`.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        segments(text)?
            .map(|segment| match segment {
                "{}" => Ok(Segment::Any),
                literal => {
                    check_literal(text, literal)?;
                    Ok(Segment::Literal(literal.into()))
                }
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether the percent-encoded `path` of a request is one of these.
    pub fn matches(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix('/') else {
            return false;
        };
        let mut wanted = self.0.iter();
        let fits = rest.split('/').all(|segment| match wanted.next() {
            None => false,
            Some(Segment::Any) => is_one_segment(segment),
            Some(Segment::Literal(literal)) => literal == segment,
        });
        fits && wanted.next().is_none()
    }

    /// Whether every path of a template fits, where `None` is a segment with an argument in it.
    pub(crate) fn admits<'a>(&self, template: impl Iterator<Item = Option<&'a str>>) -> bool {
        let mut wanted = self.0.iter();
        let mut template = template;
        let fits = template.all(|segment| match (wanted.next(), segment) {
            (None, _) | (Some(Segment::Literal(_)), None) => false,
            (Some(Segment::Any), None) => true,
            (Some(Segment::Any), Some(text)) => is_one_segment(text),
            (Some(Segment::Literal(literal)), Some(text)) => literal == text,
        });
        fits && wanted.next().is_none()
    }
}

/// The segments of `path`, which starts with a slash and has no empty segment but the last.
pub(crate) fn segments(path: &str) -> Result<core::str::Split<'_, char>, PathError> {
    let Some(rest) = path.strip_prefix('/') else {
        return Err(PathError::Start { path: path.into() });
    };
    if rest.starts_with('/') || rest.contains("//") {
        return Err(PathError::Empty { path: path.into() });
    }
    Ok(rest.split('/'))
}

/// Holds a literal segment to `pchar` without percent-encoding (RFC 3986, 3.3).
pub(crate) fn check_literal(path: &str, segment: &str) -> Result<(), PathError> {
    if !segment.is_empty() && climbs(segment) {
        return Err(PathError::Dots { path: path.into() });
    }
    match segment
        .chars()
        .find(|&c| !c.is_ascii_alphanumeric() && !"-._~!$&'()*+,;=:@".contains(c))
    {
        Some(found) => Err(PathError::Character {
            path: path.into(),
            found,
        }),
        None => Ok(()),
    }
}

/// Whether a decoded segment is nothing, `.` or `..` to a server that cuts parameters off at the
/// first `;` (RFC 3986, 3.3; Java servlet containers) before it resolves dots.
pub(crate) fn climbs(segment: &str) -> bool {
    let (before, _parameters) = segment.split_once(';').unwrap_or((segment, ""));
    matches!(before, "" | "." | "..")
}

/// Whether a percent-encoded segment stays one segment in every server that we know of: it is not
/// empty, not `.` or `..`, not even before a `;`, is UTF-8, and hides no `/`, `\`, `.`, `%` or control behind an encoding.
fn is_one_segment(segment: &str) -> bool {
    let mut plain = Vec::new();
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            plain.push(byte);
            continue;
        }
        let (Some(high), Some(low)) = (bytes.next(), bytes.next()) else {
            return false;
        };
        let mut hidden = [0];
        if hex::decode_to_slice([high, low], &mut hidden).is_err()
            || matches!(hidden, [b'.' | b'%'])
        {
            return false;
        }
        plain.extend(hidden);
    }
    core::str::from_utf8(&plain).is_ok_and(|text| {
        !climbs(text) && !text.contains(['/', '\\']) && !text.contains(char::is_control)
    })
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|segment| match segment {
            Segment::Any => f.write_str("/{}"),
            Segment::Literal(text) => write!(f, "/{text}"),
        })
    }
}

impl From<PathPattern> for String {
    fn from(pattern: PathPattern) -> Self {
        pattern.to_string()
    }
}

impl TryFrom<String> for PathPattern {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, PathError> {
        Self::parse(&text)
    }
}
