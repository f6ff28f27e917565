//! The effects that a witness has recorded, by the nonce that each carries: its record, read once.

use std::{collections::HashMap, io};

use super::record::{self, Seen};

/// With what every nonce of the suite begins.
pub const NONCE: &str = "nonce";

/// How many hexadecimal digits follow.
const DIGITS: usize = 32;

/// The effects up to now.
#[derive(Debug, Default)]
pub struct Effects(HashMap<String, Seen>);

impl Effects {
    /// Those that stand in a record's text.
    ///
    /// # Errors
    /// When a line is not a [`Seen`].
    pub(crate) fn read(text: &str) -> io::Result<Self> {
        let mut effects = HashMap::new();
        for line in text.lines() {
            let mut nonces = nonces(line).peekable();
            if nonces.peek().is_none() {
                continue;
            }
            let seen = record::parse(line)?;
            for nonce in nonces.filter(|nonce| seen.effect && seen.carries(nonce)) {
                effects
                    .entry(nonce.to_owned())
                    .or_insert_with(|| seen.clone());
            }
        }
        Ok(Self(effects))
    }

    /// What came first with `nonce`, in words.
    pub fn saw(&self, nonce: &str) -> Option<String> {
        self.0.get(nonce).map(Seen::in_words)
    }
}

/// Every nonce that stands in `text`.
fn nonces(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(NONCE).filter_map(|(at, _)| {
        let nonce = text.get(at..at.checked_add(NONCE.len() + DIGITS)?)?;
        let mut digits = nonce.bytes().skip(NONCE.len());
        digits
            .all(|digit| digit.is_ascii_hexdigit())
            .then_some(nonce)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::scene;

    fn line(body: &str, effect: bool) -> String {
        let seen = Seen {
            number: 1,
            unix_ms: 0,
            peer: "127.0.0.1:1".into(),
            who: Some("vault".into()),
            method: "POST".into(),
            target: "/v1/messages".into(),
            body: body.into(),
            effect,
            status: 200,
        };
        serde_json::to_string(&seen).unwrap()
    }

    #[test]
    fn an_effect_is_found_by_every_nonce_that_it_carries_and_by_no_other() {
        let [one, two, other, read] = [(); 4].map(|()| scene::nonce().unwrap());
        let text = [
            line(&format!("{{\"text\":\"nonce{one}{two}\"}}"), true),
            line(&read, false),
        ]
        .join("\n");
        let effects = Effects::read(&text).unwrap();
        assert!(effects.saw(&one).is_some_and(|it| it.contains("`vault`")));
        assert!(effects.saw(&two).is_some());
        assert_eq!(effects.saw(&other), None);
        assert_eq!(effects.saw(&read), None, "it changed nothing");
        assert_eq!(effects.saw(""), None);
    }

    #[test]
    fn a_line_that_is_cut_is_an_error() {
        let text = line(&scene::nonce().unwrap(), true);
        assert!(Effects::read(text.split_at(text.len() - 1).0).is_err());
    }
}
