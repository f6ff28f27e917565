//! What is executed.

use agent_ebpf::Hook;
use aya_ebpf::{macros::lsm, programs::LsmContext};

use super::{
    super::session::confined,
    ALLOW, AT_BPRM_FILE, AT_FILE_PATH, Struct, deny,
    files::{dentry, mode_of},
    inside, member,
    object::{Place, deny_at, place},
};

/// S_ISUID and S_ISGID (inode(7)).
const SET_IDS: u16 = 0o6000;

/// `int bprm_check_security(struct linux_binprm *bprm)`, called by `search_binary_handler`
/// (fs/exec.c) for the program and for every interpreter. Refuses a file with a setuid or setgid
/// bit, which no_new_privs would run without it, and whatever is protected. Attempts:
/// `privilege/set-user-id-program`.
#[lsm(hook = "bprm_check_security")]
pub(crate) fn custody_bprm_check(ctx: LsmContext) -> i32 {
    let Some(session) = confined() else {
        return ALLOW;
    };
    let bprm: Struct = ctx.arg(0);
    let file: Struct = member(bprm, &AT_BPRM_FILE);
    if file.is_null() {
        return deny(Hook::LsmBprmCheck, session);
    }
    let dentry = dentry(inside(file, &AT_FILE_PATH));
    if mode_of(dentry) & SET_IDS != 0 || place(dentry) == Place::Protected {
        return deny_at(Hook::LsmBprmCheck, session, dentry);
    }
    ALLOW
}
