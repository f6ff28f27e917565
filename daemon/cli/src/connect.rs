//! The connection to custody-control.

use std::{
    io::{ErrorKind, Write as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
};

use anyhow::{Context as _, bail};
use custody_sys::channel;
use custody_wire::{
    frame::{self, body_len},
    operator::{Answer, BESIDE, Request},
};

/// The most descriptors beside an answer: stdin, stdout and stderr.
const FDS_MAX: usize = 3;

/// The frame's length field.
const HEAD: usize = 4;

/// Bytes asked of the socket at once.
const STEP: usize = 64 << 10;

/// A connection. Answers come one after the other, each with its descriptors.
#[derive(Debug)]
pub struct Control {
    stream: UnixStream,
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

/// What is there to be read.
#[derive(Debug)]
pub enum Heard {
    /// A whole answer, and what came beside it.
    Answer(Box<Answer>, Vec<OwnedFd>),
    /// The service is gone.
    End,
    /// Not all of an answer yet.
    Part,
}

impl Control {
    /// Connects to the service.
    ///
    /// # Errors
    /// When there is none; the error says what to do.
    pub fn connect(socket: &Path) -> anyhow::Result<Self> {
        let path = socket.display();
        let error = match UnixStream::connect(socket) {
            Ok(stream) => {
                return Ok(Self {
                    stream,
                    bytes: Vec::new(),
                    fds: Vec::new(),
                });
            }
            Err(error) => error,
        };
        let kind = error.kind();
        if matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused) {
            bail!(
                "the service does not run (nothing listens at `{path}`); start it with \
                 `systemctl start custodyd`, or by hand as root with `custodyd`"
            );
        }
        if kind == ErrorKind::PermissionDenied {
            bail!(
                "permission denied at `{path}`; every user may connect to the service's own \
                 socket: is this another one, or a folder above it closed?"
            );
        }
        Err(error).with_context(|| format!("cannot connect to `{path}`"))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// When it does not fit, or the service is gone.
    pub fn send(&mut self, request: &Request) -> anyhow::Result<()> {
        let bytes = frame::frame(request).context("the request does not fit")?;
        still_heard(self.stream.write_all(&bytes))
    }

    /// Sends what goes beside a request, when the service asked for it ([`Answer::Give`]).
    ///
    /// # Errors
    /// When the service is gone.
    pub fn give(&mut self, fds: &[BorrowedFd<'_>]) -> anyhow::Result<()> {
        still_heard(channel::send(&self.stream, &[BESIDE], fds))
    }

    /// Reads once, and says whether that was a whole answer.
    ///
    /// # Errors
    /// When what came is no answer.
    pub fn hear(&mut self) -> anyhow::Result<Heard> {
        if self.missing()? > 0 {
            let mut part = vec![0; self.missing()?.min(STEP)];
            let (len, fds) = match channel::recv(&self.stream, &mut part, FDS_MAX) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => (0, Vec::new()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Heard::Part),
                Err(error) => return Err(error).context("the service's answer"),
            };
            if len == 0 {
                return Ok(Heard::End);
            }
            part.truncate(len);
            self.bytes.extend_from_slice(&part);
            self.fds.extend(fds);
        }
        if self.missing()? > 0 {
            return Ok(Heard::Part);
        }
        let bytes = std::mem::take(&mut self.bytes);
        let fds = std::mem::take(&mut self.fds);
        let body = bytes.get(HEAD..).unwrap_or_default();
        let answer = frame::parse(body).context("the service's answer")?;
        Ok(Heard::Answer(Box::new(answer), fds))
    }

    /// Asks, and waits for the one answer.
    ///
    /// # Errors
    /// When there is none, or it is a refusal.
    pub fn ask(&mut self, request: &Request) -> anyhow::Result<Answer> {
        self.send(request)?;
        loop {
            match self.hear()? {
                Heard::Part => {}
                Heard::End => bail!(GONE),
                Heard::Answer(answer, _) => match *answer {
                    Answer::Refused { why } => bail!("{why}"),
                    answer @ (Answer::Done
                    | Answer::Ended { .. }
                    | Answer::Entered { .. }
                    | Answer::Give
                    | Answer::Login { .. }
                    | Answer::Pending { .. }
                    | Answer::Sessions(_)
                    | Answer::Shown(_)
                    | Answer::Started { .. }
                    | Answer::Status { .. }) => return Ok(answer),
                },
            }
        }
    }

    fn missing(&self) -> anyhow::Result<usize> {
        let Some(head) = self.bytes.first_chunk::<HEAD>() else {
            return Ok(HEAD.saturating_sub(self.bytes.len()));
        };
        let body = body_len::<Answer>(*head).context("the service's answer")?;
        Ok(body.saturating_add(HEAD).saturating_sub(self.bytes.len()))
    }
}

/// A service that turns us away says why and closes its end: that is still to be heard.
fn still_heard(sent: std::io::Result<()>) -> anyhow::Result<()> {
    match sent {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context(GONE),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// What is said when the service goes away.
pub const GONE: &str = "the service went away; its log says why (`journalctl -u custodyd`)";

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
