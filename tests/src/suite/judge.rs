//! From what was seen in the arms to a row.

use custody_wire::{layer::Layer, profile::Profile};

use crate::{
    attempts::{Attempt, Place, Promised, Proof, TwinShows},
    evidence::{
        expected, mutants,
        row::{Control, Isolation, Leg, LegOutcome, Outcome, Row},
    },
    probe::Report,
    suite::scene::Scene,
    witness::effects::Effects,
};

/// What was seen in one arm.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What the witness knows the arm's effect by.
    pub nonce: String,
    /// What the witness, the canary or the attempt's own proof says: it was reached.
    pub reached: Option<String>,
    /// Whether it is a protected effect or a credential's bytes, and not a door alone.
    pub protected: bool,
    /// Whether the attempt's own proof says it, and neither the witness nor a canary in what the
    /// arm itself brought out.
    pub by_own_proof: bool,
    /// What the probe says; none if it did not run.
    pub report: Option<Report>,
    /// What was heard instead of a report.
    pub noise: String,
}

impl Seen {
    /// What is seen with the attempt's own proof too.
    ///
    /// # Errors
    /// When the host cannot be looked at.
    pub fn by(mut self, proof: Proof, scene: &Scene, place: &Place) -> anyhow::Result<Self> {
        // Looked at always: the look takes away what the arm left.
        let seen = match proof {
            Proof::Effect => None,
            Proof::Heard(find) => self
                .report
                .as_ref()
                .and_then(|report| find(scene, place, report)),
            Proof::Outside(look) | Proof::Protected(look) => look(scene, place)?,
            Proof::Shown(find) | Proof::Written(find) => find(&self.noise),
            Proof::Step(step) => self
                .report
                .as_ref()
                .filter(|report| report.came_past(step))
                .map(|_| format!("it came past `{step}`")),
        };
        let by_then = || super::arms::witnessed(scene, &place.nonce);
        let is_protected = match proof {
            Proof::Heard(_) | Proof::Protected(_) => true,
            // What lies there is a door. If the witness saw its effect by then, it is more.
            Proof::Outside(_) if seen.is_some() => by_then()?.is_some(),
            Proof::Effect
            | Proof::Outside(_)
            | Proof::Shown(_)
            | Proof::Step(_)
            | Proof::Written(_) => false,
        };
        self.found(seen, is_protected);
        Ok(self)
    }

    /// Takes up what the attempt's own proof found. What the arm itself showed comes first.
    fn found(&mut self, seen: Option<String>, is_protected: bool) {
        if self.reached.is_some() || seen.is_none() {
            return;
        }
        self.reached = seen;
        self.by_own_proof = true;
        self.protected = is_protected;
    }

    /// Takes up what the witness saw of the arm by now. Whether that is anything new.
    fn take(&mut self, effects: &Effects) -> bool {
        let Some(proof) = effects.saw(&self.nonce) else {
            return false;
        };
        self.reached = Some(proof);
        self.by_own_proof = false;
        self.protected = true;
        true
    }

    /// Whether nothing refused it, and nothing came of it yet: its effect may be on its way.
    fn is_open(&self) -> bool {
        let report = self.report.as_ref();
        self.reached.is_none() && report.is_some_and(|it| it.refusals().is_empty())
    }

    /// What refused, in words.
    fn refusals(&self) -> String {
        match &self.report {
            Some(report) if report.refusals().is_empty() => {
                last_words(report, "nothing was there to use")
            }
            Some(report) => report.refusals().join("; "),
            None => format!("the probe did not report: {}", self.noise),
        }
    }
}

/// What was seen in all arms of one attempt.
#[derive(Clone, Debug)]
pub struct Arms {
    /// In full confinement.
    pub confined: Seen,
    /// With every promised layer removed.
    pub reach: Seen,
    /// The same code path against what is allowed.
    pub twin: Seen,
    /// The isolating runs; or why one was not made.
    pub isolated: Vec<(Left, Result<Seen, String>)>,
}

impl Arms {
    /// Takes up what the witness saw by now of arms that are over. Whether that is anything new: what
    /// comes after an arm was judged came all the same.
    pub(super) fn take(&mut self, effects: &Effects) -> bool {
        // What the confined arm's own proof found is a door. An effect is more.
        let confined = &mut self.confined;
        let mut is_new =
            !(confined.protected && confined.reached.is_some()) && confined.take(effects);
        let isolated = self.isolated.iter_mut();
        let others = [&mut self.reach, &mut self.twin].into_iter();
        for seen in others.chain(isolated.filter_map(|(_, seen)| seen.as_mut().ok())) {
            is_new |= seen.reached.is_none() && seen.take(effects);
        }
        is_new
    }

    /// Whether the effect of an arm outside of full confinement may be on its way.
    pub(super) fn is_open(&self) -> bool {
        let isolated = self.isolated.iter();
        self.reach.is_open()
            || isolated
                .filter_map(|(_, seen)| seen.as_ref().ok())
                .any(Seen::is_open)
    }
}

/// What an isolating run leaves in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Left {
    /// Every layer but this one.
    AllBut(Layer),
    /// No layer at all.
    Nothing,
    /// These alone: one, or several that are nothing apart.
    Only(Vec<Layer>),
}

impl Left {
    /// Whether `layer` is in.
    pub fn keeps(&self, layer: Layer) -> bool {
        match self {
            Self::AllBut(out) => layer != *out,
            Self::Nothing => false,
            Self::Only(kept) => kept.contains(&layer),
        }
    }
}

/// Under what the attempts are judged.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The kernel's release.
    pub kernel: String,
    /// The profile of the sessions.
    pub profile: Profile,
    /// What is expected there.
    pub expected: expected::Rows,
}

/// Judges one attempt.
pub fn judge(attempt: &Attempt, arms: &Arms, plant: &str, terms: &Terms) -> Row {
    let reach = reach(&arms.reach);
    let twin = twin(attempt.twin_shows, &arms.twin, plant);
    let legs: Vec<Leg> = arms
        .isolated
        .iter()
        .map(|(left, seen)| leg(left, seen))
        .collect();
    let mut notes: Vec<String> = attempt.notes.iter().map(|note| (*note).into()).collect();
    let outcome = outcome(attempt, &arms.confined, &reach, &twin, &legs);
    let mut single_legs = Vec::new();
    match &attempt.promised {
        // Of a known gap there is nothing that could be taken away.
        Promised::Gate { .. } | Promised::Quietly { .. } if attempt.known_gap.is_some() => {}
        Promised::Gate { mutant, .. } | Promised::Quietly { mutant, .. } => {
            notes.push(match mutant.strip_prefix("none: ") {
                Some(why) => format!("not ablated, and no mutant: {why}"),
                None => mutants::said(mutant, attempt.id),
            });
        }
        Promised::Layers(_) if matches!(outcome, Outcome::Refused { .. }) => {
            for (layer, note) in one_leg(&legs) {
                single_legs.push(layer);
                notes.push(note);
            }
        }
        Promised::Layers(_) => {}
    }
    let mut row = Row {
        reach,
        twin,
        legs,
        single_legs,
        notes,
        ..blank(attempt, outcome, terms)
    };
    if !arms.confined.by_own_proof {
        // Only what its own proof finds lies where the attempt says.
        row.beyond = None;
    }
    row.as_expected = row.comes_as_expected();
    if !row.as_expected && attempt.known_gap.is_some() {
        row.notes.push(format!(
            "a known gap is `{}`: what is said of it must change with it",
            row.outcome.name()
        ));
    }
    for leg in row.unlisted_legs().map(String::from).collect::<Vec<_>>() {
        row.notes.push(format!(
            "`{leg}` stands alone and is not listed under single_legs of the expected outcomes"
        ));
    }
    for leg in row.idle_promises().map(String::from).collect::<Vec<_>>() {
        row.notes
            .push(format!("`{leg}` is promised, and does not refuse alone"));
    }
    row
}

/// A row for an attempt that this host cannot make.
pub fn not_attempted(attempt: &Attempt, need: String, terms: &Terms) -> Row {
    let mut row = blank(attempt, Outcome::NotAttempted { need }, terms);
    // What is missing here may be there elsewhere: the row says so, and the run goes on.
    row.as_expected = true;
    row
}

/// A row of which an arm could not be made: nothing is known, and the run goes on to the others.
pub fn not_made(attempt: &Attempt, why: String, terms: &Terms) -> Row {
    blank(attempt, Outcome::Inconclusive { why }, terms)
}

/// A row without anything of the arms.
fn blank(attempt: &Attempt, outcome: Outcome, terms: &Terms) -> Row {
    let none = || Control {
        holds: false,
        what: "not run".into(),
    };
    let expected = terms.expected.get(attempt.id).cloned();
    // A gap may be closed under a stricter profile: there it is expected to be refused.
    let is_gap = expected.as_ref().is_some_and(|it| it.outcome == "reached");
    // And a looser one permits what others refuse, by its own reason.
    let permitted = expected.as_ref().and_then(|it| it.permitted.clone());
    let gap = permitted.or_else(|| attempt.known_gap.map(String::from));
    Row {
        id: attempt.id.into(),
        class: attempt.class,
        kernel: terms.kernel.clone(),
        profile: terms.profile,
        mechanism: attempt.mechanism.into(),
        question: attempt.question.into(),
        source: attempt.source.into(),
        promised: promised(&attempt.promised),
        outcome,
        reach: none(),
        twin: none(),
        legs: Vec::new(),
        expected,
        as_expected: false,
        known_gap: gap.filter(|_| is_gap),
        beyond: attempt.beyond.filter(|_| is_gap).map(String::from),
        single_legs: Vec::new(),
        observed: None,
        notes: attempt.notes.iter().map(|note| (*note).into()).collect(),
    }
}

fn promised(promised: &Promised) -> Vec<String> {
    match promised {
        Promised::Gate { .. } => vec!["gate".into()],
        Promised::Quietly { by, .. } => vec![(*by).into()],
        Promised::Layers(legs) => legs.iter().map(|leg| joined(leg)).collect(),
    }
}

fn reach(seen: &Seen) -> Control {
    match &seen.reached {
        Some(proof) => Control {
            holds: true,
            what: proof.clone(),
        },
        None => Control {
            holds: false,
            what: format!("not reached: {}", seen.refusals()),
        },
    }
}

fn twin(shows: TwinShows, seen: &Seen, plant: &str) -> Control {
    let report = seen.report.as_ref();
    let shown = match shows {
        TwinShows::Effect => seen.reached.clone(),
        TwinShows::Planted => report
            .filter(|report| report.found.contains(plant))
            .map(|_| "it found what was planted for it".into()),
        TwinShows::Said(words) => report
            .filter(|report| report.said.contains(words))
            .map(|_| format!("it heard `{words}`")),
        TwinShows::Shown(words) => seen
            .noise
            .contains(words)
            .then(|| format!("standard error was shown {words:?}")),
        TwinShows::Step(step) => report
            .filter(|report| report.came_past(step))
            .map(|_| format!("it came past `{step}`")),
    };
    match shown {
        Some(what) => Control { holds: true, what },
        None => Control {
            holds: false,
            what: format!("did not succeed: {}{}", seen.refusals(), said(seen)),
        },
    }
}

fn joined(layers: &[Layer]) -> String {
    let names: Vec<&str> = layers.iter().map(|layer| layer.name()).collect();
    names.join("+")
}

fn leg(left: &Left, seen: &Result<Seen, String>) -> Leg {
    let (run, layer) = match left {
        Left::AllBut(layer) => (Isolation::AllBut, layer.name().to_owned()),
        Left::Nothing => (Isolation::Nothing, String::new()),
        Left::Only(layers) => (Isolation::Only, joined(layers)),
    };
    let (outcome, saw) = match seen {
        Err(why) => (LegOutcome::NotRun, why.clone()),
        Ok(seen) => match (&seen.reached, &seen.report) {
            (Some(proof), _) => (LegOutcome::Reached, proof.clone()),
            (None, Some(_)) => (LegOutcome::Refused, seen.refusals()),
            // Without a report nothing was refused: nothing ran.
            (None, None) => (LegOutcome::NotRun, seen.refusals()),
        },
    };
    Leg {
        run,
        layer,
        outcome,
        saw,
    }
}

fn outcome(
    attempt: &Attempt,
    confined: &Seen,
    reach: &Control,
    twin: &Control,
    legs: &[Leg],
) -> Outcome {
    if let Some(proof) = &confined.reached {
        return Outcome::Reached {
            proof: proof.clone(),
            protected: confined.protected,
        };
    }
    let inconclusive = |why: String| Outcome::Inconclusive { why };
    let empty = Report::default();
    let report = match (&confined.report, &attempt.promised) {
        (Some(report), _) => report,
        // A rule may end the whole session, the probe with it: then the operator is told.
        (None, Promised::Gate { says, .. })
            if says.iter().any(|words| confined.noise.contains(words)) =>
        {
            &empty
        }
        (None, _) => return inconclusive(confined.refusals()),
    };
    if !reach.holds {
        return inconclusive(format!("the reach arm does not reach: {}", reach.what));
    }
    if !twin.holds {
        return inconclusive(format!("the twin does not succeed: {}", twin.what));
    }
    match &attempt.promised {
        Promised::Gate { says, .. } => {
            let heard = format!("{} {}", report.said, confined.refusals());
            match says.iter().find(|words| heard.contains(**words)) {
                Some(words) => Outcome::Refused {
                    layer: "gate".into(),
                    reason: around(&heard, words),
                },
                None => inconclusive(format!("not reached, and no rule is named: {heard}")),
            }
        }
        Promised::Quietly { by, .. } => Outcome::Refused {
            layer: (*by).into(),
            reason: "nothing of it came through".into(),
        },
        Promised::Layers(_) => {
            let saw = confined.refusals();
            if let Some(leg) = refused_without_any(legs) {
                return inconclusive(format!(
                    "not reached ({saw}), and not with every layer left out of the plan either \
                     ({}): no isolating run shows which layer refuses",
                    leg.saw
                ));
            }
            // The layer whose run alone looks like the whole; otherwise the first that refuses.
            let same = alone(legs).find(|leg| leg.saw == saw);
            match same.or_else(|| alone(legs).next()) {
                Some(leg) => Outcome::Refused {
                    layer: leg.layer.clone(),
                    reason: if same.is_some() {
                        saw
                    } else {
                        format!(
                            "{saw}; no isolating run answers so, `{}` is the first that refuses \
                             alone: {}",
                            leg.layer, leg.saw
                        )
                    },
                },
                None => inconclusive(format!(
                    "not reached ({saw}), and no isolating run shows which layer refuses"
                )),
            }
        }
    }
}

/// The refusal in which `words` stand, as the agent was told it.
fn around(heard: &str, words: &str) -> String {
    const CAP: usize = 300;
    let line = heard
        .lines()
        .find(|line| line.contains(words))
        .unwrap_or(heard);
    let said = serde_json::from_str::<serde_json::Value>(line).ok();
    let text = |pointer: &str| {
        let found = said.as_ref()?.pointer(pointer)?;
        Some(
            found
                .as_str()
                .map_or_else(|| found.to_string(), str::to_owned),
        )
    };
    let told = match (text("/error/code"), text("/error/message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (None | Some(_), _) => text("/result/content/0/text").unwrap_or_else(|| line.into()),
    };
    told.trim().chars().take(CAP).collect()
}

/// The run without any layer, where it does not reach: what else refuses there would be taken for
/// a layer.
fn refused_without_any(legs: &[Leg]) -> Option<&Leg> {
    legs.iter()
        .find(|leg| leg.run == Isolation::Nothing && leg.outcome != LegOutcome::Reached)
}

/// The legs that refuse alone.
fn alone(legs: &[Leg]) -> impl Iterator<Item = &Leg> {
    legs.iter()
        .filter(|leg| leg.run == Isolation::Only && leg.outcome == LegOutcome::Refused)
}

/// The legs that a row stands on alone, each with the sentence that says so.
fn one_leg(legs: &[Leg]) -> Vec<(String, String)> {
    let needed = legs
        .iter()
        .filter(|leg| leg.run == Isolation::AllBut && leg.outcome == LegOutcome::Reached)
        .map(|leg| {
            let note = format!(
                "stands on one leg: {}; removed, it is reached: {}",
                leg.layer, leg.saw
            );
            (leg.layer.clone(), note)
        });
    let mut refusing = alone(legs);
    let single = match (refusing.next(), refusing.next()) {
        (Some(only), None) => legs
            .iter()
            .find(|leg| {
                leg.run == Isolation::AllBut
                    && leg.layer == only.layer
                    && leg.outcome == LegOutcome::NotRun
            })
            .map(|leg| {
                let note = format!(
                    "stands on one leg: {}; that it is reached without it is shown by the reach \
                     arm alone: {}",
                    leg.layer, leg.saw
                );
                (leg.layer.clone(), note)
            }),
        (None | Some(_), _) => None,
    };
    needed.chain(single).collect()
}

/// The last line that was heard, shortened: it is where a refusal names its rule.
fn last_words(report: &Report, refusals: &str) -> String {
    const CAP: usize = 400;
    let mut lines = report.said.lines().rev();
    let last = lines.find(|line| !line.is_empty()).unwrap_or(refusals);
    last.chars().take(CAP).collect()
}

fn said(seen: &Seen) -> String {
    seen.report
        .as_ref()
        .map(|report| format!("; it heard: {}", last_words(report, "nothing")))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
