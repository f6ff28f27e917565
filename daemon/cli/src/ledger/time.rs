//! Times for readers: RFC 3339, in UTC.

/// `ms` since 1970.
pub(crate) fn shown(ms: u64) -> String {
    let timestamp = i64::try_from(ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    timestamp.map_or_else(|| format!("{ms} ms"), |it| format!("{it:.3}"))
}

/// A time (RFC 3339), or how long ago: `90s`, `15m`, `2h`, `7d`; in milliseconds since 1970.
///
/// # Errors
/// When it is neither.
pub(crate) fn since(text: &str) -> Result<u64, String> {
    let ago = |digits: &str, unit: u64| -> Option<u64> {
        let seconds = digits.parse::<u64>().ok()?.checked_mul(unit)?;
        let now = jiff::Timestamp::now().as_millisecond();
        u64::try_from(now)
            .ok()?
            .checked_sub(seconds.checked_mul(1_000)?)
    };
    let found = match text.split_at_checked(text.len().saturating_sub(1)) {
        Some((digits, "s")) => ago(digits, 1),
        Some((digits, "m")) => ago(digits, 60),
        Some((digits, "h")) => ago(digits, 3_600),
        Some((digits, "d")) => ago(digits, 86_400),
        _ => None,
    };
    let at = || {
        let at: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(at.as_millisecond()).ok()
    };
    found.or_else(at).ok_or_else(|| {
        "it must be a time as 2026-11-30T16:00:00Z, or how long ago: 90s, 15m, 2h, 7d".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_in_one_form_and_taken_in_two() {
        assert_eq!(shown(1_796_000_000_123), "2026-11-30T00:53:20.123Z");
        assert_eq!(since("2026-11-30T00:53:20.123Z"), Ok(1_796_000_000_123));
        let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap();
        let hour = since("1h").unwrap();
        assert!(now - hour >= 3_600_000 && now - hour < 3_610_000);
        for bad in ["", "h", "yesterday", "-1h", "99999999999999999999s", "1w"] {
            assert!(since(bad).is_err(), "{bad}");
        }
    }
}
