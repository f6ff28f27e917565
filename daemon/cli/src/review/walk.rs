//! `custody review`: what waits, one after the other, in the terminal.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::Path,
};

use anyhow::bail;
use custody_shown::Sheet;
use custody_wire::operator::Shown;
use gate::approval::{Needs, Reach, Scope};
use nix::sys::termios::{FlushArg, tcflush};

use super::{answer, fetch, list, sign::Signer, terminal};
use crate::{complain, connect::Control, exit::Exit, say};

/// `custody review`.
///
/// # Errors
/// When there is no terminal, or the service does not answer.
pub fn walk(socket: &Path, key: Option<&Path>) -> anyhow::Result<Exit> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        bail!(
            "`custody review` asks in a terminal; without one, use `custody pending` and `approve`"
        );
    }
    let mut control = Control::connect(socket)?;
    let calls = list::every(&mut control, false)?;
    if calls.is_empty() {
        say("nothing waits for you");
    }
    let all = calls.len();
    for (index, call) in calls.iter().enumerate() {
        say(&format!("\n── {} of {all} ──", index.saturating_add(1)));
        let (shown, sheet) = match fetch(&mut control, call.pending, Some(call.session)) {
            Ok(found) => found,
            Err(error) => {
                complain(&format!("{error:#}"));
                continue;
            }
        };
        for line in terminal::lines(&sheet) {
            say(&line);
        }
        if !sheet.is_to_answer() {
            continue;
        }
        match ask(&mut control, &shown, &sheet, key) {
            Ok(Next::Go) => {}
            Ok(Next::Quit) => break,
            Err(error) => complain(&format!("{error:#}")),
        }
    }
    Ok(Exit::Done)
}

enum Next {
    Go,
    Quit,
}

/// A whole word is wanted for a yes: no key that was hit too often gives one.
fn ask(
    control: &mut Control,
    shown: &Shown,
    sheet: &Sheet,
    key: Option<&Path>,
) -> anyhow::Result<Next> {
    loop {
        match read()?.as_deref().map(str::trim) {
            None | Some("quit" | "q") => return Ok(Next::Quit),
            Some("next" | "n" | "") => return Ok(Next::Go),
            Some(words @ ("approve" | "session" | "target")) => {
                let reach = match words {
                    "session" => Reach::Call,
                    "target" => Reach::Target,
                    _ => Reach::Once,
                };
                let scope = Scope { reach, until: None };
                let signer = match shown.waits.needs {
                    Needs::Approval => None,
                    Needs::Signature => key.map(Signer::Key),
                };
                let _exit = answer::yes(control, shown, sheet, scope, signer)?;
                return Ok(Next::Go);
            }
            Some(words) => match words.strip_prefix("refuse ").map(str::trim) {
                Some(why) if !why.is_empty() => {
                    let _exit = answer::no(control, shown, sheet, why)?;
                    return Ok(Next::Go);
                }
                Some(_) | None => {
                    say("say `approve` (once), `session`, `target`, `refuse WHY`, `next` or `quit`")
                }
            },
        }
    }
}

/// A line that was typed after the question: what was typed before is thrown away.
fn read() -> anyhow::Result<Option<String>> {
    tcflush(io::stdin(), FlushArg::TCIFLUSH)?;
    write!(
        io::stdout(),
        "approve, session, target, refuse WHY, next or quit: "
    )?;
    io::stdout().flush()?;
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line)? {
        0 => Ok(None),
        _ => Ok(Some(line)),
    }
}
