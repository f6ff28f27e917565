//! Rings: operations that no filter on system calls sees, in rings that the session did not make,
//! and on files.
//!
//! A ring cannot be handed out over a socket: the kernel refuses to send one (`__scm_send`,
//! net/core/scm.c), whoever asks.

use custody_wire::layer::Layer;

use super::{Attempt, Carries, NO_TCP, Need, Owner, Promised, TwinShows};
use crate::{evidence::row::Class, probe::PYTHON, suite::detour};

const RING: &[Need] = &[Need::Program(PYTHON), Need::IoUring];

const PLAIN: &str = "no ring is allowed at all: the twin makes plain calls, by the same script";

pub(super) const ALL: &[Attempt] = &[
    Attempt {
        id: "ring/inherited",
        class: Class::WithoutAuthorization,
        mechanism: "an inherited ring",
        question: "May it connect and send by a ring that was made before there was a filter?",
        needs: RING,
        promised: Promised::Layers(&[
            &[Layer::Fds],
            &[Layer::Seccomp],
            &[Layer::CgroupInet],
            &[Layer::NetworkNamespace],
            &[Layer::Landlock],
        ]),
        source: "kernel.md 1.3: a ring from before passes a filter that refuses only its making",
        carries: Carries::Ring,
        attack: |scene, _, effect| detour::inherited_ring(scene, effect),
        twin: |scene, effect| detour::twin(scene, effect),
        twin_shows: TwinShows::Said("HTTP/1.1 200"),
        notes: &[NO_TCP, PLAIN],
        ..Attempt::BASE
    },
    Attempt {
        id: "ring/open-credential",
        class: Class::SharedProcessCredential,
        mechanism: "openat by a ring",
        question: "May it open the credential's file by a ring, past filters on open?",
        needs: RING,
        promised: Promised::Layers(&[&[Layer::Seccomp], &[Layer::MountNamespace], &[Layer::Uid]]),
        source: "peers.md section 4, 34: IORING_OP_OPENAT",
        owner: Owner::Root,
        attack: |scene, _, effect| {
            let path = scene.credential_file.clone();
            detour::opened_by_ring(scene, effect, &path)
        },
        twin: |scene, effect| detour::twin(scene, effect),
        twin_shows: TwinShows::Said("HTTP/1.1 200"),
        notes: &[PLAIN],
        ..Attempt::BASE
    },
];
