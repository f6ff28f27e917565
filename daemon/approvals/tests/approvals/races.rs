//! Many who want the same: each approval is used once.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Write as _,
    sync::Arc,
    thread,
};

use custody_approvals::{Sqlite, State, Store as _, StoreError};

use crate::support::{NOW, approved, asked, child, folder_of_child, key, no, yes};

const APPROVALS: u64 = 1_000;
const PROCESSES: usize = 32;
const DAEMONS: usize = 4;

/// Effects are counted outside the store: a line for each, appended whole (O_APPEND, write(2)).
#[test]
fn thirty_two_processes_of_four_daemons_use_a_thousand_approvals_once_each() {
    let folder = tempfile::tempdir().unwrap();
    approved(&Sqlite::open(folder.path()).unwrap(), APPROVALS);
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| child("races::a_child_takes_what_it_can", folder.path()))
        .collect();
    for mut it in children {
        assert!(it.wait().unwrap().success());
    }
    let effects = fs::read_to_string(folder.path().join("effects")).unwrap();
    let mut times = BTreeMap::<u64, u64>::new();
    for line in effects.lines() {
        *times.entry(line.parse().unwrap()).or_default() += 1;
    }
    assert_eq!(effects.lines().count(), 1_000);
    assert_eq!(times.len(), 1_000);
    assert!(times.values().all(|it| *it == 1), "{times:?}");
    let store = Sqlite::open(folder.path()).unwrap();
    assert!((1..=APPROVALS).all(|it| store.find(key(it)).unwrap().state == State::Taken));
}

/// One process of eight of one daemon: each daemon has a store of its own on the one file, each process
/// opens it again.
#[test]
fn a_child_takes_what_it_can() {
    let Some(folder) = folder_of_child() else {
        return;
    };
    let stores: Vec<Sqlite> = (0..DAEMONS)
        .map(|_| Sqlite::open(&folder).unwrap())
        .collect();
    let mut effects = OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join("effects"))
        .unwrap();
    for position in 1..=APPROVALS {
        let store = &stores[usize::try_from(position).unwrap() % DAEMONS];
        match store.take(key(position), NOW + 2) {
            Ok(_taken) => effects
                .write_all(format!("{position}\n").as_bytes())
                .unwrap(),
            Err(StoreError::State {
                state: State::Taken,
                ..
            }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn of_many_threads_that_answer_one_is_heard() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(folder.path()).unwrap());
    for position in 1..=50 {
        store.keep(&asked(position), NOW).unwrap();
    }
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                (1..=50)
                    .filter(|position| {
                        let asked = asked(*position);
                        let answered = if number % 2 == 0 {
                            yes(&asked)
                        } else {
                            no(&asked)
                        };
                        store.answer(asked.key(), &answered, NOW + 1).is_ok()
                    })
                    .count()
            })
        })
        .collect();
    let heard: usize = threads.into_iter().map(|it| it.join().unwrap()).sum();
    assert_eq!(heard, 50);
}

#[test]
fn daemons_that_start_at_once_share_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let threads: Vec<_> = (0..16)
        .map(|position| {
            let path = folder.path().to_owned();
            thread::spawn(move || {
                let store = Sqlite::open(&path).unwrap();
                store.keep(&asked(position), NOW).unwrap();
            })
        })
        .collect();
    for it in threads {
        it.join().unwrap();
    }
    let store = Sqlite::open(folder.path()).unwrap();
    assert!((0..16).all(|it| store.find(key(it)).is_ok()));
}
