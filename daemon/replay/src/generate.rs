//! From the labels of recorded tools to a policy that a person can read and change.
//!
//! What comes from where:
//!
//! | of the policy | from |
//! |---|---|
//! | tools, arguments, types, what is optional | the tool's JSON Schema; `null` is "left out" |
//! | `risk`, `action_classes`, roles, result labels | the labels of the recorded tools |
//! | `asked_by`, `anchor`, `member`, more fields of a system's own | the operator's additions ([`Additions`]), by tool |
//! | `release` | `asked` where the tool has words to ask in, else `never` |
//! | credential, floor, request | placeholders: a replay performs nothing |
//!
//! Nothing looks at tasks, attacks or results.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::format::{ResultAuthority, Role, Suite, Tool};

/// What an operator says beside the labels.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Additions {
    /// By the tool's name.
    #[serde(default)]
    pub tools: BTreeMap<String, Addition>,
}

/// What an operator says of one tool.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Addition {
    /// Arguments by whose words one sees whose will the call is.
    #[serde(default)]
    pub anchor: Vec<String>,
    /// Groups of words that ask for it.
    #[serde(default)]
    pub asked_by: Vec<Vec<String>>,
    /// Arguments that may be any member of a closed workspace, for the person's own words.
    #[serde(default)]
    pub member: Vec<String>,
    /// Fields of the result that the system itself writes, as pointers.
    #[serde(default)]
    pub system: Vec<String>,
}

/// A rule that is left out, to see what it is worth.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Without {
    /// No argument's words show whose will a call is.
    Anchors,
    /// No field of an untrusted result is the system's own.
    Fields,
    /// Links in payloads are not looked at.
    Links,
    /// A closed workspace's members are like anyone.
    Members,
    /// The fields that the operator adds to those of the labels are anyone's.
    MoreFields,
    /// Only what the task itself says is known.
    Selection,
}

impl Without {
    /// Every one.
    pub const ALL: [Self; 6] = [
        Self::Anchors,
        Self::Fields,
        Self::Links,
        Self::Members,
        Self::MoreFields,
        Self::Selection,
    ];

    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anchors => "anchors",
            Self::Fields => "fields",
            Self::Links => "links",
            Self::Members => "members",
            Self::MoreFields => "more fields",
            Self::Selection => "selection",
        }
    }
}

impl Additions {
    /// Reads a file of additions.
    ///
    /// # Errors
    /// When it is not TOML, or has an unknown key.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

/// Why no policy is made.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// A label that no policy has.
    #[error("tool `{tool}` has the unknown {what} `{label}`")]
    Label {
        /// The tool.
        tool: String,
        /// What it is.
        what: &'static str,
        /// What it says.
        label: String,
    },
    /// A type that no policy has.
    #[error("tool `{tool}`, argument `{argument}`: no policy has the type {schema}")]
    Type {
        /// The tool.
        tool: String,
        /// The argument.
        argument: String,
        /// Its schema.
        schema: String,
    },
}

const HEAD: &str = "\
# Written by `cargo xtask bench gate --write-policies` from the labels of the recorded tools and from
# `operator.toml` beside it. Credential and requests are placeholders: a replay performs nothing.
format = 1
";

const CREDENTIAL: &str = r#"
[credentials.service]
connector = "http"

[credentials.service.floor]
origins = ["https://service.test"]
methods = ["POST"]
paths = ["/{}"]
addresses = "public"
"#;

/// The policy of a suite's tools, as TOML.
///
/// # Errors
/// When a label or a type is none that a policy has.
pub fn policy(suite: &Suite, additions: &Additions) -> Result<String, GenerateError> {
    policy_without(suite, additions, None)
}

/// The same, with a rule left out.
///
/// # Errors
/// As [`policy`].
pub fn policy_without(
    suite: &Suite,
    additions: &Additions,
    without: Option<Without>,
) -> Result<String, GenerateError> {
    let none = Addition::default();
    let mut text = format!("{HEAD}name = {}\n{CREDENTIAL}", quoted(&suite.suite));
    for tool in &suite.tools {
        let addition = additions.tools.get(&tool.name).unwrap_or(&none);
        text.push_str(&registration(tool, addition, without)?);
    }
    Ok(text)
}

fn registration(
    tool: &Tool,
    addition: &Addition,
    without: Option<Without>,
) -> Result<String, GenerateError> {
    let risk = match &*tool.risk {
        "read_only" => "read",
        risk @ ("destructive" | "financial" | "write") => risk,
        other => {
            return Err(GenerateError::Label {
                tool: tool.name.clone(),
                what: "risk",
                label: other.into(),
            });
        }
    };
    let mut text = String::new();
    let mut line = |line: std::fmt::Arguments<'_>| {
        text.push_str(&line.to_string());
        text.push('\n');
    };
    line(format_args!("\n[tools.{}]", tool.name));
    line(format_args!("description = {}", quoted(&tool.description)));
    line(format_args!("credential = \"service\""));
    line(format_args!("risk = \"{risk}\""));
    if risk == "read" {
        line(format_args!("idempotent = true"));
    }
    if !tool.action_classes.is_empty() {
        line(format_args!(
            "action_classes = {}",
            list(&tool.action_classes)
        ));
    }
    line(format_args!("on_taint = \"origins\""));
    if !addition.asked_by.is_empty() {
        let groups: Vec<String> = addition.asked_by.iter().map(|it| list(it)).collect();
        line(format_args!("asked_by = [{}]", groups.join(", ")));
        line(format_args!("release = \"asked\""));
    }
    line(format_args!("result = {}", result(tool, addition, without)));
    line(format_args!(
        "request = {{ method = \"POST\", url = \"https://service.test/{}\", body = \"{{*}}\" }}",
        tool.name
    ));
    let required = tool.input_schema.get("required").and_then(Json::as_array);
    let properties = tool
        .input_schema
        .get("properties")
        .and_then(Json::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        let optional = !required.is_some_and(|it| it.iter().any(|it| it == name));
        let kind = kind(schema, &tool.input_schema).ok_or_else(|| GenerateError::Type {
            tool: tool.name.clone(),
            argument: name.clone(),
            schema: schema.to_string(),
        })?;
        line(format_args!("\n[tools.{}.arguments.{name}]", tool.name));
        if let Some(description) = schema.get("description").and_then(Json::as_str) {
            line(format_args!("description = {}", quoted(description)));
        }
        line(format_args!("authority = \"agent\""));
        let role = role(tool, name);
        line(format_args!("role = \"{role}\""));
        match without {
            Some(Without::Links) if role == "payload" => line(format_args!("links = \"any\"")),
            Some(Without::Selection) if matches!(role, "identifier" | "sink") => {
                line(format_args!("origins = [\"authoritative\"]"));
            }
            Some(_) | None => {}
        }
        line(format_args!("{kind}"));
        for (key, names, left_out) in [
            ("anchor", &addition.anchor, Without::Anchors),
            ("member", &addition.member, Without::Members),
        ] {
            if names.contains(name) && without != Some(left_out) {
                line(format_args!("{key} = true"));
            }
        }
        if optional {
            line(format_args!("optional = true"));
        }
    }
    Ok(text)
}

/// What an argument without a label is: a query of a tool that reads; it says nothing of where an effect goes.
fn role(tool: &Tool, name: &str) -> &'static str {
    match tool.arg_roles.get(name) {
        Some(Role::Id) => "identifier",
        Some(Role::Payload) => "payload",
        Some(Role::Sink) => "sink",
        Some(Role::Typed) => "typed",
        None if tool.risk == "read_only" => "payload",
        None => "sink",
    }
}

fn result(tool: &Tool, addition: &Addition, without: Option<Without>) -> String {
    match tool.result_authority {
        ResultAuthority::Untrusted if without == Some(Without::Fields) => quoted("untrusted"),
        ResultAuthority::Derived => quoted("trusted"),
        ResultAuthority::Untrusted => {
            let fields = tool.trusted_result_fields.iter();
            let more = addition.system.iter().cloned();
            let more = more.filter(|_| without != Some(Without::MoreFields));
            let mut fields: Vec<String> = fields
                .map(|it| format!("/**/{}", it.replace('~', "~0").replace('/', "~1")))
                .chain(more)
                .map(|it| format!("{} = \"system\"", quoted(&it)))
                .collect();
            fields.sort();
            fields.dedup();
            format!(
                "{{ label = \"untrusted\", fields = {{ {} }} }}",
                fields.join(", ")
            )
        }
    }
}

/// The keys of a type.
fn kind(schema: &Json, root: &Json) -> Option<String> {
    if let Some(reference) = schema.get("$ref").and_then(Json::as_str) {
        return kind(root.pointer(reference.strip_prefix('#')?)?, root);
    }
    if let Some(any) = schema.get("anyOf").and_then(Json::as_array) {
        // `null` is "left out": the argument is optional.
        let mut others = any
            .iter()
            .filter(|it| it.get("type").and_then(Json::as_str) != Some("null"));
        let only = others.next()?;
        return others.next().is_none().then(|| kind(only, root))?;
    }
    if let Some(members) = schema.get("enum").and_then(Json::as_array) {
        let members: Option<Vec<String>> = members
            .iter()
            .map(|it| it.as_str().map(ToOwned::to_owned))
            .collect();
        return Some(format!("type = \"enum\"\none_of = {}", list(&members?)));
    }
    Some(match schema.get("type").and_then(Json::as_str)? {
        "array" => {
            let items = inline(&kind(schema.get("items")?, root)?);
            format!("type = \"list\"\nitems = {items}")
        }
        // Open objects: what tools of this kind take for an attachment.
        "object" => ATTACHMENT.to_owned(),
        plain @ ("boolean" | "integer" | "number" | "string") => format!("type = \"{plain}\""),
        _ => return None,
    })
}

/// A file or an event that is sent along. A schema with `additionalProperties` says no more than its
/// description does.
const ATTACHMENT: &str = "\
type = \"object\"
members = { type = { type = \"enum\", one_of = [\"event\", \"file\"] }, file_id = { type = \"string\", optional = true }, \
event_details = { type = \"object\", optional = true, members = { title = { type = \"string\" }, \
description = { type = \"string\", optional = true }, start_time = { type = \"string\", optional = true }, \
end_time = { type = \"string\", optional = true }, location = { type = \"string\", optional = true }, \
participants = { type = \"list\", optional = true, items = { type = \"string\" } } } } }";

fn inline(keys: &str) -> String {
    format!("{{ {} }}", keys.replace('\n', ", "))
}

fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|it| quoted(it)).collect();
    format!("[{}]", texts.join(", "))
}

/// A basic string of TOML 1.0: JSON's escapes are among its own, but for DEL.
fn quoted(text: &str) -> String {
    Json::from(text).to_string().replace('\u{7f}', "\\u007f")
}
