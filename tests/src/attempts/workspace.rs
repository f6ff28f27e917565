//! The workspace's edge: owners, devices, links and names that lead out of it.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use custody_wire::layer::Layer;

use super::{Attempt, Owner, Place, Promised, Proof, TwinShows, Workspace, planted_file};
use crate::{
    evidence::row::Class,
    probe::{Act, Attack, Effect, Node},
    suite::scene::Scene,
};

/// What only root may do, tried by root in the reach arm.
const AS_ROOT: Promised = Promised::Layers(&[&[Layer::Uid], &[Layer::Capabilities]]);

/// The file is there before, and anyone may write to it: refused is the act itself.
const LAID_OUT: &str = "what is acted on was laid out from outside, open to every uid: refused is \
                        the act itself";

/// Another's file.
const OUTSIDE: Promised =
    Promised::Layers(&[&[Layer::MountNamespace], &[Layer::Landlock], &[Layer::Uid]]);

pub(super) const ALL: &[Attempt] = &[
    Attempt {
        id: "workspace/file-capability",
        class: Class::Confinement,
        mechanism: "file capabilities",
        question: "Can a program in the workspace be given capabilities for whoever runs it?",
        promised: AS_ROOT,
        source: "capabilities(7): security.capability is followed by everyone's execve(2)",
        owner: Owner::Root,
        workspace: Workspace::Shared,
        attack: |scene, _, effect| xattr(scene, &effect, CAPABILITY),
        twin: |scene, effect| xattr(scene, &effect, "user.note"),
        twin_shows: TwinShows::Step("setxattr"),
        proof: Proof::Outside(|scene, at| {
            left(scene, at, "capable", |path| {
                let mut value = [0; 64];
                let found = rustix::fs::getxattr(path, CAPABILITY, &mut value);
                Ok(found
                    .is_ok()
                    .then(|| "on the host it has capabilities".into()))
            })
        }),
        before: |scene, at| Ok(lay_out(scene, at, "capable")?),
        notes: &[LAID_OUT],
        ..Attempt::BASE
    },
    Attempt {
        id: "workspace/owner",
        class: Class::Confinement,
        mechanism: "a change of owner",
        question: "Can a file in the workspace be given to root?",
        promised: AS_ROOT,
        source: "chown(2): what root owns, root's programs trust",
        owner: Owner::Root,
        workspace: Workspace::Shared,
        attack: |scene, _, effect| Attack::Acts {
            acts: vec![Act::Chown {
                path: place(scene, &effect, "owned"),
                to: 0,
            }],
        },
        twin: |scene, effect| Attack::Acts {
            acts: vec![write(&place(scene, &effect, "owned"))],
        },
        twin_shows: TwinShows::Step("write"),
        proof: Proof::Outside(|scene, at| {
            left(scene, at, "owned", |path| {
                let owner = fs::symlink_metadata(path)?.uid();
                Ok((owner == 0).then(|| "on the host it is root's".into()))
            })
        }),
        before: |scene, at| Ok(lay_out(scene, at, "owned")?),
        notes: &[
            LAID_OUT,
            "in a session the id-mapped mount answers first (EOVERFLOW: root is not in its map); \
             alone it does not refuse a caller who is root",
        ],
        ..Attempt::BASE
    },
    Attempt {
        id: "workspace/device",
        class: Class::Confinement,
        mechanism: "a device node",
        question: "Can a device be made in the workspace, where nodes count outside?",
        promised: Promised::Layers(&[
            &[Layer::Landlock],
            &[Layer::CgroupDevice],
            &[Layer::Uid],
            &[Layer::Capabilities],
        ]),
        source: "kernel.md attempt 47",
        owner: Owner::Root,
        workspace: Workspace::Shared,
        attack: |scene, _, effect| node(scene, &effect, Node::Device),
        twin: |scene, effect| node(scene, &effect, Node::Fifo),
        twin_shows: TwinShows::Step("mknod"),
        proof: Proof::Outside(|scene, at| {
            left(scene, at, "nodes", |folder| {
                let kind = fs::symlink_metadata(folder.join("node")).map(|it| it.file_type());
                let is_device = kind.is_ok_and(|kind| kind.is_char_device());
                Ok(is_device.then(|| "it is a device".into()))
            })
        }),
        before: |scene, at| {
            let folder = at_nonce(scene, &at.nonce, "nodes");
            fs::create_dir(&folder)?;
            Ok(open_to_all(scene, &folder, 0o777)?)
        },
        notes: &[LAID_OUT],
        ..Attempt::BASE
    },
    Attempt {
        id: "workspace/symlink-out",
        class: Class::SharedProcessCredential,
        mechanism: "a symlink out of the workspace",
        question: "Does a link in the workspace lead to a file outside of it?",
        promised: Promised::Layers(&[&[Layer::MountNamespace], &[Layer::Uid]]),
        source: "CVE-2026-34078's class; sandbox-runtime's symlink boundary tests",
        owner: Owner::Root,
        workspace: Workspace::Shared,
        attack: |scene, _, effect| Attack::Acts {
            acts: vec![Act::Read {
                path: place(scene, &effect, "link"),
            }],
        },
        before: |scene, at| {
            let link = at_nonce(scene, &at.nonce, "link");
            Ok(std::os::unix::fs::symlink(&scene.credential_file, link)?)
        },
        notes: &[
            "the link is there already: refused is what it leads to",
            "Landlock is no leg: the file that it leads to lies below the host's /tmp, and a \
             session may read below its own",
        ],
        twin: planted_file,
        twin_shows: TwinShows::Planted,
        proof: Proof::Outside(|scene, at| left(scene, at, "link", |_| Ok(None))),
        ..Attempt::BASE
    },
    Attempt {
        id: "workspace/hardlink-out",
        class: Class::SharedProcessCredential,
        mechanism: "a hard link to a file outside",
        question: "Can another's file be given a name in the workspace?",
        promised: OUTSIDE,
        source: "KubeArmor#988 and #2319: a second name for what a path rule protects",
        owner: Owner::Root,
        workspace: Workspace::Shared,
        attack: |scene, _, effect| hard_link(scene, &effect),
        twin: planted_file,
        twin_shows: TwinShows::Planted,
        proof: Proof::Outside(|scene, at| left(scene, at, "link", |_| Ok(None))),
        ..Attempt::BASE
    },
    Attempt {
        id: "workspace/moved-out",
        class: Class::SharedProcessCredential,
        mechanism: "`..` of a folder that was moved out of the workspace",
        question: "Does a folder that the host moves out of the workspace take the agent along?",
        promised: Promised::Layers(&[&[Layer::MountNamespace]]),
        source: "path_connected() of fs/namei.c: the escape by rename that bind mounts had",
        owner: Owner::Operator,
        workspace: Workspace::Shared,
        attack: |scene, _, effect| Attack::Acts {
            acts: vec![
                Act::Enter {
                    path: place(scene, &effect, "moves"),
                },
                Act::Write {
                    path: "ready".into(),
                    text: String::new(),
                },
                Act::Wait {
                    path: "moved".into(),
                },
                Act::Read {
                    path: "../secret".into(),
                },
            ],
        },
        twin: planted_file,
        twin_shows: TwinShows::Planted,
        proof: Proof::Outside(|scene, at| {
            fs::remove_dir_all(outside(scene, at))?;
            left(scene, at, "moves", |_| Ok(None))
        }),
        before: |scene, at| Ok(moves(scene, at)?),
        notes: &[
            "Landlock is not promised: alone it refuses the write by which the agent says that it \
             is in the folder, so that the folder is not moved and nothing is shown",
        ],
        ..Attempt::BASE
    },
    Attempt {
        id: "workspace/policies",
        class: Class::Confinement,
        mechanism: "the service's own policies",
        question: "Can the agent write a policy for its next session?",
        promised: OUTSIDE,
        source: "the class of agents that rewrite their own sandbox's configuration (Cymulate)",
        owner: Owner::Root,
        workspace: Workspace::Shared,
        attack: |scene, _, effect| Attack::Acts {
            acts: vec![write(&policies(scene, &effect.nonce))],
        },
        twin: |scene, effect| Attack::Acts {
            acts: vec![write(&place(scene, &effect, "policy"))],
        },
        twin_shows: TwinShows::Step("write"),
        proof: Proof::Outside(|scene, at| {
            left(scene, at, "policy", |_| Ok(None))?;
            let path = policies(scene, &at.nonce);
            let found = path.exists().then(|| "the policy is there".into());
            if found.is_some() {
                fs::remove_file(path)?;
            }
            Ok(found)
        }),
        ..Attempt::BASE
    },
    Attempt {
        id: "program/overwrite",
        class: Class::Confinement,
        mechanism: "a program of the service",
        question: "Can the agent write to a program of ours that runs in sessions?",
        promised: OUTSIDE,
        source: "CVE-2019-5736: the runtime's own program, overwritten from inside",
        owner: Owner::Root,
        attack: |scene, _, _| Attack::Acts {
            acts: vec![Act::OpenForWriting {
                path: scene.program("session/custody-bridge"),
            }],
        },
        twin: |_, effect| {
            let path = PathBuf::from(format!("/tmp/{}", effect.nonce));
            Attack::Acts {
                acts: vec![write(&path), Act::OpenForWriting { path }],
            }
        },
        twin_shows: TwinShows::Step("open for writing"),
        proof: Proof::Step("open for writing"),
        ..Attempt::BASE
    },
    Attempt {
        id: "file/fixed-name",
        class: Class::SharedProcessCredential,
        mechanism: "a fixed name in /tmp",
        question: "Does a session find what another program wrote under a known name in /tmp?",
        promised: Promised::Layers(&[&[Layer::MountNamespace]]),
        source: "CVE-2026-46406: `/tmp/claude/response.md`, for everyone",
        owner: Owner::Operator,
        attack: |_, _, effect| Attack::Acts {
            acts: vec![Act::Read {
                path: fixed(&effect.nonce),
            }],
        },
        twin: planted_file,
        twin_shows: TwinShows::Planted,
        proof: Proof::Outside(|_, at| {
            fs::remove_file(fixed(&at.nonce))?;
            Ok(None)
        }),
        before: |scene, at| Ok(fs::write(fixed(&at.nonce), scene.carried())?),
        ..Attempt::BASE
    },
    Attempt {
        id: "workspace/fill",
        class: Class::Confinement,
        mechanism: "the host's disk",
        question: "Can the agent take 256 MiB of the disk by a file in its workspace?",
        promised: Promised::Layers(&[&[Layer::CgroupLimits]]),
        source: "kernel.md attempt 56: exhaustion",
        owner: Owner::Operator,
        workspace: Workspace::Shared,
        attack: |scene, _, effect| fill(scene, &effect, 256 << 20),
        twin: |scene, effect| fill(scene, &effect, 4096),
        twin_shows: TwinShows::Step("fallocate"),
        proof: Proof::Outside(|scene, at| {
            left(scene, at, "fill", |path| {
                let blocks = fs::symlink_metadata(path)?.blocks();
                let great = blocks >= (256 << 20) / 512;
                Ok(great.then(|| format!("it has {blocks} blocks of the disk")))
            })
        }),
        known_gap: Some(
            "a workspace is written in place: how much of it is the owner's quota's to say, and \
             custodyd sets none",
        ),
        apart: Some("a small disk has the room once"),
        ..Attempt::BASE
    },
    Attempt {
        id: "workspace/fifo",
        class: Class::Confinement,
        mechanism: "a FIFO in the workspace",
        question: "May a session write to a program that reads a FIFO in the workspace?",
        promised: Promised::Layers(&[&[Layer::BpfLsm]]),
        source: "kernel.md attempt 50 and Kilo-Org/kilocode#11650: authority by a name in a shared folder",
        owner: Owner::Operator,
        workspace: Workspace::Shared,
        attack: |scene, _, effect| {
            let path = place(scene, &effect, "fifo");
            let text = effect.nonce.clone();
            Attack::Acts {
                acts: vec![
                    write(&place(scene, &effect, "file")),
                    Act::Wait { path: path.clone() },
                    Act::Write { path, text },
                ],
            }
        },
        twin: |scene, effect| Attack::Acts {
            acts: vec![write(&place(scene, &effect, "file"))],
        },
        twin_shows: TwinShows::Step("write"),
        proof: Proof::Outside(|scene, at| {
            let read = read_of_fifo(scene, &at.nonce);
            let seen = fs::read(&read).is_ok_and(|bytes| bytes == at.nonce.as_bytes());
            if read.exists() {
                fs::remove_file(read)?;
            }
            left(scene, at, "file", |_| Ok(None))?;
            left(scene, at, "fifo", |_| Ok(None))?;
            Ok(seen.then(|| "a program outside read it".into()))
        }),
        before: |scene, at| {
            fifo(scene, at);
            Ok(())
        },
        known_gap: Some(
            "a FIFO that a program of the host's makes in the workspace after the start is a way \
             to that program; one that lies there before is refused",
        ),
        notes: &[
            "what the reader does with what it reads is its own: authority that it has is lent",
        ],
        ..Attempt::BASE
    },
];

/// The extended attribute that execve(2) obeys.
const CAPABILITY: &str = "security.capability";

/// A name in the workspace that is the arm's own.
pub(super) fn place(scene: &Scene, effect: &Effect, what: &str) -> PathBuf {
    at_nonce(scene, &effect.nonce, what)
}

pub(super) fn at_nonce(scene: &Scene, nonce: &str, what: &str) -> PathBuf {
    scene.workspace().join(format!("{nonce}-{what}"))
}

pub(super) fn write(path: &Path) -> Act {
    Act::Write {
        path: path.into(),
        text: "agent".into(),
    }
}

/// Looks at what the arm left under `what`, and takes it away.
pub(super) fn left(
    scene: &Scene,
    at: &Place,
    what: &str,
    look: fn(&Path) -> io::Result<Option<String>>,
) -> anyhow::Result<Option<String>> {
    let path = at_nonce(scene, &at.nonce, what);
    let Ok(found) = fs::symlink_metadata(&path) else {
        return Ok(None);
    };
    let said = look(&path)?;
    if found.is_dir() {
        fs::remove_dir_all(&path)?;
    } else {
        fs::remove_file(&path)?;
    }
    Ok(said)
}

/// An attribute on a file that is there. The value is version 2 of capabilities(7), with
/// CAP_NET_RAW permitted and effective.
fn xattr(scene: &Scene, effect: &Effect, name: &str) -> Attack {
    let words = [0x0200_0001_u32, 1 << 13, 0, 0, 0];
    Attack::Acts {
        acts: vec![Act::Xattr {
            path: place(scene, effect, "capable"),
            name: name.into(),
            value: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        }],
    }
}

/// A file of the owner's under `what` that anyone may write to.
fn lay_out(scene: &Scene, at: &Place, what: &str) -> io::Result<()> {
    let path = at_nonce(scene, &at.nonce, what);
    fs::write(&path, "")?;
    open_to_all(scene, &path, 0o666)
}

pub(super) fn open_to_all(scene: &Scene, path: &Path, mode: u32) -> io::Result<()> {
    std::os::unix::fs::chown(path, Some(scene.operator()), Some(scene.operator()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn node(scene: &Scene, effect: &Effect, kind: Node) -> Attack {
    Attack::Acts {
        acts: vec![Act::Mknod {
            path: place(scene, effect, "nodes").join("node"),
            kind,
            mode: 0o666,
        }],
    }
}

/// A second name in the workspace for the credential's file.
fn hard_link(scene: &Scene, effect: &Effect) -> Attack {
    let path = place(scene, effect, "link");
    let link = Act::Link {
        from: scene.credential_file.clone(),
        to: path.clone(),
    };
    Attack::Acts {
        acts: vec![link, Act::Read { path }],
    }
}

fn fill(scene: &Scene, effect: &Effect, bytes: u64) -> Attack {
    Attack::Acts {
        acts: vec![Act::Fill {
            path: place(scene, effect, "fill"),
            bytes,
        }],
    }
}

fn policies(scene: &Scene, nonce: &str) -> PathBuf {
    installation(scene).join(format!("policies/{nonce}.toml"))
}

/// The installation's own folder: its workspace lies in it.
pub(super) fn installation(scene: &Scene) -> &Path {
    scene.workspace().parent().unwrap_or(Path::new("/"))
}

fn fixed(nonce: &str) -> PathBuf {
    PathBuf::from(format!("/tmp/{nonce}-response"))
}

/// Where a folder of the workspace is moved to: outside, beside a secret.
fn outside(scene: &Scene, at: &Place) -> PathBuf {
    installation(scene).join(format!("outside-{}", at.nonce))
}

/// Lays out a folder that the host moves out of the workspace once the agent is in it.
fn moves(scene: &Scene, at: &Place) -> io::Result<()> {
    let (folder, outside) = (at_nonce(scene, &at.nonce, "moves"), outside(scene, at));
    fs::create_dir(&outside)?;
    fs::write(outside.join("secret"), scene.carried())?;
    fs::create_dir(&folder)?;
    // Whoever is in it can say so: what is refused then is the way out.
    open_to_all(scene, &folder, 0o777)?;
    later(folder.join("ready"), move || {
        let moved = outside.join("moves");
        fs::rename(&folder, &moved)?;
        fs::write(moved.join("moved"), "")
    });
    Ok(())
}

/// A FIFO with a reader outside. It is made once the agent is there: what lies in a workspace
/// before is looked at when a session starts.
fn fifo(scene: &Scene, at: &Place) {
    let path = at_nonce(scene, &at.nonce, "fifo");
    let read = read_of_fifo(scene, &at.nonce);
    let owner = scene.operator();
    later(at_nonce(scene, &at.nonce, "file"), move || {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)?;
        // Whoever is not in the mount's map owns nothing that can be written to.
        std::os::unix::fs::chown(&path, Some(owner), Some(owner))?;
        // With both ends open it waits for bytes, not for a writer (fifo(7)).
        let file = fs::File::options().read(true).write(true).open(&path)?;
        let mut bytes = vec![0; 4096];
        let count = io::Read::read(&mut &file, &mut bytes)?;
        fs::write(read, bytes.get(..count).unwrap_or_default())
    });
}

/// Where the reader of the FIFO puts what it read: outside of the workspace.
fn read_of_fifo(scene: &Scene, nonce: &str) -> PathBuf {
    installation(scene).join(format!("read-{nonce}"))
}

/// Does `what` once `ready` is there, or never.
pub(super) fn later(ready: PathBuf, what: impl FnOnce() -> io::Result<()> + Send + 'static) {
    let _detached = thread::spawn(move || -> io::Result<()> {
        // Not before an emulated machine comes to it.
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            if ready.exists() {
                return what();
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    });
}
