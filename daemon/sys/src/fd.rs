//! Descriptors that came by inheritance, and those that go by it.

// UNSAFETY: a descriptor inherited at exec is a number; somebody must say that it is owned.
#![expect(
    unsafe_code,
    reason = "ownership of inherited descriptors, dup3(2) onto numbers"
)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd},
    sync::atomic::{AtomicU64, Ordering},
};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

/// Which inherited numbers were taken: one bit each, up to the usual limit of open files.
static TAKEN: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// Takes the inherited descriptor `number` (3 to 1023), once, and makes it close-on-exec.
///
/// To be called at the start of `main`, before anything is opened: only then is `number` what the
/// parent put there.
///
/// # Errors
/// EBUSY when it was taken before, EBADF when nothing is there or `number` is not 3 to 1023.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    let (taken, bit) = match usize::try_from(number) {
        Ok(small @ 3..) => TAKEN
            .get(small / 64)
            .map(|word| (word, 1_u64 << (small % 64))),
        Ok(_) | Err(_) => None,
    }
    .ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: fcntl(2) with F_GETFD on a number that is not open only fails with EBADF.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    if taken.fetch_or(bit, Ordering::SeqCst) & bit != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    // SAFETY: the number is open (above), TAKEN lets it be taken once, and by this function's
    // contract nothing was opened before, so the parent put it there for this program to own.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    close_on_exec(&fd)?;
    Ok(fd)
}

/// Sets close-on-exec.
///
/// # Errors
/// When fcntl(2) fails.
pub fn close_on_exec(fd: impl AsFd) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    Ok(())
}

/// Puts `fds` at the numbers `first`, `first + 1`, …, open across exec, and closes every other
/// number from `first` up.
///
/// The caller holds no other descriptor from `first` up as a value of its own any more: it would
/// name something else now. What comes back owns the new numbers; keep it until the exec.
///
/// # Errors
/// When fcntl(2), dup2(2) or close_range(2) fails.
pub fn place_from(first: RawFd, fds: Vec<OwnedFd>) -> io::Result<Vec<OwnedFd>> {
    let (placed, beyond) = place(first, fds)?;
    close_from(beyond)?;
    Ok(placed)
}

/// As [`place_from`], and every other number stays as it is.
///
/// # Errors
/// When fcntl(2) or dup2(2) fails.
pub fn place_over(first: RawFd, fds: Vec<OwnedFd>) -> io::Result<Vec<OwnedFd>> {
    Ok(place(first, fds)?.0)
}

/// The descriptors at their numbers, and the first number beyond them.
fn place(first: RawFd, fds: Vec<OwnedFd>) -> io::Result<(Vec<OwnedFd>, RawFd)> {
    let count = i32::try_from(fds.len()).map_err(|_many| io::ErrorKind::InvalidInput)?;
    let beyond = first
        .checked_add(count)
        .ok_or(io::ErrorKind::InvalidInput)?;
    // Out of the way first: a target number may be the source of a later one.
    let mut parked = Vec::with_capacity(fds.len());
    for fd in &fds {
        let raw = fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(beyond))?;
        // SAFETY: fcntl(2) made this descriptor; nobody else knows it.
        parked.push(unsafe { OwnedFd::from_raw_fd(raw) });
    }
    drop(fds);
    let mut placed = Vec::with_capacity(parked.len());
    for (target, source) in (first..).zip(&parked) {
        // SAFETY: dup2(2) with an open source; what the target number held is given up by this
        // function's contract, and the copy is not close-on-exec.
        if unsafe { libc::dup2(source.as_raw_fd(), target) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: dup2(2) made `target`, and nothing else owns it (contract).
        placed.push(unsafe { OwnedFd::from_raw_fd(target) });
    }
    Ok((placed, beyond))
}

/// Clears close-on-exec.
///
/// # Errors
/// When fcntl(2) fails.
pub fn open_on_exec(fd: impl AsFd) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// Gives up the value but leaves the number open, for the program that is executed next.
pub fn leave_open(fd: OwnedFd) {
    let _number = fd.into_raw_fd();
}

/// Closes every descriptor from `first` up (close_range(2)). The caller executes or exits next.
///
/// # Errors
/// When close_range(2) fails.
pub fn close_from(first: RawFd) -> io::Result<()> {
    let first = libc::c_uint::try_from(first).map_err(|_negative| io::ErrorKind::InvalidInput)?;
    let (last, flags): (libc::c_uint, libc::c_uint) = (libc::c_uint::MAX, 0);
    // SAFETY: descriptors that an OwnedFd still names may be closed under it; by contract the
    // caller executes or exits next and uses none of them.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The numbers that are open in this process, without the one that lists them.
///
/// # Errors
/// When `/proc/self/fd` cannot be listed.
pub fn open_numbers() -> io::Result<Vec<RawFd>> {
    let listing = nix::dir::Dir::open(
        "/proc/self/fd",
        nix::fcntl::OFlag::O_RDONLY | nix::fcntl::OFlag::O_CLOEXEC,
        nix::sys::stat::Mode::empty(),
    )?;
    let own = listing.as_fd().as_raw_fd();
    let mut numbers = Vec::new();
    for entry in listing {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        if let Ok(number) = name.parse::<RawFd>()
            && number != own
        {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_outside_the_range_or_not_open_is_refused() {
        for number in [-1, 0, 2, 900, 1024, 4096] {
            let error = take(number).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EBADF), "{number}");
        }
    }

    #[test]
    fn an_inherited_descriptor_is_taken_once() {
        let (a, _b) = crate::channel::pair_stream().unwrap();
        // A number that no other test of this process uses.
        let raw = fcntl(&a, FcntlArg::F_DUPFD(200)).unwrap();
        assert!((200..1024).contains(&raw), "{raw}");
        let taken = take(raw).unwrap();
        assert_eq!(taken.as_raw_fd(), raw);
        assert_eq!(take(raw).unwrap_err().raw_os_error(), Some(libc::EBUSY));
    }

    #[test]
    fn the_listing_holds_what_is_open() {
        let (a, _b) = crate::channel::pair_stream().unwrap();
        assert!(open_numbers().unwrap().contains(&a.as_raw_fd()));
    }
}
