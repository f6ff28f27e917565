//! Templates: literal text with `{argument}` in it.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::{
    id::{ArgumentName, NameError},
    json::Value,
};

/// Literal text with arguments in it.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Text(Vec<Part>);

/// A piece of a [`Text`].
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The value of an argument.
    Argument(ArgumentName),
    /// What the policy says.
    Literal(String),
}

/// Why a text is not a template.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TemplateError {
    /// A brace without its other half.
    #[error("`{text}` has a brace without its other half; write `{{argument}}`")]
    Brace {
        /// The text.
        text: String,
    },
    /// What stands in the braces is not an argument's name.
    #[error("in `{text}`: {source}", source = .why)]
    Name {
        /// The text.
        text: String,
        /// Why.
        why: NameError,
    },
    /// A string of the body mixes literal text and an argument.
    #[error(
        "`{text}` mixes text and an argument; in a body a string is one `{{argument}}` or literal \
         text without braces"
    )]
    Mixed {
        /// The text.
        text: String,
    },
}

impl Text {
    /// Parses `text`.
    ///
    /// # Errors
    /// When a brace has no other half, or holds no argument's name.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let brace = || TemplateError::Brace { text: text.into() };
        let mut parts = Vec::new();
        let mut rest = text;
        loop {
            let (literal, behind) = match rest.split_once('{') {
                None => (rest, None),
                Some((literal, behind)) => (literal, Some(behind)),
            };
            if literal.contains('}') {
                return Err(brace());
            }
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.into()));
            }
            let Some(behind) = behind else {
                return Ok(Self(parts));
            };
            let (name, behind) = behind.split_once('}').ok_or_else(brace)?;
            let name = ArgumentName::parse(name).map_err(|why| TemplateError::Name {
                text: text.into(),
                why,
            })?;
            parts.push(Part::Argument(name));
            rest = behind;
        }
    }

    /// The pieces, in order.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// The arguments in it.
    pub fn arguments(&self) -> impl Iterator<Item = &ArgumentName> {
        self.0.iter().filter_map(|part| match part {
            Part::Argument(name) => Some(name),
            Part::Literal(_) => None,
        })
    }

    /// The text, if no argument is in it.
    pub fn literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            [Part::Argument(_)] | [_, _, ..] => None,
        }
    }
}

/// A JSON body with arguments in it.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Every argument of the call, by its name.
    All,
    /// The typed value of an argument.
    Argument(ArgumentName),
    /// An array. An optional argument that the call does not carry is left out.
    List(Vec<Body>),
    /// What the policy says: no array, no object.
    Literal(Value),
    /// An object. An optional argument that the call does not carry is left out with its key.
    Object(BTreeMap<String, Body>),
}

impl Body {
    /// Reads a template from a value: a string that is exactly `{argument}` stands for that
    /// argument's typed value, `{*}` for an object of all of them; every other string is literal and has no brace.
    ///
    /// # Errors
    /// When a string has a brace and is not one whole `{argument}`.
    pub fn parse(value: Value) -> Result<Self, TemplateError> {
        match value {
            Value::List(items) => items
                .into_iter()
                .map(Self::parse)
                .collect::<Result<_, _>>()
                .map(Self::List),
            Value::Object(members) => members
                .into_iter()
                .map(|(key, member)| Ok((key, Self::parse(member)?)))
                .collect::<Result<_, _>>()
                .map(Self::Object),
            Value::Text(text) if text == "{*}" => Ok(Self::All),
            Value::Text(text) if text.contains(['{', '}']) => {
                match Text::parse(&text)?.0.as_slice() {
                    [Part::Argument(name)] => Ok(Self::Argument(name.clone())),
                    [] | [Part::Literal(_)] | [_, _, ..] => Err(TemplateError::Mixed { text }),
                }
            }
            plain @ (Value::Bool(_)
            | Value::Int(_)
            | Value::Null
            | Value::Real(_)
            | Value::Text(_)) => Ok(Self::Literal(plain)),
        }
    }

    /// Whether it holds every argument, whatever their names.
    pub fn has_all(&self) -> bool {
        match self {
            Self::All => true,
            Self::Argument(_) | Self::Literal(_) => false,
            Self::List(items) => items.iter().any(Self::has_all),
            Self::Object(members) => members.values().any(Self::has_all),
        }
    }

    /// Calls `seen` with every argument that it names.
    pub fn each_argument<'a>(&'a self, seen: &mut impl FnMut(&'a ArgumentName)) {
        match self {
            Self::Argument(name) => seen(name),
            Self::List(items) => items.iter().for_each(|it| it.each_argument(seen)),
            Self::All | Self::Literal(_) => {}
            Self::Object(members) => members.values().for_each(|it| it.each_argument(seen)),
        }
    }

    /// The body with `arguments` in it; `None` if it is itself an argument that is not there.
    pub fn fill(&self, arguments: &BTreeMap<ArgumentName, Value>) -> Option<Value> {
        match self {
            Self::All => Some(Value::Object(
                arguments
                    .iter()
                    .map(|(name, value)| (name.to_string(), value.clone()))
                    .collect(),
            )),
            Self::Argument(name) => arguments.get(name).cloned(),
            Self::List(items) => Some(Value::List(
                items.iter().filter_map(|it| it.fill(arguments)).collect(),
            )),
            Self::Literal(value) => Some(value.clone()),
            Self::Object(members) => Some(Value::Object(
                members
                    .iter()
                    .filter_map(|(key, it)| Some((key.clone(), it.fill(arguments)?)))
                    .collect(),
            )),
        }
    }
}

/// A scalar as text, for a path, a query or a header field.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Bool(it) => Some(it.to_string()),
        Value::Int(n) => Some(n.get().to_string()),
        Value::Real(x) => Some(ryu_js::Buffer::new().format_finite(x.get()).to_string()),
        Value::Text(text) => Some(text.clone()),
        Value::List(_) | Value::Null | Value::Object(_) => None,
    }
}
