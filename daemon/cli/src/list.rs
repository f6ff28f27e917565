//! `custody ps`, `stop`, `status`.

use std::path::Path;

use anyhow::{Context as _, bail};
use custody_wire::{
    operator::{Answer, Request, SessionView},
    session::Told,
    supervise::Counts,
};
use gate::id::SessionId;
use serde_json::json;

use crate::{args, complain, connect::Control, exit::Exit, inert, say};

/// The version of what `ps --json` writes.
const FORMAT: u32 = 1;

/// `custody ps`.
///
/// # Errors
/// When the service does not answer.
pub fn ps(socket: &Path, json: bool) -> anyhow::Result<Exit> {
    let Answer::Sessions(sessions) = Control::connect(socket)?.ask(&Request::List)? else {
        bail!(UNEXPECTED);
    };
    if json {
        say(&as_json(&sessions));
    } else {
        for line in table(&sessions) {
            say(&line);
        }
    }
    Ok(Exit::Done)
}

/// `custody stop`.
///
/// # Errors
/// When the service does not answer.
pub fn stop(socket: &Path, sessions: &[SessionId]) -> anyhow::Result<Exit> {
    let mut control = Control::connect(socket)?;
    let mut exit = Exit::Done;
    for session in sessions {
        // One that cannot be stopped does not keep the others.
        if let Err(error) = control.ask(&Request::Stop { session: *session }) {
            complain(&format!("{error:#}"));
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}

/// `custody tell`.
///
/// # Errors
/// When a file cannot be read, or the service does not answer or takes it for none.
pub fn tell(socket: &Path, session: SessionId, what: &args::Tell) -> anyhow::Result<Exit> {
    let read = |file: &Path| {
        std::fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))
    };
    let told = match (&what.message, &what.handoff, &what.narrow) {
        (Some(text), _, _) => Told::Message(text.clone()),
        (None, Some(file), _) => Told::Handoff(read(file)?),
        (None, None, Some(file)) => Told::Narrow(read(file)?),
        // clap asks for exactly one.
        (None, None, None) => Told::TurnEnd,
    };
    let request = Request::Tell { session, told };
    match Control::connect(socket)?.ask(&request)? {
        Answer::Done => Ok(Exit::Done),
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

/// `custody status`.
///
/// # Errors
/// When the service does not answer.
pub fn status(socket: &Path) -> anyhow::Result<Exit> {
    let answer = Control::connect(socket)?.ask(&Request::Status)?;
    let Answer::Status { version, policies } = answer else {
        bail!(UNEXPECTED);
    };
    say(&format!("custody {} runs", inert::line(&version)));
    if policies.is_empty() {
        say("you may use no policy; an `[[access]]` rule of custodyd.toml says who may");
    } else {
        let names: Vec<&str> = policies.iter().map(|name| name.as_str()).collect();
        say(&format!("you may use: {}", names.join(", ")));
    }
    Ok(Exit::Done)
}

pub(crate) const UNEXPECTED: &str =
    "the service answered something else; is it of another version?";

fn as_json(sessions: &[SessionView]) -> String {
    let sessions: Vec<_> = sessions
        .iter()
        .map(|it| {
            json!({
                "session": it.session,
                "policy": it.policy,
                "profile": it.profile.as_str(),
                "uid": it.uid,
                "caller_uid": it.caller_uid,
                "from": it.from,
                "seconds": it.seconds,
                "allowed": it.counts.map(|counts| counts.allowed),
                "refused": it.counts.map(|counts| counts.refused),
                "workspace": it.workspace,
            })
        })
        .collect();
    json!({ "format": FORMAT, "sessions": sessions }).to_string()
}

fn table(sessions: &[SessionView]) -> Vec<String> {
    let mut rows = vec![
        [
            "SESSION",
            "POLICY",
            "PROFILE",
            "UID",
            "CALLER",
            "FROM",
            "TIME",
            "ALLOWED",
            "REFUSED",
            "WORKSPACE",
        ]
        .map(String::from),
    ];
    rows.extend(sessions.iter().map(|it| {
        [
            it.session.to_string(),
            it.policy.to_string(),
            it.profile.as_str().into(),
            it.uid.to_string(),
            it.caller_uid.to_string(),
            it.from.map_or("-".into(), |from| from.to_string()),
            time(it.seconds),
            count(it, |counts| counts.allowed),
            count(it, |counts| counts.refused),
            it.workspace.as_deref().map_or("-".into(), inert::line),
        ]
    }));
    aligned(&rows)
}

/// Rows as lines, each column as wide as its widest cell.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    rows.iter()
        .map(|row| {
            let cells: Vec<String> = row
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect()
}

/// `-` until the service has counted.
fn count(session: &SessionView, of: impl Fn(Counts) -> u64) -> String {
    session.counts.map_or("-".into(), |it| of(it).to_string())
}

fn time(seconds: u64) -> String {
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    let (hours, minutes) = (minutes / 60, minutes % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use custody_wire::profile::Profile;
    use gate::id::PolicyName;

    fn view() -> SessionView {
        SessionView {
            session: SessionId(0x2a),
            policy: PolicyName::parse("mail").unwrap(),
            profile: Profile::Dev,
            uid: 1_900_000_001,
            caller_uid: 1000,
            from: Some(SessionId(0x29)),
            seconds: 3_725,
            counts: Some(Counts {
                allowed: 12,
                refused: 3,
            }),
            workspace: Some("/home/a/\u{1b}]0;x\u{7}".into()),
        }
    }

    #[test]
    fn a_table_of_sessions_is_aligned_and_inert() {
        assert_eq!(
            table(&[view()]),
            [
                "SESSION           POLICY  PROFILE  UID         CALLER  FROM              TIME      \
                 ALLOWED  REFUSED  WORKSPACE",
                "000000000000002a  mail    dev      1900000001  1000    0000000000000029  01:02:05  \
                 12       3        /home/a/\\u{1b}]0;x\\u{7}",
            ]
        );
    }

    #[test]
    fn json_names_its_format() {
        let parsed: serde_json::Value = serde_json::from_str(&as_json(&[view()])).unwrap();
        assert_eq!(parsed["format"], 1);
        assert_eq!(parsed["sessions"][0]["session"], "000000000000002a");
        assert_eq!(parsed["sessions"][0]["profile"], "dev");
        assert_eq!(parsed["sessions"][0]["from"], "0000000000000029");
        assert_eq!(parsed["sessions"][0]["seconds"], 3_725);
        assert_eq!(parsed["sessions"][0]["refused"], 3);
        let uncounted = SessionView {
            counts: None,
            ..view()
        };
        let parsed: serde_json::Value = serde_json::from_str(&as_json(&[uncounted])).unwrap();
        assert!(parsed["sessions"][0]["allowed"].is_null());
    }
}
