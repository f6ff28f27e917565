//! Sealed memory files (memfd_create(2)): bytes that cannot change after they were checked.

use std::{
    ffi::CStr,
    fs::File,
    io::{self, Write as _},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt as _,
    },
};

use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
};

/// The seals of [`sealed`], and what [`read`] asks for: nobody writes, grows, shrinks or unseals.
const SEALS: SealFlag = SealFlag::F_SEAL_SEAL
    .union(SealFlag::F_SEAL_SHRINK)
    .union(SealFlag::F_SEAL_GROW)
    .union(SealFlag::F_SEAL_WRITE);

/// MFD_NOEXEC_SEAL (linux/memfd.h, 6.3): no execute bit, and none to be set later.
const NOEXEC_SEAL: MFdFlags = MFdFlags::from_bits_retain(8);

/// A memory file that holds `bytes` for good. `name` shows in /proc/PID/fd only.
///
/// # Errors
/// When memfd_create(2), write(2) or F_ADD_SEALS fails.
pub fn sealed(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING | NOEXEC_SEAL;
    let mut file = File::from(memfd_create(name, flags)?);
    file.write_all(bytes)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS))?;
    Ok(file.into())
}

/// What a sealed file holds. Refuses a file that somebody could still change: its bytes would
/// not be the ones that were checked.
///
/// # Errors
/// When it is not a sealed memory file, is over `cap` bytes, or cannot be read.
pub fn read(fd: impl AsFd, cap: usize) -> io::Result<Vec<u8>> {
    let seals = fcntl(&fd, FcntlArg::F_GET_SEALS)?;
    if !SealFlag::from_bits_retain(seals).contains(SEALS) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the memory file is not sealed",
        ));
    }
    let file = File::from(fd.as_fd().try_clone_to_owned()?);
    let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if len > cap {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the memory file has {len} bytes; at most {cap} are allowed"),
        ));
    }
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_is_read_again_and_again_and_never_written() {
        let fd = sealed(c"test", b"command").unwrap();
        assert_eq!(read(&fd, 7).unwrap(), b"command");
        assert_eq!(read(&fd, 7).unwrap(), b"command");
        let file = File::from(fd);
        let error = file.write_at(b"x", 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn what_is_not_sealed_is_not_read() {
        let open = memfd_create(c"test", MFdFlags::MFD_ALLOW_SEALING).unwrap();
        assert_eq!(
            read(&open, 10).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
        assert!(read(File::open("/etc/passwd").unwrap(), 1 << 20).is_err());
    }

    #[test]
    fn a_file_over_the_cap_is_refused() {
        let fd = sealed(c"test", b"12345678").unwrap();
        assert_eq!(read(&fd, 7).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
