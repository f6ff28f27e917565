//! The keys of one object, each asked for once; what nobody asks for is refused.

use gate::{excerpt::excerpt, json::Value};

use crate::{
    input::{
        At, Fault,
        member::{self, Object},
    },
    pointer,
};

/// An object of which every key is known.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    members: &'a Object,
    at: String,
}

impl<'a> Fields<'a> {
    /// `value` as an object with no other keys than `keys`.
    pub(super) fn of(value: &'a Value, at: &str, keys: &[&str]) -> Result<Self, At> {
        let members = member::object(value, at)?;
        if let Some(key) = members.keys().find(|key| !keys.contains(&key.as_str())) {
            return Err((pointer::join(at, key), unknown(key)));
        }
        Ok(Self {
            members,
            at: at.to_owned(),
        })
    }

    pub(super) fn at(&self, key: &str) -> String {
        pointer::join(&self.at, key)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.members.get(key)
    }

    pub(super) fn must(&self, key: &'static str) -> Result<&'a Value, At> {
        self.get(key)
            .ok_or_else(|| (self.at.clone(), Fault::Absent { key }))
    }

    pub(super) fn text(&self, key: &'static str) -> Result<String, At> {
        member::text(self.must(key)?, &self.at(key)).map(str::to_owned)
    }

    /// A text that may be left out.
    pub(super) fn text_if(&self, key: &str) -> Result<Option<String>, At> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => member::text(value, &self.at(key)).map(|text| Some(text.to_owned())),
        }
    }

    /// A text that is one of `words`; what stands beside it there.
    pub(super) fn word<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> Result<T, At> {
        word(self.must(key)?, &self.at(key), words)
    }

    /// The texts of a list that may be left out.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, At> {
        let Some(value) = self.get(key) else {
            return Ok(Vec::new());
        };
        let at = self.at(key);
        member::list(value, &at)?
            .iter()
            .enumerate()
            .map(|(index, item)| member::text(item, &pointer::item(&at, index)).map(str::to_owned))
            .collect()
    }
}

/// `value` as one of `words`.
fn word<T: Copy>(value: &Value, at: &str, words: &[(&str, T)]) -> Result<T, At> {
    let text = member::text(value, at)?;
    if let Some((_, found)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*found);
    }
    let listed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let fault = Fault::Word {
        found: excerpt(text),
        listed: listed.join(", "),
    };
    Err((at.to_owned(), fault))
}

fn unknown(key: &str) -> Fault {
    Fault::Unknown { key: excerpt(key) }
}
