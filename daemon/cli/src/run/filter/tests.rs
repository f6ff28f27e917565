//! What passes and what does not.

use super::*;
use proptest::prelude::*;

fn filtered(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Filter::default().pass(bytes, &mut out);
    out
}

#[test]
fn text_colours_and_the_cursor_pass_unchanged() {
    for good in [
        "plain text\r\n\ttab\x08 äöü 漢字 🦀",
        "\x1b[0m\x1b[1;31m\x1b[38;2;1;2;3m\x1b[48:5:200m\x1b[m",
        "\x1b[2J\x1b[H\x1b[10;20H\x1b[3A\x1b[K\x1b[1;24r\x1b[2 q\x1b[!p",
        "\x1b7\x1b8\x1b=\x1b>\x1bM\x1b(0lqk\x1b(B",
        "\x1b[6n\x1b[?6n",
    ] {
        assert_eq!(String::from_utf8(filtered(good.as_bytes())).unwrap(), good);
    }
}

#[test]
fn what_vi_writes_at_its_start_and_end_passes() {
    let vi = "\x1b[?1049h\x1b[22;0;0t\x1b[?1h\x1b=\x1b[?2004h\x1b[1;40r\x1b[?12h\x1b[?12l\
              \x1b[27m\x1b[24m\x1b[0m\x1b[H\x1b[J\x1b[?25l\x1b[40;1H\x1b[?25h\
              \x1b[?2004l\x1b[?1l\x1b>\x1b[?1049l\x1b[23;0;0t";
    assert_eq!(String::from_utf8(filtered(vi.as_bytes())).unwrap(), vi);
}

#[test]
fn what_acts_or_makes_the_terminal_type_is_dropped_whole() {
    for bad in [
        &b"\x1b]52;c;cm0gLXJmIH4K\x07"[..], // clipboard
        b"\x1b]52;c;?\x1b\\",               // clipboard, read
        b"\x1b]10;?\x07",                   // colour, asked
        b"\x1b]4;1;?\x1b\\",
        b"\x1b]1337;File=name=eA==;inline=1:eA==\x07", // a file
        b"\x1b]8;;file:///etc/passwd\x1b\\",           // a link
        b"\x1b]777;notify;a;b\x07",
        b"\x1bP$qm\x1b\\",                         // DECRQSS
        b"\x1bP+q544e\x1b\\",                      // XTGETTCAP
        b"\x1bP1$r0m\x1b\\",                       // its answer
        b"\x1bP0;1|17/6c73\x1b\\",                 // DECUDK: what a key types
        b"\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\", // tmux passes it on
        b"\x1b_Gi=1,a=q;AAAA\x1b\\",               // kitty graphics, asked
        b"\x1b^private\x1b\\",
        b"\x1bXstring\x1b\\",
        b"\x1bktitle\x1b\\",
        b"\x1b[c\x1b[0c\x1b[>c\x1b[=c\x1bZ", // who are you
        b"\x1b[5n\x1b[?15n\x1b[?26n",        // how are you
        b"\x1b[>q",                          // XTVERSION
        b"\x1b[21t\x1b[20t\x1b[11t\x1b[18t\x1b[14t", // title and size, reported
        b"\x1b[8;1;1t\x1b[2t",               // window
        b"\x1b[x\x1b[1x",                    // DECREQTPARM
        b"\x1b[?1$p\x1b[4$p",                // DECRQM
        b"\x1b[1;1;1;1;9;9*y",               // checksum of the screen
        b"\x1b[?u\x1b[?4m",                  // keyboard, asked
        b"\x1b[i\x1b[5i\x1b[?5i",            // print
        b"\x1b[#|\x1b[#R\x1b[#P",
        b"\x1b[?2l",                   // VT52
        b"\x1b[2h",                    // lock the keyboard
        b"\x1b[?1001h\x1b[1;2;3;4;5T", // highlight tracking: waits for an answer
        b"\x1b[?2031h\x1b[?2048h",     // types when something changes
        b"\x1b % @\x1b%@\x1b G\x1b F", // 8-bit controls
        b"\x05",
        b"\xc2\x9bc\xc2\x9d52;c;eA==\xc2\x9c",
    ] {
        let out = filtered(bad);
        let shown = String::from_utf8_lossy(&out);
        // What is left is text at most.
        assert!(
            !out.contains(&ESC) && !out.contains(&ENQ),
            "{bad:?} gave {shown:?}"
        );
        assert!(
            !shown.chars().any(char::is_control),
            "{bad:?} gave {shown:?}"
        );
    }
}

#[test]
fn a_title_passes_and_what_hides_in_one_does_not() {
    assert_eq!(filtered(b"\x1b]0;vi file\x07"), b"\x1b]0;vi file\x07");
    assert_eq!(filtered(b"\x1b]2;vi\x1b\\"), b"\x1b]2;vi\x07");
    assert_eq!(filtered(b"\x1b]2;a\xc2\x9bb\x07"), b"");
    assert_eq!(filtered(b"\x1b]2;a\xff\x07"), b"");
    let long = [b"\x1b]2;", &[b'x'; 400][..], b"\x07"].concat();
    assert_eq!(filtered(&long), b"");
}

#[test]
fn eight_bit_controls_and_broken_utf_8_are_replaced() {
    assert_eq!(filtered(b"a\x9b31mb"), "a\u{fffd}31mb".as_bytes());
    assert_eq!(filtered(b"\xe6\x97a"), "\u{fffd}a".as_bytes());
    assert_eq!(filtered(b"\xed\xa0\x80"), "\u{fffd}".as_bytes());
}

#[test]
fn a_sequence_that_is_broken_off_does_not_join_what_follows() {
    assert_eq!(filtered(b"\x1b[3\x1b[1mx"), b"\x1b[1mx");
    assert_eq!(filtered(b"\x1b]52;c;\x1b[1mx"), b"\x1b[1mx");
    assert_eq!(filtered(b"\x1b[3\nx"), b"\nx");
}

#[test]
fn numbers_that_would_keep_a_terminal_busy_are_dropped() {
    assert_eq!(filtered(b"x\x1b[999999999b"), b"x");
    let long = [b"\x1b[", &[b'1'; 200][..], b"m"].concat();
    assert_eq!(filtered(&long), b"");
}

#[test]
fn of_several_modes_the_known_ones_pass() {
    assert_eq!(filtered(b"\x1b[?1000;2;1006h"), b"\x1b[?1000;1006h");
}

#[test]
fn the_terminal_is_brought_back() {
    let mut filter = Filter::default();
    let mut out = Vec::new();
    filter.pass(
        b"\x1b[?1049h\x1b[?1003;1006h\x1b[?25l\x1b[>1u\x1b[5;10r",
        &mut out,
    );
    let back = String::from_utf8(filter.restore()).unwrap();
    for part in [
        "\x1b[?1049l",
        "\x1b[?1003l",
        "\x1b[?1006l",
        "\x1b[?25h",
        "\x1b[<1u",
        "\x1b[r",
        "\x1b[0m",
    ] {
        assert!(back.contains(part), "{back:?} lacks {part:?}");
    }
    // Nothing twice, and what a program put back itself is left alone.
    let mut filter = Filter::default();
    filter.pass(b"\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l", &mut out);
    let back = String::from_utf8(filter.restore()).unwrap();
    assert!(!back.contains("1049") && !back.contains("25"), "{back:?}");
}

/// Bytes with a taste for sequences.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\x1b".to_vec()),
        Just(b"\x1b[".to_vec()),
        Just(b"\x1b]".to_vec()),
        Just(b"\x1bP".to_vec()),
        Just(b"\x1b\\".to_vec()),
        Just(b"\x07".to_vec()),
        Just("\u{9b}".as_bytes().to_vec()),
        "[0-9;:?<=>$!\" #*'n-uA-Zhlmcy]{1,4}".prop_map(String::into_bytes),
        any::<Vec<u8>>(),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn what_passes_passes_again_and_does_not_depend_on_the_pieces(
        bytes in hostile(),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = filtered(&bytes);
        let (a, b) = bytes.split_at(cut.index(bytes.len() + 1));
        let mut pieces = Vec::new();
        let mut filter = Filter::default();
        filter.pass(a, &mut pieces);
        filter.pass(b, &mut pieces);
        prop_assert_eq!(&pieces, &whole);
        prop_assert_eq!(filtered(&whole), whole);
    }

    #[test]
    fn nothing_that_passes_asks_or_holds_a_c1_control(bytes in hostile()) {
        let out = filtered(&bytes);
        let text = String::from_utf8(out).expect("UTF-8");
        let acts = text.chars().any(|c| matches!(c, '\u{80}'..='\u{9f}' | '\u{5}'));
        prop_assert!(!acts, "{:?}", text);
        for (at, _) in text.match_indices('\x1b') {
            let (_, rest) = text.split_at(at + 1);
            // No string but a title, nobody is asked who he is.
            prop_assert!(!rest.starts_with(['P', 'X', '^', '_', 'k', 'Z']), "{:?}", text);
            if let Some(osc) = rest.strip_prefix(']') {
                prop_assert!(osc.starts_with(['0', '1', '2']), "{:?}", text);
            }
            if let Some(csi) = rest.strip_prefix('[') {
                let end = csi.find(|c: char| ('@'..='~').contains(&c)).expect("an end");
                let (body, last) = (csi.split_at(end).0, csi.as_bytes()[end]);
                prop_assert!(!b"cixyR|".contains(&last), "{:?}", text);
                prop_assert!(last != b'n' || body.ends_with('6'), "{:?}", text);
            }
        }
    }
}
