//! Which header fields a policy may name.

use crate::{policy::Problem, request::CONNECTOR_FIELDS};

/// What a field is named for.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Use {
    Placement,
    Template,
}

/// Fields that decide where a message ends, what it is for or who sends it are not a policy's.
pub(super) fn forbidden(header: &str, used: Use) -> Result<(), Problem> {
    let refuse = |why| {
        Err(Problem::Header {
            header: header.into(),
            why,
        })
    };
    // `token` (RFC 9110, 5.6.2), lower case.
    let token = !header.is_empty()
        && header
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9') || b"!#$%&'*+-.^_`|~".contains(&b));
    if !token {
        return refuse("is not a header field's name");
    }
    if CONNECTOR_FIELDS.contains(&header) {
        return refuse("is the connector's to set; leave it out");
    }
    match header {
        "content-type" => refuse("is set to application/json where there is a body; leave it out"),
        "authorization" | "cookie" if used == Use::Template => {
            refuse("carries a credential; name it as the credential's placement instead")
        }
        _ => Ok(()),
    }
}
