//! Control sequences (`CSI … final`): which pass.

/// The greatest number in one: what terminals have columns for, many times over.
const NUMBER_MAX: u32 = 65_535;

/// What passes between `CSI` and `last`, if it does.
pub(super) fn passed(body: &[u8], last: u8) -> Option<Vec<u8>> {
    let (prefix, rest) = match body {
        [prefix @ b'<'..=b'?', rest @ ..] => (Some(*prefix), rest),
        rest => (None, rest),
    };
    let end = rest
        .iter()
        .position(|byte| matches!(byte, 0x20..=0x2f))
        .unwrap_or(rest.len());
    let (parameters, intermediates) = rest.split_at_checked(end)?;
    let parameters = std::str::from_utf8(parameters).ok()?;
    // No further private marks, no number that keeps a terminal busy.
    let plain = parameters.split([';', ':']).all(|number| {
        number.is_empty()
            || (number.bytes().all(|byte| byte.is_ascii_digit())
                && number.parse::<u32>().is_ok_and(|n| n <= NUMBER_MAX))
    });
    if !plain {
        return None;
    }
    match (prefix, intermediates) {
        (None, []) => shows(parameters, last).then(|| body.to_vec()),
        (Some(b'?'), []) => private(parameters, last),
        // Which keys come how (xterm's modifyOtherKeys, kitty's keyboard): set, never asked.
        (Some(b'>'), []) => matches!(last, b'm' | b'u').then(|| body.to_vec()),
        (Some(b'<' | b'='), []) => (last == b'u').then(|| body.to_vec()),
        // The cursor's form; a soft reset.
        (None, [b' ']) => (last == b'q').then(|| body.to_vec()),
        (None, [b'!']) => (last == b'p').then(|| body.to_vec()),
        (Some(_) | None, _) => None,
    }
}

/// Without a private mark.
fn shows(parameters: &str, last: u8) -> bool {
    match last {
        // Insert and delete, cursor, erase, scroll, tabulators, repeat, colours, margins, save.
        b'@'..=b'M'
        | b'P'
        | b'S'
        | b'X'
        | b'Z'
        | b'`'
        | b'a'
        | b'b'
        | b'd'..=b'g'
        | b'm'
        | b'r'
        | b's'
        | b'u' => true,
        // Scroll down; with five parameters it begins a tracking that waits for an answer.
        b'T' => !parameters.contains(';'),
        // Insert mode, newline mode; not: lock the keyboard.
        b'h' | b'l' => matches!(parameters, "4" | "20"),
        // Where is the cursor?
        b'n' => parameters == "6",
        // Keep the title, and take it back; not: move the window, report title or size.
        b't' => matches!(parameters.split(';').next(), Some("22" | "23")),
        _ => false,
    }
}

/// Behind `?`.
fn private(parameters: &str, last: u8) -> Option<Vec<u8>> {
    let body = || format!("?{parameters}").into_bytes();
    match last {
        b'h' | b'l' => {
            let known: Vec<&str> = parameters
                .split(';')
                .filter(|mode| is_known(mode))
                .collect();
            (!known.is_empty()).then(|| format!("?{}", known.join(";")).into_bytes())
        }
        b'J' | b'K' => Some(body()),
        b'n' => (parameters == "6").then(body),
        _ => None,
    }
}

/// Modes that show, and those that say how keys, mouse, focus and paste come. Not: VT52 (2),
/// in which other sequences mean other things; 132 columns (3); highlight tracking (1001), which
/// waits; reports of changes (2031, 2048).
fn is_known(mode: &str) -> bool {
    matches!(
        mode,
        "1" | "4"
            | "5"
            | "6"
            | "7"
            | "8"
            | "9"
            | "12"
            | "25"
            | "45"
            | "47"
            | "66"
            | "69"
            | "1000"
            | "1002"
            | "1003"
            | "1004"
            | "1005"
            | "1006"
            | "1007"
            | "1015"
            | "1016"
            | "1034"
            | "1036"
            | "1039"
            | "1047"
            | "1048"
            | "1049"
            | "2004"
            | "2026"
            | "2027"
    )
}
