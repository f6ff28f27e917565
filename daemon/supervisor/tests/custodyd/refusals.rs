//! What is refused at the start, and which folders are no workspace.

use std::{
    fs::{self},
    os::unix::{fs::chown, process::CommandExt as _},
    path::Path,
    process::Command,
};

use serial_test::file_serial;

use crate::room::{CUSTODYD, Room, text};

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_second_custodyd_is_refused_and_the_first_does_not_notice() {
    let Some(room) = Room::new() else { return };
    let words = room.refused(&[]);
    assert!(words.contains("another custodyd runs here"), "{words}");
    // Other folders, the same cgroups.
    let config = fs::read_to_string(room.path("custodyd.toml")).unwrap();
    let other = config.replace(
        &room.path("run").display().to_string(),
        &room.path("run2").display().to_string(),
    );
    fs::write(room.path("custodyd.toml"), other).unwrap();
    let words = room.refused(&[]);
    assert!(
        words.contains("another custodyd has the cgroups"),
        "{words}"
    );
    assert_eq!(room.run(&["--", "/bin/true"]).status.code(), Some(0));
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn what_does_not_hold_at_the_start_is_said_with_what_to_do_and_nothing_is_changed() {
    let Some(room) = Room::empty() else { return };
    let cases: [(&str, &str, &[&str]); 6] = [
        ("unknown = 1", "", &["unknown field `unknown`"]),
        (
            "[credentials]\nmail = { file = '/no/such/token' }",
            "",
            &["credential `mail`", "/no/such/token"],
        ),
        (
            "[credentials]\nmail = { systemd = 'mail' }",
            "",
            &["LoadCredential=mail"],
        ),
        (
            "",
            "format = 1\nunknown = 2\n",
            &["policies/plain.toml", "line 2", "unknown"],
        ),
        ("", "format = 9\n", &["format"]),
        ("", "not toml", &["plain.toml"]),
    ];
    for (config, policy, expected) in cases {
        room.configure(config);
        let policy = if policy.is_empty() {
            "format = 1\n"
        } else {
            policy
        };
        fs::write(room.path("policies/plain.toml"), policy).unwrap();
        for arguments in [&["--check"][..], &[]] {
            let words = room.refused(arguments);
            for part in expected {
                assert!(words.contains(part), "{part} in {words}");
            }
        }
        assert!(!room.path("run").exists());
        assert!(!room.path("state").exists());
        assert!(!room.cgroup.exists());
    }
    room.configure("");
    fs::write(room.path("policies/plain.toml"), "format = 1\n").unwrap();
    let output = room.custodyd().arg("--check").output().unwrap();
    // With that of `custody doctor`.
    assert!(
        text(&output.stdout).contains("would start: 2 policies"),
        "{output:?}"
    );
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_limit_of_core_files_that_cannot_be_raised_stops_the_start_with_what_to_do() {
    let Some(room) = Room::empty() else { return };
    let under = |limit: &str| {
        Command::new("setpriv")
            .args(["--bounding-set", "-sys_resource", "prlimit", limit, "--"])
            .args([CUSTODYD, "--check", "--config"])
            .arg(room.path("custodyd.toml"))
            .output()
            .unwrap()
    };
    let refused = under("--core=0:0");
    assert!(!refused.status.success(), "{refused:?}");
    let words = text(&refused.stderr);
    assert!(words.contains("RLIMIT_CORE"), "{words}");
    assert!(words.contains("LimitCORE=1"), "{words}");
    assert!(under("--core=0:1").status.success());
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_folder_that_must_not_be_a_workspace_is_refused_with_what_to_do() {
    let Some(room) = Room::new() else { return };
    let mine = tempfile::tempdir_in("/var/tmp").unwrap();
    chown(mine.path(), Some(1000), Some(1000)).unwrap();
    let at = |path: &Path| path.display().to_string();
    let write = ["--", "/bin/sh", "-c", "echo by-the-agent > made && id -u"];

    let with = |folder: &str| room.run(&[&["--workdir", folder][..], &write].concat());
    let output = with(&at(mine.path()));
    assert_eq!(output.status.code(), Some(0), "{output:?}\n{}", room.log());
    let made = fs::metadata(mine.path().join("made")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), 1000);

    let roots = tempfile::tempdir_in("/var/tmp").unwrap();
    for (folder, expected) in [
        (at(roots.path()), "owned by root"),
        ("/".into(), "system folder"),
        ("/no/such/folder".into(), "/no/such/folder"),
        (at(&room.path("state")), ""),
    ] {
        let output = with(&folder);
        assert_eq!(output.status.code(), Some(125), "{folder}: {output:?}");
        assert!(
            text(&output.stderr).contains(expected),
            "{folder}: {output:?}"
        );
    }
    // A mount inside it.
    let inner = mine.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let flags = nix::mount::MsFlags::empty();
    nix::mount::mount(Some("none"), &inner, Some("tmpfs"), flags, Some("size=4k")).unwrap();
    let output = with(&at(mine.path()));
    nix::mount::umount(&inner).unwrap();
    assert!(
        text(&output.stderr).contains("is mounted in it"),
        "{output:?}"
    );
    assert!(room.sessions().is_empty());
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn another_than_root_is_told_why_it_cannot_be() {
    let Some(room) = Room::empty() else { return };
    // What nobody may execute, wherever the build put it.
    let custodyd = room.path("custodyd");
    fs::copy(CUSTODYD, &custodyd).unwrap();
    let output = Command::new(custodyd).uid(65_534).output().unwrap();
    assert!(text(&output.stderr).contains("must be root"), "{output:?}");
}
