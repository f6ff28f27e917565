//! Reviewers hear that a call waits: a program is run, a socket is written to. Nothing waits for either.
//!
//! What is told is the operator's own words: the call's number, its session, tool and policy. Nothing that
//! the agent wrote is in it, neither in an argument nor in the environment nor in the text.

use std::{io::Write as _, os::unix::net::UnixStream, time::Duration};

use custody_config::Notify;
use custody_service::program;
use custody_wire::session::Waits;
use serde_json::json;
use tokio::{sync::mpsc, task::spawn_blocking};

/// How long a program may take; then it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is told.
#[derive(Clone, Debug)]
pub(super) struct Note {
    text: String,
    json: String,
}

impl Note {
    pub(super) fn of(waits: &Waits) -> Self {
        let pending = waits.decision.position;
        let (tool, policy, session) = (&waits.tool, &waits.policy, waits.session);
        let needs = waits.needs.as_str();
        let uid = waits.caller_uid;
        Self {
            text: format!(
                "Call {pending} of session {session} waits for a person: tool {tool}, policy {policy}, \
                 asked for by uid {uid}; it needs {needs}.\nLook at it with: custody show {pending}\n"
            ),
            json: json!({
                "format": 1,
                "pending": pending,
                "session": session,
                "tool": tool,
                "policy": policy,
                "caller_uid": uid,
                "needs": needs,
                "since": waits.since,
                "expires": waits.expires,
            })
            .to_string(),
        }
    }
}

/// The ways to tell.
#[derive(Clone, Debug)]
pub(super) struct Notifier(Notify);

impl Notifier {
    pub(super) const fn new(ways: Notify) -> Self {
        Self(ways)
    }

    /// Tells one after the other, for ever.
    pub(super) async fn carry(self, mut notes: mpsc::Receiver<Note>) {
        while let Some(note) = notes.recv().await {
            let ways = self.clone();
            if let Err(error) = spawn_blocking(move || ways.tell(&note)).await {
                tracing::error!(%error, "reviewers are not told");
            }
        }
    }

    fn tell(&self, note: &Note) {
        if let Some((program, arguments)) = self.0.command.split_first()
            && let Err(error) = run(program, arguments, &note.text)
        {
            tracing::warn!(%error, "the program of `[notify]` did not tell that a call waits");
        }
        if let Some(path) = &self.0.socket {
            let told = UnixStream::connect(path).and_then(|mut stream| {
                stream.set_write_timeout(Some(PATIENCE))?;
                stream.write_all(format!("{}\n", note.json).as_bytes())
            });
            if let Err(error) = told {
                tracing::warn!(%error, "nobody heard at the socket of `[notify]` that a call waits");
            }
        }
    }
}

fn run(path: &str, arguments: &[String], text: &str) -> std::io::Result<()> {
    let mut child = program::command(path, arguments).spawn()?;
    // A few hundred bytes: a pipe takes them at once. Whoever does not read them is not told more.
    if let Some(mut stdin) = child.stdin.take()
        && let Err(error) = stdin.write_all(text.as_bytes())
    {
        tracing::debug!(%error, "the program of `[notify]` does not read");
    }
    match program::ended(&mut child, PATIENCE)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(std::io::Error::other(status.to_string())),
        None => Err(std::io::ErrorKind::TimedOut.into()),
    }
}
