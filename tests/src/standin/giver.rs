//! Hands out a connection to the deputy, as a descriptor (unix(7), SCM_RIGHTS).

use std::{
    io,
    os::{fd::AsFd as _, unix::net::UnixStream},
};

use super::{Upstream, deputy};

pub(super) fn serve(stream: &UnixStream, upstream: &Upstream) -> io::Result<()> {
    let (given, ours) = UnixStream::pair()?;
    custody_sys::channel::send(stream.as_fd(), b"take it", &[given.as_fd()])?;
    drop(given);
    deputy::stream(&ours, upstream)
}
