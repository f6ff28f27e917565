//! Gathers what all schemas say of one place: its own, those that it refers to, and those that it is put together of.

use std::sync::Arc;

use gate::json::Value;

use super::{
    Types,
    facts::{Facts, number},
    inside,
    keyword::{self, CONDITIONS, NUMBERS, Takes},
    obligation::Kind,
    place::{Place, When},
    reference::{self, Led},
    walk::Walk,
};
use crate::{
    input::{
        At, Fault, limits,
        member::{self, Object},
    },
    pointer,
};

impl<'a> Walk<'a> {
    /// What `schema`, which stands at `at`, says of `place`.
    pub(super) fn gather(
        &mut self,
        schema: &'a Value,
        at: &str,
        when: When,
        depth: usize,
        place: &mut Place<'a>,
    ) -> Result<Facts, At> {
        // Pointers are written for what stands inside: one long name would stand in each.
        let width = width(schema);
        let pointers = width.saturating_mul(at.len() / STEP_BYTES);
        self.step(pointers.saturating_add(1 + width / 8), at)?;
        if depth > limits::DEPTH {
            return Err((at.to_owned(), Fault::Depth));
        }
        place.schemas.push(schema);
        let members = match schema {
            Value::Object(members) => members,
            Value::Bool(says) => {
                place.oblige(
                    Kind::BooleanSchema,
                    at,
                    if *says { "true" } else { "false" },
                );
                return Ok(if *says { Facts::any() } else { Facts::never() });
            }
            other @ (Value::Int(_)
            | Value::List(_)
            | Value::Null
            | Value::Real(_)
            | Value::Text(_)) => {
                let wanted = "a schema: an object, true or false";
                let found = other.kind();
                return Err((at.to_owned(), Fault::Type { wanted, found }));
            }
        };
        let mut facts = self.own(members, at, place)?;
        self.unknown(members, at, place)?;
        self.words(members, at, place)?;
        // What stands inside itself is not gone into again.
        if self.around.iter().any(|it| std::ptr::eq(*it, schema)) {
            place.oblige(Kind::Recursive, at, "");
        } else {
            inside::note(members, at, when, place)?;
        }
        let inner = depth.saturating_add(1);
        if let Some(target) = members.get("$ref") {
            let here = pointer::join(at, "$ref");
            let reference = member::text(target, &here)?;
            let found = self.refer(reference, &here, when, inner, place)?;
            facts = facts.and(found);
        }
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            if members.contains_key(keyword) {
                place.oblige(Kind::MissingReference, at, keyword);
            }
        }
        if let Some(parts) = members.get("allOf") {
            let here = pointer::join(at, "allOf");
            place.oblige(Kind::Composite, at, "allOf");
            for (index, part) in member::list(parts, &here)?.iter().enumerate() {
                let part = self.gather(part, &pointer::item(&here, index), when, inner, place)?;
                facts = facts.and(part);
            }
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(parts) = members.get(keyword) {
                let here = pointer::join(at, keyword);
                let parts = member::list(parts, &here)?;
                facts = facts.and(self.branches(parts, keyword, at, (when, inner), place)?);
            }
        }
        self.conditions(members, at, inner, place)?;
        Ok(facts)
    }

    fn refer(
        &mut self,
        reference: &str,
        at: &str,
        when: When,
        depth: usize,
        place: &mut Place<'a>,
    ) -> Result<Facts, At> {
        match reference::follow(self.root, reference) {
            Led::Here(target, path) => {
                if place.open.iter().any(|it| std::ptr::eq(*it, target)) {
                    return Err((at.to_owned(), Fault::Circle));
                }
                place.open.push(target);
                let target_at = format!("{}{path}", self.base);
                let facts = self.gather(target, &target_at, when, depth, place);
                place.open.pop();
                facts
            }
            Led::Nowhere => {
                self.step(reference.len() / STEP_BYTES, at)?;
                place.oblige(Kind::MissingReference, at, reference);
                Ok(Facts::any())
            }
            Led::Out => {
                self.step(reference.len() / STEP_BYTES, at)?;
                place.oblige(Kind::RemoteReference, at, reference);
                Ok(Facts::any())
            }
        }
    }

    fn branches(
        &mut self,
        parts: &'a [Value],
        keyword: &str,
        at: &str,
        (when, depth): (When, usize),
        place: &mut Place<'a>,
    ) -> Result<Facts, At> {
        // `X or null` is one schema and a way to leave it out.
        let solid = parts.iter().filter(|part| !is_null(part)).count();
        let when = if solid == 1 { when } else { When::Sometimes };
        if solid != 1 {
            place.oblige(Kind::Composite, at, keyword);
        }
        let here = pointer::join(at, keyword);
        let mut found = Vec::with_capacity(parts.len());
        let mut null = false;
        for (index, part) in parts.iter().enumerate() {
            if solid == 1 && is_null(part) {
                null = true;
                continue;
            }
            let choices = |it: &Facts| it.choice.as_ref().map_or(0, Vec::len);
            let part = self.gather(part, &pointer::item(&here, index), when, depth, place)?;
            self.step(choices(&part) / 8, at)?;
            found.push(part);
        }
        let mut facts = Facts::one_of(found);
        if null {
            facts.types = facts.types.or(Types::of(&Value::Null));
        }
        Ok(facts)
    }

    /// Schemas that hold under a condition: what they name can be in a call, what they narrow is not relied on.
    fn conditions(
        &mut self,
        members: &'a Object,
        at: &str,
        depth: usize,
        place: &mut Place<'a>,
    ) -> Result<(), At> {
        for keyword in CONDITIONS {
            if members.contains_key(keyword) {
                place.oblige(Kind::Composite, at, keyword);
            }
        }
        for keyword in ["if", "then", "else"] {
            if let Some(part) = members.get(keyword) {
                let here = pointer::join(at, keyword);
                self.gather(part, &here, When::Sometimes, depth, place)?;
            }
        }
        for keyword in ["dependencies", "dependentSchemas"] {
            let Some(parts) = members.get(keyword) else {
                continue;
            };
            place.oblige(Kind::Composite, at, keyword);
            let here = pointer::join(at, keyword);
            for (name, part) in member::object(parts, &here)? {
                // The older form may list names instead.
                if !matches!(part, Value::List(_)) {
                    let here = pointer::join(&here, name);
                    self.gather(part, &here, When::Sometimes, depth, place)?;
                }
            }
        }
        Ok(())
    }

    /// What this one schema says of the value itself.
    fn own(&mut self, members: &'a Object, at: &str, place: &mut Place<'a>) -> Result<Facts, At> {
        let mut facts = Facts::any();
        match members.get("type") {
            None => {}
            Some(said) => match types(said) {
                Some(types) => facts.types = types,
                None => place.oblige(Kind::Malformed, at, "type"),
            },
        }
        if let Some(listed) = members.get("enum") {
            let here = pointer::join(at, "enum");
            let listed = member::list(listed, &here)?;
            if listed.len() > limits::CHOICES {
                let found = listed.len();
                return Err((here, Fault::Choices { found }));
            }
            facts = facts.and(self.choice(listed, at)?);
        }
        if let Some(only) = members.get("const") {
            facts = facts.and(self.choice(std::slice::from_ref(only), at)?);
        }
        for (keyword, _, takes) in NUMBERS {
            match members.get(keyword) {
                None => {}
                Some(bound) if takes.takes(bound) => facts.bounds.tighten(keyword, bound.clone()),
                Some(_) => place.oblige(Kind::Malformed, at, keyword),
            }
        }
        for keyword in ["pattern", "format"] {
            match members.get(keyword) {
                None => {}
                Some(Value::Text(text)) => {
                    let text = self.text(text, at)?;
                    // A format of a branch says what a value may be, too.
                    if keyword == "format" {
                        place.formats.insert(text);
                    } else {
                        facts.bounds.patterns.insert(text);
                    }
                }
                Some(_) => place.oblige(Kind::Malformed, at, keyword),
            }
        }
        Ok(facts)
    }

    fn choice(&mut self, listed: &'a [Value], at: &str) -> Result<Facts, At> {
        let mut types = Types::NONE;
        let mut choice = Vec::with_capacity(listed.len());
        self.step(listed.len() / 8, at)?;
        for value in listed {
            types = types.or(Types::of(value));
            let (value, bytes) = self.shared.value(value);
            self.step(bytes / STEP_BYTES, at)?;
            choice.push(value);
        }
        Ok(Facts {
            choice: Some(choice),
            types,
            ..Facts::any()
        })
    }

    /// A text that is kept, and looked at again for each argument that has it.
    fn text(&mut self, text: &str, at: &str) -> Result<Arc<str>, At> {
        let text = self.shared.text(text);
        self.step(text.len() / STEP_BYTES, at)?;
        Ok(text)
    }

    fn words(&mut self, members: &'a Object, at: &str, place: &mut Place<'a>) -> Result<(), At> {
        for (keyword, value) in members {
            match (keyword.as_str(), value) {
                ("title", Value::Text(text)) => {
                    place.words.titles.insert(self.text(text, at)?);
                }
                ("description" | "$comment", Value::Text(text)) => {
                    place.words.descriptions.insert(self.text(text, at)?);
                }
                ("default" | "example" | "const", Value::Text(text)) => {
                    place.words.samples.insert(self.text(text, at)?);
                }
                ("examples", Value::List(items)) => {
                    for item in items.iter().take(SAMPLES) {
                        if let Value::Text(text) = item {
                            place.words.samples.insert(self.text(text, at)?);
                        }
                    }
                }
                ("contentMediaType" | "contentEncoding" | "x-mcp-header", Value::Text(text)) => {
                    let carried = format!("{keyword}: {}", self.text(text, at)?);
                    place.words.carriage.insert(carried.into());
                }
                (_, _) => {}
            }
        }
        Ok(())
    }

    fn unknown(&mut self, members: &'a Object, at: &str, place: &mut Place<'a>) -> Result<(), At> {
        for (keyword, value) in members {
            // An id below the root would move what references are relative to.
            let moved = keyword == "$id" && at != self.base;
            if moved || !keyword::is_known(keyword) {
                self.step(keyword.len() / STEP_BYTES, at)?;
                place.oblige(Kind::Unmodelled, at, keyword);
                let below = at.strip_prefix(self.base).unwrap_or(at);
                self.unmodelled.insert(pointer::join(below, keyword), value);
            }
        }
        Ok(())
    }
}

/// So many bytes of a text are a step.
const STEP_BYTES: usize = 64;

/// How many pointers are written for what stands in a schema.
fn width(schema: &Value) -> usize {
    let inside = |value: &Value| match value {
        Value::List(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => 0,
    };
    match schema {
        Value::Object(members) => members.values().map(inside).sum::<usize>() + 1,
        Value::Bool(_)
        | Value::Int(_)
        | Value::List(_)
        | Value::Null
        | Value::Real(_)
        | Value::Text(_) => 1,
    }
}

/// So many of a schema's examples are looked at.
const SAMPLES: usize = 8;

/// The types that `type` says; none if it says no such thing.
fn types(said: &Value) -> Option<Types> {
    match said {
        Value::Text(word) => Types::parse(word),
        Value::List(words) if !words.is_empty() => {
            words.iter().try_fold(Types::NONE, |types, word| {
                Some(types.or(Types::parse(word.as_text()?)?))
            })
        }
        Value::Bool(_)
        | Value::Int(_)
        | Value::List(_)
        | Value::Null
        | Value::Object(_)
        | Value::Real(_) => None,
    }
}

/// Whether a schema says null and nothing else.
fn is_null(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            matches!(members.get("type"), Some(Value::Text(word)) if word == "null")
        }
        Value::Bool(_)
        | Value::Int(_)
        | Value::List(_)
        | Value::Null
        | Value::Real(_)
        | Value::Text(_) => false,
    }
}

impl Takes {
    fn takes(self, bound: &Value) -> bool {
        match self {
            Self::Any => !number(bound).is_nan(),
            Self::Count => matches!(bound, Value::Int(n) if n.get() >= 0),
        }
    }
}
