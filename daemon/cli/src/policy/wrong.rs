//! What is wrong with a policy: file, line and column, the key, what to do, and the line itself with a mark under
//! what is meant.

use std::path::Path;

use gate::policy::PolicyError;

use crate::{beside, complain, inert};

/// So much of a line is shown, in characters, and so much of it before what is meant.
const WIDTH: usize = 100;
const BEFORE: usize = 60;

/// Says everything that is wrong, on standard error.
pub(super) fn complain_of(file: &Path, text: &str, errors: &[PolicyError]) {
    for line in lines(file, text, errors) {
        if line.starts_with(' ') {
            beside(&line);
        } else {
            complain(&line);
        }
    }
}

/// Everything that is wrong, in lines; what is quoted begins with a blank.
fn lines(file: &Path, text: &str, errors: &[PolicyError]) -> Vec<String> {
    let mut lines: Vec<String> = errors.iter().flat_map(|it| one(file, text, it)).collect();
    if errors.len() > 1 {
        lines.push(format!(
            "{} things are wrong in `{}`",
            errors.len(),
            file.display()
        ));
    }
    lines
}

fn one(file: &Path, text: &str, error: &PolicyError) -> Vec<String> {
    let line = text.lines().nth(error.line.saturating_sub(1)).unwrap_or("");
    // How far into its line it begins, in bytes.
    let begins = text.get(..error.at.start).map_or(0, |before| {
        before.len() - before.rfind('\n').map_or(0, |it| it + 1)
    });
    let column = line.get(..begins).map_or(0, |it| it.chars().count());
    let said = format!(
        "{}:{}:{}: `{}`: {}",
        file.display(),
        error.line,
        column.saturating_add(1),
        error.key,
        error.problem
    );
    let length = line
        .get(begins..)
        .and_then(|rest| rest.get(..error.at.len().min(rest.len())))
        .map_or(0, |it| it.chars().count());
    let (shown, mark) = marked(line, column, length);
    let number = format!("{:>5} | ", error.line);
    let under = format!("{:>5} | ", "");
    vec![said, format!("{number}{shown}"), format!("{under}{mark}")]
}

/// The part of a line around what is meant, inert, and what stands under it.
fn marked(line: &str, column: usize, length: usize) -> (String, String) {
    let from = column.saturating_sub(BEFORE);
    let show = |from: usize, to: usize| -> String {
        let part: String = line
            .chars()
            .skip(from)
            .take(to.saturating_sub(from))
            .collect();
        inert::line(&part)
    };
    let end = from.saturating_add(WIDTH);
    let cut = if from > 0 { "… " } else { "" };
    let more = if line.chars().count() > end {
        " …"
    } else {
        ""
    };
    let before = show(from, column);
    let meant = show(column, column.saturating_add(length).min(end));
    let rest = show(column.saturating_add(length), end);
    let blank = cut.chars().chain(before.chars()).map(|_any| ' ');
    let mark = blank.chain(std::iter::repeat_n('^', meant.chars().count().max(1)));
    (format!("{cut}{before}{meant}{rest}{more}"), mark.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate::{id::PolicyName, policy::Policy};

    fn said(text: &str) -> Vec<String> {
        let name = PolicyName::parse("a").unwrap();
        let none = |_: &str| Err(String::new());
        lines(
            Path::new("a.toml"),
            text,
            &Policy::faults(&name, text, &none),
        )
    }

    #[test]
    fn the_mark_stands_under_what_is_wrong_and_each_fault_has_its_own() {
        let text = "format = 1\n[session]\n  profile = \"lax\"\nhold_seconds = 0\n[nowhere]\n";
        let lines = said(text);
        assert!(
            lines[0].starts_with("a.toml:3:13: `session.profile`: unknown variant `lax`"),
            "{lines:?}"
        );
        assert_eq!(lines[1], "    3 |   profile = \"lax\"");
        assert_eq!(lines[2], "      |             ^^^^^");
        assert!(
            lines[3].starts_with("a.toml:4:1: `session.hold_seconds`: must be 1 to 86400"),
            "{lines:?}"
        );
        assert_eq!(lines[5], "      | ^^^^^^^^^^^^");
        assert!(lines[6].starts_with("a.toml:5:"), "{lines:?}");
        assert_eq!(lines[9], "3 things are wrong in `a.toml`");
    }

    #[test]
    fn a_line_that_acts_or_is_endless_is_shown_inert_and_cut_around_the_mark() {
        let text = format!("format = 1\nx = [{}\"\u{202e}\", 7z]\n", "1, ".repeat(400));
        let lines = said(&text);
        assert!(
            lines
                .iter()
                .all(|it| it.chars().count() < 160 && !it.contains('\u{202e}')),
            "{lines:?}"
        );
        assert!(lines[1].contains("\\u{202e}"), "{lines:?}");
        let at = lines[2].find('^').unwrap();
        let under: String = lines[1]
            .chars()
            .skip(lines[2].chars().take_while(|it| *it != '^').count())
            .take(1)
            .collect();
        assert!(at > 0 && !under.trim().is_empty(), "{lines:?}");
    }
}
