//! `custody approve` and `refuse`.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;
use custody_shown::Sheet;
use custody_wire::operator::{Answer, Judged, Request, Shown, State};
use gate::approval::{Needs, Reach, Scope};

use super::{
    fetch, now,
    sign::{self, Signer},
};
use crate::{args, connect::Control, exit::Exit, inert, list::UNEXPECTED, say};

/// How long the outcome is waited for; it is found with `custody show` later.
const PATIENCE: Duration = Duration::from_secs(15);

/// Between two looks.
const STEP: Duration = Duration::from_millis(100);

/// Fewer digits of a digest than this say nothing.
const DIGITS: usize = 8;

/// `custody approve`.
///
/// # Errors
/// When the approval is not taken.
pub fn approve(socket: &Path, what: &args::Approve) -> anyhow::Result<Exit> {
    let mut control = Control::connect(socket)?;
    let (shown, sheet) = fetch(&mut control, what.call.pending, what.call.session)?;
    check_digest(&sheet, what.digest.as_deref())?;
    let now = now();
    let scope = Scope {
        reach: what.scope.into(),
        until: what
            .span
            .map(|span| now.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))),
    };
    let signer = match (&what.sign_with, &what.key) {
        (Some(command), _) => Some(Signer::Command(command)),
        (None, Some(key)) => Some(Signer::Key(key)),
        (None, None) => None,
    };
    yes(&mut control, &shown, &sheet, scope, signer)
}

/// Approves what is on the sheet, and waits for what comes of it.
pub(super) fn yes(
    control: &mut Control,
    shown: &Shown,
    sheet: &Sheet,
    scope: Scope,
    signer: Option<Signer<'_>>,
) -> anyhow::Result<Exit> {
    if let Some(why) = &sheet.not_yours {
        bail!("you cannot answer for call {}: {why}", sheet.pending);
    }
    let signed = match (shown.waits.needs, signer) {
        (Needs::Approval, None) => None,
        (Needs::Approval, Some(_)) => {
            bail!(
                "call {} needs no signature; leave the key out",
                sheet.pending
            )
        }
        (Needs::Signature, None) => bail!(
            "call {} needs your signature: name your key with --key FILE, or a command with --sign-with",
            sheet.pending
        ),
        (Needs::Signature, Some(signer)) => Some(sign::sign(shown, sheet, scope, now(), signer)?),
    };
    let request = Request::Approve {
        of: judged(shown, sheet),
        scope,
        signed,
    };
    done(control.ask(&request)?)?;
    say(&format!(
        "call {}: {}",
        sheet.pending,
        custody_shown::sheet::scope(scope)
    ));
    outcome(control, shown)
}

/// `custody refuse`.
///
/// # Errors
/// When the refusal is not taken.
pub fn refuse(socket: &Path, what: &args::Refuse) -> anyhow::Result<Exit> {
    let mut control = Control::connect(socket)?;
    let (shown, sheet) = fetch(&mut control, what.call.pending, what.call.session)?;
    no(&mut control, &shown, &sheet, &what.why)
}

/// Refuses what is on the sheet.
pub(super) fn no(
    control: &mut Control,
    shown: &Shown,
    sheet: &Sheet,
    why: &str,
) -> anyhow::Result<Exit> {
    let request = Request::Refuse {
        of: judged(shown, sheet),
        why: why.into(),
    };
    done(control.ask(&request)?)?;
    say(&format!("call {}: refused", sheet.pending));
    Ok(Exit::Done)
}

/// The digest is the one that was taken here.
fn judged(shown: &Shown, sheet: &Sheet) -> Judged {
    Judged {
        session: shown.waits.session,
        pending: sheet.pending,
        digest: sheet.digest,
    }
}

fn done(answer: Answer) -> anyhow::Result<()> {
    match answer {
        Answer::Done => Ok(()),
        Answer::Ended { .. }
        | Answer::Entered { .. }
        | Answer::Give
        | Answer::Login { .. }
        | Answer::Pending { .. }
        | Answer::Refused { .. }
        | Answer::Sessions(_)
        | Answer::Shown(_)
        | Answer::Started { .. }
        | Answer::Status { .. } => bail!(UNEXPECTED),
    }
}

fn check_digest(sheet: &Sheet, expected: Option<&str>) -> anyhow::Result<()> {
    let Some(expected) = expected else {
        return Ok(());
    };
    let found = sheet.digest.to_string();
    if expected.len() < DIGITS || !found.starts_with(expected) {
        bail!(
            "call {} has digest {found}, not {}; look at it again",
            sheet.pending,
            inert::line(expected)
        );
    }
    Ok(())
}

/// What came of it.
fn outcome(control: &mut Control, shown: &Shown) -> anyhow::Result<Exit> {
    let begun = Instant::now();
    let request = Request::Show {
        pending: shown.waits.decision.position,
        session: Some(shown.waits.session),
    };
    while begun.elapsed() < PATIENCE {
        let Answer::Shown(now) = control.ask(&request)? else {
            bail!(UNEXPECTED);
        };
        let why = now.over.map(|it| inert::line(&it.why)).unwrap_or_default();
        match now.state {
            State::Approved | State::Waiting => thread::sleep(STEP),
            State::Done => {
                say(&why);
                return Ok(Exit::Done);
            }
            State::Failed | State::InDoubt | State::Lapsed | State::Refused => {
                say(&format!("{}: {why}", now.state.as_str()));
                return Ok(Exit::Bad);
            }
        }
    }
    say("it is not over yet; `custody show` says later what came of it");
    Ok(Exit::Done)
}

/// How far an approval goes, as it is typed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Typed {
    /// This call, once
    Once,
    /// This call, with these arguments, as often as the session makes it
    Session,
    /// Calls of this tool in this session with the same value in every argument that is no payload:
    /// what is said there may differ
    Target,
}

impl From<Typed> for Reach {
    fn from(typed: Typed) -> Self {
        match typed {
            Typed::Once => Self::Once,
            Typed::Session => Self::Call,
            Typed::Target => Self::Target,
        }
    }
}
