//! Memory for credentials: never swapped, never in a core file, unreachable for other processes.

// UNSAFETY: memfd_secret(2), mmap(2) and a slice over the mapping have no safe form.
#![expect(unsafe_code, reason = "memfd_secret(2), mmap(2) and the slice over it")]

use std::{
    fmt,
    fs::File,
    io,
    num::NonZeroUsize,
    ops::{Deref, DerefMut},
    os::fd::{FromRawFd as _, OwnedFd, RawFd},
    ptr::NonNull,
    slice,
    sync::atomic::{Ordering, compiler_fence},
};

use nix::sys::mman::{
    MapFlags, MmapAdvise, ProtFlags, madvise, mlock, mmap, mmap_anonymous, munmap,
};

/// A fixed number of bytes in locked memory, zeroed at birth and at death.
pub struct Locked {
    at: NonNull<libc::c_void>,
    len: NonZeroUsize,
    kind: Kind,
}

/// What the kernel gave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// mmap(2) with mlock(2) and MADV_DONTDUMP.
    Locked,
    /// memfd_secret(2): outside the kernel's own map too, so that /proc/PID/mem, ptrace(2) and
    /// process_vm_readv(2) fail even for root.
    Secret,
}

// SAFETY: the mapping belongs to this value alone and is as good in one thread as in another.
unsafe impl Send for Locked {}
// SAFETY: `&Locked` only lends `&[u8]`.
unsafe impl Sync for Locked {}

impl Locked {
    /// `len` zero bytes.
    ///
    /// # Errors
    /// When the kernel refuses both kinds: most often RLIMIT_MEMLOCK (getrlimit(2)).
    pub fn zeroed(len: usize) -> io::Result<Self> {
        let len = NonZeroUsize::new(len).ok_or(io::ErrorKind::InvalidInput)?;
        match Self::by_memfd_secret(len) {
            Ok(memory) => Ok(memory),
            // Not in this kernel, switched off (secretmem.enable=0), or no more allowed.
            Err(_none) => Self::by_mlock(len),
        }
    }

    /// A copy of `bytes`. The caller wipes the source.
    ///
    /// # Errors
    /// As [`Locked::zeroed`].
    pub fn copy_of(bytes: &[u8]) -> io::Result<Self> {
        let mut memory = Self::zeroed(bytes.len())?;
        memory.copy_from_slice(bytes);
        Ok(memory)
    }

    /// What the kernel gave.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    fn by_memfd_secret(len: NonZeroUsize) -> io::Result<Self> {
        // SAFETY: memfd_secret(2) takes flags alone.
        let raw = unsafe { libc::syscall(libc::SYS_memfd_secret, libc::O_CLOEXEC) };
        let raw = RawFd::try_from(raw).unwrap_or(-1);
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above made this descriptor; nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let file = File::from(fd);
        file.set_len(u64::try_from(len.get()).unwrap_or(u64::MAX))?;
        // SAFETY: a new mapping of a new file at an address of the kernel's choice.
        let at = unsafe {
            mmap(
                None,
                len,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                &file,
                0,
            )
        }?;
        // The descriptor ends here: pidfd_getfd(2) could take it, the mapping nobody can.
        drop(file);
        let memory = Self {
            at,
            len,
            kind: Kind::Secret,
        };
        memory.not_in_children()?;
        Ok(memory)
    }

    fn by_mlock(len: NonZeroUsize) -> io::Result<Self> {
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let at = unsafe {
            mmap_anonymous(
                None,
                len,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE,
            )
        }?;
        let memory = Self {
            at,
            len,
            kind: Kind::Locked,
        };
        // SAFETY: the range is the mapping made above.
        unsafe { mlock(at, len.get()) }?;
        // SAFETY: as above; only core(5) files change.
        unsafe { madvise(at, len.get(), MmapAdvise::MADV_DONTDUMP) }?;
        memory.not_in_children()?;
        Ok(memory)
    }

    /// A child of fork(2) does not get the pages.
    fn not_in_children(&self) -> io::Result<()> {
        // SAFETY: the range is our own mapping; the parent keeps it.
        unsafe { madvise(self.at, self.len.get(), MmapAdvise::MADV_DONTFORK) }?;
        Ok(())
    }
}

impl Deref for Locked {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, `len` long, initialised by the kernel with zeros, and
        // lives as long as `self`.
        unsafe { slice::from_raw_parts(self.at.as_ptr().cast(), self.len.get()) }
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, writable, and `&mut self` is the only reference.
        unsafe { slice::from_raw_parts_mut(self.at.as_ptr().cast(), self.len.get()) }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        for byte in self.iter_mut() {
            // SAFETY: an aligned, valid u8. Volatile, or the compiler may leave the write out.
            unsafe { std::ptr::write_volatile(byte, 0) };
        }
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the mapping is ours and nothing borrows it any more.
        let unmapped = unsafe { munmap(self.at, self.len.get()) };
        debug_assert!(unmapped.is_ok(), "munmap(2) of an own mapping");
    }
}

impl fmt::Debug for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked")
            .field("kind", &self.kind)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Tests that read their own memory, and those that forbid it.
#[cfg(test)]
pub(crate) static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    const FAKE: &[u8] = b"fake-token-for-tests";

    #[test]
    fn bytes_come_back_and_debug_hides_them() {
        let memory = Locked::copy_of(FAKE).unwrap();
        assert_eq!(&*memory, FAKE);
        assert!(!format!("{memory:?}").contains("fake"));
    }

    #[test]
    fn secret_memory_is_unreadable_through_proc_mem() {
        let _alone = ONE_AT_A_TIME.lock().unwrap();
        let memory = Locked::copy_of(FAKE).unwrap();
        if memory.kind() != Kind::Secret {
            println!("not attempted: needs memfd_secret(2)");
            return;
        }
        let own = File::open("/proc/self/mem").unwrap();
        let mut buffer = [0; FAKE.len()];
        let address = memory.as_ptr() as u64;
        assert!(own.read_at(&mut buffer, address).is_err());
        // The control: ordinary memory is readable this way.
        let ordinary = FAKE.to_vec();
        let address = ordinary.as_ptr() as u64;
        assert_eq!(own.read_at(&mut buffer, address).unwrap(), FAKE.len());
    }

    #[test]
    fn the_fallback_is_locked_and_out_of_core_files() {
        let memory = Locked::by_mlock(NonZeroUsize::new(4096).unwrap()).unwrap();
        let address = format!("{:x}-", memory.as_ptr() as usize);
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let entry = maps.split_once(&address).expect("the mapping").1;
        let flags = entry.lines().find(|l| l.starts_with("VmFlags")).unwrap();
        // proc_pid_smaps(5): lo locked, dd not in core files, dc not copied on fork.
        for flag in [" lo", " dd", " dc"] {
            assert!(flags.contains(flag), "{flags} lacks{flag}");
        }
    }
}
