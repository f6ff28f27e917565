//! Both chains held against each other: what each effect rests on, that a decision has one, and that a
//! receipt which a decision names is there.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    path::Path,
};

use gate::{
    chain::Place,
    digest::Digest,
    id::{SessionId, ToolName},
    record::{Bound, Decision, Effect, Outcome},
};

use crate::{
    chain::{Chain, Walk},
    index::{self, Allowed, Entry, Index},
    verify::{Expected, IN_DOUBT_LISTED, InDoubt, Report},
};

/// How many records of one chain may have been on their way to disk when the power went: what the gate
/// decides in a stall of a fifth of a second, at 20,000 a second.
const ON_THEIR_WAY: u64 = 4_096;

/// Receipts that are kept until a decision names them, and that were named before: calls under way at
/// once are far fewer.
const RECENT: usize = 4_096;

/// What was seen of both.
#[derive(Debug)]
pub(crate) struct Books {
    index: Index,
    /// Where starts of the gate stand.
    starts: Vec<u64>,
    /// Intents that no receipt named yet. As many as effects were under way at once, and those
    /// that a crash left.
    open: BTreeMap<u64, (Place, Bound)>,
    /// Leases that were opened, by the decision, until something says what came of them.
    leases: BTreeMap<u64, (SessionId, ToolName)>,
    /// One bit for each decision: it has an effect.
    performed: Vec<u64>,
    /// The digests of the newest receipts.
    receipts: VecDeque<(u64, Digest)>,
    /// Receipts that decisions name and that were not seen yet, by the decision that they rest on.
    awaited: BTreeMap<u64, Awaited>,
    /// The greatest decision that a receipt rests on.
    reach: u64,
    /// What that was at each start of the vault but the first.
    vault_starts: Vec<u64>,
    vault_started: bool,
    in_doubt: Vec<InDoubt>,
    in_doubt_count: u64,
    decisions_lost: u64,
    contradictions: Vec<String>,
}

/// How much of the decisions is known where a receipt is looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Decisions {
    /// All that were there when it was written.
    InFull,
    /// Not those that this one rests on: the chain is bad before, which is named already, or it was
    /// written after the decisions were looked at.
    InPart,
}

/// A receipt that a decision names.
#[derive(Debug)]
struct Awaited {
    receipt: Digest,
    /// The position of the record that names it.
    named_at: u64,
}

impl Books {
    pub(crate) fn new(decisions: &Path) -> Self {
        Self {
            index: Index::new(decisions),
            starts: Vec::new(),
            open: BTreeMap::new(),
            leases: BTreeMap::new(),
            performed: Vec::new(),
            receipts: VecDeque::new(),
            awaited: BTreeMap::new(),
            reach: 0,
            vault_starts: Vec::new(),
            vault_started: false,
            in_doubt: Vec::new(),
            in_doubt_count: 0,
            decisions_lost: 0,
            contradictions: Vec::new(),
        }
    }

    /// Up to which position the decisions must be known for a line of the receipts.
    pub(crate) const fn needs(&self, effect: &Effect) -> u64 {
        match effect {
            Effect::Intent { effect, .. } | Effect::Receipt { effect, .. } => {
                effect.decision.position
            }
            Effect::Started { .. } => 0,
        }
    }

    /// Takes in the next decision. False at the end.
    pub(crate) fn decision(
        &mut self,
        decisions: &mut Walk<Decision>,
        noted: &mut Expected,
    ) -> io::Result<bool> {
        let Some((at, decision)) = decisions.next()? else {
            return Ok(false);
        };
        if let Err(why) = noted.meet(at.place) {
            decisions.fail(&why);
            return Ok(false);
        }
        self.index.note(at, &decision);
        self.lease(at.place.position, &decision);
        // Nothing was before the first.
        if matches!(decision, Decision::Started { .. }) && at.place.position > 1 {
            self.starts.push(at.place.position);
        }
        if let Some((rests_on, receipt)) = names(&decision)
            && !self.receipts.contains(&(rests_on, receipt))
        {
            let awaited = Awaited {
                receipt,
                named_at: at.place.position,
            };
            let _one_each = self.awaited.insert(rests_on, awaited);
        }
        Ok(true)
    }

    /// A lease that is opened has a receipt, or a record of why it has none.
    fn lease(&mut self, position: u64, decision: &Decision) {
        if let Decision::Allowed {
            opens: Some(_),
            call,
            session,
            ..
        } = decision
            && let Some(tool) = index::tool(call)
        {
            drop(self.leases.insert(position, (*session, tool)));
        }
        if let Decision::Failed { decision, .. } = decision {
            drop(self.leases.remove(&decision.position));
        }
    }

    /// Takes in a line of the receipts; says what is wrong with it.
    pub(crate) fn effect(
        &mut self,
        place: Place,
        line: Effect,
        decisions: Decisions,
    ) -> io::Result<Result<(), String>> {
        self.reach = self.reach.max(self.needs(&line));
        match line {
            Effect::Started { .. } => {
                if std::mem::replace(&mut self.vault_started, true) {
                    self.vault_starts.push(self.reach);
                }
                Ok(Ok(()))
            }
            Effect::Intent { effect, .. } => {
                let rests = self.rests((&effect, None), decisions, true)?;
                let once = self.once(effect.decision.position);
                drop(self.leases.remove(&effect.decision.position));
                drop(self.open.insert(place.position, (place, effect)));
                Ok(rests.and(once))
            }
            Effect::Receipt {
                effect,
                intent,
                outcome,
                ..
            } => {
                self.receipt_seen(effect.decision.position, place.digest);
                drop(self.leases.remove(&effect.decision.position));
                let happened = match &outcome {
                    Outcome::Done { .. }
                    | Outcome::Found { .. }
                    | Outcome::InDoubt { .. }
                    | Outcome::Streamed(_) => true,
                    Outcome::Failed { .. }
                    | Outcome::NotFound { .. }
                    | Outcome::Refused { .. }
                    | Outcome::Stale { .. } => false,
                };
                let once = match intent {
                    Some(intent) => self.close(intent, &effect),
                    None if happened => self.once(effect.decision.position),
                    None => Ok(()),
                };
                let rests = self.rests((&effect, Some(&outcome)), decisions, intent.is_some())?;
                if let Outcome::InDoubt { why, .. } = outcome {
                    self.doubt(place.position, &effect, why.to_string());
                }
                Ok(once.and(rests))
            }
        }
    }

    /// A receipt closes the intent that it names.
    fn close(&mut self, intent: Place, effect: &Bound) -> Result<(), String> {
        match self.open.remove(&intent.position) {
            Some((there, bound)) if there == intent && bound == *effect => Ok(()),
            Some(_) => Err(format!(
                "the receipt names line {} as its intent, which is another effect's",
                intent.position
            )),
            None => Err(format!(
                "the receipt names line {} as its intent, which is none or has a receipt",
                intent.position
            )),
        }
    }

    /// One decision, one effect.
    fn once(&mut self, decision: u64) -> Result<(), String> {
        let at = usize::try_from(decision / 64).unwrap_or(usize::MAX);
        let bit = 1_u64 << (decision % 64);
        // A position that no chain comes to is refused where it is looked up.
        if at > self.performed.len().saturating_add(1 << 20) {
            return Ok(());
        }
        if at >= self.performed.len() {
            self.performed.resize(at.saturating_add(1), 0);
        }
        match self.performed.get_mut(at) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                Ok(())
            }
            Some(_) | None => Err(format!(
                "decision {decision} has an effect already: this is a second one"
            )),
        }
    }

    fn receipt_seen(&mut self, decision: u64, receipt: Digest) {
        let met = self
            .awaited
            .get(&decision)
            .is_some_and(|it| it.receipt == receipt);
        if met {
            let _met = self.awaited.remove(&decision);
            return;
        }
        if self.receipts.len() >= RECENT {
            let _oldest = self.receipts.pop_front();
        }
        self.receipts.push_back((decision, receipt));
    }

    /// Whether the effect rests on a decision that allowed it.
    fn rests(
        &mut self,
        (effect, outcome): (&Bound, Option<&Outcome>),
        decisions: Decisions,
        intended: bool,
    ) -> io::Result<Result<(), String>> {
        let position = effect.decision.position;
        let entry = self.index.entry(position)?;
        let there = entry
            .as_ref()
            .is_some_and(|it| it.place.digest == effect.decision.digest);
        if !there && !intended && self.may_be_lost(position) {
            self.decisions_lost = self.decisions_lost.saturating_add(1);
            return Ok(Ok(()));
        }
        Ok(match entry {
            None if decisions == Decisions::InPart => Ok(()),
            None => Err(format!(
                "it rests on decision {position}, which the decisions do not have"
            )),
            Some(entry) if !there => Err(format!(
                "it rests on decision {position} with digest {}, and that line has {}",
                effect.decision.digest, entry.place.digest
            )),
            Some(entry) => allows(&entry, effect, outcome).map_err(|()| {
                format!("it rests on decision {position}, which does not allow this effect")
            }),
        })
    }

    /// Whether a start of the gate stands where this decision was, or shortly before: it was on its way to
    /// disk when the power went.
    fn may_be_lost(&self, position: u64) -> bool {
        let after = self.starts.partition_point(|start| *start <= position);
        let start = after.checked_sub(1).and_then(|at| self.starts.get(at));
        start.is_some_and(|start| position.saturating_sub(*start) < ON_THEIR_WAY)
    }

    fn doubt(&mut self, position: u64, effect: &Bound, why: String) {
        self.in_doubt_at(InDoubt {
            position,
            session: effect.session,
            tool: effect.tool.clone(),
            decision: effect.decision.position,
            why,
        });
    }

    fn in_doubt_at(&mut self, doubt: InDoubt) {
        self.in_doubt_count = self.in_doubt_count.saturating_add(1);
        if self.in_doubt.len() < IN_DOUBT_LISTED {
            self.in_doubt.push(doubt);
        }
    }

    /// What both turned out to be.
    pub(crate) fn report(mut self, decisions: Chain, receipts: Chain) -> Report {
        for (position, (_place, effect)) in std::mem::take(&mut self.open) {
            self.doubt(position, &effect, "no receipt follows its intent".into());
        }
        for (position, (session, tool)) in std::mem::take(&mut self.leases) {
            let why = "a lease was opened, and nothing says what came of it";
            self.in_doubt_at(InDoubt {
                position,
                session,
                tool,
                decision: position,
                why: why.into(),
            });
        }
        self.in_doubt.sort_by_key(|it| it.position);
        let mut receipts_lost = 0_u64;
        for (decision, awaited) in std::mem::take(&mut self.awaited) {
            // Beyond the first bad receipt nothing is known, and that one is named already.
            if receipts.bad.is_some() {
                continue;
            }
            let named = awaited.named_at;
            // It was on its way to disk when the power went, and the vault started there.
            let near = |reach: &u64| reach.abs_diff(decision) < ON_THEIR_WAY;
            if self.vault_starts.iter().any(near) {
                receipts_lost = receipts_lost.saturating_add(1);
            } else if self.contradictions.len() < IN_DOUBT_LISTED {
                self.contradictions.push(format!(
                    "decision record {named} names receipt {}, which is missing from the receipts",
                    awaited.receipt
                ));
            }
        }
        Report {
            decisions,
            receipts,
            in_doubt: self.in_doubt,
            in_doubt_count: self.in_doubt_count,
            decisions_lost: self.decisions_lost,
            receipts_lost,
            contradictions: self.contradictions,
        }
    }
}

fn allows(entry: &Entry, effect: &Bound, outcome: Option<&Outcome>) -> Result<(), ()> {
    let opens = entry.allowed.as_ref().is_some_and(|it| it.opens);
    let wanted = Allowed {
        call: effect.call,
        credential: effect.credential.clone(),
        // What streamed was a lease, and what was released whole was none.
        opens: match outcome {
            Some(Outcome::Streamed(_)) => true,
            Some(Outcome::Done { .. }) => false,
            Some(_) | None => opens,
        },
        policy: effect.policy,
        session: effect.session,
        tool: Some(effect.tool.clone()),
    };
    if entry.allowed == Some(wanted) {
        Ok(())
    } else {
        Err(())
    }
}

/// The receipt that a decision names, and the decision that it rests on.
const fn names(decision: &Decision) -> Option<(u64, Digest)> {
    match decision {
        Decision::Done {
            decision, receipt, ..
        } => Some((decision.position, *receipt)),
        Decision::Failed {
            decision,
            receipt: Some(receipt),
            ..
        }
        | Decision::Streamed {
            decision, receipt, ..
        } => Some((decision.position, *receipt)),
        Decision::Allowed { .. }
        | Decision::Approved { .. }
        | Decision::Closed { .. }
        | Decision::Deferred { .. }
        | Decision::Failed { receipt: None, .. }
        | Decision::HandedOff { .. }
        | Decision::Held { .. }
        | Decision::Lapsed { .. }
        | Decision::Narrowed { .. }
        | Decision::Opened { .. }
        | Decision::Refused { .. }
        | Decision::ReviewerRefused { .. }
        | Decision::Said { .. }
        | Decision::Started { .. }
        | Decision::TurnEnded { .. } => None,
    }
}
