//! Takes the credential out of what a server answered, before anybody sees it.
//!
//! A server that echoes a request echoes the credential: in a debug page, an error, a redirect. It
//! is looked for as itself, in hexadecimal and in base64 at each of its three alignments (both
//! alphabets of RFC 4648), and each character of those forms may stand plain, percent-encoded
//! (RFC 3986), JSON-escaped (RFC 8259), as an HTML character reference or in UTF-16. Letters
//! match in either case. Other encodings are not found; the non-claims say so.
//!
//! **Invariant:** a stream keeps the last `longest form − 1` bytes back, always, whatever they
//! are. Keeping back only what looks like the beginning of the credential tells a guesser how much
//! of a guess was right, one byte an echo.

mod character;
mod form;

use std::sync::Arc;

use gate::mutant::Mutant;
use zeroize::Zeroize as _;

use crate::{credential::Credential, scrub::form::Forms};

/// What stands where the credential stood.
pub const MARK: &[u8] = b"[credential]";

/// Scrubs `bytes`, whole. The count says how often the credential stood in them.
pub fn whole(credential: &Arc<Credential>, bytes: &[u8]) -> (Vec<u8>, u32) {
    let mut scrubber = Scrubber::new(Arc::clone(credential));
    let mut out = Vec::with_capacity(bytes.len());
    scrubber.push(bytes, &mut out);
    let count = scrubber.finish(&mut out);
    (out, count)
}

/// Scrubs a stream, chunk by chunk, to the same bytes as [`whole`], however it was cut.
pub struct Scrubber {
    credential: Arc<Credential>,
    held: Vec<u8>,
    hold_back: usize,
    count: u32,
}

impl std::fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrubber")
            .field("credential", &self.credential)
            .field("held", &self.held.len())
            .finish_non_exhaustive()
    }
}

impl Drop for Scrubber {
    fn drop(&mut self) {
        // It may hold an echo of the credential.
        self.held.zeroize();
    }
}

impl Scrubber {
    /// Nothing seen yet.
    pub fn new(credential: Arc<Credential>) -> Self {
        let longest = credential.lend_each(|secrets| {
            let longest = secrets.iter().map(|secret| secret.len()).max();
            longest.unwrap_or(0)
        });
        let longest = form::longest(longest);
        Self {
            credential,
            held: Vec::new(),
            hold_back: longest.saturating_sub(1),
            count: 0,
        }
    }

    /// How many bytes are kept back until the end, whatever they are.
    pub fn hold_back(&self) -> usize {
        self.hold_back
    }

    /// How often the credential was found and taken out.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Takes the next chunk and puts what may be released behind `out`.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(chunk);
        let kept = if Mutant::EffectScrubberHoldBack.is_on() {
            self.begun()
        } else {
            self.hold_back
        };
        let release = self.held.len().saturating_sub(kept);
        // A form that begins before `release` ends inside what is held: it is seen whole.
        self.release(release, out);
    }

    /// What looks like the beginning of the credential, at the end of what is held.
    fn begun(&self) -> usize {
        self.credential.lend_each(|secrets| {
            let begins = |secret: &[u8]| {
                let starts = (1..=secret.len()).rev();
                starts.into_iter().find(|len| {
                    let start = secret.get(..*len).unwrap_or_default();
                    self.held.ends_with(start)
                })
            };
            secrets
                .iter()
                .filter_map(|it| begins(it))
                .max()
                .unwrap_or(0)
        })
    }

    /// The stream is over: puts the rest behind `out` and says how often the credential was found.
    pub fn finish(mut self, out: &mut Vec<u8>) -> u32 {
        self.release(self.held.len(), out);
        self.count
    }

    /// Releases everything that begins before `end`.
    fn release(&mut self, end: usize, out: &mut Vec<u8>) {
        let held = &self.held;
        let mut at = 0;
        let mut found: u32 = 0;
        self.credential.lend_each(|secrets| {
            let forms = Forms::of(secrets);
            while at < end {
                let found_at = forms.longest_at(held, at);
                match found_at.filter(|_| !Mutant::EffectScrubber.is_on()) {
                    Some(past) => {
                        out.extend_from_slice(MARK);
                        found = found.saturating_add(1);
                        at = past;
                    }
                    None => {
                        out.extend(held.get(at));
                        at = at.saturating_add(1);
                    }
                }
            }
        });
        self.count = self.count.saturating_add(found);
        self.held.drain(..at.min(self.held.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: &str = "fake-token/for+tests=\"7%&\\<x>";

    fn credential(secret: &str) -> Arc<Credential> {
        Arc::new(Credential::from_bytes(secret.as_bytes(), "Bearer ").unwrap())
    }

    fn base64(bytes: &[u8], last: [char; 2]) -> String {
        let digit = |value: u32| match value {
            0..=25 => char::from(b'A' + u8::try_from(value).unwrap()),
            26..=51 => char::from(b'a' + u8::try_from(value - 26).unwrap()),
            52..=61 => char::from(b'0' + u8::try_from(value - 52).unwrap()),
            62 => last[0],
            _ => last[1],
        };
        let mut text = String::new();
        for three in bytes.chunks(3) {
            let mut word = 0_u32;
            for nth in 0..3 {
                word = word << 8 | u32::from(three.get(nth).copied().unwrap_or(0));
            }
            for nth in 0..4 {
                if nth <= three.len() {
                    text.push(digit(word >> (18 - 6 * nth) & 63));
                } else {
                    text.push('=');
                }
            }
        }
        text
    }

    fn every_form(secret: &str) -> Vec<String> {
        let each = |form: &dyn Fn(u8) -> String| secret.bytes().map(form).collect::<String>();
        let mut forms = vec![
            secret.to_owned(),
            secret.to_uppercase(),
            each(&|b| format!("{b:02x}")),
            each(&|b| format!("{b:02X}")),
            each(&|b| format!("%{b:02x}")),
            each(&|b| match b {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => char::from(b).to_string(),
                _ => format!("%{b:02X}"),
            }),
            each(&|b| match b {
                b'"' | b'\\' | b'/' => format!("\\{}", char::from(b)),
                b'<' | b'>' | b'&' => format!("\\u{b:04x}"),
                _ => char::from(b).to_string(),
            }),
            each(&|b| format!("\\u{b:04X}")),
            each(&|b| format!("\\x{b:02x}")),
            each(&|b| format!("&#{b};")),
            each(&|b| format!("&#x{b:x};")),
            each(&|b| format!("{}\0", char::from(b))),
            each(&|b| format!("\0{}", char::from(b))),
            secret
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;")
                .replace('"', "&quot;"),
        ];
        for before in ["", "a", "ab", "user:"] {
            for after in ["", "z", "zz", ":rest"] {
                let text = format!("{before}{secret}{after}");
                let standard = base64(text.as_bytes(), ['+', '/']);
                forms.push(base64(text.as_bytes(), ['-', '_']));
                forms.push(standard.replace('/', "\\/"));
                forms.push(standard.replace('+', "%2B").replace('/', "%2f"));
                forms.push(standard);
            }
        }
        forms
    }

    #[test]
    fn the_credential_is_taken_out_in_every_form_that_is_promised() {
        let credential = credential(SECRET);
        for form in every_form(SECRET) {
            let echo = format!("{{\"a\":\"{form}\"}} and again {form}.");
            let (out, count) = whole(&credential, echo.as_bytes());
            let out = String::from_utf8(out).unwrap();
            assert_eq!(count, 2, "{form}: {out}");
            assert!(out.starts_with("{\"a\":\""), "{form}: {out}");
            assert_eq!(out.matches("[credential]").count(), 2, "{form}: {out}");
            // Nothing of the form is left: at most base64 that holds its neighbours alone.
            assert!(out.len() < 24 + 2 * 12 + 2 * 20, "{form}: {out}");
        }
    }

    #[test]
    fn what_is_not_the_credential_passes_as_it_is() {
        let credential = credential(SECRET);
        let harmless = format!(
            "{{\"ok\":true}} {} %41 \\u0041 &amp;",
            SECRET.get(1..).unwrap()
        );
        let (out, count) = whole(&credential, harmless.as_bytes());
        assert_eq!((out, count), (harmless.into_bytes(), 0));
    }

    #[test]
    fn a_cut_at_any_place_changes_nothing() {
        let credential = credential("fake-token");
        let echo = b"x fake-token%66ake-token ZmFrZS10b2tlbg== fake-toke";
        let expected = whole(&credential, echo);
        for cut in 0..=echo.len() {
            let (head, tail) = echo.split_at(cut);
            let mut scrubber = Scrubber::new(Arc::clone(&credential));
            let mut out = Vec::new();
            scrubber.push(head, &mut out);
            scrubber.push(tail, &mut out);
            let count = scrubber.finish(&mut out);
            assert_eq!((out, count), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_stream_releases_the_same_count_whether_a_guess_is_right_or_wrong() {
        // The hold-back oracle: with the tail kept back only where it matches, the bytes released
        // here differ with the length of the right guess.
        let credential = credential("fake-token-1");
        for guess in ["fake-token-", "fake-toke##", "###########"] {
            let mut scrubber = Scrubber::new(Arc::clone(&credential));
            let mut out = Vec::new();
            let filler = vec![b'.'; scrubber.hold_back()];
            scrubber.push(&filler, &mut out);
            assert_eq!(out.len(), 0);
            scrubber.push(guess.as_bytes(), &mut out);
            assert_eq!(out.len(), guess.len(), "{guess}");
        }
    }

    proptest! {
        #[test]
        fn chunks_never_change_what_comes_out(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("fake-token".to_owned()), Just("%66ake-".to_owned()), Just("token".to_owned()),
                    Just("ZmFrZS10b2tlbg".to_owned()), Just("66616b652d746f6b656e".to_owned()),
                    Just("\\u0066ake-tok".to_owned()), Just("en".to_owned()), "[ -~]{0,6}",
                ], 0..12),
            cuts in proptest::collection::vec(0_usize..200, 0..6),
        ) {
            let credential = credential("fake-token");
            let text = pieces.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.push(text.len());
            cuts.sort_unstable();
            let mut scrubber = Scrubber::new(Arc::clone(&credential));
            let (mut out, mut from) = (Vec::new(), 0);
            for cut in cuts {
                scrubber.push(&text[from..cut], &mut out);
                from = cut;
            }
            let count = scrubber.finish(&mut out);
            let lower = String::from_utf8_lossy(&out).to_lowercase();
            prop_assert!(!lower.contains("fake-token"));
            prop_assert_eq!((out, count), whole(&credential, &text));
        }
    }
}
