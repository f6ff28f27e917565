//! Socket pairs between our programs, and descriptors beside a message (unix(7), SCM_RIGHTS).
//!
//! **Invariant:** a message is taken whole or not at all. What was cut (MSG_TRUNC, MSG_CTRUNC) is
//! an error, and every descriptor that came with it is closed.

// UNSAFETY: nix closes nothing when the control data was cut, so recvmsg(2) is called here; and it
// does not know SO_PASSRIGHTS.
#![expect(
    unsafe_code,
    reason = "recvmsg(2) with SCM_RIGHTS, descriptors owned at once; setsockopt(2) with SO_PASSRIGHTS"
)]

use std::{
    io::{self, IoSlice},
    mem,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    ptr,
};

use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair,
};

/// The most descriptors that one message carries: what the largest of ours needs, far below the
/// kernel's SCM_MAX_FD of 253 (unix(7)).
pub const MAX_FDS: usize = 32;

/// A pair that keeps message borders (SOCK_SEQPACKET), close-on-exec.
///
/// # Errors
/// When socketpair(2) fails.
pub fn pair_seqpacket() -> io::Result<(OwnedFd, OwnedFd)> {
    pair(SockType::SeqPacket)
}

/// A pair that carries bytes (SOCK_STREAM), close-on-exec.
///
/// # Errors
/// When socketpair(2) fails.
pub fn pair_stream() -> io::Result<(OwnedFd, OwnedFd)> {
    pair(SockType::Stream)
}

fn pair(kind: SockType) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(
        AddressFamily::Unix,
        kind,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?)
}

/// Whether descriptors may be sent to a socket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rights {
    /// sendmsg(2) of whoever tries fails with EPERM: nothing of his waits in the socket, for whoever
    /// reads or closes it to close.
    Refused,
    /// As every socket is born.
    Taken,
}

/// Says whether descriptors may be sent to `socket`, a unix socket (SO_PASSRIGHTS). What is accepted
/// from a listener begins with the listener's answer. `false` where the kernel is older than 6.16 and
/// does not know the option: then everyone may.
///
/// # Errors
/// When setsockopt(2) fails otherwise.
pub fn set_rights(socket: impl AsFd, rights: Rights) -> io::Result<bool> {
    let value: libc::c_int = match rights {
        Rights::Refused => 0,
        Rights::Taken => 1,
    };
    // SAFETY: the socket is borrowed, and the option's value is one int that outlives the call
    // (sk_setsockopt(), net/core/sock.c).
    let set = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const value).cast(),
            length(size_of::<libc::c_int>()),
        )
    };
    if set == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOPROTOOPT) => Ok(false),
        Some(_) | None => Err(error),
    }
}

/// include/uapi/asm-generic/socket.h of Linux 6.16, unknown to libc.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Sends one message with descriptors. Never raises SIGPIPE. EAGAIN comes back as
/// [`io::ErrorKind::WouldBlock`] when `to` is non-blocking.
///
/// # Errors
/// When sendmsg(2) fails, or takes less than all of `bytes`.
pub fn send(to: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<RawFd> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
    let to = to.as_fd().as_raw_fd();
    let sent = loop {
        match sendmsg::<()>(
            to,
            &[IoSlice::new(bytes)],
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        ) {
            Err(nix::errno::Errno::EINTR) => {}
            other => break other?,
        }
    };
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::WriteZero,
            format!("the socket took {sent} of {} bytes", bytes.len()),
        ))
    }
}

/// Receives one message into `buffer` with at most `max_fds` descriptors, close-on-exec.
/// 0 bytes is the end of the channel. EAGAIN comes back as [`io::ErrorKind::WouldBlock`].
///
/// # Errors
/// When recvmsg(2) fails, the message is longer than `buffer`, or more descriptors came than
/// `max_fds`; then none is kept.
pub fn recv(
    from: impl AsFd,
    buffer: &mut [u8],
    max_fds: usize,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = Control([0; CONTROL_WORDS]);
    let mut slice = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: msghdr is plain data for which all zeros is valid: null pointers, zero lengths.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut slice;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = length(size_of::<Control>());

    let fd = from.as_fd().as_raw_fd();
    let len = loop {
        // SAFETY: `header` points at one iovec over `buffer` and at `control`, each with its true
        // length and alive beyond the call (recv(2)).
        let got = unsafe { libc::recvmsg(fd, &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        match usize::try_from(got) {
            Ok(len) => break len,
            Err(_negative) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    };

    // Owned before anything is judged: an early return closes them.
    let fds = descriptors(&header);
    if header.msg_flags & libc::MSG_CTRUNC != 0 || fds.len() > max_fds {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message brought more than {max_fds} descriptors"),
        ));
    }
    if header.msg_flags & libc::MSG_TRUNC != 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message is longer than {} bytes", buffer.len()),
        ));
    }
    Ok((len, fds))
}

/// Room for one SCM_RIGHTS message of [`MAX_FDS`] and its header, aligned as cmsghdr wants it.
#[repr(C, align(8))]
struct Control([u64; CONTROL_WORDS]);

/// CMSG_SPACE(MAX_FDS * 4) is 16 + 128 bytes on 64 bit (cmsg(3)); one word more for rounding.
const CONTROL_WORDS: usize = 2 + MAX_FDS / 2 + 1;

/// Takes ownership of every descriptor in the control data of a received message.
fn descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: recvmsg(2) filled `header`; msg_control and msg_controllen describe live memory.
    let mut current = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !current.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give an aligned header inside msg_control or null.
        let message = unsafe { ptr::read(current) };
        if message.cmsg_level == libc::SOL_SOCKET && message.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: `current` is a valid header, see above.
            let data = unsafe { libc::CMSG_DATA(current) };
            // SAFETY: CMSG_LEN only computes.
            let head = unsafe { libc::CMSG_LEN(0) };
            let head = usize::try_from(head).unwrap_or(usize::MAX);
            let bytes = length::<_, usize>(message.cmsg_len).saturating_sub(head);
            for index in 0..bytes / size_of::<RawFd>() {
                let offset = index.saturating_mul(size_of::<RawFd>());
                // SAFETY: `offset` is below the data's length, which the kernel wrote.
                let at = unsafe { data.add(offset) };
                // SAFETY: the kernel put one int here; its alignment is not promised (cmsg(3)).
                let raw = unsafe { ptr::read_unaligned(at.cast::<RawFd>()) };
                // SAFETY: SCM_RIGHTS gave this process a new descriptor, owned by nobody else.
                fds.push(unsafe { OwnedFd::from_raw_fd(raw) });
            }
        }
        // SAFETY: `header` and `current` as above.
        current = unsafe { libc::CMSG_NXTHDR(header, current) };
    }
    fds
}

/// glibc and musl give lengths of control data different types.
fn length<T: TryInto<U>, U: Default>(of: T) -> U {
    of.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::fd::AsRawFd};

    fn null() -> OwnedFd {
        fs::File::open("/dev/null").unwrap().into()
    }

    /// Where a descriptor leads; ours are told apart by a pipe's inode.
    fn leads_to(fd: &OwnedFd) -> std::path::PathBuf {
        fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap()
    }

    #[test]
    fn a_message_keeps_its_border_and_its_descriptors() {
        let (a, b) = pair_seqpacket().unwrap();
        let (sent, _keep) = pair_stream().unwrap();
        send(&a, b"one", &[sent.as_fd()]).unwrap();
        send(&a, b"three", &[]).unwrap();
        let mut buffer = [0; 64];
        let (len, fds) = recv(&b, &mut buffer, 1).unwrap();
        assert_eq!((&buffer[..len], fds.len()), (&b"one"[..], 1));
        assert_eq!(leads_to(&fds[0]), leads_to(&sent));
        let (len, fds) = recv(&b, &mut buffer, 1).unwrap();
        assert_eq!((&buffer[..len], fds.len()), (&b"three"[..], 0));
        drop(a);
        assert_eq!(recv(&b, &mut buffer, 1).unwrap().0, 0);
    }

    #[test]
    fn descriptors_arrive_close_on_exec() {
        let (a, b) = pair_seqpacket().unwrap();
        send(&a, b"x", &[null().as_fd()]).unwrap();
        let (_, fds) = recv(&b, &mut [0; 8], 1).unwrap();
        let flags = nix::fcntl::fcntl(&fds[0], nix::fcntl::FcntlArg::F_GETFD).unwrap();
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }

    #[test]
    fn too_many_descriptors_are_refused_and_closed() {
        let (a, b) = pair_seqpacket().unwrap();
        // The pipe's reader sees the end only when every copy of the writer is closed.
        for count in [2, MAX_FDS, MAX_FDS + 8] {
            let (reader, writer) = nix::unistd::pipe().unwrap();
            send(&a, b"x", &vec![writer.as_fd(); count]).unwrap();
            drop(writer);
            let error = recv(&b, &mut [0; 8], 1).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{count}");
            assert_eq!(nix::unistd::read(&reader, &mut [0; 1]).unwrap(), 0);
        }
    }

    #[test]
    fn a_message_longer_than_the_buffer_is_refused_with_its_descriptors() {
        let (a, b) = pair_seqpacket().unwrap();
        let (reader, writer) = nix::unistd::pipe().unwrap();
        send(&a, b"too long", &[writer.as_fd()]).unwrap();
        drop(writer);
        let error = recv(&b, &mut [0; 4], 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(nix::unistd::read(&reader, &mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn a_full_set_of_descriptors_passes() {
        let (a, b) = pair_seqpacket().unwrap();
        let fd = null();
        send(&a, b"x", &[fd.as_fd(); MAX_FDS]).unwrap();
        let (_, fds) = recv(&b, &mut [0; 8], MAX_FDS).unwrap();
        assert_eq!(fds.len(), MAX_FDS);
    }

    #[test]
    fn to_a_socket_that_takes_no_descriptors_bytes_alone_are_sent() {
        let (a, b) = pair_stream().unwrap();
        if !set_rights(&b, Rights::Refused).unwrap() {
            println!("not attempted: needs SO_PASSRIGHTS (Linux 6.16)");
            return;
        }
        let fd = null();
        let error = send(&a, b"x", &[fd.as_fd()]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        send(&a, b"y", &[]).unwrap();
        set_rights(&b, Rights::Taken).unwrap();
        send(&a, b"z", &[fd.as_fd()]).unwrap();
        let mut buffer = [0; 8];
        let (len, fds) = recv(&b, &mut buffer, 1).unwrap();
        assert_eq!((&buffer[..len], fds.len()), (&b"yz"[..], 1));
    }

    #[test]
    fn what_is_accepted_takes_no_descriptors_if_its_listener_takes_none() {
        use std::os::unix::net::{UnixListener, UnixStream};

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        if !set_rights(&listener, Rights::Refused).unwrap() {
            println!("not attempted: needs SO_PASSRIGHTS (Linux 6.16)");
            return;
        }
        // Before it is accepted, too.
        let client = UnixStream::connect(&path).unwrap();
        let fd = null();
        assert!(send(&client, b"x", &[fd.as_fd()]).is_err());
        let (_server, _) = listener.accept().unwrap();
        assert!(send(&client, b"x", &[fd.as_fd()]).is_err());
    }

    #[test]
    fn sending_to_a_closed_end_is_an_error_not_a_signal() {
        let (a, b) = pair_seqpacket().unwrap();
        drop(b);
        let error = send(&a, b"x", &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
