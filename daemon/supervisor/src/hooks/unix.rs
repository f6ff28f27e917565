//! The AF_UNIX hooks: which pathname sockets a process may connect or send to.
//!
//! aya-ebpf cannot express calls of kernel functions, so the program is assembled here. It copies
//! the path to its stack with zeros behind it, decides on that copy, and writes an event when it
//! denies. The kernel reads the path up to its first NUL or the given length (unix(7), "Pathname
//! sockets"), and so does the comparison: a zero must follow the last byte of the exact path.

use std::{
    mem::offset_of,
    os::fd::{BorrowedFd, OwnedFd},
};

use agent_ebpf::{Count, Event, Hook, PATH_MAX};
use custody_sys::bpf::{
    Asm, Attach, Label, LoadError, Reg, Size, Test,
    btf::{Btf, BtfError, Kind},
    load_sock_addr,
};
use custody_wire::launch::LISTENER;

/// What a group of cgroups may reach by AF_UNIX.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reach {
    /// The session's listener, the session's own `/tmp/`, abstract names of its own network
    /// namespace.
    Agent,
    /// Nothing: our programs inherit their channels and connect to none.
    Nothing,
}

/// Why a program could not be made.
#[derive(Debug, thiserror::Error)]
pub enum UnixHookError {
    /// The kernel lacks a type or function.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// The kernel refused the program.
    #[error("the AF_UNIX hook does not load")]
    Load(#[from] LoadError),
    /// The program does not fit its fields: a mistake of this file.
    #[error("the AF_UNIX hook does not assemble")]
    Overlong,
}

/// What the running kernel calls the things that the program uses.
#[derive(Debug)]
pub(super) struct Names {
    cast_to_kern_ctx: i32,
    rdonly_cast: i32,
    sockaddr_un: i32,
    sun_path: i32,
    uaddr: i32,
    uaddrlen: i32,
}

impl Names {
    /// Looks them up.
    ///
    /// # Errors
    /// When the kernel is older than 6.7.
    pub(super) fn look_up(btf: &Btf) -> Result<Self, BtfError> {
        let context = "bpf_sock_addr_kern";
        Ok(Self {
            cast_to_kern_ctx: btf.id("bpf_cast_to_kern_ctx", Kind::Func)?,
            rdonly_cast: btf.id("bpf_rdonly_cast", Kind::Func)?,
            sockaddr_un: btf.id("sockaddr_un", Kind::Struct)?,
            sun_path: btf.member("sockaddr_un", "sun_path")?,
            uaddr: btf.member(context, "uaddr")?,
            uaddrlen: btf.member(context, "uaddrlen")?,
        })
    }
}

/// The maps that events go to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sinks<'a> {
    /// The counts by cgroup.
    pub(super) counts: BorrowedFd<'a>,
    /// The ring buffer.
    pub(super) events: BorrowedFd<'a>,
    /// The count of events that it could not take.
    pub(super) dropped: BorrowedFd<'a>,
}

/// Loads the program for `hook`, which is one of the two AF_UNIX hooks.
///
/// # Errors
/// See [`UnixHookError`].
pub(super) fn load(
    names: &Names,
    sinks: Sinks<'_>,
    reach: Reach,
    hook: Hook,
    attach: Attach,
) -> Result<OwnedFd, UnixHookError> {
    let code = assemble(names, sinks, reach, hook).ok_or(UnixHookError::Overlong)?;
    Ok(load_sock_addr(hook.name(), &code, c"Dual MIT/GPL", attach)?)
}

// Helpers by number (bpf-helpers(7), include/uapi/linux/bpf.h).
const MAP_LOOKUP_ELEM: i32 = 1;
const GET_CURRENT_PID_TGID: i32 = 14;
const GET_CURRENT_UID_GID: i32 = 15;
const GET_CURRENT_COMM: i32 = 16;
const GET_CURRENT_CGROUP_ID: i32 = 80;
const KTIME_GET_BOOT_NS: i32 = 125;
const RINGBUF_OUTPUT: i32 = 130;

const AF_UNIX: i32 = 1;
const EVENT_SIZE: i32 = 184;
/// Where the event lies on the stack, and a map key below it.
const EVENT: i32 = -EVENT_SIZE;
const KEY: i32 = EVENT - 8;
const PATH: i32 = EVENT + at(offset_of!(Event, path));
const PATH_LEN: i32 = at(PATH_MAX);

const _: () = assert!(size_of::<Event>() == 184);

/// An offset in [`Event`]: far below 2^31.
const fn at(offset: usize) -> i32 {
    assert!(offset < 4096);
    // A table instead of a cast would be longer than this proof: the assertion above.
    let [a, b, ..] = offset.to_le_bytes();
    i32::from_le_bytes([a, b, 0, 0])
}

fn assemble(names: &Names, sinks: Sinks<'_>, reach: Reach, hook: Hook) -> Option<Vec<u64>> {
    let mut asm = Asm::default();
    let mut deny = Label::new();
    copy_path(&mut asm, names, &mut deny);
    match reach {
        Reach::Agent => {
            let mut allow = Label::new();
            decide(&mut asm, &mut allow, &mut deny);
            asm.place(allow);
            count(&mut asm, sinks, Count::Allowed(hook));
            asm.set(Reg::R0, 1);
            asm.exit();
        }
        Reach::Nothing => {}
    }
    asm.place(deny);
    write_event(&mut asm, sinks, hook);
    asm.set(Reg::R0, 0);
    asm.exit();
    asm.finish()
}

/// Leaves the path in the event on the stack, zeros behind it, and its length in R8.
fn copy_path(asm: &mut Asm, names: &Names, deny: &mut Label) {
    asm.call_kernel(names.cast_to_kern_ctx); // R1 is the context
    asm.mov(Reg::R7, Reg::R0);
    asm.load(Size::W, Reg::R8, Reg::R7, names.uaddrlen);
    asm.load(Size::Dw, Reg::R1, Reg::R7, names.uaddr);
    asm.set(Reg::R2, names.sockaddr_un);
    asm.call_kernel(names.rdonly_cast);
    asm.mov(Reg::R7, Reg::R0);
    for offset in (EVENT..0).step_by(8) {
        asm.store_value(Size::Dw, Reg::R10, offset, 0);
    }
    // An address without a path, or longer than one can be: nothing to look at.
    asm.jump_if(Reg::R8, Test::Le, names.sun_path, deny);
    asm.jump_if(Reg::R8, Test::Gt, names.sun_path + PATH_LEN, deny);
    asm.add(Reg::R8, -names.sun_path);
    let port = EVENT + at(offset_of!(Event, port));
    asm.store(Size::W, Reg::R10, port, Reg::R8);
    // Behind the given length lies what was on the kernel's stack before: never looked at.
    let mut copied = Label::new();
    for index in 0..PATH_LEN {
        asm.jump_if(Reg::R8, Test::Le, index, &mut copied);
        asm.load(Size::B, Reg::R1, Reg::R7, names.sun_path + index);
        asm.store(Size::B, Reg::R10, PATH + index, Reg::R1);
    }
    asm.place(copied);
}

fn decide(asm: &mut Asm, allow: &mut Label, deny: &mut Label) {
    // The listener, to the end: a NUL must follow, given or not.
    let mut not_listener = Label::new();
    expect(asm, LISTENER.bytes().chain([0]), &mut not_listener);
    asm.jump(allow);
    asm.place(not_listener);

    // An abstract name: the network namespace, which is the session's own, holds them.
    asm.load(Size::B, Reg::R1, Reg::R10, PATH);
    asm.jump_if(Reg::R1, Test::Eq, 0, allow);

    // The session's own tmpfs, and no way up from it.
    expect(asm, "/tmp/".bytes(), deny);
    for index in 4..PATH_LEN - 2 {
        let mut next = Label::new();
        for (byte, offset) in "/..".bytes().zip(index..) {
            asm.load(Size::B, Reg::R1, Reg::R10, PATH + offset);
            asm.jump_if(Reg::R1, Test::Ne, i32::from(byte), &mut next);
        }
        asm.jump(deny);
        asm.place(next);
    }
    asm.jump(allow);
}

fn expect(asm: &mut Asm, bytes: impl Iterator<Item = u8>, otherwise: &mut Label) {
    for (byte, offset) in bytes.zip(PATH..) {
        asm.load(Size::B, Reg::R1, Reg::R10, offset);
        asm.jump_if(Reg::R1, Test::Ne, i32::from(byte), otherwise);
    }
}

fn write_event(asm: &mut Asm, sinks: Sinks<'_>, hook: Hook) {
    let field = |offset: usize| EVENT + at(offset);
    asm.call(KTIME_GET_BOOT_NS);
    asm.store(
        Size::Dw,
        Reg::R10,
        field(offset_of!(Event, boot_ns)),
        Reg::R0,
    );
    asm.call(GET_CURRENT_CGROUP_ID);
    asm.store(
        Size::Dw,
        Reg::R10,
        field(offset_of!(Event, cgroup_id)),
        Reg::R0,
    );
    asm.call(GET_CURRENT_PID_TGID);
    asm.shift_right(Reg::R0, 32);
    asm.store(Size::W, Reg::R10, field(offset_of!(Event, tgid)), Reg::R0);
    asm.call(GET_CURRENT_UID_GID);
    asm.store(Size::W, Reg::R10, field(offset_of!(Event, uid)), Reg::R0);
    asm.mov(Reg::R1, Reg::R10);
    asm.add(Reg::R1, field(offset_of!(Event, comm)));
    asm.set(Reg::R2, 16);
    asm.call(GET_CURRENT_COMM);
    // Hook numbers are single digits.
    let number = at(usize::try_from(hook.number()).unwrap_or_default());
    asm.store_value(Size::W, Reg::R10, field(offset_of!(Event, hook)), number);
    asm.store_value(Size::W, Reg::R10, field(offset_of!(Event, family)), AF_UNIX);

    asm.map(Reg::R1, sinks.events);
    asm.mov(Reg::R2, Reg::R10);
    asm.add(Reg::R2, EVENT);
    asm.set(Reg::R3, EVENT_SIZE);
    asm.set(Reg::R4, 0);
    asm.call(RINGBUF_OUTPUT);
    asm.mov(Reg::R6, Reg::R0);
    count(asm, sinks, Count::Refused(hook));
    let mut counted = Label::new();
    asm.jump_if(Reg::R6, Test::Eq, 0, &mut counted);
    count(asm, sinks, Count::Lost);
    asm.store_value(Size::Dw, Reg::R10, KEY, 0);
    asm.map(Reg::R1, sinks.dropped);
    asm.mov(Reg::R2, Reg::R10);
    asm.add(Reg::R2, KEY);
    asm.call(MAP_LOOKUP_ELEM);
    asm.jump_if(Reg::R0, Test::Eq, 0, &mut counted);
    asm.load(Size::Dw, Reg::R1, Reg::R0, 0);
    asm.add(Reg::R1, 1);
    asm.store(Size::Dw, Reg::R0, 0, Reg::R1);
    asm.place(counted);
}

/// Adds one to a count of the task's own cgroup, on this CPU.
fn count(asm: &mut Asm, sinks: Sinks<'_>, what: Count) {
    asm.call(GET_CURRENT_CGROUP_ID);
    asm.store(Size::Dw, Reg::R10, KEY, Reg::R0);
    asm.map(Reg::R1, sinks.counts);
    asm.mov(Reg::R2, Reg::R10);
    asm.add(Reg::R2, KEY);
    asm.call(MAP_LOOKUP_ELEM);
    let mut uncounted = Label::new();
    asm.jump_if(Reg::R0, Test::Eq, 0, &mut uncounted);
    let slot = at(what.slot() * size_of::<u64>());
    asm.load(Size::Dw, Reg::R1, Reg::R0, slot);
    asm.add(Reg::R1, 1);
    asm.store(Size::Dw, Reg::R0, slot, Reg::R1);
    asm.place(uncounted);
}
