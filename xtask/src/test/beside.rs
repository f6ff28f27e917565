//! Runs stages, some of them beside others.

use std::{
    ops::ControlFlow,
    path::Path,
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};

use super::{stages::Stage, tally::Tally};
use crate::{places::Places, say, stage};

/// A stage that has ended.
pub(super) struct Ended {
    pub(super) tally: Tally,
    /// Why it failed.
    pub(super) why: Option<String>,
    pub(super) took: Duration,
    /// What it said, where that was not shown at once.
    said: Vec<String>,
}

/// Runs a stage. Each line that a person wants to see goes to `show`.
fn perform(
    places: &Places,
    stage: Stage,
    judged: Option<&Path>,
    mut show: impl FnMut(String, &mut Vec<String>),
) -> Result<Option<Ended>> {
    let logs = places.target.join("test-logs");
    let Some(mut command) = stage.command(places, judged)? else {
        return Ok(None);
    };
    let mut said = Vec::new();
    show(
        format!("==> {}: {}", stage.name(), stage::Shown(&command)),
        &mut said,
    );
    let started = Instant::now();
    let mut tally = Tally::default();
    let log = logs.join(format!("{}.log", stage.name()));
    let status = stage::run(&mut command, stage.limit(), &log, |line| {
        if tally.read(line) {
            show(line.to_owned(), &mut said);
        }
    });
    let why = match status {
        Ok(status) if status.success() => None,
        Ok(status) => Some(status.to_string()),
        Err(error) => Some(format!("{error:#}")),
    };
    if let Some(why) = &why {
        tally.stage_failed();
        let text = format!(
            "    {} failed: {why}; all output is in `{}`",
            stage.name(),
            log.display()
        );
        show(text, &mut said);
    }
    Ok(Some(Ended {
        tally,
        why,
        took: started.elapsed(),
        said,
    }))
}

/// Runs the chosen stages in their order; a test judges the evidence `judged`. Calls `each` when
/// one has ended, until it says no.
pub(super) fn all(
    places: &Places,
    chosen: &[Stage],
    judged: Option<&Path>,
    mut each: impl FnMut(Stage, Ended) -> Result<ControlFlow<()>>,
) -> Result<()> {
    thread::scope(|scope| {
        let mut running: Vec<(Stage, ScopedJoinHandle<'_, Result<Option<Ended>>>)> = Vec::new();
        let begin = |after: Option<Stage>, running: &mut Vec<_>| {
            // Alone, or first, it has nothing to run beside.
            let waiting =
                |stage: &&Stage| stage.beside() == Some(after) && chosen.first() != Some(*stage);
            for stage in chosen.iter().copied().filter(|stage| waiting(&stage)) {
                let handle = scope
                    .spawn(move || perform(places, stage, judged, |line, said| said.push(line)));
                running.push((stage, handle));
            }
        };
        begin(None, &mut running);
        for stage in chosen.iter().copied() {
            let place = running.iter().position(|(running, _)| *running == stage);
            let ended = match place.map(|place| running.swap_remove(place)) {
                Some((_, handle)) => {
                    let ended = handle
                        .join()
                        .map_err(|_panic| anyhow!("a stage panicked"))??;
                    for line in ended.iter().flat_map(|ended| &ended.said) {
                        say::line(line);
                    }
                    ended
                }
                None => perform(places, stage, judged, |line, _| say::line(line))?,
            };
            begin(Some(stage), &mut running);
            if let Some(ended) = ended
                && each(stage, ended)?.is_break()
            {
                break;
            }
        }
        Ok(())
    })
}
