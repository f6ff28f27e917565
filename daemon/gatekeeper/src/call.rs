//! One call, from the front's bytes to the front's answer.
//!
//! [`begin`] never waits: parse, decide, record, permit, hand over happen in one step, so that
//! nothing comes between the decision and the permit. [`Performing::finish`] waits for the vault,
//! records what came of it, taints the session, and only then has an answer.

use std::{os::fd::OwnedFd, rc::Rc};

use custody_ledger::sync::Durable;
use custody_wire::{
    agent::{Answer, RESULT_CAP},
    permit,
    session::Signed,
};
use gate::{
    approval::Statement,
    chain::Place,
    decide::{Allowed, Ask, Moment, Refusal, Verdict},
    digest::Digest,
    excerpt::excerpt,
    json::{self, Limits, Value},
    permit::{MAX_AGE, Permit, Terms},
    record::{Decision, Freshness, Scene, Verification, Why, result_digest},
    session::Facts,
};

use crate::{
    keeper::Keeper,
    released::released,
    session::{STREAMS, Session, Slot, StreamPlace},
    stream::Leasing,
    vault::{self, Gone, Link},
    wait::{self, Until},
};

/// The longest name of a tool that is recorded whole: four times as long as a registered one.
const NAME_RECORDED: usize = 256;

/// Why words from outside do not reach the agent.
const UNRECORDED: &str =
    "it cannot be recorded; the operator finds the cause in the log of custody-gate";

/// What became of a call at once.
#[derive(Debug)]
#[must_use]
pub(crate) enum Begun {
    /// It is over.
    Answered(Answer),
    /// It is with the vault.
    Performing(Box<Performing>),
}

/// A call on its way.
#[derive(Debug)]
pub(crate) struct Performing {
    keeper: Rc<Keeper>,
    session: Rc<Session>,
    number: u64,
    allowed: Allowed,
    decision: Place,
    /// What the vault waits for, if the effect is not idempotent.
    durable: Option<Durable>,
    request: vault::Performing,
    slot: Slot,
    /// Its place among the session's streams, if it opens one.
    place: Option<StreamPlace>,
}

/// A rule of this program's own, beside those of `gate::decide`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    Busy,
    Closed,
    Ledger,
    Replayed,
    Reviewer,
    Vault,
}

impl Rule {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Closed => "session_closed",
            Self::Ledger => "ledger",
            Self::Replayed => "replayed",
            // As the rule of `gate::decide` that refuses it from then on.
            Self::Reviewer => "reviewer",
            Self::Vault => "vault",
        }
    }
}

/// What the agent asks for, as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) number: u64,
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a [u8],
}

/// Decides on a call and, if it is allowed, hands it to the vault.
pub(crate) fn begin(keeper: &Rc<Keeper>, session: &Rc<Session>, asked: Asked<'_>) -> Begun {
    if !session.is_open() {
        let why = "the session is over";
        return Begun::Answered(refuse_here(keeper, session, asked, Rule::Closed, why));
    }
    let Some(slot) = session.slot() else {
        let why = "this session has 16 calls on their way; wait for one to end";
        return Begun::Answered(refuse_here(keeper, session, asked, Rule::Busy, why));
    };
    if let Some(answer) = wait::earlier(session, asked) {
        return Begun::Answered(answer);
    }
    match judge(keeper, session, asked) {
        Err(answer) => Begun::Answered(*answer),
        Ok(allowed) => dispatch(keeper, session, asked, allowed, slot, None),
    }
}

/// A number that this front used already: whatever it is, it is not performed again.
pub(crate) fn replayed(keeper: &Keeper, session: &Session, asked: Asked<'_>) -> Begun {
    let why = "a call of this number was made before";
    Begun::Answered(refuse_here(keeper, session, asked, Rule::Replayed, why))
}

/// Parses and decides. What is not allowed is recorded and answered.
fn judge(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    asked: Asked<'_>,
) -> Result<Allowed, Box<Answer>> {
    let arguments = match json::reparse(asked.arguments, &Limits::CALL) {
        Ok(arguments) => arguments,
        Err(error) => {
            let rule = gate::decide::Rule::Arguments.as_str();
            let why = format!("the arguments cannot be read: {error}");
            return Err(Box::new(refuse_unread(keeper, session, asked, rule, &why)));
        }
    };
    let ask = Ask::new(asked.tool, &arguments).at(Moment::Call, keeper.now_ms());
    let answer = match session.decide(ask) {
        Verdict::Allow(allowed) | Verdict::Limit(allowed) => {
            wait::released(keeper, session, &allowed);
            return Ok(allowed);
        }
        Verdict::Defer(held) => wait::begin(keeper, session, asked, &held, Until::TurnEnd),
        Verdict::Hold(held) => wait::begin(keeper, session, asked, &held, Until::Answered),
        Verdict::Refuse(refusal) => refuse(keeper, session, asked, Some(&arguments), refusal),
    };
    Err(Box::new(answer))
}

/// Records a refusal of the policy's, and answers it.
pub(crate) fn refuse(
    keeper: &Keeper,
    session: &Session,
    asked: Asked<'_>,
    read: Option<&Value>,
    refusal: Refusal,
) -> Answer {
    let record = {
        let facts = session.facts.borrow();
        let scene = scene(session, &facts, keeper.book.now());
        let tool = recorded_name(asked.tool);
        Decision::refused(&scene, &tool, asked.arguments, read, &refusal)
    };
    let rule = refusal.rule.as_str();
    match keeper.book.record(&record) {
        Ok(place) => {
            tracing::info!(
                session = %session.id,
                tool = excerpt(asked.tool),
                rule,
                record = place.position,
                "refused"
            );
            Answer::Refused {
                number: asked.number,
                rule: rule.into(),
                argument: refusal.argument.map(String::from),
                why: refusal.why,
            }
        }
        Err(unrecorded) => refused(asked.number, Rule::Ledger, &unrecorded.to_string()),
    }
}

/// Who calls, when and under what.
pub(crate) fn scene<'a>(session: &'a Session, facts: &'a Facts, at: u64) -> Scene<'a> {
    Scene {
        at,
        facts,
        from: &session.from,
        policy: session.loaded.hash,
        session: session.id,
    }
}

/// Records the allowance, makes the permit and hands it over.
pub(crate) fn dispatch(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    asked: Asked<'_>,
    allowed: Allowed,
    slot: Slot,
    signed: Option<Signed>,
) -> Begun {
    let number = asked.number;
    // Asked before anything is recorded as allowed: without a vault there is no permit.
    let Some(link) = keeper.vault.link() else {
        let why = "the vault is restarting, and nothing was done; try again in a moment";
        let recorded = record_here(keeper, session, asked, Rule::Vault.as_str(), why);
        return Begun::Answered(match recorded {
            Ok(_place) => failed(number, why, false, Verification::UNSUPPORTED),
            Err(unrecorded) => refused(number, Rule::Ledger, &unrecorded.to_string()),
        });
    };
    let place = match allowed.lease().map(|_lease| session.stream_place()) {
        Some(None) => {
            let why = format!(
                "this session has {STREAMS} streams open; read one to its end, or leave it"
            );
            let answer = refuse_here(keeper, session, asked, Rule::Busy, &why);
            return Begun::Answered(answer);
        }
        Some(place @ Some(_)) => place,
        None => None,
    };
    let record = {
        let facts = session.facts.borrow();
        let scene = scene(session, &facts, keeper.book.now());
        Decision::allowed(&scene, &allowed)
    };
    let decision = match keeper.book.record(&record) {
        Ok(place) => place,
        Err(unrecorded) => {
            return Begun::Answered(refused(number, Rule::Ledger, &unrecorded.to_string()));
        }
    };
    let approved = allowed.grounds().approval.is_some();
    session.record_call(allowed.call(), keeper.now_ms(), approved);
    tracing::info!(
        session = %session.id,
        tool = %allowed.tool(),
        credential = %allowed.credential(),
        record = decision.position,
        "allowed"
    );
    let approval = signed
        .as_ref()
        .map(|it| Statement::digest_of(&it.statement));
    let handed = sign(keeper, session, &allowed, decision, (&link, approval)).and_then(|permit| {
        link.perform(permit, allowed.bytes().to_vec(), signed)
            .map_err(|error| error.to_string())
    });
    match handed {
        Ok(request) => Begun::Performing(Box::new(Performing {
            keeper: Rc::clone(keeper),
            session: Rc::clone(session),
            number,
            durable: (!allowed.idempotent()).then(|| keeper.book.durable(decision)),
            allowed,
            decision,
            request,
            slot,
            place,
        })),
        Err(why) => {
            let ending = Ending {
                receipt: None,
                in_doubt: false,
                verification: Verification::UNSUPPORTED,
                why,
            };
            Begun::Answered(fail(keeper, session, number, &allowed, decision, ending))
        }
    }
}

fn sign(
    keeper: &Keeper,
    session: &Session,
    allowed: &Allowed,
    decision: Place,
    (link, approval): (&Link, Option<Digest>),
) -> Result<Vec<u8>, String> {
    let mut nonce = [0_u8; 16];
    getrandom::fill(&mut nonce).map_err(|error| format!("getrandom(2) failed: {error}"))?;
    let now = keeper.clock.boot_ns();
    let terms = Terms {
        approval,
        audience: link.audience(),
        epoch: link.epoch(),
        nonce,
        session: session.id,
        position: decision.position,
        decision: decision.digest,
        not_before: now,
        expires: now.saturating_add(MAX_AGE),
    };
    Permit::new(allowed, &terms)
        .sign(&keeper.permit_key)
        .map_err(|error| format!("no permit could be made: {error}"))
}

impl Performing {
    /// Waits for the vault, and records what came of it. The answer may be released; the slot is
    /// to be kept until it is.
    pub(crate) async fn finish(self) -> (Answer, Slot) {
        let Self {
            keeper,
            session,
            number,
            allowed,
            decision,
            durable,
            request,
            slot,
            place,
        } = self;
        if let Some(place) = place {
            let leasing = Leasing {
                keeper,
                session,
                number,
                allowed,
                decision,
                request,
                place,
            };
            return (leasing.open().await, slot);
        }
        let answer = match wait(durable, decision, request).await {
            Ok(permit::Answer::Done {
                receipt,
                result,
                status,
                media_type: _,
                number: _,
                verification,
                freshness,
            }) => {
                let performed = Performed {
                    receipt,
                    result,
                    status,
                    verification,
                    freshness,
                };
                done(&keeper, &session, number, &allowed, decision, performed)
            }
            Ok(other) => {
                let ending = ending_of(other);
                fail(&keeper, &session, number, &allowed, decision, ending)
            }
            Err(lost) => {
                let ending = lost.ending(allowed.idempotent());
                fail(&keeper, &session, number, &allowed, decision, ending)
            }
        };
        (answer, slot)
    }
}

/// Why there is no answer of the vault.
pub(crate) enum Lost {
    /// The decision did not reach the disk; the vault was not told that it had, and does nothing.
    NotDurable,
    /// The vault is gone.
    Vault,
}

impl Lost {
    pub(crate) fn ending(&self, idempotent: bool) -> Ending {
        let (in_doubt, why) = match self {
            Self::NotDurable => (
                false,
                "the decision could not be written to disk, and nothing was done; the operator \
                 finds the cause in the log of custody-gate",
            ),
            Self::Vault if idempotent => (
                true,
                "the vault went away during the call; repeating it has no other effect",
            ),
            Self::Vault => (
                true,
                "the vault went away during the call; the effect may have happened, so look \
                 before you repeat it",
            ),
        };
        Ending {
            receipt: None,
            in_doubt,
            verification: Verification::UNSUPPORTED,
            why: why.into(),
        }
    }
}

/// Waits for the answer, and meanwhile tells the vault when the decision is on disk.
async fn wait(
    durable: Option<Durable>,
    decision: Place,
    mut request: vault::Performing,
) -> Result<permit::Answer, Lost> {
    let queue = request.queue();
    let mut answer = std::pin::pin!(request.answer());
    if let Some(durable) = durable {
        let tell = async {
            durable.await?;
            vault::tell_durable(queue, decision.position).await;
            Ok::<_, custody_ledger::sync::SyncError>(())
        };
        tokio::select! {
            biased;
            answer = &mut answer => return whole(answer),
            told = tell => if let Err(error) = told {
                tracing::error!(error = custody_service::reason::chain_of(&error), "a decision is not on disk");
                return Err(Lost::NotDurable);
            },
        }
    }
    whole(answer.await)
}

/// Beside what is released whole there is nothing.
fn whole(answer: Result<(permit::Answer, Option<OwnedFd>), Gone>) -> Result<permit::Answer, Lost> {
    answer
        .map(|(answer, _none)| answer)
        .map_err(|Gone| Lost::Vault)
}

/// What the vault says of an effect that was performed.
struct Performed {
    receipt: Digest,
    result: Vec<u8>,
    status: u16,
    verification: Verification,
    freshness: Freshness,
}

/// How a call ended that was not performed, or may not have been.
pub(crate) struct Ending {
    pub(crate) receipt: Option<Digest>,
    /// Whether the effect may have happened, whatever repeating it would do.
    pub(crate) in_doubt: bool,
    pub(crate) verification: Verification,
    pub(crate) why: String,
}

pub(crate) fn ending_of(answer: permit::Answer) -> Ending {
    match answer {
        permit::Answer::Failed {
            receipt,
            why,
            in_doubt,
            verification,
            number: _,
        } => Ending {
            receipt: Some(receipt),
            in_doubt,
            verification,
            why,
        },
        permit::Answer::Refused { why, number: _ } => Ending {
            receipt: None,
            in_doubt: false,
            verification: Verification::UNSUPPORTED,
            why: format!("the vault did not act on the permit: {why}"),
        },
        permit::Answer::Opened { .. } | permit::Answer::Streamed { .. } => Ending {
            receipt: None,
            in_doubt: true,
            verification: Verification::UNSUPPORTED,
            why: "the vault did not keep to the protocol".into(),
        },
        // The channel ends at either of these out of turn, and `Done` is not an ending.
        permit::Answer::Done { receipt, .. } => Ending {
            receipt: Some(receipt),
            in_doubt: true,
            verification: Verification::UNSUPPORTED,
            why: "the effect was performed".into(),
        },
        permit::Answer::Hello { .. } => Ending {
            receipt: None,
            in_doubt: true,
            verification: Verification::UNSUPPORTED,
            why: "the vault did not keep to the protocol".into(),
        },
    }
}

/// Records the result and taints the session; then it may be released.
fn done(
    keeper: &Keeper,
    session: &Session,
    number: u64,
    allowed: &Allowed,
    decision: Place,
    performed: Performed,
) -> Answer {
    let Performed {
        receipt,
        result,
        status,
        verification,
        freshness,
    } = performed;
    if result.len() > RESULT_CAP {
        let ending = Ending {
            receipt: Some(receipt),
            in_doubt: true,
            verification,
            why: format!(
                "the effect was performed, and its answer has {} bytes; at most {RESULT_CAP} \
                 reach an agent",
                result.len()
            ),
        };
        return fail(keeper, session, number, allowed, decision, ending);
    }
    let policy = &session.loaded.policy;
    let released = match released(policy, &allowed.call().tool, result) {
        Ok(released) => released,
        Err(why) => {
            let ending = Ending {
                receipt: Some(receipt),
                in_doubt: true,
                verification,
                why: format!("the effect was performed, and its answer is withheld: {why}"),
            };
            return fail(keeper, session, number, allowed, decision, ending);
        }
    };
    let result = released.bytes;
    let label = session
        .facts
        .borrow_mut()
        .record_result(policy, allowed.call(), &released.value);
    let record = Decision::Done {
        at: keeper.book.now(),
        bytes: u64::try_from(result.len()).unwrap_or(u64::MAX),
        call: allowed.digest(),
        decision,
        label,
        receipt,
        result: result_digest(&result),
        session: session.id,
        status,
        tool: allowed.tool().clone(),
        verification: verification.clone(),
    };
    match keeper.book.record(&record) {
        Ok(place) => {
            tracing::info!(
                session = %session.id,
                tool = %allowed.tool(),
                status,
                label = ?label,
                record = place.position,
                "performed"
            );
            Answer::Done {
                number,
                call: allowed.digest(),
                json: released.json,
                result,
                status,
                verification,
                freshness,
            }
        }
        Err(_logged) => failed(
            number,
            &format!("the effect was performed, and its result is withheld: {UNRECORDED}"),
            true,
            verification,
        ),
    }
}

/// Records that an allowed call was not performed, or may not have been.
///
/// Where somebody outside may have been spoken to, the failure can be their words: it taints as a
/// result does, and is released only when it is recorded.
pub(crate) fn fail(
    keeper: &Keeper,
    session: &Session,
    number: u64,
    allowed: &Allowed,
    decision: Place,
    ending: Ending,
) -> Answer {
    let why = Why::from(ending.why.as_str());
    let spoken = ending.receipt.is_some() || ending.in_doubt;
    let label = spoken.then(|| {
        let policy = &session.loaded.policy;
        let mut facts = session.facts.borrow_mut();
        facts.record_words(policy, allowed.call(), why.as_str())
    });
    let record = Decision::Failed {
        at: keeper.book.now(),
        call: allowed.digest(),
        decision,
        in_doubt: ending.in_doubt,
        label,
        receipt: ending.receipt,
        session: session.id,
        tool: allowed.tool().clone(),
        verification: ending.verification.clone(),
        why: why.clone(),
    };
    let recorded = keeper.book.record(&record);
    tracing::warn!(
        session = %session.id,
        tool = %allowed.tool(),
        in_doubt = ending.in_doubt,
        label = ?label,
        recorded = recorded.is_ok(),
        "failed"
    );
    match recorded {
        Err(_logged) if spoken => {
            let why = format!("the call failed, and why is withheld: {UNRECORDED}");
            failed(number, &why, ending.in_doubt, ending.verification)
        }
        // Without a word from outside it says no more than that nothing was done.
        Ok(_) | Err(_) => failed(number, why.as_str(), ending.in_doubt, ending.verification),
    }
}

/// Records a refusal of this program's own, and answers it.
pub(crate) fn refuse_here(
    keeper: &Keeper,
    session: &Session,
    asked: Asked<'_>,
    rule: Rule,
    why: &str,
) -> Answer {
    refuse_unread(keeper, session, asked, rule.as_str(), why)
}

fn refuse_unread(
    keeper: &Keeper,
    session: &Session,
    asked: Asked<'_>,
    rule: &str,
    why: &str,
) -> Answer {
    match record_here(keeper, session, asked, rule, why) {
        Ok(_place) => Answer::Refused {
            number: asked.number,
            rule: rule.into(),
            argument: None,
            why: why.into(),
        },
        Err(unrecorded) => refused(asked.number, Rule::Ledger, &unrecorded.to_string()),
    }
}

fn record_here(
    keeper: &Keeper,
    session: &Session,
    asked: Asked<'_>,
    rule: &str,
    why: &str,
) -> Result<Place, crate::book::Unrecorded> {
    let tool = recorded_name(asked.tool);
    tracing::info!(session = %session.id, tool = excerpt(asked.tool), rule, "refused");
    let facts = session.facts.borrow();
    let scene = scene(session, &facts, keeper.book.now());
    let record = Decision::refused_by(&scene, &tool, asked.arguments, rule, Why::from(why));
    keeper.book.record(&record)
}

/// A name that no registered tool can have is not worth a megabyte of the ledger.
fn recorded_name(tool: &str) -> String {
    if tool.len() > NAME_RECORDED {
        excerpt(tool)
    } else {
        tool.into()
    }
}

pub(crate) fn refused(number: u64, rule: Rule, why: &str) -> Answer {
    Answer::Refused {
        number,
        rule: rule.as_str().into(),
        argument: None,
        why: why.into(),
    }
}

pub(crate) fn failed(number: u64, why: &str, in_doubt: bool, verification: Verification) -> Answer {
    Answer::Failed {
        number,
        why: why.into(),
        in_doubt,
        verification,
    }
}

/// The same answer, to another request.
pub(crate) fn numbered(answer: Answer, to: u64) -> Answer {
    let mut answer = answer;
    match &mut answer {
        Answer::Done { number, .. }
        | Answer::Failed { number, .. }
        | Answer::Held { number, .. }
        | Answer::Leased { number, .. }
        | Answer::Refused { number, .. }
        | Answer::Tools { number, .. } => *number = to,
        // Nobody asked for these.
        Answer::Over { .. } | Answer::Stream { .. } => {}
    }
    answer
}
