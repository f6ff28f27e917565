//! The channel to one session's front.
//!
//! A task of its own for each: whatever a front sends or does not read, no other session waits.
//! Answers go through a short queue; when the front does not read them, its calls keep their
//! places, and then nothing more is read from it.

use std::rc::Rc;

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

/// Serves a front to the end of its channel.
pub(crate) async fn serve(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    stream: UnixStream,
) -> FrameError {
    let (from, to) = stream.into_split();
    let (answers, queue) = mpsc::channel(ANSWERS);
    tokio::select! {
        why = write_all(to, queue) => why,
        why = read_all(keeper, session, from, answers) => why,
    }
}

async fn write_all(mut to: OwnedWriteHalf, mut answers: mpsc::Receiver<Answer>) -> FrameError {
    while let Some(answer) = answers.recv().await {
        if let Err(error) = frame::write_async(&mut to, &answer).await {
            return error;
        }
    }
    FrameError::Closed
}

async fn read_all(
    keeper: &Rc<Keeper>,
    session: &Rc<Session>,
    mut from: OwnedReadHalf,
    answers: mpsc::Sender<Answer>,
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
                            drop(answers.send(answer).await);
                            drop(slot);
                        }));
                        None
                    }
                }
            }
        };
        if let Some((answer, bytes)) = now {
            if answers.send(answer).await.is_err() {
                return FrameError::Closed;
            }
            sleep(pace.refused(Instant::now(), bytes)).await;
        }
        // One request of this front, then whoever else is ready.
        task::yield_now().await;
    }
}
