//! Orders in, notices out. A service that does not read, or says what is no order, is killed:
//! what rests on it ends closed.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use custody_sys::channel;
use custody_wire::{
    Message,
    frame::{self, FrameError},
    supervise::{ControlOrder, Head, Serves, VaultOrder},
};

use super::{Custodyd, Part, say::chain, services::Service};

/// The most descriptors beside an order: the operator's connection, the command, the workspace.
const FDS_MAX: usize = 3;

/// Orders of one service in a row, before others have their turn.
const TURN: usize = 64;

#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error("it closed its channel")]
    Closed,
    #[error("its channel")]
    Io(#[source] io::Error),
    #[error("it said what is no order")]
    Frame(#[from] FrameError),
}

impl Custodyd {
    pub(super) fn take_orders(&mut self, service: Service) {
        for _ in 0..TURN {
            match self.take_order(service) {
                Ok(true) => {}
                Ok(false) => return,
                Err(OrderError::Closed) => {
                    // It ends, or is ended: the pidfd says more.
                    self.slots.close(service);
                    self.kill_part(Part::Service(service));
                    return;
                }
                Err(error) => {
                    tracing::error!(
                        service = service.name(),
                        error = chain(&error),
                        "killed for breaking the protocol"
                    );
                    self.slots.close(service);
                    self.kill_part(Part::Service(service));
                    return;
                }
            }
        }
    }

    /// Whether there may be another in this turn.
    fn take_order(&mut self, service: Service) -> Result<bool, OrderError> {
        match service {
            Service::Control => {
                let Some((order, fds)) = self.receive::<ControlOrder>(service)? else {
                    return Ok(false);
                };
                match order {
                    ControlOrder::Ready => {}
                    ControlOrder::Revoke { number, what } => self.revoke(number, &what),
                    ControlOrder::Signal { session, signal } => {
                        self.signal_session(session, signal)
                    }
                    ControlOrder::Start(start) => {
                        self.start_session(start, fds);
                        self.slots.serves(service);
                        // The others have their turn first: a start takes long.
                        return Ok(false);
                    }
                    ControlOrder::Stop { session } => {
                        self.stop_session(session, "stopped by an operator");
                    }
                    ControlOrder::Unlock { number, tool } => self.unlock(number, &tool),
                }
            }
            Service::Gate => {
                let Some((head, _)) = self.receive::<Head>(service)? else {
                    return Ok(false);
                };
                self.heads.decisions = Some(head);
                self.certify(service);
            }
            Service::Vault => {
                let Some((order, _)) = self.receive::<VaultOrder>(service)? else {
                    return Ok(false);
                };
                match order {
                    VaultOrder::Head(head) => {
                        self.heads.receipts = Some(head);
                        self.certify(service);
                    }
                    VaultOrder::Start {
                        order,
                        session,
                        label,
                        egress,
                    } => self.start_worker(order, session, &label, &egress),
                    VaultOrder::Locked { policy, tool } => self.locked(policy, tool),
                    VaultOrder::Recover {
                        order,
                        policy,
                        label,
                        egress,
                    } => self.start_recovery(order, &policy, &label, &egress),
                    VaultOrder::Stop { order } => self.stop_worker(order),
                    VaultOrder::Verify {
                        order,
                        session,
                        policy,
                        tool,
                    } => self.start_verifier(order, session, &policy, &tool),
                }
            }
            // It has no channel to us.
            Service::Page => return Ok(false),
            Service::Resolver => {
                let Some((Serves, _)) = self.receive(service)? else {
                    return Ok(false);
                };
            }
        }
        self.slots.serves(service);
        Ok(true)
    }

    fn receive<M: Message>(
        &self,
        service: Service,
    ) -> Result<Option<(M, Vec<OwnedFd>)>, OrderError> {
        let Some(channel) = self.slots.channel(service) else {
            return Ok(None);
        };
        let mut bytes = vec![0; M::CAP];
        match channel::recv(channel, &mut bytes, FDS_MAX) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(OrderError::Closed),
            Err(error) => Err(OrderError::Io(error)),
            Ok((0, _)) => Err(OrderError::Closed),
            Ok((len, fds)) => {
                let message = frame::parse(bytes.get(..len).unwrap_or_default())?;
                Ok(Some((message, fds)))
            }
        }
    }

    /// Sends a notice. A service that is not there hears what it needs when it is started.
    pub(super) fn tell<M: Message>(
        &mut self,
        service: Service,
        message: &M,
        fds: &[BorrowedFd<'_>],
    ) {
        let Some(channel) = self.slots.channel(service) else {
            return;
        };
        let sent = frame::datagram(message)
            .map_err(io::Error::other)
            .and_then(|bytes| channel::send(channel, &bytes, fds));
        if let Err(error) = sent {
            tracing::error!(
                service = service.name(),
                error = chain(&error),
                "killed: it does not take its notices"
            );
            self.slots.close(service);
            self.kill_part(Part::Service(service));
        }
    }

    /// [`Custodyd::tell`] with descriptors that are given away.
    pub(super) fn give<M: Message>(&mut self, service: Service, message: &M, fds: &[OwnedFd]) {
        self.tell(service, message, &borrow(fds));
    }
}

pub(super) fn borrow(fds: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    fds.iter().map(AsFd::as_fd).collect()
}
