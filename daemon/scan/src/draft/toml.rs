//! Lines of a TOML file.

/// A file as it is written.
#[derive(Default)]
pub(super) struct Page {
    pub(super) text: String,
    pub(super) guesses: usize,
}

impl Page {
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// A line that nobody knows to be right, and why it stands there.
    pub(super) fn guess(&mut self, line: &str, why: &str) {
        self.guesses = self.guesses.saturating_add(1);
        self.line(&format!("{line} # guess: {why}"));
    }

    pub(super) fn append(&mut self, other: Self) {
        self.text.push_str(&other.text);
        self.guesses = self.guesses.saturating_add(other.guesses);
    }
}

/// A basic string (TOML 1.0). Whatever is not printable ASCII is escaped: what stands in a draft is what is read.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            ' '..='~' => quoted.push(c),
            other if u32::from(other) <= 0xffff => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(other)));
            }
            other => quoted.push_str(&format!("\\U{:08X}", u32::from(other))),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_read_back_as_it_was_and_has_nothing_that_acts() {
        for text in ["", "a\"b\\c", "\u{1b}[2J\n\u{202e}", "\u{1f980}", "{x}"] {
            let quoted = quoted(text);
            assert!(
                quoted.bytes().all(|b| (b' '..=b'~').contains(&b)),
                "{quoted}"
            );
            // JSON's escapes are TOML's, but for the longer one.
            if !quoted.contains("\\U") {
                let read: String = serde_json::from_str(&quoted).unwrap();
                assert_eq!(read, text);
            }
        }
    }
}
