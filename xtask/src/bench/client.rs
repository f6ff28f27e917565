//! The benchmark's agent: inside a session, it makes calls when it is told to, and says how long
//! each took. It speaks MCP over the session's socket itself, so that no client library is measured.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session's socket
    #[arg(long, default_value = "/run/custody/session.sock")]
    socket: String,
}

/// Reads lines `COUNT TOOL ARGUMENTS` (JSON) and answers each with COUNT lines of nanoseconds.
pub(crate) fn run(args: &Args) -> Result<()> {
    let stream = UnixStream::connect(&args.socket)
        .with_context(|| format!("cannot connect to `{}`", args.socket))?;
    let mut session = Session {
        reader: BufReader::new(stream.try_clone().context("dup")?),
        stream,
        line: String::new(),
        number: 0,
    };
    session.open()?;
    say::line("ready");
    for order in std::io::stdin().lock().lines() {
        let order = order.context("cannot read an order")?;
        let mut parts = order.splitn(3, ' ');
        let (Some(count), Some(tool), Some(arguments)) = (parts.next(), parts.next(), parts.next())
        else {
            bail!("`{order}` is no order");
        };
        for _ in 0..count.parse::<usize>().context("a count")? {
            let started = Instant::now();
            session.call(tool, arguments)?;
            say::line(started.elapsed().as_nanos());
        }
    }
    Ok(())
}

struct Session {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    line: String,
    number: u64,
}

impl Session {
    fn open(&mut self) -> Result<()> {
        self.ask(
            "initialize",
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}"#,
        )?;
        self.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
    }

    fn call(&mut self, tool: &str, arguments: &str) -> Result<()> {
        self.ask(
            "tools/call",
            &format!("{{\"name\":\"{tool}\",\"arguments\":{arguments}}}"),
        )?;
        ensure!(
            !self.line.contains("\"isError\":true"),
            "the call did not pass: {}",
            self.line.trim()
        );
        Ok(())
    }

    fn ask(&mut self, method: &str, parameters: &str) -> Result<()> {
        self.number += 1;
        let id = self.number;
        self.send(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{parameters}}}\n"
        ))?;
        self.line.clear();
        self.reader.read_line(&mut self.line).context("no answer")?;
        ensure!(
            self.line.contains("\"result\""),
            "`{method}` was not answered with a result: {}",
            self.line.trim()
        );
        Ok(())
    }

    fn send(&mut self, message: &str) -> Result<()> {
        self.stream
            .write_all(message.as_bytes())
            .context("cannot ask")
    }
}
