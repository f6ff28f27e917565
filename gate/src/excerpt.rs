//! Foreign text in our own sentences: short, and without anything that acts on a terminal.

use alloc::string::String;

/// The most bytes of an agent's text, as escaped, that a reason repeats.
pub const EXCERPT_MAX: usize = 80;

/// `text`, escaped to printable ASCII without backticks and cut to [`EXCERPT_MAX`] bytes.
pub fn excerpt(text: &str) -> String {
    const CUT: &str = "...";
    let mut out = String::new();
    for character in text.chars() {
        let before = out.len();
        match character {
            // A backtick would end our quotation.
            '`' => out.push_str("\\u{60}"),
            ' '..='~' => out.push(character),
            _ => out.extend(character.escape_default()),
        }
        if out.len() > EXCERPT_MAX {
            out.truncate(before);
            while out.len() > EXCERPT_MAX.saturating_sub(CUT.len()) {
                out.pop();
            }
            out.push_str(CUT);
            return out;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_excerpt_is_short_printable_and_closes_no_quotation(text in any::<String>()) {
            let out = excerpt(&text);
            prop_assert!(out.len() <= EXCERPT_MAX);
            prop_assert!(out.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'`'));
        }
    }

    #[test]
    fn what_is_short_and_plain_stays_as_it_is() {
        assert_eq!(
            excerpt("maintainer@example.test"),
            "maintainer@example.test"
        );
        assert_eq!(excerpt("a\u{202e}b\n"), "a\\u{202e}b\\n");
    }
}
