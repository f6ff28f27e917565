//! Who is at the other end of a unix socket, as the kernel noted at connect time (unix(7)).

// UNSAFETY: SO_PEERGROUPS has a variable length, which nix does not know.
#![expect(unsafe_code, reason = "getsockopt(2) with SO_PEERGROUPS")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _},
};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

/// The peer's ids. The pid may be gone or reused: it is for logs, never for a decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Credentials {
    /// Effective gid.
    pub gid: u32,
    /// Process id, for logs.
    pub pid: i32,
    /// Effective uid.
    pub uid: u32,
}

/// The peer's ids (SO_PEERCRED). For a socket pair these are its maker's.
///
/// # Errors
/// When getsockopt(2) fails.
pub fn credentials(socket: impl AsFd) -> io::Result<Credentials> {
    let peer = getsockopt(&socket, PeerCredentials)?;
    Ok(Credentials {
        gid: peer.gid(),
        pid: peer.pid(),
        uid: peer.uid(),
    })
}

/// The peer's supplementary groups (SO_PEERGROUPS).
///
/// # Errors
/// When getsockopt(2) fails.
pub fn groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let fd = socket.as_fd().as_raw_fd();
    // Most users are in few groups; ERANGE says how many there are (net/core/sock.c).
    let mut groups = vec![0_u32; 64];
    for _attempt in 0..2 {
        let room = groups.len().saturating_mul(size_of::<u32>());
        let mut bytes =
            libc::socklen_t::try_from(room).map_err(|_long| io::ErrorKind::InvalidInput)?;
        // SAFETY: `groups` has `bytes` writable bytes, and both outlive the call.
        let result = unsafe {
            libc::getsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let error = io::Error::last_os_error();
        let count = usize::try_from(bytes).unwrap_or(0) / size_of::<u32>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        // NGROUPS_MAX bounds it (limits.h).
        if error.raw_os_error() != Some(libc::ERANGE) || count > 65_536 {
            return Err(error);
        }
        groups = vec![0; count];
    }
    Err(io::Error::from_raw_os_error(libc::ERANGE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn the_peer_of_a_connection_is_this_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        let (server, _) = listener.accept().unwrap();
        let peer = credentials(&server).unwrap();
        assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
        assert_eq!(peer.gid, nix::unistd::getegid().as_raw());
        assert_eq!(peer.pid, nix::unistd::getpid().as_raw());
        let mut ours: Vec<u32> = nix::unistd::getgroups()
            .unwrap()
            .iter()
            .map(|gid| gid.as_raw())
            .collect();
        let mut theirs = groups(&server).unwrap();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(theirs, ours);
    }
}
