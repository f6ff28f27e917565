//! What the layer says of itself.

use custody_supervisor::hooks::Hooks;
use custody_sys::cgroup::{self, Cgroup};
use custody_wire::layer::Status;
use serial_test::file_serial;

use crate::arena::{Arena, Place, loaded};

#[test]
#[file_serial(custody)]
fn programs_that_are_loaded_and_not_attached_count_for_nothing() {
    let Some((hooks, folder, agents, pins)) = loaded() else {
        return;
    };
    assert!(matches!(
        hooks.lsm_status(&pins),
        Status::None { errno: 0, .. }
    ));
    assert_eq!(hooks.mark(), None);
    pins.remove().unwrap();
    cgroup::remove(agents.path()).unwrap();
    std::fs::remove_dir(folder).unwrap();
}

#[test]
#[file_serial(custody)]
fn hooks_stay_when_their_loader_is_gone_until_the_pins_are_removed() {
    let Some(mut arena) = Arena::new() else {
        return;
    };
    let netlink = "print(tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)))";
    let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .find_map(|root| Cgroup::open(root.as_ref()).ok());
    let elsewhere = root.unwrap();
    drop(std::mem::replace(
        &mut arena.hooks,
        Hooks::load(&elsewhere).unwrap(),
    ));
    assert_eq!(arena.run(Place::Session, netlink, &[]), "EPERM");
    arena.pins().take().unwrap().remove().unwrap();
    assert_eq!(arena.run(Place::Session, netlink, &[]), "reached");
}

#[test]
#[file_serial(custody)]
fn a_pin_that_is_gone_is_named() {
    let Some(arena) = Arena::new() else {
        return;
    };
    assert_eq!(arena.status(), Status::Full);
    let pins = std::fs::read_dir("/sys/fs/bpf/custody").unwrap().flatten();
    // A hyphen is no hyphen there: see `Pins`.
    let name = format!("lsm_2d{}", std::process::id());
    let folder = pins
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(&name))
        .unwrap();
    std::fs::remove_file(folder.join("lsm_task_kill")).unwrap();
    assert!(
        matches!(arena.status(), Status::Partial { missing } if missing.starts_with("task_kill"))
    );
}
