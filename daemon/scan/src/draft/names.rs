//! Names that a policy takes, for those of an export: lower case, and none twice.

use std::collections::BTreeSet;

use gate::id::NAME_MAX;

/// The names that were given.
#[derive(Default)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    /// A tool's.
    pub(super) fn tool(&mut self, name: &str) -> String {
        self.fresh("tool:", &plain(name))
    }

    /// An argument's, of one tool.
    pub(super) fn argument(&mut self, tool: &str, name: &str) -> String {
        self.fresh(&format!("argument:{tool}:"), &plain(name))
    }

    /// That of a value, a set or a catalogue.
    pub(super) fn list(&mut self, tool: &str, argument: &str) -> String {
        self.fresh("list:", &plain(&format!("{tool}_{argument}")))
    }

    fn fresh(&mut self, of: &str, name: &str) -> String {
        let mut given = cut(name, NAME_MAX).to_owned();
        let mut number = 1_usize;
        while !self.0.insert(format!("{of}{given}")) {
            number = number.saturating_add(1);
            let end = format!("-{number}");
            given = format!("{}{end}", cut(name, NAME_MAX.saturating_sub(end.len())));
        }
        given
    }
}

fn cut(name: &str, most: usize) -> &str {
    name.get(..most).unwrap_or(name)
}

/// `filePath` is `file_path`; what no name may have is `_`.
fn plain(name: &str) -> String {
    let mut plain = String::new();
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && was_lower {
            plain.push('_');
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        plain.push(match c {
            'a'..='z' | '0'..='9' | '-' => c,
            'A'..='Z' => c.to_ascii_lowercase(),
            _ => '_',
        });
    }
    if !plain.starts_with(|c: char| c.is_ascii_lowercase()) {
        plain.insert(0, 'x');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_a_policy_and_none_is_given_twice() {
        let mut names = Names::default();
        assert_eq!(names.tool("browser_click"), "browser_click");
        assert_eq!(names.tool("filePath2URL"), "file_path2_url");
        assert_eq!(names.tool("file path2_url"), "file_path2_url-2");
        assert_eq!(names.tool("\u{43f}\u{430}"), "x__");
        assert_eq!(names.tool("9x"), "x9x");
        let long = "a".repeat(200);
        let (first, second) = (names.tool(&long), names.tool(&long));
        assert_eq!((first.len(), second.len()), (NAME_MAX, NAME_MAX));
        assert_ne!(first, second);
        for name in [first, second, names.argument("a", ""), names.list("a", "")] {
            gate::id::ToolName::parse(&name).unwrap();
        }
    }
}
