//! Files by their handle: past every path, mount and rule on paths.

use std::{
    io,
    path::Path,
    process::{Command, Stdio},
};

use custody_wire::layer::Layer;
use nix::libc;

use super::{Attempt, Need, Owner, Promised, Proof, TwinShows, calls, surface::REFUSED_WHOLE};
use crate::{
    evidence::row::Class,
    probe::{Argument, Call, PYTHON},
    suite::scene::Scene,
};

pub(super) const ALL: &[Attempt] = &[
    Attempt {
        id: "file/by-handle",
        class: Class::SharedProcessCredential,
        mechanism: "open_by_handle_at(2)",
        question: "Does any folder of the same file system lead to the credential's file, by its number?",
        needs: &[Need::Program(PYTHON)],
        promised: Promised::Layers(&[
            &[Layer::Seccomp],
            &[Layer::BpfLsm],
            &[Layer::Capabilities],
            &[Layer::Uid],
        ]),
        source: "shocker.c, 2014: out of a container by the handle of a file of the host; \
                 open_by_handle_at(2)",
        owner: Owner::Root,
        attack: |scene, _, _| calls::attack(by_handle(scene)),
        twin: calls::other,
        twin_shows: TwinShows::Step("found twin"),
        notes: &[
            REFUSED_WHOLE,
            "the handle is read outside and given to the attack, which else would guess it: an \
             inode's number and generation",
            "no namespace is a leg: the folder of the programs is of the same file system, and a \
             mount of a part is a mount of the whole to this call",
        ],
        ..Attempt::BASE
    },
    Attempt {
        id: "surface/name-to-handle",
        mechanism: "name_to_handle_at(2)",
        question: "May it learn the handle of a file, by which others of the file system are guessed?",
        needs: &[Need::Program(PYTHON)],
        promised: Promised::Layers(&[&[Layer::Seccomp]]),
        source: "open_by_handle_at(2); fs/fhandle.c asks for no right but the path's",
        attack: |_, _, _| {
            calls::attack(vec![calls::call(
                "name_to_handle_at",
                libc::SYS_name_to_handle_at,
                vec![
                    calls::HERE,
                    calls::text("/usr"),
                    // struct file_handle: room for MAX_HANDLE_SZ bytes.
                    calls::words(&[[128].as_slice(), &[0; 33]].concat()),
                    calls::words(&[0]),
                    calls::number(0),
                ],
            )])
        },
        twin: calls::other,
        twin_shows: TwinShows::Step("found twin"),
        proof: Proof::Step("name_to_handle_at"),
        notes: &[REFUSED_WHOLE],
        ..Attempt::BASE
    },
];

/// Opens the credential's file by its handle, from a folder that every session has.
fn by_handle(scene: &Scene) -> Vec<Call> {
    let programs = scene.program("session");
    vec![
        calls::call(
            "open a folder",
            libc::SYS_openat,
            vec![
                calls::HERE,
                calls::text(programs),
                calls::number(libc::O_RDONLY | libc::O_DIRECTORY),
            ],
        ),
        calls::call(
            "open_by_handle_at",
            libc::SYS_open_by_handle_at,
            vec![
                Argument::Result(0),
                // Without one the row is inconclusive: the reach arm gets ESTALE or EINVAL.
                calls::bytes(&handle(&scene.credential_file).unwrap_or_default()),
                calls::number(libc::O_RDONLY),
            ],
        ),
        calls::call(
            "read",
            libc::SYS_read,
            vec![
                Argument::Result(1),
                calls::buffer("credential", 256),
                calls::number(256),
            ],
        ),
    ]
}

/// struct file_handle of a file, asked outside.
fn handle(path: &Path) -> io::Result<Vec<u8>> {
    const SCRIPT: &str = "import ctypes, os, struct, sys
c = ctypes.CDLL(None, use_errno=True)
held = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128))
mount = ctypes.c_int()
if c.name_to_handle_at(-100, sys.argv[1].encode(), held, ctypes.byref(mount), 0) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
sys.stdout.buffer.write(held.raw)
";
    let output = Command::new(PYTHON)
        .args(["-I", "-S", "-c", SCRIPT])
        .arg(path)
        .stderr(Stdio::null())
        .output()?;
    Ok(output.stdout)
}
