//! The instance's key: it certifies the keys of the chains, and a reader needs no other.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use nix::sys::signal::Signal;
use serial_test::file_serial;

use crate::room::{Room, text};

/// A room whose instance has this key.
fn with_key(bytes: &[u8], mode: u32) -> Option<Room> {
    let room = Room::empty()?;
    give(&room, bytes, mode);
    let key = room.path("instance.key").display().to_string();
    room.configure(&format!("[instance]\nkey = {{ file = '{key}' }}\n"));
    Some(room)
}

fn give(room: &Room, bytes: &[u8], mode: u32) {
    fs::write(room.path("instance.key"), bytes).unwrap();
    fs::set_permissions(room.path("instance.key"), fs::Permissions::from_mode(mode)).unwrap();
}

/// What `custody ledger verify` says with the keys in `folder` alone.
fn verify(room: &Room, folder: &Path) -> (bool, String) {
    let state = room.path("state").display().to_string();
    let folder = folder.display().to_string();
    let said = room
        .custody(&["ledger", "verify", &state, "--keys", &folder])
        .output()
        .unwrap();
    let words = format!("{}{}", text(&said.stdout), text(&said.stderr));
    (said.status.success(), words)
}

/// A folder that has this public key as the instance's, and nothing else.
fn keys(room: &Room, name: &str, from: &str) -> std::path::PathBuf {
    let folder = room.path(name);
    fs::create_dir(&folder).unwrap();
    let key = room.path("state/public").join(from);
    fs::copy(key, folder.join("instance.pub")).unwrap();
    folder
}

fn certificates(room: &Room, chain: &str) -> usize {
    let folder = fs::read_dir(room.path("state").join(chain)).unwrap();
    folder
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .map(|lines| lines.matches("\"certified\"").count())
        .sum()
}

#[test]
#[file_serial(custody)]
fn who_trusts_the_instance_trusts_the_chains_that_it_certified() {
    let Some(mut room) = with_key(&[7; 32], 0o600) else {
        return;
    };
    room.start();
    for chain in ["decisions", "receipts"] {
        room.until("the certificate is kept", || {
            certificates(&room, chain) == 1
        });
    }
    // Another run of a service is certified as well.
    room.kill_service("gate", "services");
    room.until("and once more", || certificates(&room, "decisions") == 2);
    assert_eq!(room.end(Signal::SIGTERM), Some(0));

    let ours = keys(&room, "ours", "instance.pub");
    let (holds, words) = verify(&room, &ours);
    assert!(holds, "{words}");

    // Another instance's word counts for nothing.
    let theirs = room.path("theirs");
    fs::create_dir(&theirs).unwrap();
    let key = ed25519_dalek::SigningKey::from_bytes(&[8; 32]).verifying_key();
    let line = format!("{}\n", hex::encode(key.as_bytes()));
    fs::write(theirs.join("instance.pub"), line).unwrap();
    let (holds, words) = verify(&room, &theirs);
    assert!(!holds, "{words}");

    // Another key takes over, and the old one's chains verify by it still.
    give(&room, &[9; 32], 0o600);
    room.start();
    for chain in ["decisions", "receipts"] {
        let before = if chain == "decisions" { 2 } else { 1 };
        room.until("it certifies too", || {
            certificates(&room, chain) == before + 1
        });
    }
    assert_eq!(room.end(Signal::SIGTERM), Some(0));
    for (name, from) in [("old", "instance.1.pub"), ("new", "instance.pub")] {
        let (holds, words) = verify(&room, &keys(&room, name, from));
        assert!(holds, "{name}: {words}");
    }
}

#[test]
#[file_serial(custody)]
fn a_key_of_the_instance_that_cannot_be_used_starts_nothing() {
    for (bytes, mode, why) in [
        (&[7; 31][..], 0o600, "has not just 32 bytes"),
        (&[7; 33], 0o600, "has not just 32 bytes"),
        (&[7; 32], 0o644, "others than root may use it"),
    ] {
        let Some(room) = with_key(bytes, mode) else {
            return;
        };
        let said = room.refused(&[]);
        assert!(said.contains(why), "{said}");
        assert!(!said.contains("07070707"), "{said}");
        assert!(!room.path("state/public").exists());
    }
}
