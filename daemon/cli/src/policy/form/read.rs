//! The words of a text become lines.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the parser's words: whatever is not named is refused, also one that it has tomorrow"
)]

use toml_parser::{
    Source,
    lexer::{Token, TokenKind},
};

use super::{
    NotToml,
    write::{Item, Line, Shown, broken},
};

/// Every line of `text`.
pub(super) fn lines(text: &str) -> Result<Vec<Line>, NotToml> {
    let mut words = Words::new(text);
    let mut lines = Vec::new();
    loop {
        match words.peek() {
            TokenKind::Eof => return Ok(lines),
            TokenKind::Newline => {
                words.next();
                // The first ends a line, if there is one; this one is blank.
                lines.push(Line::Blank);
            }
            TokenKind::Comment => {
                let comment = words.take();
                lines.push(Line::Comment(comment));
                words.line_end()?;
            }
            TokenKind::LeftSquareBracket => lines.push(words.header()?),
            _ => lines.extend(words.entry()?),
        }
    }
}

struct Words<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
}

impl<'t> Words<'t> {
    fn new(text: &'t str) -> Self {
        let tokens = Source::new(text).lex();
        let tokens = tokens.filter(|it| it.kind() != TokenKind::Whitespace);
        Self {
            text,
            tokens: tokens.collect(),
            at: 0,
        }
    }

    fn token(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    fn peek(&self) -> TokenKind {
        self.token().map_or(TokenKind::Eof, |it| it.kind())
    }

    fn next(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    fn start(&self) -> usize {
        self.token().map_or(self.text.len(), |it| it.span().start())
    }

    /// Where the word before this one ends.
    fn end(&self) -> usize {
        let last = self.at.checked_sub(1).and_then(|it| self.tokens.get(it));
        last.map_or(0, |it| it.span().end())
    }

    fn wrong(&self) -> NotToml {
        NotToml { at: self.start() }
    }

    fn expect(&mut self, kind: TokenKind) -> Result<(), NotToml> {
        if self.peek() != kind {
            return Err(self.wrong());
        }
        self.next();
        Ok(())
    }

    /// This word, as it is written.
    fn take(&mut self) -> String {
        let from = self.start();
        self.next();
        self.text
            .get(from..self.end())
            .unwrap_or("")
            .trim_end()
            .into()
    }

    /// The line ends here.
    fn line_end(&mut self) -> Result<(), NotToml> {
        match self.peek() {
            TokenKind::Eof => Ok(()),
            _ => self.expect(TokenKind::Newline),
        }
    }

    /// A comment behind something, and the line's end.
    fn behind(&mut self) -> Result<Option<String>, NotToml> {
        let comment = (self.peek() == TokenKind::Comment).then(|| self.take());
        self.line_end()?;
        Ok(comment)
    }

    /// Names with dots between them.
    fn key(&mut self) -> Result<String, NotToml> {
        let mut key = String::new();
        loop {
            match self.peek() {
                TokenKind::Atom | TokenKind::BasicString | TokenKind::LiteralString => {
                    key.push_str(&self.take());
                }
                _ => return Err(self.wrong()),
            }
            if self.peek() != TokenKind::Dot {
                return Ok(key);
            }
            self.next();
            key.push('.');
        }
    }

    /// `[a.b]`, or `[[a.b]]`.
    fn header(&mut self) -> Result<Line, NotToml> {
        let mut depth = 0_usize;
        while self.peek() == TokenKind::LeftSquareBracket {
            depth = depth.saturating_add(1);
            self.next();
        }
        let key = self.key()?;
        for _each in 0..depth {
            self.expect(TokenKind::RightSquareBracket)?;
        }
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        Ok(Line::Header {
            code: format!("{open}{key}{close}"),
            comment: self.behind()?,
        })
    }

    /// `key = value`, in one line or more.
    fn entry(&mut self) -> Result<Vec<Line>, NotToml> {
        let key = self.key()?;
        self.expect(TokenKind::Equals)?;
        let value = self.value()?;
        let comment = self.behind()?;
        let head = format!("{key} = ");
        Ok(broken(&head, &value, comment, 0))
    }

    fn value(&mut self) -> Result<Shown, NotToml> {
        match self.peek() {
            TokenKind::LeftSquareBracket => self.list(),
            TokenKind::LeftCurlyBracket => self.table().map(Shown::Plain),
            TokenKind::BasicString | TokenKind::MlBasicString | TokenKind::MlLiteralString => {
                Ok(Shown::Plain(self.take()))
            }
            TokenKind::LiteralString => Ok(Shown::Plain(plain(&self.take()))),
            // A number or a time may be several words: `1.5`, `1979-05-27 07:32:00`.
            TokenKind::Atom => {
                let from = self.start();
                while matches!(self.peek(), TokenKind::Atom | TokenKind::Dot) {
                    self.next();
                }
                let raw = self.text.get(from..self.end()).unwrap_or("");
                Ok(Shown::Plain(raw.trim_end().into()))
            }
            _ => Err(self.wrong()),
        }
    }

    fn list(&mut self) -> Result<Shown, NotToml> {
        self.expect(TokenKind::LeftSquareBracket)?;
        let mut items: Vec<Item> = Vec::new();
        let mut before = Vec::new();
        // Whether the last item's line goes on here.
        let mut same_line = false;
        loop {
            match self.peek() {
                TokenKind::Newline => {
                    self.next();
                    same_line = false;
                }
                TokenKind::Comma => self.next(),
                TokenKind::Comment => {
                    let comment = self.take();
                    match items.last_mut().filter(|_| same_line) {
                        Some(item) if item.behind.is_none() => item.behind = Some(comment),
                        Some(_) | None => before.push(comment),
                    }
                }
                TokenKind::RightSquareBracket => {
                    self.next();
                    return Ok(Shown::List { items, end: before });
                }
                _ => {
                    items.push(Item {
                        before: std::mem::take(&mut before),
                        value: self.value()?,
                        behind: None,
                    });
                    same_line = true;
                }
            }
        }
    }

    /// `{ a = 1, b = 2 }` in one line; as it is written where it has a comment.
    fn table(&mut self) -> Result<String, NotToml> {
        let from = self.start();
        self.expect(TokenKind::LeftCurlyBracket)?;
        let (mut members, mut commented) = (Vec::new(), false);
        loop {
            match self.peek() {
                TokenKind::Newline | TokenKind::Comma => self.next(),
                TokenKind::Comment => {
                    commented = true;
                    self.next();
                }
                TokenKind::RightCurlyBracket => {
                    self.next();
                    break;
                }
                _ => {
                    let key = self.key()?;
                    self.expect(TokenKind::Equals)?;
                    let value = self.value()?;
                    commented |= value.has_comment();
                    members.push(format!("{key} = {}", value.flat()));
                }
            }
        }
        Ok(if commented {
            self.text.get(from..self.end()).unwrap_or("").into()
        } else if members.is_empty() {
            "{}".into()
        } else {
            format!("{{ {} }}", members.join(", "))
        })
    }
}

/// A literal string as a basic one, where both say the same.
fn plain(raw: &str) -> String {
    let inner = raw.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
    match inner {
        Some(text) if !text.contains(['\\', '"']) && !text.contains(char::is_control) => {
            format!("\"{text}\"")
        }
        Some(_) | None => raw.into(),
    }
}
