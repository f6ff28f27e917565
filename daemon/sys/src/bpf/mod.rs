//! The parts of bpf(2) that aya does not offer: raw programs with kfunc calls, links, pins.
//!
//! Attributes are laid out as in the kernel's `include/uapi/linux/bpf.h`, `union bpf_attr`, one
//! struct a command, each cut after its last field that we set (the kernel takes the rest as 0).

// UNSAFETY: libc has no wrapper for bpf(2).
#![expect(unsafe_code, reason = "bpf(2) is a raw system call")]

pub mod btf;
mod insn;
pub mod pinned;

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

pub use insn::{Asm, Label, Reg, Size, Test};

/// Where in a cgroup a program is attached (`enum bpf_attach_type`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Attach {
    /// BPF_CGROUP_INET4_BIND.
    Bind4 = 8,
    /// BPF_CGROUP_INET6_BIND.
    Bind6 = 9,
    /// BPF_CGROUP_INET4_CONNECT.
    Connect4 = 10,
    /// BPF_CGROUP_INET6_CONNECT.
    Connect6 = 11,
    /// BPF_CGROUP_UNIX_CONNECT, since Linux 6.7.
    ConnectUnix = 49,
    /// BPF_CGROUP_DEVICE.
    Device = 6,
    /// BPF_CGROUP_UDP4_SENDMSG.
    SendMsg4 = 14,
    /// BPF_CGROUP_UDP6_SENDMSG.
    SendMsg6 = 15,
    /// BPF_CGROUP_UNIX_SENDMSG, since Linux 6.7.
    SendMsgUnix = 50,
    /// BPF_CGROUP_SETSOCKOPT.
    SetSockOpt = 22,
    /// BPF_CGROUP_INET_SOCK_CREATE.
    SockCreate = 2,
    /// BPF_CGROUP_SYSCTL.
    Sysctl = 18,
}

impl Attach {
    const fn number(self) -> u32 {
        self as u32
    }
}

/// Why a program does not load.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// More instructions than the kernel counts.
    #[error("the program has {len} instructions; a u32 counts them")]
    Length {
        /// How many.
        len: usize,
    },
    /// The kernel refused it.
    #[error("bpf(BPF_PROG_LOAD) failed; the verifier's last words: {log}")]
    Refused {
        /// The end of the verifier's log.
        log: String,
        /// Why.
        source: io::Error,
    },
}

// Commands of bpf(2), `enum bpf_cmd`.
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_OBJ_PIN: libc::c_int = 6;
const BPF_OBJ_GET: libc::c_int = 7;
const BPF_PROG_ATTACH: libc::c_int = 8;
const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
const BPF_LINK_CREATE: libc::c_int = 28;

/// `BPF_PROG_TYPE_CGROUP_SOCK_ADDR`.
const CGROUP_SOCK_ADDR: u32 = 18;

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
struct ObjPin {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

/// Loads a program for socket addresses at `attach`. `name` shows in bpftool; at most 15 bytes
/// of it count.
///
/// # Errors
/// [`LoadError`], with the verifier's last words.
pub fn load_sock_addr(
    name: &str,
    instructions: &[u64],
    license: &CStr,
    attach: Attach,
) -> Result<OwnedFd, LoadError> {
    let insn_cnt = u32::try_from(instructions.len()).map_err(|_too_many| LoadError::Length {
        len: instructions.len(),
    })?;
    let mut prog_name = [0; 16];
    for (to, from) in prog_name.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    let mut attr = ProgLoad {
        prog_type: CGROUP_SOCK_ADDR,
        insn_cnt,
        insns: address(instructions.as_ptr()),
        license: address(license.as_ptr()),
        prog_name,
        expected_attach_type: attach.number(),
        ..ProgLoad::default()
    };
    let source = match descriptor(BPF_PROG_LOAD, &attr) {
        Ok(program) => return Ok(program),
        Err(source) => source,
    };
    // Once more, for the reason. The kernel keeps the log's end since 6.4.
    const LOG: u32 = 64 << 10;
    let mut log = vec![0_u8; 64 << 10];
    attr.log_level = 1;
    attr.log_size = LOG;
    attr.log_buf = address(log.as_mut_ptr().cast_const());
    descriptor(BPF_PROG_LOAD, &attr).map_err(|_same| LoadError::Refused {
        log: last_words(&log),
        source,
    })
}

/// Attaches `program` to the cgroup2 folder `cgroup`. The attachment lasts as long as a
/// descriptor or a pin of the link.
///
/// # Errors
/// When bpf(2) fails.
pub fn attach(
    program: BorrowedFd<'_>,
    cgroup: BorrowedFd<'_>,
    attach: Attach,
) -> io::Result<OwnedFd> {
    descriptor(
        BPF_LINK_CREATE,
        &LinkCreate {
            prog_fd: number(program)?,
            target_fd: number(cgroup)?,
            attach_type: attach.number(),
            flags: 0, // a link is always BPF_F_ALLOW_MULTI; asking for it is EINVAL
        },
    )
}

/// `BPF_LSM_MAC`.
const LSM_MAC: u32 = 27;

/// Attaches an LSM program to the hook that it was loaded for, for the whole machine. The
/// attachment lasts as long as a descriptor or a pin of the link.
///
/// # Errors
/// When bpf(2) fails.
pub fn attach_lsm(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    descriptor(
        BPF_LINK_CREATE,
        &LinkCreate {
            prog_fd: number(program)?,
            target_fd: 0, // the hook is the program's (bpf_tracing_prog_attach())
            attach_type: LSM_MAC,
            flags: 0,
        },
    )
}

/// Pins a link, program or map at `path` in a bpf file system.
///
/// # Errors
/// When bpf(2) fails: EPERM on another file system, EEXIST where something is.
pub fn pin(what: impl AsFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let done = call(
        BPF_OBJ_PIN,
        &ObjPin {
            pathname: address(path.as_ptr()),
            bpf_fd: number(what.as_fd())?,
            file_flags: 0,
        },
    )?;
    debug_assert_eq!(done, 0);
    Ok(())
}

/// Whether the kernel asks BPF LSM programs at all: it does so only where `bpf` is among the
/// security modules of its `lsm=`. Programs attach all the same, and nobody calls them.
///
/// # Errors
/// When lsm_list_modules(2) fails; it is there since Linux 6.8.
pub fn asks_lsm() -> io::Result<bool> {
    /// `LSM_ID_BPF` (include/uapi/linux/lsm.h).
    const BPF: u64 = 110;
    /// `__NR_lsm_list_modules`, on every architecture.
    const LSM_LIST_MODULES: libc::c_long = 461;
    let mut ids = [0_u64; 64];
    let mut size = u32::try_from(size_of_val(&ids)).map_err(io::Error::other)?;
    // SAFETY: lsm_list_modules writes at most `size` bytes to `ids`, and their count to `size`
    // (security/lsm_syscalls.c).
    let count = unsafe { libc::syscall(LSM_LIST_MODULES, ids.as_mut_ptr(), &raw mut size, 0) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    let count = usize::try_from(count).map_err(io::Error::other)?;
    Ok(ids.iter().take(count).any(|id| *id == BPF))
}

fn number(fd: BorrowedFd<'_>) -> io::Result<u32> {
    u32::try_from(fd.as_raw_fd()).map_err(io::Error::other)
}

fn address<T>(pointer: *const T) -> u64 {
    pointer.addr() as u64
}

fn descriptor<A>(command: libc::c_int, attr: &A) -> io::Result<OwnedFd> {
    let fd: RawFd = call(command, attr)?.try_into().map_err(io::Error::other)?;
    // SAFETY: every command that comes here (BPF_LINK_CREATE, BPF_OBJ_GET, BPF_PROG_GET_FD_BY_ID,
    // BPF_PROG_LOAD) returns a new descriptor (bpf(2), RETURN VALUE)
    // that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn call<A>(command: libc::c_int, attr: &A) -> io::Result<libc::c_long> {
    // SAFETY: bpf(2) reads `size_of::<A>()` bytes of `attr`, which is a struct of this module
    // laid out as the kernel's; the buffers that it points to outlive the call, and only
    // `log_buf` is written to, at most `log_size` bytes of it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attr),
            size_of::<A>(),
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn last_words(log: &[u8]) -> String {
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().rev().take(6).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
