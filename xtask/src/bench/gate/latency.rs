//! How long a decision takes, beside the peers that also decide on calls by where values come from.
//!
//! Each contender is a process of its own with the same setting: 25 tools, one call of about 1 KB, results of 4 KB.
//! They take turns within one run, so that what else the machine does hits them alike; ratios are to ours.

mod contender;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;

use super::GateArgs;
use crate::{places::Places, say, stage};
use contender::Contender;

/// The results that a session has seen, in the second stage.
const RESULTS: usize = 100;

/// So many results of 4 KB are nearly what a session may be shown (16 MB).
const FULL: usize = 3_850;

/// Decisions that a contender makes before it is the other's turn.
const TURN: usize = 20;

/// One line of the report.
#[derive(Serialize)]
struct Line {
    contender: &'static str,
    stage: &'static str,
    p50_ns: u64,
    p99_ns: u64,
    samples: usize,
}

pub(super) fn run(places: &Places, args: &GateArgs, turns: usize) -> Result<()> {
    let mut all = vec![Contender::ours(places)?];
    match contender::peers(places) {
        Ok(peers) => all.extend(peers),
        Err(error) => say::error(format_args!("peers: not attempted: {error:#}")),
    }
    let mut lines = Vec::new();
    decisions(&mut all, "25 tools, nothing recorded", turns, &mut lines)?;
    ruled(&mut all, "the same, and 77 Cedar rules", turns, &mut lines)?;
    for contender in &mut all {
        let times = contender.times("record", RESULTS)?;
        lines.push(line(contender, "recording 4 KB", times));
    }
    decisions(&mut all, "100 results of 4 KB recorded", turns, &mut lines)?;
    ruled(
        &mut all,
        "100 results, and 77 Cedar rules",
        turns,
        &mut lines,
    )?;
    if let Some(ours) = all.first_mut() {
        let times = ours.times("record", FULL - RESULTS)?;
        lines.push(line(ours, "recording 4 KB, up to 16 MB", times));
    }
    decisions(
        all.get_mut(..1).unwrap_or_default(),
        "at the cap of 16 MB",
        turns,
        &mut lines,
    )?;
    let sizes = match all.first_mut() {
        Some(ours) => ours.times("sizes", 1)?,
        None => Vec::new(),
    };
    if args.json {
        for line in &lines {
            say::line(serde_json::to_string(line).context("cannot write a line")?);
        }
        return Ok(());
    }
    table(&lines);
    if let [index, text] = *sizes {
        say::line(format_args!(
            "index at the cap: {} MiB for {} MiB of text, {} times as much",
            index >> 20,
            text >> 20,
            tenths(index, text)
        ));
    }
    say::line(
        "One process each; a peer's time is that of its own documented call, in its own interpreter.",
    );
    Ok(())
}

/// Ours with rules of an operator's: three of each tool and two of all. No peer has any.
fn ruled(
    all: &mut [Contender],
    stage: &'static str,
    turns: usize,
    lines: &mut Vec<Line>,
) -> Result<()> {
    if let Some(ours) = all.first_mut() {
        let times = ours.times("ruled", 50 * turns.max(TURN))?;
        lines.push(line(ours, stage, times));
    }
    Ok(())
}

fn decisions(
    all: &mut [Contender],
    stage: &'static str,
    turns: usize,
    lines: &mut Vec<Line>,
) -> Result<()> {
    let mut times: Vec<Vec<u64>> = vec![Vec::new(); all.len()];
    for _ in 0..turns.div_ceil(TURN) {
        for (contender, times) in all.iter_mut().zip(&mut times) {
            // What takes a peer 16 ms takes us some µs: ours is asked more often for its p99.
            let count = if contender.is_ours() { 50 * TURN } else { TURN };
            times.extend(contender.times("decide", count)?);
            if stage::interrupted() {
                bail!("interrupted");
            }
        }
    }
    for (contender, times) in all.iter().zip(times) {
        lines.push(line(contender, stage, times));
    }
    Ok(())
}

fn line(contender: &Contender, stage: &'static str, mut times: Vec<u64>) -> Line {
    times.sort_unstable();
    let percentile = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100).max(1);
        times.get(rank - 1).copied().unwrap_or_default()
    };
    Line {
        contender: contender.name,
        stage,
        p50_ns: percentile(50),
        p99_ns: percentile(99),
        samples: times.len(),
    }
}

fn table(lines: &[Line]) {
    say::line(format_args!(
        "{:30} {:24} {:>12} {:>12} {:>8} {:>8}",
        "", "", "p50", "p99", "×p50", "×p99"
    ));
    for line in lines {
        let ours = lines
            .iter()
            .find(|it| it.stage == line.stage)
            .unwrap_or(line);
        say::line(format_args!(
            "{:30} {:24} {:>9} µs {:>9} µs {:>8} {:>8}",
            line.stage,
            line.contender,
            tenths(line.p50_ns, 1_000),
            tenths(line.p99_ns, 1_000),
            tenths(line.p50_ns, ours.p50_ns),
            tenths(line.p99_ns, ours.p99_ns),
        ));
    }
}

/// `part / whole` with one decimal.
fn tenths(part: u64, whole: u64) -> String {
    match (part * 10 + whole / 2).checked_div(whole) {
        None => "–".to_owned(),
        Some(tenths) => format!("{}.{}", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_one_decimal() {
        assert_eq!(tenths(10, 4), "2.5");
        assert_eq!(tenths(1, 3), "0.3");
        assert_eq!(tenths(1, 0), "–");
    }
}
