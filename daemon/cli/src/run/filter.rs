//! What a command writes, made harmless to the terminal that shows it.
//!
//! A terminal acts on what it shows: it sets the clipboard, types answers to questions into the
//! shell, loads files. So only what is known to be for showing passes: text in UTF-8, colours,
//! the cursor, the alternate screen, mouse and paste modes, the title. Everything else is dropped
//! whole. The one question that passes is where the cursor is (DSR 6), since full-screen programs
//! do not start without it: its answer is two numbers.
//!
//! Sequences by ECMA-48 and xterm's `ctlseqs`.

mod csi;
mod modes;

use gate::mutant::Mutant;
use modes::Modes;

/// The longest control sequence that passes; colours with many parameters are about 60 bytes.
const CSI_MAX: usize = 128;

/// The longest title that passes.
const TITLE_MAX: usize = 256;

/// What stands for bytes that are no UTF-8.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

const BEL: u8 = 0x07;
const CAN: u8 = 0x18;
const ENQ: u8 = 0x05;
const ESC: u8 = 0x1b;
const SUB: u8 = 0x1a;

/// A filter of one stream; a sequence may come in pieces.
#[derive(Debug, Default)]
pub struct Filter {
    state: State,
    /// What of the sequence or character came so far, its introducer left out.
    held: Vec<u8>,
    modes: Modes,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    /// Behind ESC `[`.
    Csi,
    /// Behind ESC, and intermediates.
    Escape,
    #[default]
    Ground,
    /// In an operating system command.
    Osc,
    /// Behind an ESC inside a string: a `\` ends it.
    StringEscape { osc: bool },
    /// In a string that is dropped: DCS, SOS, PM, APC.
    String,
    /// In a character of this many bytes.
    Utf8(usize),
}

impl Filter {
    /// Puts what passes of `bytes` into `out`.
    pub fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if Mutant::CliTerminalFilter.is_on() {
            return out.extend_from_slice(bytes);
        }
        for byte in bytes {
            // A byte that breaks a sequence off begins anew: never more than once.
            if self.step(*byte, out) == Step::Again {
                self.state = State::Ground;
                self.held.clear();
                self.step(*byte, out);
            }
        }
    }

    /// What brings the terminal back to how programs expect it. To be written when the command is
    /// over.
    pub fn restore(&mut self) -> Vec<u8> {
        self.state = State::Ground;
        self.held.clear();
        std::mem::take(&mut self.modes).restore()
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) -> Step {
        match self.state {
            State::Csi => self.csi(byte, out),
            State::Escape => self.escape(byte, out),
            State::Ground => self.ground(byte, out),
            State::Osc => self.osc(byte, out),
            State::String => self.string(byte),
            State::StringEscape { osc } => self.string_escape(osc, byte, out),
            State::Utf8(len) => self.utf8(len, byte, out),
        }
    }

    fn ground(&mut self, byte: u8, out: &mut Vec<u8>) -> Step {
        match byte {
            ESC => self.begin(State::Escape),
            // ENQ is answered with a text that the terminal's owner set; CAN and SUB are for the
            // middle of sequences.
            ENQ | CAN | SUB => {}
            0x00..=0x7f => {
                self.modes.control(byte);
                out.push(byte);
            }
            0xc2..=0xdf => self.begin_character(2, byte),
            0xe0..=0xef => self.begin_character(3, byte),
            0xf0..=0xf4 => self.begin_character(4, byte),
            // C1 controls among them: 0x9b is CSI to a terminal that is not in UTF-8 mode.
            0x80..=0xc1 | 0xf5..=0xff => out.extend_from_slice(REPLACEMENT),
        }
        Step::Done
    }

    fn utf8(&mut self, len: usize, byte: u8, out: &mut Vec<u8>) -> Step {
        if !matches!(byte, 0x80..=0xbf) {
            out.extend_from_slice(REPLACEMENT);
            return Step::Again;
        }
        self.held.push(byte);
        if self.held.len() == len {
            match std::str::from_utf8(&self.held) {
                // U+0080 to U+009F are the same controls: xterm takes U+009B for CSI.
                Ok(text) if text.chars().any(char::is_control) => {}
                Ok(_) => out.extend_from_slice(&self.held),
                Err(_) => out.extend_from_slice(REPLACEMENT),
            }
            self.begin(State::Ground);
        }
        Step::Done
    }

    fn escape(&mut self, byte: u8, out: &mut Vec<u8>) -> Step {
        match (self.held.as_slice(), byte) {
            (_, ESC) => self.begin(State::Escape),
            ([], b'[') => self.begin(State::Csi),
            ([], b']') => self.begin(State::Osc),
            // DCS, SOS, PM, APC; and screen's own title string.
            ([], b'P' | b'X' | b'^' | b'_' | b'k') => self.begin(State::String),
            ([] | [_], 0x20..=0x2f) => self.held.push(byte),
            (intermediates, 0x30..=0x7e) => {
                if escape_passes(intermediates, byte) {
                    out.push(ESC);
                    out.extend_from_slice(intermediates);
                    out.push(byte);
                    self.modes.escape(intermediates, byte);
                }
                self.begin(State::Ground);
            }
            (_, 0x00..=0x1f | 0x20..=0x2f | 0x7f..=0xff) => return Step::Again,
        }
        Step::Done
    }

    fn csi(&mut self, byte: u8, out: &mut Vec<u8>) -> Step {
        match byte {
            ESC => self.begin(State::Escape),
            // One too long is swallowed to its end.
            0x20..=0x3f if self.held.len() > CSI_MAX => {}
            0x20..=0x3f => self.held.push(byte),
            0x40..=0x7e => {
                if self.held.len() <= CSI_MAX
                    && let Some(passed) = csi::passed(&self.held, byte)
                {
                    out.extend_from_slice(b"\x1b[");
                    out.extend_from_slice(&passed);
                    out.push(byte);
                    self.modes.csi(&passed, byte);
                }
                self.begin(State::Ground);
            }
            0x00..=0x1f | 0x7f..=0xff => return Step::Again,
        }
        Step::Done
    }

    fn osc(&mut self, byte: u8, out: &mut Vec<u8>) -> Step {
        match byte {
            BEL => {
                self.title(out);
                self.begin(State::Ground);
            }
            ESC => self.state = State::StringEscape { osc: true },
            0x00..=0x1f => return Step::Again,
            _ if self.held.len() > TITLE_MAX => {}
            _ => self.held.push(byte),
        }
        Step::Done
    }

    fn string(&mut self, byte: u8) -> Step {
        match byte {
            ESC => self.state = State::StringEscape { osc: false },
            CAN | SUB => self.begin(State::Ground),
            _ => {}
        }
        Step::Done
    }

    fn string_escape(&mut self, osc: bool, byte: u8, out: &mut Vec<u8>) -> Step {
        if byte == b'\\' {
            if osc {
                self.title(out);
            }
            self.begin(State::Ground);
            return Step::Done;
        }
        // The string was broken off by another sequence.
        self.begin(State::Escape);
        self.escape(byte, out)
    }

    /// Passes a window or icon title (OSC 0, 1, 2); every other command is dropped: clipboard
    /// (52), colours and their questions (4, 10 to 19), files (1337), links (8), notifications.
    fn title(&self, out: &mut Vec<u8>) {
        let [kind @ b'0'..=b'2', b';', title @ ..] = self.held.as_slice() else {
            return;
        };
        let shown =
            std::str::from_utf8(title).is_ok_and(|title| !title.chars().any(char::is_control));
        if shown && self.held.len() <= TITLE_MAX {
            out.extend_from_slice(&[ESC, b']', *kind, b';']);
            out.extend_from_slice(title);
            out.push(BEL);
        }
    }

    fn begin(&mut self, state: State) {
        self.state = state;
        self.held.clear();
    }

    fn begin_character(&mut self, len: usize, byte: u8) {
        self.begin(State::Utf8(len));
        self.held.push(byte);
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// The byte ended a sequence and is yet to be looked at.
    Again,
    Done,
}

/// Cursor, keypad, tabulator, index, reset; line drawing; double lines. Not: `ESC Z` (who are
/// you), `ESC SP G` and `ESC % @` (then 8-bit controls act, which look like parts of UTF-8).
const fn escape_passes(intermediates: &[u8], last: u8) -> bool {
    match intermediates {
        [] => matches!(
            last,
            b'7' | b'8' | b'=' | b'>' | b'D' | b'E' | b'H' | b'M' | b'c'
        ),
        [b'(' | b')' | b'*' | b'+'] => matches!(last, b'0'..=b'2' | b'A' | b'B'),
        [b'#'] => matches!(last, b'3'..=b'6' | b'8'),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
