//! What a command changed about the terminal, so that it can be changed back.

use std::collections::BTreeMap;

/// Modes that are on unless something turned them off: auto-wrap, auto-repeat, the cursor,
/// 8-bit meta keys and their like are left as found.
const ON_AT_FIRST: [u32; 3] = [7, 8, 25];

/// Modes that are left as the command left them: they only show, or hold no state.
const LEFT: [u32; 5] = [12, 1034, 1036, 1039, 1048];

/// What was changed.
#[derive(Debug, Default)]
pub(super) struct Modes {
    /// Whether anything passed that is more than text.
    touched: bool,
    /// Private modes, by number: on or off.
    private: BTreeMap<u32, bool>,
    /// Sets of keyboard flags that were pushed (kitty's protocol).
    keyboards: u32,
    other_keys: bool,
    cursor_form: bool,
    margins: bool,
}

impl Modes {
    /// A sequence passed.
    pub(super) fn csi(&mut self, body: &[u8], last: u8) {
        self.touched = true;
        let body = std::str::from_utf8(body).unwrap_or_default();
        match (body.split_at_checked(1), last) {
            (Some(("?", modes)), b'h' | b'l') => {
                for mode in modes.split(';').filter_map(|mode| mode.parse().ok()) {
                    self.private.insert(mode, last == b'h');
                }
            }
            (Some((">", _)), b'u') => self.keyboards = self.keyboards.saturating_add(1),
            (Some(("<", count)), b'u') => {
                let count = count.parse().unwrap_or(1);
                self.keyboards = self.keyboards.saturating_sub(count);
            }
            (Some((">", _)), b'm') => self.other_keys = true,
            (_, b'q') => self.cursor_form = true,
            (_, b'r') => self.margins = !body.is_empty(),
            // A soft reset puts margins and cursor back.
            (_, b'p') => self.margins = false,
            _ => {}
        }
    }

    /// A control passed: SO shows line drawing.
    pub(super) const fn control(&mut self, byte: u8) {
        const SO: u8 = 0x0e;
        if byte == SO {
            self.touched = true;
        }
    }

    /// An escape passed: a full reset puts everything back.
    pub(super) fn escape(&mut self, intermediates: &[u8], last: u8) {
        if intermediates.is_empty() && last == b'c' {
            *self = Self::default();
        }
        self.touched = true;
    }

    /// What changes it back.
    pub(super) fn restore(self) -> Vec<u8> {
        if !self.touched {
            return Vec::new();
        }
        let mut back = String::new();
        for (mode, on) in &self.private {
            let first = ON_AT_FIRST.contains(mode);
            if !LEFT.contains(mode) && *on != first {
                let last = if first { 'h' } else { 'l' };
                back.push_str(&format!("\x1b[?{mode}{last}"));
            }
        }
        if self.keyboards > 0 {
            back.push_str(&format!("\x1b[<{}u", self.keyboards));
        }
        if self.other_keys {
            back.push_str("\x1b[>4;0m");
        }
        if self.cursor_form {
            back.push_str("\x1b[0 q");
        }
        if self.margins {
            // It moves the cursor, so that is kept around it.
            back.push_str("\x1b7\x1b[r\x1b8");
        }
        // ASCII, the normal keypad, insert mode off, no colour.
        back.push_str("\x1b(B\x0f\x1b>\x1b[4l\x1b[0m");
        back.into_bytes()
    }
}
