//! The caller's own output: a file that a shell has open, and goes on to write to.
//!
//! The probe's report goes over standard output, so it is standard error that is the file. Both
//! are relayed in the same way.

use super::{Attempt, Promised, Proof, TwinShows};
use crate::{
    probe::{Act, Attack},
    suite::arms::{OPERATORS_LINES, OTHER_MODE},
};

/// Nothing is refused: a session's streams are pipes of its own, and the caller's stay outside.
const RELAYED: Promised = Promised::Quietly {
    by: "relayed_streams",
    mutant: "none: no stream of the caller's is handed in",
};

/// Each row has the same twin: it writes, and what it writes stands between the operator's lines.
macro_rules! output {
    ($id:literal, $mechanism:literal, $question:literal, $source:literal, $act:expr) => {
        Attempt {
            id: $id,
            mechanism: $mechanism,
            question: $question,
            promised: RELAYED,
            source: $source,
            attack: |_, _, _| Attack::Acts { acts: vec![$act] },
            twin: |_, _| Attack::Acts {
                acts: vec![Act::Say {
                    text: "allowed\n".into(),
                }],
            },
            twin_shows: TwinShows::Shown("first line\nallowed\nthe operator's last"),
            proof: Proof::Written(changed),
            ..Attempt::BASE
        }
    };
}

pub(super) const ALL: &[Attempt] = &[
    output!(
        "stdio/truncate",
        "ftruncate(2) of the caller's output",
        "Does `custody run … > file` give the session what its caller wrote there before?",
        "ftruncate(2): whoever has it open for writing",
        Act::Empty
    ),
    output!(
        "stdio/rewind",
        "lseek(2) of the caller's output",
        "Does the caller's next line overwrite his first because the session moved the offset?",
        "open(2): the offset is the open file's, and so everyone's who inherited it",
        Act::Rewind
    ),
    output!(
        "stdio/reopen",
        "/proc/self/fd of the caller's output",
        "Can the session open its caller's file anew, emptied, though it was opened to append?",
        "CVE-2024-21626's class; proc_pid_fd(5): a link to the file and not to the descriptor",
        Act::Reopen
    ),
    output!(
        "stdio/mode",
        "F_SETFL on the caller's output",
        "Do the caller's writes fail because the session said that they are not to wait?",
        "fcntl(2): O_NONBLOCK is the open file's; shells that lose output after a command",
        Act::Unblock
    ),
];

/// Whether the operator's lines do not stand where he wrote them.
fn changed(text: &str) -> Option<String> {
    let [first, last] = OPERATORS_LINES;
    if text.contains(OTHER_MODE) {
        Some(OTHER_MODE.into())
    } else if text.starts_with(first) && text.ends_with(last) {
        None
    } else {
        Some(format!("the operator's file is {text:?}"))
    }
}
