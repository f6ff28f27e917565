//! What may take long to close, closed by a thread of its own: the loop has everyone else.
//!
//! An operator's connection holds what he sent and nobody received. Whoever drops its last copy drops
//! that too, and one of it may be a socket that lingers in close(2) (SO_LINGER, socket(7)), as long as
//! he likes. That is control, which has threads for it; it is custodyd where control ended meanwhile.
//!
//! An agent's descriptors reach its own front and nobody else (one front a session), and a session makes no
//! socket that lingers; gate, vault, resolver and launchers can send custodyd none ([`Rights::Refused`]).
//!
//! [`Rights::Refused`]: custody_sys::channel::Rights::Refused

use std::{
    fs, io,
    os::fd::{AsFd, AsRawFd as _, OwnedFd},
    sync::mpsc,
    thread,
};

use custody_sys::fd::leave_open;

/// Closes a connection of an operator's: here if no descriptor waits in it.
pub(super) fn connection(connection: OwnedFd) {
    match waiting(&connection) {
        Ok(0) => drop(connection),
        Ok(_) | Err(_) => elsewhere(connection),
    }
}

/// Closes `fd` on a thread of its own. Without a thread it stays open.
pub(super) fn elsewhere(fd: OwnedFd) {
    let (hand_over, handed_over) = mpsc::channel::<OwnedFd>();
    let closing = move || drop(handed_over.recv());
    match thread::Builder::new().name("closing".into()).spawn(closing) {
        Ok(_thread) => {
            if let Err(mpsc::SendError(fd)) = hand_over.send(fd) {
                leave_open(fd);
            }
        }
        Err(error) => {
            tracing::error!(%error, "a descriptor stays open");
            leave_open(fd);
        }
    }
}

/// How many descriptors wait in a unix socket to be received (`scm_fds`, unix_show_fdinfo() in
/// net/unix/af_unix.c).
fn waiting(socket: impl AsFd) -> io::Result<usize> {
    let number = socket.as_fd().as_raw_fd();
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    info.lines()
        .find_map(|line| line.strip_prefix("scm_fds:")?.trim().parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        net::{TcpListener, TcpStream},
        os::unix::net::UnixStream,
        time::Duration,
    };

    use custody_sys::channel;
    use nix::{
        libc::linger,
        sys::socket::{setsockopt, sockopt::Linger},
    };

    use super::*;

    #[test]
    fn descriptors_that_wait_in_a_connection_are_counted() {
        let (a, b) = UnixStream::pair().unwrap();
        channel::send(&a, b"xy", &[]).unwrap();
        assert_eq!(waiting(&b).unwrap(), 0);
        channel::send(&a, b"x", &[a.as_fd(), b.as_fd()]).unwrap();
        assert_eq!(waiting(&b).unwrap(), 2);
        assert!(waiting(fs::File::open("/dev/null").unwrap()).is_err());
    }

    /// A connection in which a socket waits that lingers, and the far end that does not read.
    fn lingering() -> (UnixStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        while io::Write::write(&mut &near, &[0; 1 << 16]).is_ok() {}
        let hour = linger {
            l_onoff: 1,
            l_linger: 3600,
        };
        setsockopt(&near, Linger, &hour).unwrap();
        let (theirs, ours) = UnixStream::pair().unwrap();
        channel::send(&theirs, b"x", &[near.as_fd()]).unwrap();
        (ours, far)
    }

    #[test]
    fn what_lingers_in_the_last_copy_of_a_connection_holds_up_a_thread_and_not_the_loop() {
        let (ours, far) = lingering();
        let (closed, is_closed) = mpsc::channel();
        let (mut end, here) = UnixStream::pair().unwrap();
        // The loop: were it held up, the test would not come to its next step.
        thread::spawn(move || {
            connection(ours.into());
            connection(here.into());
            closed.send(()).unwrap();
        });
        is_closed
            .recv_timeout(Duration::from_secs(20))
            .expect("the loop waits for what lingers");
        // What does not linger is closed at once.
        assert_eq!(end.read(&mut [0]).unwrap(), 0);
        drop(far);
    }
}
