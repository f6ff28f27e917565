//! Lines of a policy, and how they are written.

/// How long a line with a list may be.
const WIDTH: usize = 120;

/// A line of what is written.
#[derive(Debug)]
pub(super) enum Line {
    Blank,
    Comment(String),
    Entry {
        code: String,
        comment: Option<String>,
    },
    Header {
        code: String,
        comment: Option<String>,
    },
}

/// A value.
pub(super) enum Shown {
    /// In one piece.
    Plain(String),
    /// A list.
    List { items: Vec<Item>, end: Vec<String> },
}

/// An item of a list.
pub(super) struct Item {
    /// Comments in lines before it.
    pub(super) before: Vec<String>,
    pub(super) value: Shown,
    /// A comment behind it in its line.
    pub(super) behind: Option<String>,
}

impl Shown {
    pub(super) fn has_comment(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::List { items, end } => {
                !end.is_empty()
                    || items.iter().any(|it| {
                        !it.before.is_empty() || it.behind.is_some() || it.value.has_comment()
                    })
            }
        }
    }

    pub(super) fn flat(&self) -> String {
        match self {
            Self::Plain(text) => text.clone(),
            Self::List { items, .. } => {
                let items: Vec<String> = items.iter().map(|it| it.value.flat()).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }
}

/// A value behind `head`, in lines.
pub(super) fn broken(
    head: &str,
    value: &Shown,
    comment: Option<String>,
    depth: usize,
) -> Vec<Line> {
    let indent = "    ".repeat(depth);
    let flat = format!("{indent}{head}{}", value.flat());
    let items = match value {
        Shown::List { items, end }
            if value.has_comment() || (flat.chars().count() > WIDTH && !items.is_empty()) =>
        {
            (items, end)
        }
        Shown::Plain(_) | Shown::List { .. } => {
            return vec![Line::Entry {
                code: flat,
                comment,
            }];
        }
    };
    let (items, end) = items;
    let inner = "    ".repeat(depth.saturating_add(1));
    let mut lines = vec![Line::Entry {
        code: format!("{indent}{head}["),
        comment: None,
    }];
    let said = |comments: &[String], lines: &mut Vec<Line>| {
        let comments = comments.iter().map(|it| format!("{inner}{it}"));
        lines.extend(comments.map(Line::Comment));
    };
    for item in items {
        said(&item.before, &mut lines);
        let mut of_item = broken(
            "",
            &item.value,
            item.behind.clone(),
            depth.saturating_add(1),
        );
        if let Some(Line::Entry { code, .. }) = of_item.last_mut() {
            code.push(',');
        }
        lines.extend(of_item);
    }
    said(end, &mut lines);
    // What follows the list stands behind its end.
    let close = if head.is_empty() {
        format!("{indent}]")
    } else {
        "]".into()
    };
    lines.push(Line::Entry {
        code: close,
        comment,
    });
    lines
}

/// One blank line before each table and what is said of it, none doubled, none at the ends.
pub(super) fn spaced(lines: Vec<Line>) -> Vec<Line> {
    let mut out: Vec<Line> = Vec::new();
    for line in lines {
        match line {
            Line::Blank => {
                if !matches!(out.last(), None | Some(Line::Blank | Line::Header { .. })) {
                    out.push(Line::Blank);
                }
            }
            Line::Header { .. } => {
                let said = out
                    .iter()
                    .rev()
                    .take_while(|it| matches!(it, Line::Comment(_)));
                let at = out.len().saturating_sub(said.count());
                let before = at.checked_sub(1).and_then(|it| out.get(it));
                if !matches!(before, None | Some(Line::Blank)) {
                    out.insert(at, Line::Blank);
                }
                out.push(line);
            }
            Line::Comment(_) | Line::Entry { .. } => out.push(line),
        }
    }
    while matches!(out.last(), Some(Line::Blank)) {
        out.pop();
    }
    out
}

/// The lines, comments behind neighbours aligned.
pub(super) fn written(lines: &[Line]) -> String {
    let commented = |line: &Line| match line {
        Line::Entry {
            code,
            comment: Some(_),
        } => Some(code.rsplit('\n').next().unwrap_or("").chars().count()),
        Line::Blank | Line::Comment(_) | Line::Entry { .. } | Line::Header { .. } => None,
    };
    let mut out = String::new();
    let mut width = 0;
    for (index, line) in lines.iter().enumerate() {
        let run_begins = index
            .checked_sub(1)
            .and_then(|it| lines.get(it))
            .is_none_or(|it| commented(it).is_none());
        if run_begins {
            let run = lines.get(index..).unwrap_or_default();
            width = run.iter().map_while(commented).max().unwrap_or(0);
        }
        match line {
            Line::Blank => {}
            Line::Comment(comment) => out.push_str(comment),
            Line::Header { code, comment } => {
                out.push_str(code);
                if let Some(comment) = comment {
                    out.push(' ');
                    out.push_str(comment);
                }
            }
            Line::Entry { code, comment } => {
                out.push_str(code);
                if let Some(comment) = comment {
                    let fill = width.saturating_sub(commented(line).unwrap_or(width));
                    out.extend(std::iter::repeat_n(' ', fill.saturating_add(1)));
                    out.push_str(comment);
                }
            }
        }
        out.push('\n');
    }
    out
}
