//! Many who want the same: each approval is used once.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

use custody_approvals::{Sqlite, State, Store as _, StoreError};

use crate::support::{NOW, approved, asked, child, folder_of_child, key, no, yes};

const APPROVALS: u64 = 1_000;
const PROCESSES: usize = 32;
const DAEMONS: usize = 4;

/// Where the effect server listens; in the store's folder, so that a child finds it.
const SERVER: &str = "server";

/// Property F: effects are counted where they happen, at a server that every process asks over HTTP.
#[test]
fn thirty_two_processes_of_four_daemons_make_a_thousand_effects_of_a_thousand_approvals() {
    let folder = tempfile::tempdir().unwrap();
    approved(&Sqlite::open(folder.path()).unwrap(), APPROVALS);
    let effects = effect_server(folder.path());
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| child("races::a_child_takes_what_it_can", folder.path()))
        .collect();
    for mut it in children {
        assert!(it.wait().unwrap().success());
    }
    let times = effects.lock().unwrap();
    let sum: u64 = times.values().sum();
    println!("{PROCESSES} processes, {DAEMONS} daemons, {APPROVALS} approvals: {sum} effects");
    assert_eq!((sum, times.len()), (1_000, 1_000));
    assert!(times.values().all(|it| *it == 1), "{times:?}");
    let store = Sqlite::open(folder.path()).unwrap();
    assert!((1..=APPROVALS).all(|it| store.find(key(it)).unwrap().state == State::Taken));
}

/// A server that counts what it is asked to do, and answers when it is done.
fn effect_server(folder: &Path) -> Arc<Mutex<BTreeMap<String, u64>>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    fs::write(folder.join(SERVER), address).unwrap();
    let effects = Arc::new(Mutex::new(BTreeMap::new()));
    let counted = Arc::clone(&effects);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, counted) = (stream.unwrap(), Arc::clone(&counted));
            thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                while let Some(target) = next_target(&mut stream) {
                    *counted.lock().unwrap().entry(target).or_default() += 1;
                    let done = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    stream.get_mut().write_all(done).unwrap();
                }
            });
        }
    });
    effects
}

/// What the next request is for; none where the client is gone.
fn next_target(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut first = String::new();
    if stream.read_line(&mut first).unwrap() == 0 {
        return None;
    }
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "a whole head");
    }
    let target = first.strip_prefix("POST ").unwrap();
    Some(target.split(' ').next().unwrap().into())
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
    let server = fs::read_to_string(folder.join(SERVER)).unwrap();
    let mut server = BufReader::new(TcpStream::connect(server).unwrap());
    for position in 1..=APPROVALS {
        let store = &stores[usize::try_from(position).unwrap() % DAEMONS];
        match store.take(key(position), NOW + 2) {
            Ok(_taken) => {
                let asked = format!(
                    "POST /effects/{position} HTTP/1.1\r\nhost: effects\r\ncontent-length: 0\r\n\r\n"
                );
                server.get_mut().write_all(asked.as_bytes()).unwrap();
                let mut answer = String::new();
                while answer != "\r\n" {
                    answer.clear();
                    assert!(server.read_line(&mut answer).unwrap() > 0, "an answer");
                }
            }
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
