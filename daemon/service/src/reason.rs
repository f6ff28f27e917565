//! Reasons as they stand in a log, a record or a receipt.

/// The longest reason in bytes.
const WHY_MAX: usize = 1 << 10;

/// The whole chain of causes in one line.
pub fn chain_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// A reason that another program wrote, so that it can stand in a receipt and a log: no control
/// character, not too long.
pub fn plain(text: &str) -> String {
    let mut plain: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    plain.truncate(plain.floor_char_boundary(WHY_MAX));
    plain
}
