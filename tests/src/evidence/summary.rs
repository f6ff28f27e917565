//! What a run says at its end, for a person. Nothing is left out that would lower the status.

use std::fmt::Write as _;

use super::{
    Evidence,
    ablation::{Ablation, Single},
    counts::Count,
    incidents::Replayed,
    row::Outcome,
};

/// The end of a run, in lines.
///
/// # Errors
/// Never in practice: a String takes everything.
pub fn of(evidence: &Evidence) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    write_counts(&mut text, evidence)?;
    write_rows(&mut text, evidence)?;
    write_ablation(&mut text, &evidence.ablation)?;
    write_incidents(&mut text, &evidence.incidents)?;
    write_status(&mut text, evidence)?;
    Ok(text)
}

fn write_counts(text: &mut String, evidence: &Evidence) -> std::fmt::Result {
    let words = |count: &Count| {
        format!(
            "{} in {}",
            many(count.mechanisms, "mechanism"),
            many(count.rows, "row")
        )
    };
    let counts = &evidence.counts;
    writeln!(
        text,
        "profile {}, {}: {}",
        evidence.profile.as_str(),
        evidence.host.kernel,
        words(&counts.all)
    )?;
    for (kind, parts) in [
        ("outcome", &counts.outcomes),
        ("class", &counts.classes),
        ("family", &counts.families),
    ] {
        for (part, count) in parts {
            writeln!(text, "  {kind} {part}: {}", words(count))?;
        }
    }
    Ok(())
}

/// What did not happen, or not as expected: each by its name.
fn write_rows(text: &mut String, evidence: &Evidence) -> std::fmt::Result {
    for row in &evidence.attempts {
        match &row.outcome {
            Outcome::NotAttempted { need } => {
                writeln!(text, "  not attempted: {}: needs {need}", row.id)?;
            }
            Outcome::Inconclusive { .. } | Outcome::Reached { .. } | Outcome::Refused { .. } => {}
        }
        if let Some(reason) = &row.known_gap {
            writeln!(text, "  known gap: {}: {reason}", row.id)?;
        }
        if !row.as_expected {
            writeln!(text, "  not as expected: {}: {}", row.id, row.outcome)?;
        }
    }
    Ok(())
}

fn write_ablation(text: &mut String, ablation: &Ablation) -> std::fmt::Result {
    for row in &ablation.not_discriminating {
        writeln!(
            text,
            "  not discriminating: {row}: reached in no configuration"
        )?;
    }
    for Single { id, layer } in &ablation.unlisted {
        writeln!(text, "  unlisted single leg: {id}: {layer}")?;
    }
    for Single { id, layer } in &ablation.stale {
        writeln!(
            text,
            "  listed as a single leg, and another refuses too: {id}: {layer}"
        )?;
    }
    Ok(())
}

/// Incident, attempts, outcome.
fn write_incidents(text: &mut String, incidents: &[Replayed]) -> std::fmt::Result {
    for Replayed {
        incident,
        standing,
        outcomes,
    } in incidents
    {
        let why = incident
            .not_applicable
            .as_ref()
            .or(incident.partial.as_ref());
        let said = match why {
            Some(why) => format!("{standing}: {why}"),
            None => standing.to_string(),
        };
        let outcomes: Vec<String> = outcomes
            .iter()
            .map(|replay| format!("{} {}", replay.attempt, replay.outcome))
            .collect();
        writeln!(
            text,
            "  incident {} ({}): {said}{}{}",
            incident.id,
            incident.source,
            if outcomes.is_empty() { "" } else { ": " },
            outcomes.join(", ")
        )?;
    }
    Ok(())
}

fn write_status(text: &mut String, evidence: &Evidence) -> std::fmt::Result {
    let e = &evidence.e_status;
    let status = serde_json::to_string(&e.status).unwrap_or_default();
    writeln!(text, "\nE: {} ({})", status.trim_matches('"'), e.words)?;
    for scope in &e.scope {
        writeln!(text, "  scope: {scope}")?;
    }
    for because in &e.because {
        writeln!(text, "  because {because}")?;
    }
    for (class, mechanisms) in &e.mechanisms {
        let mechanisms: Vec<&str> = mechanisms.iter().map(String::as_str).collect();
        writeln!(text, "  {class}: {}", mechanisms.join("; "))?;
    }
    match &evidence.register {
        Some(half) => writeln!(
            text,
            "  register: {} entries, {} drifts, at revision {}",
            half.entries,
            half.drifts.len(),
            half.revision
        )?,
        None => writeln!(text, "  register: not held against the source in this run")?,
    }
    for limit in e.limits.iter().chain(&e.structural) {
        writeln!(text, "  limit: {limit}")?;
    }
    for caveat in &e.caveats {
        writeln!(text, "  caveat: {caveat}")?;
    }
    Ok(())
}

fn many(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
