//! Doors of the kernel that no agent needs.

// UNSAFETY: contexts, map values and helpers are raw pointers; the verifier proves every access.

use agent_ebpf::Hook;
use aya_ebpf::{helpers::generated::bpf_probe_read_kernel_str, macros::lsm, programs::LsmContext};

use super::{super::session::confined, ALLOW, AT_QSTR_NAME, Struct, deny, member};

macro_rules! closed {
    ($($(#[doc = $doc:literal])* $function:ident, $name:literal, $hook:ident;)*) => {
        $(
            $(#[doc = $doc])*
            #[lsm(hook = $name)]
            pub(crate) fn $function(_ctx: LsmContext) -> i32 {
                match confined() {
                    Some(session) => deny(Hook::$hook, session),
                    None => ALLOW,
                }
            }
        )*
    };
}

closed! {
    /// `int bpf(int cmd, union bpf_attr *attr, unsigned int size, bool kernel)`, called by
    /// `__sys_bpf` (kernel/bpf/syscall.c). Attempts: `hooks/link-detach`, `hooks/prog-detach`,
    /// `surface/bpf`.
    custody_bpf, "bpf", LsmBpf;

    /// `int move_mount(const struct path *from_path, const struct path *to_path)`, called by
    /// `vfs_move_mount` (fs/namespace.c). Attempt: `surface/open-tree`.
    custody_move_mount, "move_mount", LsmMoveMount;

    /// `int perf_event_open(int type)`, called by `perf_event_open` (kernel/events/core.c).
    /// Attempts: `surface/perf-event`, `memory/environ-perfmon`.
    custody_perf_event_open, "perf_event_open", LsmPerfEventOpen;

    /// `int sb_mount(const char *dev_name, const struct path *path, const char *type, unsigned
    /// long flags, void *data)`, called by `path_mount` (fs/namespace.c). Attempt:
    /// `surface/mount`.
    custody_sb_mount, "sb_mount", LsmSbMount;

    /// `int sb_pivotroot(const struct path *old_path, const struct path *new_path)`, called by
    /// `pivot_root` (fs/namespace.c). No attempt of the suite goes this way.
    custody_sb_pivotroot, "sb_pivotroot", LsmSbPivotroot;

    /// `int sb_umount(struct vfsmount *mnt, int flags)`, called by `path_umount` (fs/namespace.c).
    /// No attempt of the suite goes this way.
    custody_sb_umount, "sb_umount", LsmSbUmount;

    /// `int uring_allowed(void)`, called by `io_uring_setup` (io_uring/io_uring.c) since Linux
    /// 6.16. Attempt: `direct/io-uring`.
    custody_uring_allowed, "uring_allowed", LsmUringAllowed;

    /// `int uring_cmd(struct io_uring_cmd *ioucmd)`, called by `io_uring_cmd`
    /// (io_uring/uring_cmd.c). No attempt of the suite goes this way.
    custody_uring_cmd, "uring_cmd", LsmUringCmd;

    /// `int uring_override_creds(const struct cred *new)`, called by `io_init_req`
    /// (io_uring/io_uring.c). No attempt of the suite goes this way.
    custody_uring_override_creds, "uring_override_creds", LsmUringOverrideCreds;

    /// `int uring_sqpoll(void)`, called by `io_sq_offload_create` (io_uring/sqpoll.c). No attempt of the suite
    /// goes this way.
    custody_uring_sqpoll, "uring_sqpoll", LsmUringSqpoll;

    /// `int userns_create(const struct cred *cred)`, called by `create_user_ns`
    /// (kernel/user_namespace.c). Attempt: `surface/user-namespace-unshare`.
    custody_userns_create, "userns_create", LsmUsernsCreate;
}

/// The longest name that is told from others, with its NUL.
const NAME: usize = 16;

/// `int inode_init_security_anon(struct inode *inode, const struct qstr *name, const struct inode
/// *context_inode)`, called by `anon_inode_make_secure_inode` (fs/anon_inodes.c), to which
/// io_uring_setup(2) and userfaultfd(2) come on every kernel. Attempts: `direct/io-uring`,
/// `surface/userfaultfd`.
#[lsm(hook = "inode_init_security_anon")]
pub(crate) fn custody_inode_init_anon(ctx: LsmContext) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    let qstr: Struct = ctx.arg(1);
    let name: Struct = member(qstr, &AT_QSTR_NAME);
    let mut text = [0_u8; NAME];
    // SAFETY: bpf-helpers(7): at most NAME bytes are written, or it fails.
    let len = unsafe { bpf_probe_read_kernel_str(text.as_mut_ptr().cast(), NAME as u32, name) };
    // "[io_uring]" and "[userfaultfd]"; a name that cannot be read is refused.
    let is_closed =
        len <= 0 || (text[1], text[2]) == (b'i', b'o') || (text[1], text[2]) == (b'u', b's');
    if is_closed {
        return deny(Hook::LsmInodeInitAnon, session);
    }
    ALLOW
}
