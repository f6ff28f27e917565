//! From a permitted call to the bytes of one HTTP request (RFC 9110), without the credential.
//!
//! The host is literal; a value from a call can fill one segment, one query value, one header
//! value or one JSON value, and never becomes more than that.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    floor::climbs,
    id::ArgumentName,
    json::{self, Value},
    mutant::Mutant,
    origin::Origin,
    policy::{Misfit, Policy, Tool},
    template::{Body, Part, Text, scalar},
};

/// A method (RFC 9110, 9; RFC 5789).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// DELETE.
    Delete,
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// PATCH.
    Patch,
    /// POST.
    Post,
    /// PUT.
    Put,
}

impl Method {
    /// The method as it is sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "DELETE",
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Patch => "PATCH",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }

    /// Whether a request with this method may have a body.
    pub const fn has_body(self) -> bool {
        match self {
            Self::Delete | Self::Get | Self::Head => false,
            Self::Patch | Self::Post | Self::Put => true,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The header fields that the connector keeps for itself: they frame the request or route it, or
/// change how the answer is written so that a credential echoed in it would not be found. `range`
/// would cut an echo into harmless pieces. A policy that names one is refused, and a worker sends none
/// that is named.
pub const CONNECTOR_FIELDS: [&str; 16] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "if-range",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The header field by which a target knows a request again (draft-ietf-httpapi-idempotency-key-header).
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The header field that makes a request conditional on a version (RFC 9110, section 13.1.1).
pub const IF_MATCH: &str = "if-match";

/// How a tool's call becomes a request.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The most bytes of the answer's body.
    pub answer_max_bytes: u32,
    /// The body, sent as JSON in RFC 8785 form.
    pub body: Option<Body>,
    /// Header fields: names in lower case.
    pub headers: BTreeMap<String, Text>,
    /// The method.
    pub method: Method,
    /// The origin, always literal.
    pub origin: Origin,
    /// The segments of the path.
    pub path: Vec<Text>,
    /// Names, literal, and values of the query, in order.
    pub query: Vec<(String, Text)>,
    /// Whether the answer's body is handed on as it comes, under a lease.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub stream: bool,
    /// Until the whole answer must be there, in milliseconds.
    pub timeout_ms: u32,
}

/// A request, whole but for the credential.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpRequest {
    /// The most bytes of the answer's body.
    pub answer_max_bytes: u32,
    /// The body; empty where there is none.
    pub body: Vec<u8>,
    /// Header fields: names in lower case, values of visible ASCII and inner spaces.
    pub headers: Vec<(String, String)>,
    /// The method.
    pub method: Method,
    /// Scheme, host and port.
    pub origin: Origin,
    /// Path and query, percent-encoded (RFC 3986).
    pub target: String,
    /// Until the whole answer must be there, in milliseconds.
    pub timeout_ms: u32,
}

impl HttpRequest {
    /// The path: the target without its query.
    pub fn path(&self) -> &str {
        self.target
            .split_once('?')
            .map_or(self.target.as_str(), |(path, _)| path)
    }
}

/// Why a call has no request.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RenderError {
    /// The call carries an argument that the policy does not name.
    #[error("tool `{tool}` has no argument `{argument}`")]
    Extra {
        /// The tool, as in the call.
        tool: String,
        /// The argument.
        argument: ArgumentName,
    },
    /// The value has not the type or the bounds of its argument.
    #[error("`{argument}` {misfit}")]
    Misfit {
        /// The argument.
        argument: ArgumentName,
        /// Why.
        misfit: Misfit,
    },
    /// The call does not carry an argument that the request needs.
    #[error("`{argument}` is missing")]
    Missing {
        /// The argument.
        argument: ArgumentName,
    },
    /// The value cannot stand in a header field.
    #[error(
        "`{argument}` goes into a header field: use visible ASCII without line breaks, and no \
         space at its ends"
    )]
    NotHeaderValue {
        /// The argument.
        argument: ArgumentName,
    },
    /// The value cannot be one segment of a path.
    #[error(
        "`{argument}` goes into a path as one segment: it must not be empty, `.` or `..`, not even \
         before a `;`, nor have `/`, `\\`, `%` or control characters"
    )]
    NotSegment {
        /// The argument.
        argument: ArgumentName,
    },
    /// The policy has no such tool.
    #[error("the policy has no tool `{tool}`")]
    Tool {
        /// The tool, as in the call.
        tool: String,
    },
}

impl RenderError {
    /// The argument that is at fault, if one.
    pub const fn argument(&self) -> Option<&ArgumentName> {
        match self {
            Self::Extra { argument, .. }
            | Self::Misfit { argument, .. }
            | Self::Missing { argument }
            | Self::NotHeaderValue { argument }
            | Self::NotSegment { argument } => Some(argument),
            Self::Tool { .. } => None,
        }
    }
}

/// Renders `call` by `policy`. Every argument is held to its type and bounds once more, since the
/// vault renders what another program decided on.
///
/// # Errors
/// When the policy has no such tool, the call carries not exactly its arguments, or a value does
/// not fit its place.
pub fn render(policy: &Policy, call: &Call) -> Result<HttpRequest, RenderError> {
    let tool = policy
        .tools()
        .get(call.tool.as_str())
        .ok_or_else(|| RenderError::Tool {
            tool: call.tool.to_string(),
        })?;
    let branch = tool.branch(&call.arguments);
    if let (Some(selector), None) = (&tool.selector, branch) {
        return Err(RenderError::Missing {
            argument: selector.argument.clone(),
        });
    }
    for (name, value) in &call.arguments {
        let argument = tool.arguments.get(name);
        let Some(argument) = argument.filter(|_| Tool::is_active(branch, name)) else {
            return Err(RenderError::Extra {
                tool: call.tool.to_string(),
                argument: name.clone(),
            });
        };
        argument
            .kind
            .check(value)
            .map_err(|misfit| RenderError::Misfit {
                argument: name.clone(),
                misfit,
            })?;
    }
    for (name, argument) in &tool.arguments {
        let needed = !argument.optional && Tool::is_active(branch, name);
        if needed && !call.arguments.contains_key(name) {
            return Err(RenderError::Missing {
                argument: name.clone(),
            });
        }
    }
    fill_template(&tool.request, &call.arguments)
}

/// The request of `template` with `arguments` in it, whose types and bounds were looked at.
pub(crate) fn fill_template(
    template: &Template,
    arguments: &Arguments,
) -> Result<HttpRequest, RenderError> {
    let mut headers = render_headers(&template.headers, arguments)?;
    let body = match &template.body {
        None => Vec::new(),
        Some(body) => {
            headers.push(("content-type".into(), "application/json".into()));
            body.fill(arguments)
                .map(|body| json::canonical(&body))
                .unwrap_or_default()
        }
    };
    Ok(HttpRequest {
        answer_max_bytes: template.answer_max_bytes,
        body,
        headers,
        method: template.method,
        origin: template.origin.clone(),
        target: render_target(template, arguments)?,
        timeout_ms: template.timeout_ms,
    })
}

/// Arguments by name.
pub type Arguments = BTreeMap<ArgumentName, Value>;

fn render_target(template: &Template, arguments: &Arguments) -> Result<String, RenderError> {
    let mut target = String::new();
    for segment in &template.path {
        target.push('/');
        // Decoded and whole, since `.` before `{argument}` and `.` in it make `..` together.
        let mut whole = String::new();
        for part in segment.parts() {
            match part {
                Part::Literal(text) => {
                    target.push_str(text);
                    whole.push_str(text);
                }
                Part::Argument(name) => {
                    let value = argument(name, arguments)?.ok_or_else(|| RenderError::Missing {
                        argument: name.clone(),
                    })?;
                    if Mutant::GatePathSegment.is_on() {
                        target.push_str(&value);
                        continue;
                    }
                    if value.contains(['/', '\\', '%']) || value.contains(char::is_control) {
                        return Err(RenderError::NotSegment {
                            argument: name.clone(),
                        });
                    }
                    percent_encode(&value, &mut target);
                    whole.push_str(&value);
                }
            }
        }
        let climbs = climbs(&whole) && !Mutant::GatePathSegment.is_on();
        if let (Some(name), true) = (segment.arguments().next(), climbs) {
            return Err(RenderError::NotSegment {
                argument: name.clone(),
            });
        }
    }
    let mut mark = '?';
    for (name, value) in &template.query {
        if let Some(value) = fill(value, arguments, percent_encode)? {
            target.push(mark);
            mark = '&';
            percent_encode(name, &mut target);
            target.push('=');
            target.push_str(&value);
        }
    }
    Ok(target)
}

fn render_headers(
    template: &BTreeMap<String, Text>,
    arguments: &Arguments,
) -> Result<Vec<(String, String)>, RenderError> {
    let mut headers = Vec::new();
    for (name, text) in template {
        let Some(value) = fill(text, arguments, |value, out| out.push_str(value))? else {
            continue;
        };
        // The whole value, since an empty argument can bare a space at an end.
        match text.arguments().next() {
            Some(argument) if !is_header_value(&value) => {
                return Err(RenderError::NotHeaderValue {
                    argument: argument.clone(),
                });
            }
            Some(_) | None => headers.push((name.clone(), value)),
        }
    }
    Ok(headers)
}

/// `text` with `arguments` in it, each as `put` writes it; `None` if one of them is optional and
/// not there. What is literal was held to its place when the policy was compiled.
fn fill(
    text: &Text,
    arguments: &Arguments,
    put: impl Fn(&str, &mut String),
) -> Result<Option<String>, RenderError> {
    let mut out = String::new();
    for part in text.parts() {
        match part {
            Part::Literal(literal) => out.push_str(literal),
            Part::Argument(name) => match argument(name, arguments)? {
                None => return Ok(None),
                Some(value) => put(&value, &mut out),
            },
        }
    }
    Ok(Some(out))
}

fn argument(name: &ArgumentName, arguments: &Arguments) -> Result<Option<String>, RenderError> {
    arguments
        .get(name)
        .map(|value| {
            scalar(value).ok_or_else(|| RenderError::Misfit {
                argument: name.clone(),
                misfit: Misfit::Type {
                    wanted: "a scalar",
                    found: value.kind(),
                },
            })
        })
        .transpose()
}

/// Visible ASCII with spaces between: narrower than `field-value` (RFC 9110, 5.5).
pub(crate) fn is_header_value(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b' '..=b'~')) && text.trim_matches(' ') == text
}

/// Everything but `unreserved` is encoded (RFC 3986, 2.3).
fn percent_encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&alloc::format!("%{byte:02X}")),
        }
    }
}
