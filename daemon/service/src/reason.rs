//! Reasons as they stand in a log, a record or a receipt.

/// The longest reason in bytes.
const WHY_MAX: usize = 1 << 10;

/// The whole chain of causes, in one line: a path in it may hold a newline.
pub fn chain_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = escaped.is_none().then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_whatever_a_path_in_it_holds() {
        let forged = std::io::Error::other("`/mnt/a\n2026 INFO ledger head position=99` is not it");
        let said = chain_of(&forged);
        assert!(!said.contains('\n') && said.contains("\\n2026"), "{said}");
    }
}
