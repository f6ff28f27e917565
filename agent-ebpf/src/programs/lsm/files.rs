//! Files: what is protected is not opened and not changed; no setuid bit is made; no descriptor
//! comes from outside.

// UNSAFETY: contexts, map values and helpers are raw pointers; the verifier proves every access.

use agent_ebpf::Hook;
use aya_ebpf::{
    helpers::{bpf_get_current_uid_gid, generated::bpf_sock_from_file},
    macros::lsm,
    programs::LsmContext,
};

use super::{
    super::{
        events::allowed,
        session::{Session, confined},
    },
    ALLOW, AT_CRED_UID, AT_DENTRY_INODE, AT_FILE_CRED, AT_FILE_FLAGS, AT_FILE_INODE, AT_FILE_MODE,
    AT_FILE_PATH, AT_IATTR_MODE, AT_IATTR_VALID, AT_INODE_MODE, AT_INODE_SB, AT_PATH_DENTRY,
    AT_SB_MAGIC, Struct, deny, inside, member,
    object::{Place, deny_at, place},
    sockets::is_own,
};

// inode(7).
const S_IFMT: u16 = 0o170_000;
const S_IFBLK: u16 = 0o060_000;
const S_IFCHR: u16 = 0o020_000;
const S_IFDIR: u16 = 0o040_000;
const S_IFSOCK: u16 = 0o140_000;
const S_ISGID: u16 = 0o2000;
const S_ISUID: u16 = 0o4000;

/// `FMODE_WRITE` (include/linux/fs.h).
const WRITE: u32 = 2;

/// `__O_TMPFILE` (include/uapi/asm-generic/fcntl.h).
const TMPFILE: u32 = 0o20_000_000;

/// `ATTR_MODE` (include/linux/fs.h).
const ATTR_MODE: u32 = 1;

// Magic numbers of file systems (include/uapi/linux/magic.h).
const BPF_FS: u64 = 0xcafe_4a11;
const CGROUP2: u64 = 0x6367_7270;

/// `int file_open(struct file *file)`, called by `do_dentry_open` (fs/open.c). Refuses what is
/// protected, every block device, a bpf file system, cgroup2 for writing, and a nameless file
/// (O_TMPFILE) made with a setuid or setgid bit: it comes to no other hook, and linkat(2) gives it
/// a name later. Attempts: `file/credential`, `file/by-handle`, `surface/mknod-block`, `setid/tmpfile`,
/// `escape/cgroup`.
#[lsm(hook = "file_open")]
pub(crate) fn custody_file_open(ctx: LsmContext) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    let file: Struct = ctx.arg(0);
    let inode: Struct = member(file, &AT_FILE_INODE);
    let dentry = dentry(inside(file, &AT_FILE_PATH));
    if inode.is_null() {
        return deny_at(Hook::LsmFileOpen, session, dentry);
    }
    let mode: u16 = member(inode, &AT_INODE_MODE);
    let open: u32 = member(file, &AT_FILE_MODE);
    let flags: u32 = member(file, &AT_FILE_FLAGS);
    let sb: Struct = member(inode, &AT_INODE_SB);
    let magic: u64 = if sb.is_null() {
        BPF_FS
    } else {
        member(sb, &AT_SB_MAGIC)
    };
    let is_kernels = magic == BPF_FS || (magic == CGROUP2 && open & WRITE != 0);
    let is_set_id = flags & TMPFILE != 0 && mode & (S_ISUID | S_ISGID) != 0;
    if mode & S_IFMT == S_IFBLK || is_kernels || is_set_id || place(dentry) == Place::Protected {
        return deny_at(Hook::LsmFileOpen, session, dentry);
    }
    ALLOW
}

/// `int file_receive(struct file *file)`, called by `receive_fd` (fs/file.c) for SCM_RIGHTS and
/// pidfd_getfd(2). A session's files are opened by its own uid, which nobody else has: another
/// opener's file came from outside. A socket has to be the session's, too. Attempts:
/// `deputy/passed-connection`, `ring/inherited`.
#[lsm(hook = "file_receive")]
pub(crate) fn custody_file_receive(ctx: LsmContext) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    let file: Struct = ctx.arg(0);
    let cred: Struct = member(file, &AT_FILE_CRED);
    let inode: Struct = member(file, &AT_FILE_INODE);
    if cred.is_null() || inode.is_null() {
        return deny(Hook::LsmFileReceive, session);
    }
    let opener: u32 = member(cred, &AT_CRED_UID);
    let mode: u16 = member(inode, &AT_INODE_MODE);
    if opener != bpf_get_current_uid_gid() as u32 {
        return deny(Hook::LsmFileReceive, session);
    }
    if mode & S_IFMT == S_IFSOCK {
        // SAFETY: bpf-helpers(7): the socket of a file, or null.
        let socket: Struct = unsafe { bpf_sock_from_file(file.cast_mut().cast()) }
            .cast_const()
            .cast();
        if socket.is_null() || !is_own(socket, session) {
            return deny(Hook::LsmFileReceive, session);
        }
    }
    allowed(Hook::LsmFileReceive, session.id);
    ALLOW
}

/// `int inode_create(struct inode *dir, struct dentry *dentry, umode_t mode)`, called by
/// `lookup_open` (fs/namei.c). Attempts: `setid/open`, `workspace/policies`.
#[lsm(hook = "inode_create")]
pub(crate) fn custody_inode_create(ctx: LsmContext) -> i32 {
    makes(Hook::LsmInodeCreate, ctx.arg(1), ctx.arg::<u32>(2) as u16)
}

/// `int inode_mkdir(struct inode *dir, struct dentry *dentry, umode_t mode)`, called by
/// `vfs_mkdir` (fs/namei.c). Attempt: `workspace/policies`.
#[lsm(hook = "inode_mkdir")]
pub(crate) fn custody_inode_mkdir(ctx: LsmContext) -> i32 {
    changes(Hook::LsmInodeMkdir, ctx.arg(1))
}

/// `int inode_mknod(struct inode *dir, struct dentry *dentry, umode_t mode, dev_t dev)`, called by
/// `vfs_mknod` (fs/namei.c). Sockets and FIFOs may be made, devices not. Attempt:
/// `surface/mknod-block`.
#[lsm(hook = "inode_mknod")]
pub(crate) fn custody_inode_mknod(ctx: LsmContext) -> i32 {
    let mode = ctx.arg::<u32>(2) as u16;
    if let Some(session) = confined()
        && matches!(mode & S_IFMT, S_IFBLK | S_IFCHR)
    {
        return deny_at(Hook::LsmInodeMknod, session, ctx.arg(1));
    }
    makes(Hook::LsmInodeMknod, ctx.arg(1), mode)
}

/// `int inode_symlink(struct inode *dir, struct dentry *dentry, const char *old_name)`, called by
/// `vfs_symlink` (fs/namei.c). Attempt: `workspace/policies`.
#[lsm(hook = "inode_symlink")]
pub(crate) fn custody_inode_symlink(ctx: LsmContext) -> i32 {
    changes(Hook::LsmInodeSymlink, ctx.arg(1))
}

/// `int inode_link(struct dentry *old_dentry, struct inode *dir, struct dentry *new_dentry)`,
/// called by `vfs_link` (fs/namei.c). What has a setuid or setgid bit gets no further name. Attempt:
/// `workspace/hardlink-out`.
#[lsm(hook = "inode_link")]
pub(crate) fn custody_inode_link(ctx: LsmContext) -> i32 {
    let linked: Struct = ctx.arg(0);
    if let Some(session) = confined()
        && mode_of(linked) & (S_ISUID | S_ISGID) != 0
    {
        return deny_at(Hook::LsmInodeLink, session, linked);
    }
    both(Hook::LsmInodeLink, linked, ctx.arg(2))
}

/// `int inode_rename(struct inode *old_dir, struct dentry *old_dentry, struct inode *new_dir,
/// struct dentry *new_dentry)`, called by `vfs_rename` (fs/namei.c). A protected folder's own
/// name cannot be moved; a folder above it can, and leads nowhere: the inode stays. Attempt:
/// `hooks/move-pin`.
#[lsm(hook = "inode_rename")]
pub(crate) fn custody_inode_rename(ctx: LsmContext) -> i32 {
    both(Hook::LsmInodeRename, ctx.arg(1), ctx.arg(3))
}

/// `int inode_rmdir(struct inode *dir, struct dentry *dentry)`, called by `vfs_rmdir`
/// (fs/namei.c). Attempt: `workspace/policies`.
#[lsm(hook = "inode_rmdir")]
pub(crate) fn custody_inode_rmdir(ctx: LsmContext) -> i32 {
    changes(Hook::LsmInodeRmdir, ctx.arg(1))
}

/// `int inode_unlink(struct inode *dir, struct dentry *dentry)`, called by `vfs_unlink`
/// (fs/namei.c). Attempts: `hooks/unpin`, `workspace/policies`.
#[lsm(hook = "inode_unlink")]
pub(crate) fn custody_inode_unlink(ctx: LsmContext) -> i32 {
    changes(Hook::LsmInodeUnlink, ctx.arg(1))
}

/// `int inode_setattr(struct mnt_idmap *idmap, struct dentry *dentry, struct iattr *attr)`, called
/// by `notify_change` (fs/attr.c). Attempts:
/// `setid/chmod`, `setid/fchmod`.
#[lsm(hook = "inode_setattr")]
pub(crate) fn custody_inode_setattr(ctx: LsmContext) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    let dentry: Struct = ctx.arg(1);
    let attr: Struct = ctx.arg(2);
    let valid: u32 = member(attr, &AT_IATTR_VALID);
    let mode: u16 = member(attr, &AT_IATTR_MODE);
    if valid & ATTR_MODE != 0 && gives(mode, dentry) || place(dentry) == Place::Protected {
        return deny_at(Hook::LsmInodeSetattr, session, dentry);
    }
    ALLOW
}

/// `int path_chmod(const struct path *path, umode_t mode)`, called by `chmod_common` (fs/open.c).
/// Attempts: `setid/chmod`, `setid/fchmod`.
#[lsm(hook = "path_chmod")]
pub(crate) fn custody_path_chmod(ctx: LsmContext) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    let dentry = dentry(ctx.arg(0));
    if gives(ctx.arg::<u32>(1) as u16, dentry) || place(dentry) == Place::Protected {
        return deny_at(Hook::LsmPathChmod, session, dentry);
    }
    ALLOW
}

/// `path->dentry`.
#[inline(always)]
pub(super) fn dentry(path: Struct) -> Struct {
    member(path, &AT_PATH_DENTRY)
}

/// The mode of what `dentry` names; 0 if there is nothing.
#[inline(always)]
pub(super) fn mode_of(dentry: Struct) -> u16 {
    if dentry.is_null() {
        return 0;
    }
    let inode: Struct = member(dentry, &AT_DENTRY_INODE);
    if inode.is_null() {
        0
    } else {
        member(inode, &AT_INODE_MODE)
    }
}

/// Whether `mode` would let a program run as another. On a folder S_ISGID hands down a group.
#[inline(always)]
fn gives(mode: u16, dentry: Struct) -> bool {
    let is_folder = mode_of(dentry) & S_IFMT == S_IFDIR;
    mode & S_ISUID != 0 || (mode & S_ISGID != 0 && !is_folder)
}

#[inline(always)]
fn makes(hook: Hook, dentry: Struct, mode: u16) -> i32 {
    match confined() {
        Some(session) if mode & (S_ISUID | S_ISGID) != 0 => deny_at(hook, session, dentry),
        Some(session) => unless_protected(hook, session, dentry),
        None => ALLOW,
    }
}

#[inline(always)]
fn changes(hook: Hook, dentry: Struct) -> i32 {
    match confined() {
        Some(session) => unless_protected(hook, session, dentry),
        None => ALLOW,
    }
}

#[inline(always)]
fn both(hook: Hook, from: Struct, to: Struct) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    match unless_protected(hook, session, from) {
        ALLOW => unless_protected(hook, session, to),
        refused => refused,
    }
}

#[inline(always)]
fn unless_protected(hook: Hook, session: Session, dentry: Struct) -> i32 {
    match place(dentry) {
        Place::Free => ALLOW,
        Place::Protected => deny_at(hook, session, dentry),
    }
}
