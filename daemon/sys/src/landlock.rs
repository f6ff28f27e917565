//! Which version of Landlock the kernel has (landlock(7)).

// UNSAFETY: libc has no wrapper for landlock_create_ruleset(2).
#![expect(
    unsafe_code,
    reason = "landlock_create_ruleset(2) is a raw system call"
)]

use std::{io, ptr};

use nix::libc;

/// The ABI version: 1 came with Linux 5.13, 6 with 6.12.
///
/// # Errors
/// ENOSYS where the kernel was built without Landlock, EOPNOTSUPP where it is switched off at
/// boot.
pub fn abi() -> io::Result<i32> {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag landlock_create_ruleset(2) wants a null pointer and size 0, reads
    // nothing and opens nothing.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<libc::c_void>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    if version < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(version).map_err(io::Error::other)
}
