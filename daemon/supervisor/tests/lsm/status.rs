//! What the layer says of itself.

use custody_sys::cgroup::{self, Cgroup};
use custody_wire::{layer::Status, profile::Profile};
use serial_test::file_serial;

use crate::{
    arena::{Arena, python},
    programs::Programs,
};

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn programs_count_once_attached_and_stay_without_their_loader_until_the_pins_are_removed() {
    let Some(mut programs) = Programs::load("alone") else {
        return;
    };
    // Loaded alone, they count for nothing.
    assert!(matches!(programs.status(), Status::None { errno: 0, .. }));
    assert_eq!(programs.hooks.mark(), None);
    programs.attach();
    assert!(programs.hooks.mark().is_some());
    let session = Cgroup::create(&programs.agents.path().join("session")).unwrap();
    programs
        .hooks
        .seal(session.id(), Profile::Standard)
        .unwrap();
    let netlink = "print(tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)))";
    let tried = || python(&session, netlink, &[], || {});
    assert_eq!(tried(), "EPERM");

    let Programs {
        hooks,
        agents,
        pins,
        folder,
    } = programs;
    drop(hooks);
    assert_eq!(tried(), "EPERM", "their loader is gone");
    pins.remove().unwrap();
    assert_eq!(tried(), "reached", "their pins are gone");
    for cgroup in [&session, &agents] {
        cgroup::remove(cgroup.path()).unwrap();
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_pin_that_is_gone_is_named() {
    let Some(arena) = Arena::new() else {
        return;
    };
    assert_eq!(arena.programs.status(), Status::Full);
    let pins = std::fs::read_dir("/sys/fs/bpf/custody").unwrap().flatten();
    // A hyphen is no hyphen there: see `Pins`.
    let name = format!("lsm_2d{}_2dall", std::process::id());
    let folder = pins
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(&name))
        .unwrap();
    let (pin, away) = (folder.join("lsm_task_kill"), folder.join("away"));
    std::fs::rename(&pin, &away).unwrap();
    let status = arena.programs.status();
    std::fs::rename(&away, &pin).unwrap();
    assert!(matches!(status, Status::Partial { missing } if missing.starts_with("task_kill")));
    assert_eq!(arena.programs.status(), Status::Full);
}
