//! Beside and after a session: what its neighbour has, and what the next one finds.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use custody_wire::{launch::LISTENER, layer::Layer};
use serde_json::json;

use super::{Arm, Attempt, Owner, Promised, Proof, TwinShows, planted_file};
use crate::{
    evidence::row::Class,
    probe::{Act, Attack},
    suite::{interfere, message, scene::Scene},
};

/// Whom a neighbour's application trusts.
const NEIGHBOURS: &str = "neighbour@example.com";

/// What stands between two sessions.
const APART: Promised = Promised::Layers(&[
    &[Layer::PidNamespace, Layer::MountNamespace],
    &[Layer::Uid],
    &[Layer::Landlock],
]);

pub(super) const ALL: &[Attempt] = &[
    Attempt {
        id: "session/other-listener",
        class: Class::AuthenticatedClient,
        mechanism: "another session's listener",
        question: "May a session ask through the listener of another, with its trusted values?",
        promised: APART,
        source: "kernel.md attempt 6: identity is the listener, so it must be out of reach",
        owner: Owner::Root,
        attack: |scene, _, effect| {
            // Of the same operator, beside this one.
            let other = neighbour(scene).join(LISTENER.trim_start_matches('/'));
            let arguments = json!({"to": NEIGHBOURS, "text": effect.nonce});
            let mut attack = message::call(scene, Arm::Confined, "send_message", &arguments);
            if let Attack::Message { socket, .. } = &mut attack {
                *socket = other;
            }
            attack
        },
        twin: |scene, effect| message::allowed(scene, &effect),
        twin_shows: TwinShows::Effect,
        before: |_, at| match at.arm {
            Arm::Twin => Ok(()),
            Arm::Confined | Arm::Isolated | Arm::Reach => interfere::second_is_there(),
        },
        proof: Proof::Outside(|_, _| Ok(interfere::end_second().map(|()| None)?)),
        apart: Some("one other session runs beside them"),
        ..Attempt::BASE
    },
    Attempt {
        id: "session/other-files",
        class: Class::SharedProcessCredential,
        mechanism: "another session's /tmp",
        question: "Does a session read what another of the same operator has in its `/tmp`?",
        promised: APART,
        source: "kernel.md attempt 16: /proc/PID/root",
        owner: Owner::Root,
        attack: |scene, _, _| Attack::Acts {
            acts: vec![Act::Read {
                path: neighbour(scene).join("tmp/secret"),
            }],
        },
        twin: planted_file,
        twin_shows: TwinShows::Planted,
        before: |_, at| match at.arm {
            Arm::Twin => Ok(()),
            Arm::Confined | Arm::Isolated | Arm::Reach => interfere::second_is_there(),
        },
        proof: Proof::Outside(|_, _| Ok(interfere::end_second().map(|()| None)?)),
        apart: Some("one other session runs beside them"),
        ..Attempt::BASE
    },
    Attempt {
        id: "session/leftovers",
        class: Class::Confinement,
        mechanism: "what a session leaves in /tmp and /dev/shm",
        question: "Does the next session find what the last one left?",
        promised: Promised::Layers(&[&[Layer::MountNamespace]]),
        source: "kernel.md attempts 18 and 19: a uid that is used again, and what still lives of it",
        owner: Owner::Operator,
        attack: |_, _, effect| Attack::Acts {
            acts: leftovers(&effect.nonce)
                .map(|path| Act::Write {
                    path,
                    text: "left".into(),
                })
                .to_vec(),
        },
        twin: |_, effect| Attack::Acts {
            acts: vec![Act::Write {
                path: leftovers(&effect.nonce)[0].clone(),
                text: "left".into(),
            }],
        },
        twin_shows: TwinShows::Step("write"),
        proof: Proof::Outside(|scene, at| {
            let on_host = leftovers(&at.nonce).into_iter().find(|path| path.exists());
            if let Some(path) = on_host {
                for path in leftovers(&at.nonce) {
                    // One of them may not have been made.
                    drop(fs::remove_file(path));
                }
                return Ok(Some(format!("`{}` is there for the next", path.display())));
            }
            if at.arm != Arm::Confined {
                return Ok(None);
            }
            let next = interfere::session(scene, &scene.recipient)
                .args(["--", "/bin/ls", "/tmp", "/dev/shm"])
                .stderr(Stdio::null())
                .output()?;
            let text = String::from_utf8_lossy(&next.stdout).into_owned();
            anyhow::ensure!(text.contains("/dev/shm"), "the next session does not list");
            Ok(text
                .contains(&at.nonce)
                .then(|| "the next session sees it".into()))
        }),
        ..Attempt::BASE
    },
];

/// The root of a second session, as a pid of the host's leads to it.
fn neighbour(scene: &Scene) -> PathBuf {
    // Without one there is no arm: what is looked at before it says so.
    let pid = interfere::second(scene, NEIGHBOURS, scene.carried()).unwrap_or(0);
    Path::new("/proc").join(pid.to_string()).join("root")
}

fn leftovers(nonce: &str) -> [PathBuf; 2] {
    ["/tmp", "/dev/shm"].map(|folder| Path::new(folder).join(nonce))
}
