//! A system call filter for this process and all that it starts (seccomp(2)).

// UNSAFETY: neither std nor nix has seccomp(2).
#![expect(unsafe_code, reason = "seccomp(2) with a program of this process's")]

use std::io;

use nix::libc;
pub use nix::libc::sock_filter;

/// SECCOMP_SET_MODE_FILTER (linux/seccomp.h).
const SET_MODE_FILTER: libc::c_uint = 1;

/// Binds this thread, and all that it starts, to `program`, for good.
///
/// # Errors
/// As seccomp(2): EACCES without no_new_privs and without CAP_SYS_ADMIN, EINVAL for a program that
/// is none.
pub fn install(program: &[sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: libc::c_ushort::try_from(program.len())
            .map_err(|_long| io::ErrorKind::InvalidInput)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: seccomp(2) reads the structure and as many instructions as it says, which live
    // beyond the call, and writes neither.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SET_MODE_FILTER,
            0_u32,
            &raw const program,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_none_is_refused() {
        // No instruction at all, and one that falls off the end (seccomp(2), EINVAL).
        let load = sock_filter {
            code: 0x20,
            jt: 0,
            jf: 0,
            k: 0,
        };
        for program in [&[][..], &[load][..]] {
            let error = install(program).unwrap_err();
            // Without a privilege the kernel does not even look.
            let errno = error.raw_os_error().unwrap();
            assert!([libc::EINVAL, libc::EACCES].contains(&errno), "{error}");
        }
    }
}
