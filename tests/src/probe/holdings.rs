//! What a process was handed without asking: descriptors, environment, files at known places.

use std::{
    fs::{self, File},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::FileExt as _, fs::FileTypeExt as _, net::UnixStream},
    },
    path::Path,
};

use super::{Effect, Report, local};

/// The most bytes read of one file.
const FILE_CAP: usize = 1 << 20;

/// What a descriptor is good for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Bytes at offsets.
    File,
    /// A pipe, a terminal, a folder.
    Other,
    /// Someone at the other end, or nobody yet.
    Socket,
}

pub(super) fn kind(fd: impl AsFd) -> Kind {
    let file_type = fd
        .as_fd()
        .try_clone_to_owned()
        .and_then(|fd| File::from(fd).metadata())
        .map(|meta| meta.file_type());
    match file_type {
        Ok(file_type) if file_type.is_file() => Kind::File,
        Ok(file_type) if file_type.is_socket() => Kind::Socket,
        Ok(_) | Err(_) => Kind::Other,
    }
}

/// Whether there is someone at the other end who hears a stream. What else is taken from another
/// process is left alone: a listener or a datagram socket that is spoken to serves nobody after.
pub(super) fn is_connected_stream(fd: impl AsFd) -> bool {
    use rustix::net::{SocketType, getpeername, sockopt};
    sockopt::socket_type(&fd).is_ok_and(|kind| kind == SocketType::STREAM)
        && getpeername(&fd).is_ok_and(|peer| peer.is_some())
}

pub(super) fn descriptors(effect: &Effect, report: &mut Report) -> Option<()> {
    let numbers = report.step("getdents /proc/self/fd", custody_sys::fd::open_numbers())?;
    report.step(
        format!("descriptors {numbers:?}"),
        Ok::<(), std::io::Error>(()),
    )?;
    for number in numbers {
        // Reopened, not taken: the number stays its owner's. A socket cannot be (ENXIO), it is
        // taken: nobody else here uses one.
        let Ok(meta) = fs::metadata(format!("/proc/self/fd/{number}")) else {
            continue;
        };
        if meta.is_file() {
            let open = File::open(format!("/proc/self/fd/{number}"));
            if let Some(file) = report.step("open /proc/self/fd", open) {
                read(&file, report);
            }
        } else if meta.file_type().is_socket()
            && let Some(fd) = report.step("take a socket", custody_sys::fd::take(number))
        {
            speak(fd, effect, report);
        }
    }
    Some(())
}

fn speak(fd: OwnedFd, effect: &Effect, report: &mut Report) {
    let _failed: Option<()> = local::say(&mut UnixStream::from(fd), effect, report);
}

/// Reads a file from its beginning, wherever its offset is.
pub(super) fn read(file: &File, report: &mut Report) {
    let mut bytes = vec![0; FILE_CAP];
    if let Some(read) = report.step("pread", file.read_at(&mut bytes, 0)) {
        report.look(bytes.get(..read).unwrap_or_default());
    }
}

pub(super) fn environment(report: &mut Report) -> Option<()> {
    for file in ["auxv", "cmdline", "environ"] {
        let read = fs::read(format!("/proc/self/{file}"));
        if let Some(bytes) = report.step(format!("open /proc/self/{file}"), read) {
            report.look(&bytes);
        }
    }
    for (name, value) in std::env::vars_os() {
        report.look(name.as_encoded_bytes());
        report.look(value.as_encoded_bytes());
    }
    Some(())
}

pub(super) fn file(path: &Path, report: &mut Report) -> Option<()> {
    let file = report.step("open", File::open(path))?;
    read(&file, report);
    Some(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;

    #[test]
    fn of_what_was_taken_only_a_connected_stream_is_spoken_to() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(is_connected_stream(&one));
        let (datagrams, _other) = UnixDatagram::pair().unwrap();
        assert!(!is_connected_stream(&datagrams));
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        assert!(!is_connected_stream(&listener));
        let unconnected = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(!is_connected_stream(&unconnected));
    }
}
