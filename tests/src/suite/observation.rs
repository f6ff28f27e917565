//! What was watched, and what was not.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::scene::Scene;
use crate::{evidence::row::Row, host::Host};

/// How long custodyd may take to say what a session's hooks counted.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the service's log ends now: what a session did is said behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(usize);

impl Mark {
    /// The present end.
    pub(super) fn set(host: &Host) -> Self {
        Self(host.log().len())
    }

    /// What the kernel's hooks counted of the one session that ended since.
    pub(super) fn counted(self, host: &Host) -> Option<String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let log = host.log();
            let since = log.get(self.0..).unwrap_or_default();
            if let Some(counts) = counted_in(since) {
                return Some(counts.into());
            }
            if Instant::now() >= end {
                return None;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What stands behind the name of the field in the line about a session's end.
fn counted_in(log: &str) -> Option<&str> {
    log.lines()
        .filter(|line| line.contains(" session ended ") && !line.contains(" from="))
        .find_map(|line| line.split_once(" hooks="))
        .map(|(_, counts)| counts.trim())
}

/// What was watched, and what was not, each in a sentence.
///
/// # Errors
/// When the witness's record cannot be read.
pub(super) fn of(scene: &Scene, host: &Host, rows: &[Row]) -> anyhow::Result<Vec<String>> {
    let (accepted, rejected) = scene.seen()?;
    let log = host.log();
    let dropped = log
        .lines()
        .filter(|line| line.contains("could not take"))
        .count();
    let counted = rows.iter().filter(|row| row.observed.is_some()).count();
    let attempted = rows.len();
    Ok(vec![
        format!(
            "the witness recorded {accepted} accepted and {rejected} rejected requests in a \
             process and files of its own"
        ),
        format!(
            "of {attempted} rows, {counted} have the counts that the kernel's hooks kept of their \
             own session: what was let through, what was refused, which events were lost; {dropped} \
             lines of the service's log say that events were lost"
        ),
        "what the filter on system calls or a namespace refuses reaches no hook: it is seen in \
         the probe's own words, and the witness shows that nothing came of it"
            .into(),
        "every byte that a probe printed was searched for every credential of the run".into(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_those_of_custodyds_own_line() {
        let log = "t  INFO custody_control::run: session ended session=ab from=\"custody-control\"\n\
                   t  INFO session ended session=ab end=Exited { code: 0 } hooks=3 allowed \
                   (connect_unix 3), 12 refused (connect4 12), 0 events lost\n";
        assert_eq!(
            counted_in(log),
            Some("3 allowed (connect_unix 3), 12 refused (connect4 12), 0 events lost")
        );
        assert_eq!(counted_in("t  INFO session runs session=ab\n"), None);
    }
}
