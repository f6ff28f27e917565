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

/// Controls (C0, C1), line and paragraph separators, and the invisible marks of Unicode that
/// change direction or hide (UAX 9, and U+200B to U+200F).
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_or_turns_text_is_shown_as_an_escape() {
        assert_eq!(line("naïve — ok"), "naïve — ok");
        assert_eq!(line("a\x1b]52;c;eA==\x07"), "a\\u{1b}]52;c;eA==\\u{7}");
        assert_eq!(line("a\nb\r"), "a\\u{a}b\\u{d}");
        assert_eq!(line("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(line("\u{202e}gpj"), "\\u{202e}gpj");
    }
}
