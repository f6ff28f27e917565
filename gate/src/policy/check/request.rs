//! The request's template: literal where it decides where a request goes, and on the floor.

use alloc::string::String;

use super::{
    header::{Use, forbidden},
    range,
};
use crate::{
    floor,
    policy::{Credential, Problem, Tool, error::Fault},
    request::{Template, is_header_value},
    template::{Part, Text},
};

pub(super) fn request(template: &Template, credential: &Credential) -> Result<(), Fault> {
    // Whole, what reaches an agent at most (`custody_wire::agent::RESULT_CAP`); a stream is held by nobody,
    // and its lease ends with the hour.
    let (most_ms, most_bytes) = if template.stream {
        (3_600_000, 1 << 30)
    } else {
        (600_000, 1 << 20)
    };
    range(template.timeout_ms, 1, most_ms, &["timeout_ms"])?;
    range(
        template.answer_max_bytes,
        1,
        most_bytes,
        &["answer_max_bytes"],
    )?;
    if template.body.is_some() && !template.method.has_body() {
        return Err(Problem::Body {
            method: template.method,
        }
        .at(&["body"]));
    }
    path(template).map_err(|it| it.at(&["url"]))?;
    for (name, value) in &template.query {
        let plain = |text: &str| {
            text.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
        };
        if name.is_empty() || !plain(name) {
            return Err(Problem::Query { text: name.clone() }.at(&["url"]));
        }
        if let Some(text) = literals(value).find(|it| !plain(it)) {
            return Err(Problem::Query { text: text.into() }.at(&["url"]));
        }
    }
    for (name, text) in &template.headers {
        let key = ["headers", name.as_str()];
        forbidden(name, Use::Template).map_err(|it| it.at(&key))?;
        if *name == credential.placement.header {
            return Err(Problem::Header {
                header: name.clone(),
                why: "is where the credential goes; leave it out",
            }
            .at(&key));
        }
        let whole = text.literal().is_none_or(is_header_value);
        let ascii = literals(text).all(|it| it.bytes().all(|b| matches!(b, b' '..=b'~')));
        if !whole || !ascii {
            return Err(Problem::HeaderValue.at(&key));
        }
    }
    Ok(())
}

/// Every literal piece of a segment is `pchar`; only the last segment may be empty.
fn path(template: &Template) -> Result<(), Problem> {
    let shown = shown_path(template);
    let not_one = |why| Problem::Path(why);
    let last = template.path.len().saturating_sub(1);
    if template.path.is_empty() {
        return Err(not_one(floor::PathError::Start { path: shown }));
    }
    for (index, segment) in template.path.iter().enumerate() {
        match segment.literal() {
            Some("") if index != last => {
                return Err(not_one(floor::PathError::Empty { path: shown }));
            }
            Some(text) => floor::check_literal(&shown, text).map_err(not_one)?,
            None => {
                for text in literals(segment) {
                    // `.` beside an argument is looked at again when it is filled.
                    if !matches!(text, "." | "..") {
                        floor::check_literal(&shown, text).map_err(not_one)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn literals(text: &Text) -> impl Iterator<Item = &str> {
    text.parts().iter().filter_map(|part| match part {
        Part::Argument(_) => None,
        Part::Literal(text) => Some(text.as_str()),
    })
}

fn shown_path(template: &Template) -> String {
    template.path.iter().fold(String::new(), |mut path, it| {
        path.push('/');
        path.push_str(it.literal().unwrap_or("{}"));
        path
    })
}

pub(super) fn on_floor(tool: &Tool, credential: &Credential) -> Result<(), Fault> {
    template_on_floor(&tool.request, tool, credential)
}

/// The same of another request that `tool` makes.
pub(super) fn template_on_floor(
    template: &Template,
    tool: &Tool,
    credential: &Credential,
) -> Result<(), Fault> {
    let floor = &credential.floor;
    if !floor.origins.contains(&template.origin) {
        return Err(Problem::FloorOrigin {
            origin: template.origin.clone(),
            credential: tool.credential.clone(),
        }
        .at(&["url"]));
    }
    if !floor.methods.contains(&template.method) {
        return Err(Problem::FloorMethod {
            method: template.method,
            credential: tool.credential.clone(),
        }
        .at(&["method"]));
    }
    let fits = floor
        .paths
        .iter()
        .any(|it| it.admits(template.path.iter().map(Text::literal)));
    if !fits {
        return Err(Problem::FloorPath {
            path: shown_path(template),
            credential: tool.credential.clone(),
        }
        .at(&["url"]));
    }
    Ok(())
}
