//! Which inode is protected, itself or by a folder above it.

// UNSAFETY: contexts, map values and helpers are raw pointers; the verifier proves every access.

use agent_ebpf::{DEPTH_MAX, Hook, Object};
use aya_ebpf::cty::c_void;

use super::{
    super::{
        FILTER, OBJECTS,
        events::{Asked, refused_of},
        session::Session,
    },
    AT_DENTRY_INODE, AT_DENTRY_NAME, AT_DENTRY_PARENT, AT_INODE_INO, AT_INODE_SB, AT_QSTR_NAME,
    AT_SB_DEV, EPERM, Struct, inside, member,
};

/// What is known of a dentry.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Place {
    Free,
    Protected,
}

/// Whether `dentry` is a protected object or lies below one. Parents are followed inside one file
/// system; the root of a mount is the end of no walk, the root of the file system is.
#[inline(always)]
pub(super) fn place(dentry: Struct) -> Place {
    let Some(filter) = FILTER.get(0) else {
        return Place::Protected;
    };
    let filter = *filter;
    let mut dentry = dentry;
    if dentry.is_null() {
        return Place::Protected;
    }
    for _ in 0..DEPTH_MAX {
        // A name that is not there yet has no inode: its folder counts.
        let inode: Struct = member(dentry, &AT_DENTRY_INODE);
        if !inode.is_null() && is_object(filter, inode) {
            return Place::Protected;
        }
        let parent: Struct = member(dentry, &AT_DENTRY_PARENT);
        if parent == dentry {
            return Place::Free;
        }
        if parent.is_null() {
            return Place::Protected;
        }
        dentry = parent;
    }
    Place::Protected
}

#[inline(always)]
fn is_object(filter: u64, inode: Struct) -> bool {
    let ino: u64 = member(inode, &AT_INODE_INO);
    if filter & Object::bit(ino) == 0 {
        return false;
    }
    let object = Object {
        ino,
        dev: device(inode),
        zero: 0,
    };
    // SAFETY: only whether there is an entry counts, not what stands in it.
    unsafe { OBJECTS.get(object) }.is_some()
}

/// The device of an inode's file system; 0 if it has none.
#[inline(always)]
fn device(inode: Struct) -> u32 {
    let sb: Struct = member(inode, &AT_INODE_SB);
    if sb.is_null() {
        0
    } else {
        member(sb, &AT_SB_DEV)
    }
}

/// Refuses, with the inode and the last name of the path.
#[inline(always)]
pub(super) fn deny_at(hook: Hook, session: Session, dentry: Struct) -> i32 {
    let mut asked = Asked::default();
    let mut name: *const u8 = core::ptr::null();
    if !dentry.is_null() {
        let inode: Struct = member(dentry, &AT_DENTRY_INODE);
        if !inode.is_null() {
            let ino: u64 = member(inode, &AT_INODE_INO);
            asked.protocol = device(inode);
            asked.address = pair(ino);
        }
        let qstr: *const c_void = inside(dentry, &AT_DENTRY_NAME);
        name = member(qstr, &AT_QSTR_NAME);
    }
    refused_of(hook, session.id, asked, name);
    EPERM
}

#[inline(always)]
fn pair(ino: u64) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h] = ino.to_ne_bytes();
    [a, b, c, d, e, f, g, h, 0, 0, 0, 0, 0, 0, 0, 0]
}
