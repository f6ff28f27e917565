//! The channel to one session's front.
//!
//! A task of its own for each: whatever a front sends or does not read, no other session waits.
//! Answers go through a short queue; when the front does not read them, its calls keep their
//! places, and then nothing more is read from it.

use std::{os::fd::OwnedFd, rc::Rc};

use custody_service::beside;
use custody_wire::{
    agent::{Answer, Request},
    frame::{self, FrameError},
};
use tokio::{
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task,
    time::{Instant, sleep},
};

use crate::{
    call::{self, Asked, Begun},
    keeper::Keeper,
    pace::Pace,
    session::Session,
    window::Window,
};

/// Answers that wait for a front to read: each may be a megabyte.
const ANSWERS: usize = 2;

/// The way to a front.
pub(crate) type Answers = mpsc::Sender<(Answer, Option<OwnedFd>)>;

/// Serves a front to the end of its channel.
pub(crate) async fn serve(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    stream: UnixStream,
) -> FrameError {
    let (from, to) = stream.into_split();
    let (answers, queue) = mpsc::channel(ANSWERS);
    session.answers_to(answers.clone());
    tokio::select! {
        why = write_all(to, queue) => why,
        why = read_all(keeper, session, from, answers) => why,
    }
}

async fn write_all(
    mut to: OwnedWriteHalf,
    mut answers: mpsc::Receiver<(Answer, Option<OwnedFd>)>,
) -> FrameError {
    while let Some((answer, descriptor)) = answers.recv().await {
        if let Err(error) = beside::write(&mut to, &answer, descriptor.as_ref()).await {
            return error;
        }
    }
    FrameError::Closed
}

async fn read_all(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    mut from: OwnedReadHalf,
    answers: Answers,
) -> FrameError {
    let mut window = Window::default();
    let mut pace = Pace::new(Instant::now());
    loop {
        let request: Request = match frame::read_async(&mut from).await {
            Ok(request) => request,
            Err(error) => return error,
        };
        let now = match request {
            Request::Tools { number } => {
                let tools = session.loaded.tools.clone();
                Some((Answer::Tools { number, tools }, 0))
            }
            Request::Call {
                number,
                tool,
                arguments,
            } => {
                let asked = Asked {
                    number,
                    tool: &tool,
                    arguments: &arguments,
                };
                let begun = if window.take(number) {
                    call::begin(keeper, session, asked)
                } else {
                    call::replayed(keeper, session, asked)
                };
                match begun {
                    Begun::Answered(answer) => {
                        Some((answer, tool.len().saturating_add(arguments.len())))
                    }
                    Begun::Performing(call) => {
                        let answers = answers.clone();
                        // On its own: the result is recorded even if this front goes away.
                        drop(task::spawn_local(async move {
                            let (answer, slot) = call.finish().await;
                            drop(answers.send((answer, None)).await);
                            drop(slot);
                        }));
                        None
                    }
                }
            }
        };
        if let Some((answer, bytes)) = now {
            if answers.send((answer, None)).await.is_err() {
                return FrameError::Closed;
            }
            sleep(pace.refused(Instant::now(), bytes)).await;
        }
        // One request of this front, then whoever else is ready.
        task::yield_now().await;
    }
}
