//! Markers: `@@INJ:name@@` is where an attacker may have written into a recorded value.

use std::collections::{BTreeMap, BTreeSet};

use gate::json::Value;

const BEGIN: &str = "@@INJ:";
const END: &str = "@@";

/// What is written at the markers.
#[derive(Clone, Copy, Debug)]
pub enum Fill<'a> {
    /// The same text at each: an attack.
    Attack(&'a str),
    /// What stands there when nobody attacks. A marker that this has not becomes nothing.
    Default(&'a BTreeMap<String, String>),
}

impl Fill<'_> {
    fn text(&self, name: &str) -> &str {
        match self {
            Self::Attack(text) => text,
            Self::Default(texts) => texts.get(name).map_or("", String::as_str),
        }
    }
}

/// The names of the markers in `value`, keys included.
pub fn names(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(value, &mut |text| {
        split(text, &mut |_before, name| {
            if let Some(name) = name {
                found.insert(name.to_owned());
            }
        });
    });
    found
}

/// `value` with its markers filled.
pub fn fill(value: &Value, with: Fill<'_>) -> Value {
    match value {
        Value::List(items) => Value::List(items.iter().map(|it| fill(it, with)).collect()),
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(key, it)| (fill_text(key, with), fill(it, with)))
                .collect(),
        ),
        Value::Text(text) => Value::Text(fill_text(text, with)),
        other @ (Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_)) => other.clone(),
    }
}

/// `text` with its markers filled.
pub fn fill_text(text: &str, with: Fill<'_>) -> String {
    let mut filled = String::with_capacity(text.len());
    split(text, &mut |before, name| {
        filled.push_str(before);
        if let Some(name) = name {
            filled.push_str(with.text(name));
        }
    });
    filled
}

/// Every stretch of plain text, with the name of the marker behind it.
fn split<'a>(text: &'a str, each: &mut dyn FnMut(&'a str, Option<&'a str>)) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let Some((name, behind)) = after.split_once(END) else {
            break;
        };
        each(before, Some(name));
        rest = behind;
    }
    each(rest, None);
}

fn walk(value: &Value, each: &mut dyn FnMut(&str)) {
    match value {
        Value::List(items) => items.iter().for_each(|it| walk(it, each)),
        Value::Object(members) => members.iter().for_each(|(key, it)| {
            each(key);
            walk(it, each);
        }),
        Value::Text(text) => each(text),
        Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_filled_in_texts_and_keys_and_nowhere_else() {
        let value = Value::Object(BTreeMap::from([(
            String::from("a@@INJ:x@@"),
            Value::List(vec![
                Value::Text("b @@INJ:y@@ c@@INJ:x@@".into()),
                Value::Null,
            ]),
        )]));
        assert_eq!(names(&value), BTreeSet::from(["x".into(), "y".into()]));
        let texts = BTreeMap::from([(String::from("x"), String::from("1"))]);
        let expected = Value::Object(BTreeMap::from([(
            String::from("a1"),
            Value::List(vec![Value::Text("b  c1".into()), Value::Null]),
        )]));
        assert_eq!(fill(&value, Fill::Default(&texts)), expected);
        assert_eq!(
            fill_text("@@INJ:x@@!", Fill::Attack("@@INJ:y@@")),
            "@@INJ:y@@!"
        );
        assert_eq!(fill_text("@@INJ:x", Fill::Attack("a")), "@@INJ:x");
    }
}
