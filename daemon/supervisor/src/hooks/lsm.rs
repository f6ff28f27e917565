//! The LSM programs: loaded one by one, attached for the whole machine, pinned.
//!
//! Whatever does not load is remembered with the kernel's own words, and the layer's status says
//! it. Nothing here stops custodyd: a profile that requires the layer refuses its sessions.

use std::os::fd::{AsFd as _, OwnedFd};

use agent_ebpf::Hook;
use aya::{
    Btf, Ebpf,
    programs::{Lsm as Program, ProgramError},
};
use custody_sys::bpf;
use custody_wire::layer::Status;
use nix::errno::Errno;

use super::{HookError, pins::Pins};

/// Every LSM hook with its function.
const PROGRAMS: [(Hook, &str); 41] = [
    (Hook::LsmBpf, "custody_bpf"),
    (Hook::LsmBprmCheck, "custody_bprm_check"),
    (Hook::LsmFileOpen, "custody_file_open"),
    (Hook::LsmFileReceive, "custody_file_receive"),
    (Hook::LsmInodeCreate, "custody_inode_create"),
    (Hook::LsmInodeInitAnon, "custody_inode_init_anon"),
    (Hook::LsmInodeLink, "custody_inode_link"),
    (Hook::LsmInodeMkdir, "custody_inode_mkdir"),
    (Hook::LsmInodeMknod, "custody_inode_mknod"),
    (Hook::LsmInodeRename, "custody_inode_rename"),
    (Hook::LsmInodeRmdir, "custody_inode_rmdir"),
    (Hook::LsmInodeSetattr, "custody_inode_setattr"),
    (Hook::LsmInodeSymlink, "custody_inode_symlink"),
    (Hook::LsmInodeUnlink, "custody_inode_unlink"),
    (Hook::LsmMoveMount, "custody_move_mount"),
    (Hook::LsmPathChmod, "custody_path_chmod"),
    (Hook::LsmPerfEventOpen, "custody_perf_event_open"),
    (Hook::LsmPtraceAccess, "custody_ptrace_access"),
    (Hook::LsmPtraceTraceme, "custody_ptrace_traceme"),
    (Hook::LsmSbMount, "custody_sb_mount"),
    (Hook::LsmSbPivotroot, "custody_sb_pivotroot"),
    (Hook::LsmSbUmount, "custody_sb_umount"),
    (Hook::LsmSocketAccept, "custody_socket_accept"),
    (Hook::LsmSocketBind, "custody_socket_bind"),
    (Hook::LsmSocketConnect, "custody_socket_connect"),
    (Hook::LsmSocketCreate, "custody_socket_create"),
    (Hook::LsmSocketListen, "custody_socket_listen"),
    (Hook::LsmSocketRecvmsg, "custody_socket_recvmsg"),
    (Hook::LsmSocketSendmsg, "custody_socket_sendmsg"),
    (Hook::LsmTaskKill, "custody_task_kill"),
    (Hook::LsmTaskSetioprio, "custody_task_setioprio"),
    (Hook::LsmTaskSetnice, "custody_task_setnice"),
    (Hook::LsmTaskSetrlimit, "custody_task_setrlimit"),
    (Hook::LsmTaskSetscheduler, "custody_task_setscheduler"),
    (Hook::LsmUnixMaySend, "custody_unix_may_send"),
    (Hook::LsmUnixStreamConnect, "custody_unix_stream_connect"),
    (Hook::LsmUringAllowed, "custody_uring_allowed"),
    (Hook::LsmUringCmd, "custody_uring_cmd"),
    (Hook::LsmUringOverrideCreds, "custody_uring_override_creds"),
    (Hook::LsmUringSqpoll, "custody_uring_sqpoll"),
    (Hook::LsmUsernsCreate, "custody_userns_create"),
];

/// What another hook of ours holds as well: io_uring_setup(2) comes to
/// `inode_init_security_anon` on every kernel, to `uring_allowed` since Linux 6.16.
const fn is_optional(hook: Hook) -> bool {
    matches!(hook, Hook::LsmUringAllowed)
}

/// What became of the programs.
#[derive(Debug, Default)]
pub(super) struct Lsm {
    /// Why none of them can be had.
    refused: Option<Refused>,
    /// Those that did not load, with the reason.
    missing: Vec<(Hook, String)>,
    loaded: Vec<(Hook, OwnedFd)>,
    /// Held as long as custodyd lives, beside the pins.
    links: Vec<(Hook, OwnedFd)>,
}

#[derive(Clone, Debug)]
struct Refused {
    step: String,
    errno: i32,
}

impl Lsm {
    /// None of them can be had.
    pub(super) fn refused(step: String, errno: i32) -> Self {
        Self {
            refused: Some(Refused { step, errno }),
            ..Self::default()
        }
    }

    /// Loads what the kernel takes. It refuses all where it refuses the first for want of a right.
    ///
    /// # Errors
    /// [`HookError::Incomplete`] alone.
    pub(super) fn load(ebpf: &mut Ebpf, btf: &Btf) -> Result<Self, HookError> {
        let mut lsm = Self::default();
        for (hook, function) in PROGRAMS {
            let program = ebpf
                .program_mut(function)
                .ok_or(HookError::Incomplete { name: function })?;
            match load(program, hook, btf) {
                Ok(fd) => lsm.loaded.push((hook, fd)),
                Err(ProgramError::LoadError { io_error, .. })
                    // EACCES is the verifier's, of one program.
                    if io_error.raw_os_error() == Some(Errno::EPERM as i32) =>
                {
                    return Ok(Self::refused(
                        format!("bpf(2) BPF_PROG_LOAD of `{}`", hook.name()),
                        io_error.raw_os_error().unwrap_or(0),
                    ));
                }
                Err(error) => lsm.missing.push((hook, in_a_line(&error))),
            }
        }
        match bpf::asks_lsm() {
            Ok(true) => Ok(lsm),
            Ok(false) => Ok(Self::refused(
                "`bpf` is not among the kernel's security modules; name it in `lsm=` on the \
                 kernel's command line"
                    .into(),
                0,
            )),
            Err(error) => Ok(Self::refused(
                "lsm_list_modules(2)".into(),
                error.raw_os_error().unwrap_or(0),
            )),
        }
    }

    /// Attaches what was loaded, and pins it.
    ///
    /// # Errors
    /// When a pin cannot be made.
    pub(super) fn attach(&mut self, pins: &Pins) -> Result<(), HookError> {
        for (hook, program) in &self.loaded {
            match bpf::attach_lsm(program.as_fd()) {
                Ok(link) => {
                    pins.replace_lsm(*hook, link.as_fd())?;
                    self.links.push((*hook, link));
                }
                Err(error) => self
                    .missing
                    .push((*hook, format!("BPF_LINK_CREATE: {error}"))),
            }
        }
        Ok(())
    }

    /// Whether any program is attached.
    pub(super) fn is_attached(&self) -> bool {
        !self.links.is_empty()
    }

    /// What holds now: attached, and the pins still there.
    pub(super) fn status(&self, pins: &Pins) -> Status {
        if let Some(Refused { step, errno }) = &self.refused {
            return Status::None {
                step: step.clone(),
                errno: *errno,
            };
        }
        if self.links.is_empty() {
            return Status::None {
                step: "no LSM program is attached".into(),
                errno: 0,
            };
        }
        let absent = self
            .missing
            .iter()
            .filter(|(hook, _)| !is_optional(*hook))
            .map(|(hook, why)| format!("{} ({why})", hook.name()));
        let unpinned = self
            .links
            .iter()
            .filter(|(hook, _)| !pins.has_lsm(*hook))
            .map(|(hook, _)| format!("{} (its pin is gone)", hook.name()));
        let missing: Vec<String> = absent.chain(unpinned).collect();
        if missing.is_empty() {
            Status::Full
        } else {
            Status::Partial {
                missing: missing.join(", "),
            }
        }
    }
}

fn load(
    program: &mut aya::programs::Program,
    hook: Hook,
    btf: &Btf,
) -> Result<OwnedFd, ProgramError> {
    let program: &mut Program = program.try_into()?;
    program.load(hook.name(), btf)?;
    program
        .fd()?
        .as_fd()
        .try_clone_to_owned()
        .map_err(ProgramError::IOError)
}

/// The error and the verifier's last words, on one line.
fn in_a_line(error: &ProgramError) -> String {
    let mut text = error.to_string();
    if let ProgramError::LoadError {
        io_error,
        verifier_log,
    } = error
    {
        let log = verifier_log.to_string();
        let last: Vec<&str> = log.lines().rev().take(4).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        text = format!("BPF_PROG_LOAD: {io_error}; {}", last.join(" | "));
    }
    text.retain(|c| !c.is_control());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lsm_hook_has_its_program_and_no_other_has_one() {
        let of_programs: Vec<Hook> = PROGRAMS.into_iter().map(|(hook, _)| hook).collect();
        let of_hooks: Vec<Hook> = Hook::ALL
            .iter()
            .copied()
            .filter(|hook| hook.is_lsm())
            .collect();
        assert_eq!(of_programs, of_hooks);
    }
}
