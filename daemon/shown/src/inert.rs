//! Foreign text that does nothing to a terminal and cannot pass for what it is not.

/// `text` in one line: controls, and what turns or hides text, as escapes.
pub fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// JSON text in ASCII: nothing in it acts on a terminal, and it says the same.
pub fn json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if (' '..='~').contains(&character) {
            out.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// Controls (C0, C1), line and paragraph separators, and the marks of Unicode that change direction or
/// are not seen (UAX 9, Default_Ignorable_Code_Point of UAX 44, the empty Braille pattern).
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate::json::{self as values, Limits};

    #[test]
    fn what_acts_on_a_terminal_or_turns_text_is_shown_as_an_escape() {
        assert_eq!(line("naïve — ok"), "naïve — ok");
        assert_eq!(line("a\x1b]52;c;eA==\x07"), "a\\u{1b}]52;c;eA==\\u{7}");
        assert_eq!(line("a\nb\r"), "a\\u{a}b\\u{d}");
        assert_eq!(line("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(line("a\u{3164}b\u{fe0f}"), "a\\u{3164}b\\u{fe0f}");
        assert_eq!(line("\u{202e}gpj"), "\\u{202e}gpj");
    }

    #[test]
    fn json_in_ascii_says_the_same_and_acts_on_nothing() {
        let value = values::parse(
            "{\"a\":\"\u{9b}31m\u{202e}é😀\\u001b\"}".as_bytes(),
            &Limits::LINE,
        )
        .unwrap();
        let shown = json(&String::from_utf8(values::canonical(&value)).unwrap());
        assert!(shown.bytes().all(|b| (b' '..=b'~').contains(&b)), "{shown}");
        assert_eq!(
            values::parse(shown.as_bytes(), &Limits::LINE).unwrap(),
            value
        );
    }
}
