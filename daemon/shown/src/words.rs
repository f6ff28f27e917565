//! Times and spans for people.

use std::time::Duration;

/// A moment in UTC, to the second.
pub fn moment(ms: u64) -> String {
    let seconds = i64::try_from(ms / 1_000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(
        |_far| format!("{ms} ms after 1970"),
        |moment| moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

/// How long it is from `now` to `then`, roughly.
pub fn until(now: u64, then: u64) -> String {
    match then.checked_sub(now) {
        None | Some(0) => "over".into(),
        Some(left) => format!("{} left", span(left)),
    }
}

/// A span in one unit.
pub fn span(ms: u64) -> String {
    match ms / 1_000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

/// `90s`, `10m`, `2h`.
///
/// # Errors
/// When it is of no such form, or no time at all.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is no time; write it as `90s`, `10m` or `2h`");
    let (number, factor) = match text.split_at_checked(text.len().saturating_sub(1)) {
        Some((number, "s")) => (number, 1),
        Some((number, "m")) => (number, 60),
        Some((number, "h")) => (number, 3_600),
        Some(_) | None => return Err(bad()),
    };
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| digits).ok_or_else(bad)?;
    match number.checked_mul(factor) {
        Some(seconds @ 1..=86_400) => Ok(Duration::from_secs(seconds)),
        Some(_) | None => Err(format!(
            "`{text}` must be more than nothing and at most a day"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_and_a_span_are_readable() {
        assert_eq!(moment(1_796_055_569_123), "2026-11-30 16:19:29 UTC");
        assert_eq!(until(1_000, 91_000), "90 s left");
        assert_eq!(until(0, 600_000), "10 min left");
        assert_eq!(until(5, 5), "over");
        assert_eq!(span(7_200_000), "2 h");
    }

    #[test]
    fn a_span_is_a_number_and_a_unit() {
        assert_eq!(parse_span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_span("2h"), Ok(Duration::from_secs(7_200)));
        for bad in ["", "m", "0s", "10", "-1m", "+1m", "1d", "25h", "1 m", "10ß"] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }
}
