//! `custody pending` and `show`.

use std::path::Path;

use anyhow::{Context as _, bail};
use custody_shown::words::{span, until};
use custody_wire::operator::{Answer, PendingView, Request};
use gate::id::SessionId;
use serde_json::json;

use super::{fetch, now, terminal};
use crate::{connect::Control, exit::Exit, inert, list::UNEXPECTED, say};

/// The version of what `--json` writes.
const FORMAT: u32 = 1;

/// `custody pending`.
///
/// # Errors
/// When the service does not answer.
pub fn pending(socket: &Path, all: bool, json: bool) -> anyhow::Result<Exit> {
    let mut control = Control::connect(socket)?;
    let calls = every(&mut control, all)?;
    if json {
        say(&as_json(&calls));
    } else if calls.is_empty() {
        say("nothing waits for you");
    } else {
        for line in table(&calls, now()) {
            say(&line);
        }
    }
    Ok(Exit::Done)
}

/// `custody show`.
///
/// # Errors
/// When there is no such call, or its bytes are not those of its digest.
pub fn show(
    socket: &Path,
    pending: u64,
    session: Option<SessionId>,
    json: bool,
) -> anyhow::Result<Exit> {
    let (_shown, sheet) = fetch(&mut Control::connect(socket)?, pending, session)?;
    if json {
        let mut value = serde_json::to_value(&sheet).context("cannot write the call")?;
        if let Some(object) = value.as_object_mut() {
            object.insert("format".into(), FORMAT.into());
        }
        say(&value.to_string());
    } else {
        for line in terminal::lines(&sheet) {
            say(&line);
        }
    }
    Ok(Exit::Done)
}

/// `custody review --web`.
///
/// # Errors
/// When there is no page.
pub fn web(socket: &Path) -> anyhow::Result<Exit> {
    let Answer::Login { url } = Control::connect(socket)?.ask(&Request::Login)? else {
        bail!(UNEXPECTED);
    };
    say(&inert::line(&url));
    Ok(Exit::Done)
}

/// All that wait, page by page.
pub(super) fn every(control: &mut Control, all: bool) -> anyhow::Result<Vec<PendingView>> {
    let (mut every, mut after) = (Vec::new(), None);
    loop {
        let request = Request::Pending { after, all };
        let Answer::Pending { calls, next } = control.ask(&request)? else {
            bail!(UNEXPECTED);
        };
        every.extend(calls);
        match next {
            Some(next) => after = Some(next),
            None => return Ok(every),
        }
    }
}

fn as_json(calls: &[PendingView]) -> String {
    let calls: Vec<_> = calls
        .iter()
        .map(|it| {
            json!({
                "pending": it.pending,
                "session": it.session,
                "tool": it.tool,
                "policy": it.policy,
                "caller_uid": it.caller_uid,
                "since": it.since,
                "expires": it.expires,
                "needs": it.needs,
                "rule": it.rule,
                "state": it.state.as_str(),
            })
        })
        .collect();
    json!({ "format": FORMAT, "pending": calls }).to_string()
}

fn table(calls: &[PendingView], now: u64) -> Vec<String> {
    let head = [
        "ID", "TOOL", "POLICY", "RUN BY", "WAITED", "LEFT", "NEEDS", "RULE", "STATE",
    ];
    let mut rows = vec![head.map(String::from)];
    rows.extend(calls.iter().map(|it| {
        [
            it.pending.to_string(),
            it.tool.to_string(),
            it.policy.to_string(),
            it.caller_uid.to_string(),
            span(now.saturating_sub(it.since)),
            until(now, it.expires).trim_end_matches(" left").to_owned(),
            it.needs.as_str().into(),
            inert::line(&it.rule),
            it.state.as_str().into(),
        ]
    }));
    crate::list::aligned(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use custody_wire::operator::State;
    use gate::{
        approval::Needs,
        id::{PolicyName, ToolName},
    };

    fn view() -> PendingView {
        PendingView {
            pending: 17,
            session: SessionId(0x2a),
            tool: ToolName::parse("pay").unwrap(),
            policy: PolicyName::parse("bank").unwrap(),
            caller_uid: 1000,
            since: 1_000,
            expires: 601_000,
            needs: Needs::Signature,
            rule: "confirmation\u{1b}[2J".into(),
            state: State::Waiting,
        }
    }

    #[test]
    fn a_table_of_calls_is_aligned_and_inert() {
        assert_eq!(
            table(&[view()], 31_000),
            [
                "ID  TOOL  POLICY  RUN BY  WAITED  LEFT   NEEDS      RULE                   STATE",
                "17  pay   bank    1000    30 s    9 min  signature  confirmation\\u{1b}[2J  waiting",
            ]
        );
    }

    #[test]
    fn json_names_its_format() {
        let parsed: serde_json::Value = serde_json::from_str(&as_json(&[view()])).unwrap();
        assert_eq!(parsed["format"], 1);
        assert_eq!(parsed["pending"][0]["pending"], 17);
        assert_eq!(parsed["pending"][0]["needs"], "signature");
        assert_eq!(parsed["pending"][0]["state"], "waiting");
    }
}
