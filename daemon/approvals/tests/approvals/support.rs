//! A store in a folder of the test's own, and calls that wait in it.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use custody_approvals::{Answered, Asked, Key, Reach, Reviewer, Scope, Sqlite, Store as _, Word};
use gate::{
    call::Call,
    chain::Place,
    digest::{Digest, Domain},
    id::{PolicyName, SessionId, ToolName},
};

/// Some moment.
pub(crate) const NOW: u64 = 1_790_000_000_000;

/// How long calls wait here.
pub(crate) const WAIT: u64 = 600_000;

pub(crate) const SESSION: SessionId = SessionId(0xfeed_face_0000_0001);

pub(crate) fn key(position: u64) -> Key {
    Key {
        session: SESSION,
        position,
    }
}

/// A call that waits at `position`.
pub(crate) fn asked(position: u64) -> Asked {
    let bytes = format!(r#"{{"arguments":{{"amount":{position}}},"tool":"pay"}}"#);
    Asked {
        call: Call::digest_of(bytes.as_bytes()),
        caller: 1000,
        classes: vec!["external".into(), "financial".into()],
        decision: Place {
            digest: Digest::of(Domain::Line, &position.to_le_bytes()),
            position,
        },
        expires: NOW + WAIT,
        instance: "/run/custody".into(),
        policy: PolicyName::parse("bank").unwrap(),
        session: SESSION,
        since: NOW,
        tool: ToolName::parse("pay").unwrap(),
        waits: bytes,
    }
}

/// Yes to it.
pub(crate) fn yes(asked: &Asked) -> Answered {
    Answered {
        at: NOW + 1,
        by: Reviewer {
            uid: 1001,
            key: None,
        },
        call: asked.call,
        statement: None,
        signature: None,
        word: Word::Approve {
            scope: Scope {
                reach: Reach::Once,
                until: None,
            },
        },
    }
}

/// No to it.
pub(crate) fn no(asked: &Asked) -> Answered {
    Answered {
        word: Word::Refuse {
            why: "not now".into(),
        },
        ..yes(asked)
    }
}

/// `count` calls that wait and are approved.
pub(crate) fn approved(store: &Sqlite, count: u64) {
    for position in 1..=count {
        let asked = asked(position);
        store.keep(&asked, NOW).unwrap();
        let _row = store.answer(asked.key(), &yes(&asked), NOW + 1).unwrap();
    }
}

/// This test program again, as one child: the test `name` does what `folder` is for.
pub(crate) fn child(name: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The folder of a child; none in the test itself.
pub(crate) fn folder_of_child() -> Option<std::path::PathBuf> {
    std::env::var_os(FOLDER).map(Into::into)
}

const FOLDER: &str = "CUSTODY_TEST_STORE";
