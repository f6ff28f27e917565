//! Set-id bits on files of a workspace: what they are worth outside, where the owner is another.

use std::{fs, os::unix::fs::MetadataExt as _, path::PathBuf};

use custody_wire::layer::Layer;

use super::{
    Attempt, Need, Owner, Promised, Proof, TwinShows, Workspace,
    workspace::{left, place, write},
};
use crate::{
    evidence::row::Class,
    probe::{Act, Attack, Effect, Node},
    suite::{guard::PYTHON, scene::Scene},
};

/// Set-user-id of whoever owns it.
const SET_ID: u32 = 0o6755;

/// Set-id bits through an id-mapped mount are the owner's outside; only the filter looks at them.
macro_rules! set_id {
    ($id:literal, $mechanism:literal, $question:literal, $attack:expr, $twin:literal) => {
        Attempt {
            id: $id,
            class: Class::Confinement,
            mechanism: $mechanism,
            question: $question,
            promised: Promised::Layers(&[&[Layer::Seccomp]]),
            source: "kernel.md section 8: through an id-mapped mount the file is its owner's outside",
            owner: Owner::Operator,
            workspace: Workspace::Shared,
            attack: |scene, _, effect| {
                let acts: fn(PathBuf, u32) -> Vec<Act> = $attack;
                Attack::Acts {
                    acts: acts(place(scene, &effect, "set-id"), SET_ID),
                }
            },
            twin: |scene, effect| {
                let acts: fn(PathBuf, u32) -> Vec<Act> = $attack;
                Attack::Acts {
                    acts: acts(place(scene, &effect, "set-id"), 0o755),
                }
            },
            twin_shows: TwinShows::Step($twin),
            proof: Proof::Outside(|scene, at| {
                left(scene, at, "set-id", |path| {
                    let mode = fs::symlink_metadata(path)?.mode() & 0o6000;
                    Ok((mode != 0).then(|| format!("on the host it has the bits {mode:o}")))
                })
            }),
            ..Attempt::BASE
        }
    };
}

pub(super) const ALL: &[Attempt] = &[
    set_id!(
        "setid/chmod",
        "chmod(2)",
        "Can a file in the workspace be made set-user-id of its owner on the host?",
        |path, mode| vec![write(&path), Act::Chmod { path, mode }],
        "chmod"
    ),
    set_id!(
        "setid/fchmod",
        "fchmod(2)",
        "Can it be by an open descriptor?",
        |path, mode| vec![write(&path), Act::Fchmod { path, mode }],
        "fchmod"
    ),
    set_id!(
        "setid/open",
        "the mode of openat(2)",
        "Can it be made so in the moment of its creation?",
        |path, mode| vec![Act::Open { path, mode }],
        "openat"
    ),
    set_id!(
        "setid/mknod",
        "the mode of mknod(2)",
        "Can it be made so by mknod, which makes ordinary files too?",
        |path, mode| vec![Act::Mknod {
            path,
            kind: Node::File,
            mode
        }],
        "mknod"
    ),
    set_id!(
        "setid/tmpfile",
        "O_TMPFILE and linkat(2)",
        "Can a file be made so without a name, and be given one?",
        |path, mode| vec![Act::Tmpfile { path, mode }],
        "linkat"
    ),
    Attempt {
        notes: &["the call is refused whole, for its mode is behind a pointer: the twin is openat"],
        twin: |scene, effect| Attack::Acts {
            acts: vec![Act::Open {
                path: place(scene, &effect, "set-id"),
                mode: 0o755,
            }],
        },
        ..set_id!(
            "setid/openat2",
            "the mode of openat2(2)",
            "Can it be made so where the mode is behind a pointer?",
            |path, mode| vec![Act::Openat2 { path, mode }],
            "openat"
        )
    },
    Attempt {
        needs: &[Need::Program(PYTHON)],
        attack: |scene, _, effect| fchmodat2(scene, &effect, SET_ID),
        twin: |scene, effect| fchmodat2(scene, &effect, 0o755),
        twin_shows: TwinShows::Said("fchmodat2 is done"),
        ..set_id!(
            "setid/fchmodat2",
            "fchmodat2(2)",
            "Can it be by a call that is newer than most filters?",
            |_, _| Vec::new(),
            "wait4"
        )
    },
];

/// fchmodat2(2), number 452, which few libraries have.
fn fchmodat2(scene: &Scene, effect: &Effect, mode: u32) -> Attack {
    const SCRIPT: &str = "import ctypes, os, sys
path, mode = sys.argv[1], int(sys.argv[2])
open(path, 'w').close()
c = ctypes.CDLL(None, use_errno=True)
if c.syscall(452, -100, path.encode(), mode, 0) != 0:
    sys.exit('fchmodat2: ' + os.strerror(ctypes.get_errno()))
print('fchmodat2 is done')
";
    Attack::Program {
        program: PYTHON.into(),
        arguments: vec![
            "-c".into(),
            SCRIPT.into(),
            place(scene, effect, "set-id").display().to_string(),
            mode.to_string(),
        ],
        input: String::new(),
    }
}
