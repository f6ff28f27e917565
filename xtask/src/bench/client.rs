//! The benchmark's agent: inside a session, it makes calls when it is told to, and says how long
//! each took. It speaks MCP over the session's socket itself, so that no client library is measured.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
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
            session.follow(&args.socket)?;
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

    /// Reads the stream to its end that the last answer names, if it names one: a connection of its own, as
    /// custody-bridge makes it.
    fn follow(&self, socket: &str) -> Result<()> {
        let Some((_, behind)) = self.line.split_once("\"custody/stream\":") else {
            return Ok(());
        };
        let name: String = behind.chars().take_while(char::is_ascii_digit).collect();
        let mut stream = UnixStream::connect(socket).context("cannot connect")?;
        stream
            .write_all(format!("custody-stream {name}\n").as_bytes())
            .context("cannot ask for the stream")?;
        let mut all = Vec::new();
        let _bytes = stream.read_to_end(&mut all).context("no stream")?;
        ensure!(
            all.starts_with(b"ok\n") && all.ends_with(b"whole\n"),
            "the stream did not come whole: {}",
            String::from_utf8_lossy(&all)
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
