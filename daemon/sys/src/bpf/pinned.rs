//! A link that somebody pinned, opened again: which program it holds, and where in a cgroup.

use std::{
    ffi::CString,
    fs, io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use super::{
    BPF_LINK_CREATE, BPF_OBJ_GET, BPF_PROG_ATTACH, BPF_PROG_GET_FD_BY_ID, LinkCreate, ObjPin,
    address, call, descriptor, number,
};

/// A program at one place of a cgroup, as a pinned link names both.
#[derive(Debug)]
pub struct Pinned {
    program: OwnedFd,
    attach_type: u32,
    tag: String,
}

#[repr(C)]
struct ProgAttach {
    target_fd: u32,
    attach_bpf_fd: u32,
    attach_type: u32,
    attach_flags: u32,
}

/// Cut after its only field.
#[repr(C)]
struct ProgById {
    prog_id: u32,
}

impl Pinned {
    /// Opens the pin at `path`; none if it is a link of something else than a cgroup.
    ///
    /// # Errors
    /// When it is no link, or bpf(2) fails: EPERM without CAP_SYS_ADMIN.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let link = descriptor(
            BPF_OBJ_GET,
            &ObjPin {
                pathname: address(name.as_ptr()),
                bpf_fd: 0,
                file_flags: 0,
            },
        )?;
        // What a link says of itself (bpf_link_show_fdinfo and bpf_cgroup_link_show_fdinfo in
        // kernel/bpf/syscall.c and kernel/bpf/cgroup.c): one field a line.
        let said = fs::read_to_string(format!("/proc/self/fdinfo/{}", link.as_raw_fd()))?;
        let field = |name: &str| {
            said.lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.trim())
                .ok_or_else(|| io::Error::other(format!("the link does not say its {name}")))
        };
        if field("link_type")? != "cgroup" {
            return Ok(None);
        }
        let parse = |text: &str| text.parse().map_err(io::Error::other);
        let program = descriptor(
            BPF_PROG_GET_FD_BY_ID,
            &ProgById {
                prog_id: parse(field("prog_id")?)?,
            },
        )?;
        Ok(Some(Self {
            program,
            attach_type: parse(field("attach_type")?)?,
            tag: field("prog_tag")?.into(),
        }))
    }

    /// `enum bpf_attach_type`, by number (include/uapi/linux/bpf.h).
    pub const fn attach_type(&self) -> u32 {
        self.attach_type
    }

    /// The kernel's digest of the program's instructions.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Attaches the same program at the same place of another cgroup2 folder. The attachment lasts
    /// as long as the descriptor.
    ///
    /// # Errors
    /// When bpf(2) fails.
    pub fn attach_also(&self, cgroup: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        descriptor(
            BPF_LINK_CREATE,
            &LinkCreate {
                prog_fd: number(self.program.as_fd())?,
                target_fd: number(cgroup)?,
                attach_type: self.attach_type,
                flags: 0,
            },
        )
    }

    /// The same without a link: the attachment lasts until the cgroup goes, or until somebody takes
    /// it away (BPF_PROG_DETACH), as no one can with a link. What was attached so is replaced.
    ///
    /// # Errors
    /// When bpf(2) fails.
    pub fn attach_without_link(&self, cgroup: BorrowedFd<'_>) -> io::Result<()> {
        let done = call(
            BPF_PROG_ATTACH,
            &ProgAttach {
                target_fd: number(cgroup)?,
                attach_bpf_fd: number(self.program.as_fd())?,
                attach_type: self.attach_type,
                attach_flags: 0,
            },
        )?;
        debug_assert_eq!(done, 0);
        Ok(())
    }
}
