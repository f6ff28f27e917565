//! Doors of the kernel.

use agent_ebpf::Hook;
use serial_test::file_serial;

use crate::arena::{Arena, Place};

fn tried(what: &str) -> String {
    format!("print(tried(lambda: {what}))")
}

/// In a mount namespace of the program's own, from which nothing comes back.
const APART: &str = "libc.unshare(0x20000)\nlibc.mount(b'none', b'/', None, 0x44000, None)\n";

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn bpf_perf_user_namespaces_and_mounts_are_closed() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    // BPF_PROG_GET_NEXT_ID.
    arena.refused(Hook::LsmBpf, &tried("call(321, 11, mapped(128), 128)"));
    // PERF_TYPE_SOFTWARE, of itself.
    arena.refused(
        Hook::LsmPerfEventOpen,
        &tried("call(298, struct.pack('II', 1, 120) + bytes(112), 0, -1, -1, 0)"),
    );
    arena.refused(Hook::LsmUsernsCreate, &tried("call(272, 0x10000000)"));
    arena.refused(
        Hook::LsmSbMount,
        &format!(
            "{APART}{}",
            tried("call(165, b'none', b'/mnt', b'tmpfs', 0, None)")
        ),
    );
    arena.refused(
        Hook::LsmSbPivotroot,
        &format!("{APART}{}", tried("call(155, b'/mnt', b'/mnt')")),
    );
    arena.refused(
        Hook::LsmMoveMount,
        &format!(
            "{APART}f = call(430, b'tmpfs', 0); call(431, f, 6, None, None, 0)\n\
             m = call(432, f, 0, 0)\n{}",
            tried("call(429, m, b'', -100, b'/mnt', 4)")
        ),
    );
    let answer = arena.run_sealed_between(
        &format!("{APART}call(165, b'none', b'/mnt', b'tmpfs', 0, None)"),
        &tried("call(166, b'/mnt', 2)"),
    );
    assert_eq!(answer, "EPERM", "umount2");
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn there_is_no_ring_and_no_userfaultfd() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    arena.refused(Hook::LsmInodeInitAnon, &tried("call(323, 1)"));
    for flags in [0, 2] {
        // IORING_SETUP_SQPOLL is 2.
        let ring = format!(
            "p = bytearray(120); p[8:12] = struct.pack('I', {flags})\n{}",
            tried("call(425, 4, (ctypes.c_char * 120).from_buffer(p))")
        );
        assert_eq!(arena.run(Place::Outside, &ring, &[]), "reached");
        for place in [Place::Session, Place::Below] {
            assert_eq!(arena.run(place, &ring, &[]), "EPERM");
        }
        let events = arena.events();
        let hooks: Vec<_> = events.iter().filter_map(agent_ebpf::Event::hook).collect();
        assert!(hooks.iter().any(|hook| matches!(
            hook,
            Hook::LsmInodeInitAnon | Hook::LsmUringAllowed | Hook::LsmUringSqpoll
        )));
    }
}
