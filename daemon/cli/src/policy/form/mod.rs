//! The one form of a policy's text: the author's order and comments, our spacing.
//!
//! It works on the words of the text as the TOML parser reads them, so that nothing is reordered and no comment is
//! lost. One blank line stands before each table, none doubled; `key = value`; a list stands in its line where that
//! has at most 120 characters, else each item in its own; comments behind neighbouring lines are aligned; plain
//! `'texts'` become `"texts"`. A `{ … }` with comments in it is left as it is.

mod read;
mod write;

use std::fmt;

use toml_parser::{Source, lexer::TokenKind};

/// A text that is no TOML: nothing is written then.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NotToml {
    /// The byte at which it ends to be.
    pub(super) at: usize,
}

impl fmt::Display for NotToml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} is not where a TOML text goes on", self.at)
    }
}

/// `text` in its one form.
pub(super) fn form(text: &str) -> Result<String, NotToml> {
    let text = text.replace("\r\n", "\n");
    let lines = read::lines(&text)?;
    Ok(write::written(&write::spaced(lines)))
}

/// The comments of a text, in their order: none of them may be lost.
pub(super) fn comments(text: &str) -> Vec<String> {
    let tokens = Source::new(text).lex();
    let comments = tokens.filter(|it| it.kind() == TokenKind::Comment);
    comments
        .filter_map(|it| text.get(it.span().start()..it.span().end()))
        .map(|it| it.trim_end().into())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use gate::{digest::Digest, id::PolicyName, policy::Policy};
    use proptest::prelude::*;

    #[test]
    fn spacing_is_one_and_order_and_comments_are_the_authors() {
        let text = "\n\n# head\nformat=1\n\n\n\nname   =  'a'  # of it\n  x.y = [ 1,2 ,3, ]# more\n[ b . c ]   # said\n\n\
            z = {a=1,  b = [ 'x' ]}\n# of the table\n[d]\n# last";
        let formed = form(text).unwrap();
        assert_eq!(
            formed,
            "# head\nformat = 1\n\nname = \"a\"      # of it\nx.y = [1, 2, 3] # more\n\n[b.c] # said\n\
             z = { a = 1, b = [\"x\"] }\n\n# of the table\n[d]\n# last\n"
        );
        assert_eq!(form(&formed).unwrap(), formed);
        assert_eq!(comments(text), comments(&formed));
    }

    #[test]
    fn a_list_that_is_long_or_has_comments_has_an_item_a_line() {
        let long: Vec<String> = (0..30).map(|it| format!("\"item-{it}\"")).collect();
        let formed = form(&format!("a = [{}]\n", long.join(","))).unwrap();
        assert_eq!(formed.lines().count(), 32);
        assert!(formed.starts_with("a = [\n    \"item-0\",\n") && formed.ends_with(",\n]\n"));
        assert_eq!(form(&formed).unwrap(), formed);

        let text = "a = [ # first\n  1, # one\n # before two\n  2\n  # end\n] # behind\n";
        let formed = form(text).unwrap();
        assert_eq!(
            formed,
            "a = [\n    # first\n    1, # one\n    # before two\n    2,\n    # end\n] # behind\n"
        );
        assert_eq!(form(&formed).unwrap(), formed);
    }

    #[test]
    fn what_a_text_says_is_left_alone() {
        for same in [
            "a = '''x\n  # no comment\n'''\n",
            "a = \"\"\"x\n\n\n  [y]\n\"\"\" # z\n",
            "a = 'c:\\x'\n",
            "a = 1979-05-27 07:32:00\nb = 1.5e3\nc = -0x1F\nd = 1_000\n",
            "\"a b\".'c' = \"# no comment\"\n",
            "a = { b = 1, # why\n  c = 2 }\n",
            "[[a]]\nb = []\nc = {}\n",
        ] {
            assert_eq!(form(same).unwrap(), same);
        }
        assert_eq!(form("a = 'x'\r\n").unwrap(), "a = \"x\"\n");
        assert!(form("a = \n").is_err());
        assert!(form("a = [1\n").is_err());
    }

    /// The policies of the fixtures, whose meaning the gate says.
    fn policies() -> Vec<(String, String)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/policies");
        let entries = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
        let all = entries.filter(|it| it.extension().is_some_and(|it| it == "toml"));
        all.map(|it| {
            let name = it.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(&it).unwrap())
        })
        .collect()
    }

    fn hash(name: &str, text: &str) -> Option<Digest> {
        let beside = |_: &str| Ok("// none".to_owned());
        let name = PolicyName::parse(name).unwrap();
        Policy::compile_beside(&name, text, &beside)
            .ok()
            .map(|it| it.hash())
    }

    #[test]
    fn every_policy_means_the_same_in_its_form_and_keeps_its_comments() {
        let all = policies();
        assert!(all.len() >= 4);
        for (name, text) in all {
            let formed = form(&text).unwrap();
            assert!(hash(&name, &text).is_some(), "{name}");
            assert_eq!(hash(&name, &formed), hash(&name, &text), "{name}");
            assert_eq!(form(&formed).unwrap(), formed, "{name}");
            assert_eq!(comments(&formed), comments(&text), "{name}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..<_>::default() })]

        /// However it was spaced.
        #[test]
        fn the_form_does_not_hang_on_how_a_text_was_spaced(
            which in any::<prop::sample::Index>(), spaces in prop::collection::vec(0..4_usize, 1..40),
        ) {
            let all = policies();
            let (name, text) = which.get(&all);
            let mut spaces = spaces.iter().cycle();
            let mut more = String::new();
            for line in text.lines() {
                let count = *spaces.next().unwrap();
                let blank = " ".repeat(count);
                let line = line.replacen(" = ", &format!("{blank}= {blank}"), 1);
                more.push_str(&format!("{blank}{line}{blank}\r\n"));
                if line.is_empty() {
                    more.push_str(&"\n".repeat(count));
                }
            }
            prop_assert_eq!(form(&more).unwrap(), form(text).unwrap(), "{}", name);
        }

        /// Whatever is no TOML is refused or changed to what means the same, and nothing panics.
        #[test]
        fn no_text_breaks_it(text in "([a-z.\\[\\]{}=\"'#,0-9 \n\t\u{e4}\u{1b}]{0,40})") {
            if let Ok(formed) = form(&text) {
                prop_assert_eq!(comments(&formed), comments(&text));
            }
        }
    }
}
