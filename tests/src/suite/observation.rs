//! What was watched, and what was not.

use super::scene::Scene;
use crate::host::Host;

/// What was watched, and what was not, each in a sentence.
///
/// # Errors
/// When the witness's record cannot be read.
pub(super) fn of(scene: &Scene, host: &Host) -> anyhow::Result<Vec<String>> {
    let (accepted, rejected) = scene.seen()?;
    let log = host.log();
    let events = log
        .lines()
        .filter(|line| line.contains(" denied who="))
        .count();
    let dropped = log
        .lines()
        .filter(|line| line.contains("could not take"))
        .count();
    Ok(vec![
        format!(
            "the witness recorded {accepted} accepted and {rejected} rejected requests in a \
             process and files of its own"
        ),
        format!(
            "the kernel's hooks reported denials in {events} lines of the service's log; {dropped} \
             lines say that events were lost"
        ),
        "what the filter on system calls or a namespace refuses reaches no hook: it is seen in \
         the probe's own words, and the witness shows that nothing came of it"
            .into(),
        "every byte that a probe printed was searched for every credential of the run".into(),
    ])
}
