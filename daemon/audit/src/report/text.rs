//! A page as plain text: tables in columns, nothing that acts on a terminal.

use custody_shown::inert;

use super::page::{Block, Cell};

pub(super) fn write(page: &[Block]) -> String {
    let mut out = String::new();
    for block in page {
        match block {
            Block::Heading(text) => {
                if !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(text);
                out.push('\n');
                out.extend(text.chars().map(|_any| '='));
                out.push('\n');
            }
            Block::Sentence(text) => {
                out.push_str(&inert::line(text));
                out.push('\n');
            }
            Block::Items(items) => {
                for item in items {
                    out.push_str("- ");
                    out.push_str(&inert::line(item));
                    out.push('\n');
                }
            }
            Block::Table(_heads, rows) if rows.is_empty() => {}
            Block::Table(heads, rows) => table(&mut out, heads, rows),
        }
    }
    out
}

fn table(out: &mut String, heads: &[&str], rows: &[Vec<Cell>]) {
    let mut lines: Vec<Vec<String>> = vec![heads.iter().map(|it| (*it).to_owned()).collect()];
    lines.extend(rows.iter().map(|row| row.iter().map(cell).collect()));
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    for line in &lines {
        let mut text = String::from(" ");
        for (cell, width) in line.iter().zip(&widths) {
            text.push(' ');
            text.push_str(cell);
            let fill = width.saturating_sub(cell.chars().count()).saturating_add(1);
            text.extend(std::iter::repeat_n(' ', fill));
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Ours(text) | Cell::Foreign(text) => inert::line(text),
    }
}
