//! Sets of JSON types: what a value may be by its schema.

use std::fmt;

use gate::json::Value;

/// Which types a value may have. A schema that says nothing leaves all of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Types(u8);

const ARRAY: u8 = 1;
const BOOLEAN: u8 = 2;
const INTEGER: u8 = 4;
const NULL: u8 = 8;
const NUMBER: u8 = 16;
const OBJECT: u8 = 32;
const STRING: u8 = 64;

impl Types {
    /// Every type.
    pub const ANY: Self = Self(127);
    /// None: no value fits.
    pub const NONE: Self = Self(0);

    /// The type that JSON Schema calls `word`; none if it calls nothing so.
    pub fn parse(word: &str) -> Option<Self> {
        Some(Self(match word {
            "array" => ARRAY,
            "boolean" => BOOLEAN,
            "integer" => INTEGER,
            "null" => NULL,
            // Every integer is a number.
            "number" => NUMBER | INTEGER,
            "object" => OBJECT,
            "string" => STRING,
            _ => return None,
        }))
    }

    /// The type of `value`.
    pub const fn of(value: &Value) -> Self {
        Self(match value {
            Value::Bool(_) => BOOLEAN,
            Value::Int(_) => INTEGER,
            Value::List(_) => ARRAY,
            Value::Null => NULL,
            Value::Object(_) => OBJECT,
            Value::Real(_) => NUMBER,
            Value::Text(_) => STRING,
        })
    }

    /// What both have.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What either has.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether a value may be a text.
    pub const fn has_text(self) -> bool {
        self.0 & STRING != 0
    }

    /// Whether a value may be an object.
    pub const fn has_object(self) -> bool {
        self.0 & OBJECT != 0
    }

    /// Whether a value may be a number.
    pub const fn has_number(self) -> bool {
        self.0 & (NUMBER | INTEGER) != 0
    }

    /// Whether every value is a text, or null.
    pub const fn is_text(self) -> bool {
        self.has_text() && self.0 & !(STRING | NULL) == 0
    }

    /// Whether every value is a number, a boolean or null.
    pub const fn is_primitive(self) -> bool {
        self.0 & (NUMBER | INTEGER | BOOLEAN) != 0
            && self.0 & !(NUMBER | INTEGER | BOOLEAN | NULL) == 0
    }

    /// The one type beside null; none if there are several, or none.
    pub fn single(self) -> Option<&'static str> {
        let mut words = self.words().filter(|word| *word != "null");
        words.next().filter(|_| words.next().is_none())
    }

    /// How many types there are beside null.
    pub fn count(self) -> usize {
        self.words().filter(|word| *word != "null").count()
    }

    fn words(self) -> impl Iterator<Item = &'static str> {
        const WORDS: [(u8, &str); 7] = [
            (ARRAY, "array"),
            (BOOLEAN, "boolean"),
            (NUMBER, "number"),
            (INTEGER, "integer"),
            (OBJECT, "object"),
            (STRING, "string"),
            (NULL, "null"),
        ];
        WORDS
            .into_iter()
            // A number says that it may be an integer.
            .filter(move |(bit, _)| self.0 & bit != 0 && !(*bit == INTEGER && self.0 & NUMBER != 0))
            .map(|(_, word)| word)
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ANY {
            return f.write_str("any");
        }
        if *self == Self::NONE {
            return f.write_str("none");
        }
        for (index, word) in self.words().enumerate() {
            if index > 0 {
                f.write_str(" | ")?;
            }
            f.write_str(word)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_integer_is_a_number_and_is_said_once() {
        let number = Types::parse("number").unwrap();
        let integer = Types::parse("integer").unwrap();
        assert_eq!(number.and(integer), integer);
        assert_eq!(
            number.or(Types::parse("null").unwrap()).to_string(),
            "number | null"
        );
        assert_eq!(number.count(), 1);
        assert_eq!(Types::parse("text"), None);
    }
}
