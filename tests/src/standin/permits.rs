//! A vault that believes whoever speaks to it: the first message brings the key, and no permit is
//! looked at. In one process with the agent nothing better can be had.

use std::{
    io::{self, Write as _},
    os::unix::net::UnixStream,
};

use custody_wire::{frame, permit::Request};

use super::Upstream;

pub(super) fn serve(stream: &UnixStream, upstream: &Upstream) -> io::Result<()> {
    let mut reader = stream;
    let mut writer = stream;
    loop {
        match frame::read::<Request>(&mut reader) {
            Ok(Request::Perform { call, .. }) => {
                let answer = upstream.ask("POST", "/v1/messages", &call)?;
                writer.write_all(&answer)?;
            }
            Ok(Request::Durable { .. } | Request::Hello { .. }) => {}
            Err(frame::FrameError::Closed) => return Ok(()),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}
