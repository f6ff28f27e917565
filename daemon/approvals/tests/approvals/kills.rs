//! A process that is killed anywhere in its steps: no approval is used twice, none is lost.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::Write as _,
    thread,
    time::Duration,
};

use custody_approvals::{Sqlite, State, Store as _};

use crate::support::{NOW, asked, child, folder_of_child, key, yes};

const APPROVALS: u64 = 400;
const KILLS: u64 = 120;

/// A line of the child's, which it writes when a step has returned: what it was told is so.
fn lines(folder: &std::path::Path, what: &str) -> Vec<u64> {
    let text = fs::read_to_string(folder.join("said")).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.strip_prefix(what)?.trim().parse().ok())
        .collect()
}

#[test]
fn a_killed_process_leaves_every_row_before_or_after_its_step() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    let mut kills = 0_u64;
    // Moments that differ from run to run and within each: the start of a process takes as long.
    for turn in 0..KILLS {
        let mut it = child("kills::a_child_walks_all_rows", folder.path());
        thread::sleep(Duration::from_micros(4_000 + turn * 431 % 9_000));
        let done = it.try_wait().unwrap().is_some();
        it.kill().unwrap();
        let _status = it.wait().unwrap();
        if done {
            break;
        }
        kills += 1;
        // Whoever comes next reads a whole store.
        for position in 1..=APPROVALS {
            if let Ok(row) = store.find(key(position)) {
                assert!(row.answered.is_some() || row.state == State::Waiting);
            }
        }
    }
    let amid = (1..=APPROVALS)
        .filter(|it| {
            let found = store.find(key(*it));
            found.is_ok_and(|row| row.state != State::Done)
        })
        .count();
    let _status = child("kills::a_child_walks_all_rows", folder.path())
        .wait()
        .unwrap();
    let used = lines(folder.path(), "took");
    let distinct: BTreeSet<_> = used.iter().collect();
    println!(
        "{kills} kills, {amid} of them between two steps of a row; {} uses",
        used.len()
    );
    assert!(kills > 3 && amid > 0, "{kills}, {amid}");
    assert_eq!(used.len(), distinct.len(), "used twice");
    for position in 1..=APPROVALS {
        let row = store.find(key(position)).unwrap();
        // Taken, and killed before it could say so or end it: that is what in doubt is for.
        let right = match row.state {
            State::Done => distinct.contains(&position),
            State::Taken => true,
            State::Approved
            | State::Failed
            | State::InDoubt
            | State::Lapsed
            | State::Refused
            | State::Waiting => false,
        };
        assert!(right, "{position} is {}", row.state);
    }
    for position in lines(folder.path(), "done") {
        assert_eq!(store.find(key(position)).unwrap().state, State::Done);
    }
}

#[test]
fn a_child_walks_all_rows() {
    let Some(folder) = folder_of_child() else {
        return;
    };
    let store = Sqlite::open(&folder).unwrap();
    let mut said = OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join("said"))
        .unwrap();
    let mut say = |what: &str, position: u64| {
        said.write_all(format!("{what} {position}\n").as_bytes())
            .unwrap();
    };
    for position in 1..=APPROVALS {
        let asked = asked(position);
        // What an earlier child did is there; what it did not is done now.
        let _kept = store.keep(&asked, NOW);
        let _answered = store.answer(asked.key(), &yes(&asked), NOW + 1);
        if store.take(asked.key(), NOW + 2).is_ok() {
            say("took", position);
            store
                .finish(asked.key(), State::Done, "performed", NOW + 3)
                .unwrap();
            say("done", position);
        }
    }
}
