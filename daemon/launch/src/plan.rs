//! The plan as it arrives, with its descriptors; and the last words on the channel.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use custody_sys::channel;
use custody_wire::{
    Message, frame,
    launch::{Go, Plan, Ready, Report, Role},
    layer::Layer,
};

use crate::failure::{Failure, Step as _};

/// The descriptors of the plan, by what they are.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    pub(crate) command: Option<OwnedFd>,
    pub(crate) inherit: Vec<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) workspace: Option<OwnedFd>,
}

/// What comes first.
#[derive(Debug)]
pub(crate) enum First {
    Plan(Box<Plan>, Descriptors),
    Ready(Ready),
}

/// Receives the plan, or the word to be ready for one.
pub(crate) fn receive(channel: &OwnedFd) -> Result<First, Failure> {
    let (bytes, fds) = datagram(channel)?;
    match frame::parse(&bytes) {
        Ok(ready) => Ok(First::Ready(ready)),
        Err(frame::FrameError::Kind { .. }) => {
            let (plan, descriptors) = parse(&bytes, fds)?;
            Ok(First::Plan(Box::new(plan), descriptors))
        }
        Err(error) => Err(unreadable("word to be ready")(error)),
    }
}

/// Receives the plan.
pub(crate) fn receive_plan(channel: &OwnedFd) -> Result<(Plan, Descriptors), Failure> {
    let (bytes, fds) = datagram(channel)?;
    parse(&bytes, fds)
}

fn datagram(channel: &OwnedFd) -> Result<(Vec<u8>, Vec<OwnedFd>), Failure> {
    let mut buffer = vec![0; Plan::CAP];
    let (len, fds) = channel::recv(channel, &mut buffer, channel::MAX_FDS)
        .step(|| "recvmsg(2) of the plan".into())?;
    buffer.truncate(len);
    if buffer.is_empty() {
        return Err(Failure::refused(
            None,
            "the channel closed before a plan came".into(),
        ));
    }
    Ok((buffer, fds))
}

fn parse(bytes: &[u8], fds: Vec<OwnedFd>) -> Result<(Plan, Descriptors), Failure> {
    let plan: Plan = frame::parse(bytes).map_err(unreadable("plan"))?;
    if plan.fds.len() != fds.len() {
        return Err(Failure::refused(
            None,
            format!(
                "the plan names {} descriptors; {} came",
                plan.fds.len(),
                fds.len()
            ),
        ));
    }
    let mut descriptors = Descriptors::default();
    for (role, fd) in plan.fds.iter().zip(fds) {
        let before = match role {
            Role::Command => descriptors.command.replace(fd),
            Role::Inherit => {
                descriptors.inherit.push(fd);
                None
            }
            Role::Stderr => descriptors.stderr.replace(fd),
            Role::Workspace => descriptors.workspace.replace(fd),
            Role::Listener | Role::Master | Role::Stdin | Role::Stdout => {
                return Err(Failure::refused(
                    None,
                    format!("the plan brings a descriptor of role {role:?}"),
                ));
            }
        };
        if before.is_some() {
            return Err(Failure::refused(
                None,
                format!("the plan brings two of {role:?}"),
            ));
        }
    }
    Ok((plan, descriptors))
}

/// Sends the report with its descriptors.
pub(crate) fn report(
    channel: &OwnedFd,
    report: &Report,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Failure> {
    let bytes = frame::datagram(report).map_err(unreadable("report"))?;
    channel::send(channel.as_fd(), &bytes, fds).step(|| "sendmsg(2) of the report".into())
}

/// Waits for custodyd's word. Anything else, and the end of the channel, is a refusal.
pub(crate) fn wait_for_go(channel: &OwnedFd) -> Result<(), Failure> {
    let mut buffer = [0; Go::CAP];
    let (len, _none) =
        channel::recv(channel, &mut buffer, 0).step(|| "recvmsg(2) of the last word".into())?;
    let Go =
        frame::parse(buffer.get(..len).unwrap_or_default()).map_err(unreadable("last word"))?;
    Ok(())
}

fn unreadable(what: &'static str) -> impl FnOnce(frame::FrameError) -> Failure {
    move |error| Failure::refused(None, format!("the {what}: {error}"))
}

/// The layers that the plan leaves out. Only the bypass suite makes plans that do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Without<'a>(pub(crate) &'a [Layer]);

impl Without<'_> {
    /// Whether `layer` is to be built.
    pub(crate) fn keeps(self, layer: Layer) -> bool {
        !self.0.contains(&layer)
    }
}
