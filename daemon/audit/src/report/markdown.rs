//! A page as Markdown (GFM). Foreign text stands in code spans, where nothing of it is markup.

use custody_shown::inert;

use super::page::{Block, Cell};

pub(super) fn write(page: &[Block]) -> String {
    let mut out = String::new();
    let mut first = true;
    for block in page {
        match block {
            Block::Heading(text) => {
                out.push_str(if first { "# " } else { "\n## " });
                out.push_str(text);
                out.push_str("\n\n");
            }
            Block::Sentence(text) => {
                out.push_str(&plain(text));
                out.push_str("\n\n");
            }
            Block::Items(items) if items.is_empty() => {}
            Block::Items(items) => {
                for item in items {
                    out.push_str("- ");
                    out.push_str(&plain(item));
                    out.push('\n');
                }
                out.push('\n');
            }
            Block::Table(_heads, rows) if rows.is_empty() => {}
            Block::Table(heads, rows) => {
                row(&mut out, heads.iter().map(|it| (*it).to_owned()));
                row(&mut out, heads.iter().map(|_head| "---".to_owned()));
                for cells in rows {
                    row(&mut out, cells.iter().map(cell));
                }
                out.push('\n');
            }
        }
        first = false;
    }
    let end = out.trim_end().len();
    out.truncate(end);
    out.push('\n');
    out
}

fn row(out: &mut String, cells: impl Iterator<Item = String>) {
    out.push('|');
    for cell in cells {
        out.push(' ');
        out.push_str(&cell);
        out.push_str(" |");
    }
    out.push('\n');
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Ours(text) => plain(text).replace('|', "\\|"),
        Cell::Foreign(text) => code(text),
    }
}

/// Text in a code span of a table: no backtick ends it, no bar ends the cell.
fn code(text: &str) -> String {
    let text = inert::line(text)
        .replace('`', "\\u{60}")
        .replace('|', "\\u{7c}");
    if text.trim().is_empty() {
        return "(empty)".into();
    }
    format!("`{text}`")
}

/// A sentence of ours. What of a record is quoted in it (names, pointers) stands in backticks, which no such text
/// has; outside of them nothing is markup that a renderer obeys.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut quoted = false;
    for character in inert::line(text).chars() {
        quoted ^= character == '`';
        match character {
            '<' | '>' | '[' | ']' | '*' | '_' | '#' | '!' | '~' if !quoted => {
                out.push('\\');
                out.push(character);
            }
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_no_markup_and_leaves_no_cell() {
        let hostile = "`|<img src=x>\u{1b}[2J\u{202e}[a](http://e)\n# x";
        let shown = cell(&Cell::Foreign(hostile.into()));
        assert_eq!(shown.matches('`').count(), 2, "{shown}");
        assert!(!shown.contains('|') && !shown.contains('\n'), "{shown}");
        assert!(
            shown.chars().all(|it| !it.is_control() && it != '\u{202e}'),
            "{shown}"
        );
        assert_eq!(plain("a `[x]` [y](z)"), "a `[x]` \\[y\\](z)");
    }
}
