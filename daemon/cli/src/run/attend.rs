//! From the request to the command's end: one loop over the service, signals and bytes.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use anyhow::{Context as _, bail};
use custody_wire::{
    layer::{Report, Status},
    operator::{Answer, Request},
    supervise::End,
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, raise},
};

use super::{
    pump::{Pump, Turn, unblock},
    signals::{Signals, Wish},
    terminal::{self, Raw},
};
use crate::{
    complain,
    connect::{Control, GONE, Heard},
    inert,
};

/// How the session came to its end.
pub(super) struct Attendance<'a> {
    pub(super) control: &'a mut Control,
    /// The command and the workspace, until the service asks for them.
    pub(super) given: Vec<OwnedFd>,
    /// Signals that came before that.
    pub(super) early: Vec<i32>,
    pub(super) signals: &'a Signals,
    /// The command has a private pty.
    pub(super) tty: bool,
    /// Show what each layer says.
    pub(super) layers: bool,
}

/// What the caller and the command share while it runs. The outputs go first, and each brings its
/// terminal back while that is still raw.
#[derive(Default)]
struct Shared {
    outputs: Vec<Pump>,
    stdin: Option<Pump>,
    master: Option<OwnedFd>,
    raw: Option<Raw>,
}

impl Attendance<'_> {
    /// Until the command ended and everything that it wrote is written.
    pub(super) fn attend(&mut self) -> anyhow::Result<End> {
        let mut shared = Shared::default();
        let mut ended = None;
        loop {
            let ready = wait(self.control, self.signals, &shared, ended.is_some())?;
            if !ready.signals.is_empty() {
                self.obey_signals(&shared)?;
            }
            if let Some(pump) = &mut shared.stdin {
                pump.fill(ready.stdin.source);
                pump.empty(ready.stdin.sink);
            }
            let mut moved = false;
            for (pump, ready) in shared.outputs.iter_mut().zip(&ready.outputs) {
                pump.fill(ready.source);
                pump.empty(ready.sink);
                moved |= !ready.source.is_empty() || !ready.sink.is_empty() || !pump.is_empty();
            }
            // The caller's terminal is gone: so is the command's, as if it were the same.
            if shared.master.is_some() && shared.outputs.iter().all(Pump::is_closed) {
                shared.stdin = None;
                shared.master = None;
            }
            match ended {
                Some(end) if !moved => return Ok(end),
                Some(_) => {}
                None if !ready.control.is_empty() => {
                    ended = self.hear(&mut shared)?;
                    if ended.is_some() {
                        shared.stdin = None;
                    }
                }
                None => {}
            }
        }
    }

    /// Reads from the service; the command's end, if that is what it says.
    fn hear(&mut self, shared: &mut Shared) -> anyhow::Result<Option<End>> {
        let (answer, fds) = match self.control.hear()? {
            Heard::Answer(answer, fds) => (*answer, fds),
            Heard::End => bail!("{GONE}; the session is over"),
            Heard::Part => return Ok(None),
        };
        match answer {
            Answer::Ended { end } => Ok(Some(end)),
            Answer::Give => {
                let given = std::mem::take(&mut self.given);
                let fds: Vec<BorrowedFd<'_>> = given.iter().map(|fd| fd.as_fd()).collect();
                self.control.give(&fds)?;
                self.forward_early()?;
                Ok(None)
            }
            Answer::Refused { why } => bail!("{why}"),
            Answer::Started {
                session: _,
                profile,
                layers,
                weaknesses,
            } => {
                self.given.clear();
                self.forward_early()?;
                if self.layers {
                    show(&layers);
                }
                for weakness in weaknesses {
                    let weakness = inert::line(&weakness);
                    complain(&format!("profile {}: {weakness}", profile.as_str()));
                }
                self.share(shared, fds)
                    .context("the command's terminal or pipes")?;
                Ok(None)
            }
            Answer::Done
            | Answer::Entered { .. }
            | Answer::Login { .. }
            | Answer::Pending { .. }
            | Answer::Sessions(_)
            | Answer::Shown(_)
            | Answer::Status { .. } => {
                bail!("the service answered something else; is it of another version?")
            }
        }
    }

    fn share(&self, shared: &mut Shared, fds: Vec<OwnedFd>) -> anyhow::Result<()> {
        for fd in &fds {
            unblock(fd)?;
        }
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned();
        if self.tty {
            let [master] = <[OwnedFd; 1]>::try_from(fds)
                .map_err(|fds| anyhow::anyhow!("{} descriptors came for a pty", fds.len()))?;
            shared.raw = Some(Raw::new()?);
            let typed = Pump::new(own(stdin.as_fd())?, master.try_clone()?);
            shared.stdin = Some(typed);
            let shown =
                Pump::to_caller(master.try_clone()?, own(stdout.as_fd())?, &Turn::default())?;
            shared.outputs.push(shown);
            shared.master = Some(master);
            // It may have changed since it was asked for.
            resize(shared);
        } else {
            let [their_in, their_out, their_err] = <[OwnedFd; 3]>::try_from(fds)
                .map_err(|fds| anyhow::anyhow!("{} descriptors came for pipes", fds.len()))?;
            shared.stdin = Some(Pump::new(own(stdin.as_fd())?, their_in));
            // Both may end on one terminal.
            let turn = Turn::default();
            shared.outputs = vec![
                Pump::to_caller(their_out, own(stdout.as_fd())?, &turn)?,
                Pump::to_caller(their_err, own(stderr.as_fd())?, &turn)?,
            ];
        }
        Ok(())
    }

    fn obey_signals(&mut self, shared: &Shared) -> anyhow::Result<()> {
        while let Some(wish) = self.signals.next().context("signalfd(2)")? {
            match wish {
                Wish::Forward(signal) => self.forward(signal)?,
                Wish::Resize if shared.master.is_some() => resize(shared),
                Wish::Resize => self.forward(Signal::SIGWINCH as i32)?,
                Wish::Suspend => suspend(shared)?,
            }
        }
        Ok(())
    }

    fn forward_early(&mut self) -> anyhow::Result<()> {
        let early = std::mem::take(&mut self.early);
        early.into_iter().try_for_each(|it| self.forward(it))
    }

    /// What goes beside the request comes first.
    fn forward(&mut self, signal: i32) -> anyhow::Result<()> {
        if self.given.is_empty() {
            return self.control.send(&Request::Signal { signal });
        }
        self.early.push(signal);
        Ok(())
    }
}

/// The command's terminal gets the size of ours; the kernel tells the command.
fn resize(shared: &Shared) {
    if let Some(master) = &shared.master
        && let Some(size) = terminal::size()
        && let Err(error) = custody_sys::pty::resize(master, size.rows, size.columns)
    {
        complain(&format!("the window's size was not passed on: {error}"));
    }
}

/// Stops this process with the terminal as it was before, until it is continued.
fn suspend(shared: &Shared) -> anyhow::Result<()> {
    if let Some(raw) = &shared.raw {
        raw.off().context("tcsetattr(3)")?;
    }
    raise(Signal::SIGSTOP).context("raise(3)")?;
    if let Some(raw) = &shared.raw {
        raw.on().context("tcsetattr(3)")?;
    }
    resize(shared);
    Ok(())
}

fn show(layers: &[Report]) {
    for Report { layer, status } in layers {
        let status = match status {
            Status::Full => "full".into(),
            Status::None { step, errno } => format!("none: {step} (errno {errno})"),
            Status::NotNeeded => "not needed".into(),
            Status::Partial { missing } => format!("partial: {missing}"),
        };
        complain(&format!("layer {}: {status}", layer.name()));
    }
    complain(
        "disk: not bounded; a workspace's files count against its owner's quota, where its file system \
         has one",
    );
}

#[derive(Clone, Copy)]
struct PumpReady {
    source: PollFlags,
    sink: PollFlags,
}

struct Ready {
    control: PollFlags,
    signals: PollFlags,
    stdin: PumpReady,
    outputs: Vec<PumpReady>,
}

/// Waits until something can be done. When the command ended, only for what it wrote.
fn wait(
    control: &Control,
    signals: &Signals,
    shared: &Shared,
    ended: bool,
) -> anyhow::Result<Ready> {
    let control = (!ended).then(|| control.as_fd());
    let pumps: Vec<&Pump> = shared.stdin.iter().chain(&shared.outputs).collect();
    let wanted = [
        (control, PollFlags::POLLIN),
        (Some(signals.as_fd()), PollFlags::POLLIN),
    ]
    .into_iter()
    .chain(pumps.iter().flat_map(|pump| {
        [
            (pump.source(), PollFlags::POLLIN),
            (pump.sink(), PollFlags::POLLOUT),
        ]
    }));
    let wanted: Vec<_> = wanted.collect();
    let mut fds: Vec<PollFd<'_>> = wanted
        .iter()
        .filter_map(|(fd, flags)| fd.map(|fd| PollFd::new(fd, *flags)))
        .collect();
    // All of the session is gone: what its pipes do not hold now they never will.
    let timeout = if ended && shared.outputs.iter().all(Pump::is_empty) {
        PollTimeout::ZERO
    } else {
        PollTimeout::NONE
    };
    match poll(&mut fds, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => {}
        Err(errno) => return Err(errno).context("poll(2)"),
    }
    let mut answered = fds
        .iter()
        .map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
    let mut ready = wanted.iter().map(|(fd, _)| match fd {
        Some(_) => answered.next().unwrap_or(PollFlags::empty()),
        None => PollFlags::empty(),
    });
    let mut next = || ready.next().unwrap_or(PollFlags::empty());
    let control = next();
    let signals = next();
    let mut pump = || PumpReady {
        source: next(),
        sink: next(),
    };
    let stdin = match shared.stdin {
        Some(_) => pump(),
        None => PumpReady {
            source: PollFlags::empty(),
            sink: PollFlags::empty(),
        },
    };
    let outputs = shared.outputs.iter().map(|_| pump()).collect();
    Ok(Ready {
        control,
        signals,
        stdin,
        outputs,
    })
}
