//! An agent that a test speaks for: custody-bridge as the command of a session, line by line.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::{Map, Value, json};

/// How long an answer may take on a host that tests share.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which revision of MCP the agent speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Era {
    /// 2025-06-18: a handshake first.
    Older,
    /// 2026-07-28: each message says who speaks, and the client shows its user forms.
    Newest,
}

/// An agent in a session.
#[derive(Debug)]
pub struct Agent {
    child: Child,
    to: Option<ChildStdin>,
    answers: mpsc::Receiver<Value>,
    era: Era,
    next: u64,
}

impl Agent {
    /// Starts `run`, which is `custody run` up to its command.
    ///
    /// # Errors
    /// When the session does not come up.
    pub fn start(mut run: Command, era: Era) -> anyhow::Result<Self> {
        let mut child = run
            .args(["--", "/run/custody/bin/custody-bridge"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("custody run")?;
        let to = child.stdin.take();
        let answers = lines(child.stdout.take().context("no standard output")?);
        let mut agent = Self {
            child,
            to,
            answers,
            era,
            next: 1,
        };
        if era == Era::Older {
            let hello = json!({
                "jsonrpc": "2.0", "id": 0, "method": "initialize",
                "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                           "clientInfo": {"name": "test", "version": "1"}},
            });
            agent.say(&hello)?;
            let _hello = agent.hear()?;
            agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        }
        Ok(agent)
    }

    /// Calls a tool and waits for the answer.
    ///
    /// # Errors
    /// When there is none.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> anyhow::Result<Value> {
        self.call_with(tool, arguments, &json!({}))
    }

    /// The same with more in the call's `params`.
    ///
    /// # Errors
    /// When there is no answer, or it is to another call.
    pub fn call_with(
        &mut self,
        tool: &str,
        arguments: &Value,
        more: &Value,
    ) -> anyhow::Result<Value> {
        let id = self.ask(tool, arguments, more)?;
        let answer = self.hear()?;
        ensure!(answer.get("id") == Some(&json!(id)), "{answer}");
        Ok(answer)
    }

    /// Calls a tool and does not wait; the call's id.
    ///
    /// # Errors
    /// When the session is over.
    pub fn ask(&mut self, tool: &str, arguments: &Value, more: &Value) -> anyhow::Result<u64> {
        let id = self.next;
        self.next = id.saturating_add(1);
        let meta = (self.era == Era::Newest).then(|| {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            });
            (String::from("_meta"), meta)
        });
        let own = json!({"name": tool, "arguments": arguments});
        let members = [&own, more].map(|it| it.as_object().cloned().unwrap_or_default());
        let params: Map<String, Value> = members.into_iter().flatten().chain(meta).collect();
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))?;
        Ok(id)
    }

    /// The next answer.
    ///
    /// # Errors
    /// When none comes in time.
    pub fn hear(&self) -> anyhow::Result<Value> {
        self.answers.recv_timeout(PATIENCE).context("no answer")
    }

    /// Ends the session as its command does: its standard input is closed.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn end(mut self) -> anyhow::Result<()> {
        self.to = None;
        let _status = self.child.wait()?;
        Ok(())
    }

    /// Waits until its `custody run` is over, however that comes.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn ended(mut self) -> anyhow::Result<()> {
        let _status = self.child.wait()?;
        Ok(())
    }

    fn say(&mut self, message: &Value) -> anyhow::Result<()> {
        let to = self.to.as_mut().context("the session is over")?;
        writeln!(to, "{message}")?;
        Ok(to.flush()?)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Gone already is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn lines(from: ChildStdout) -> mpsc::Receiver<Value> {
    let (tell, told) = mpsc::channel();
    drop(thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if let Ok(answer) = serde_json::from_str(&line)
                && tell.send(answer).is_err()
            {
                return;
            }
        }
    }));
    told
}
