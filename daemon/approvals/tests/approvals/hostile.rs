//! Files that were edited, damaged, or made by others; disks that are full; clocks that go back.

use std::fs;

use custody_approvals::{Sqlite, State, Store as _, StoreError, Which, sqlite::FILE};
use rusqlite::Connection;

use crate::support::{NOW, SESSION, approved, asked, key, yes};

fn edit(folder: &std::path::Path, sql: &str) {
    let connection = Connection::open(folder.join(FILE)).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[test]
fn an_edited_row_is_refused_by_name() {
    for sql in [
        "UPDATE approvals SET state = 'approved'",
        "UPDATE approvals SET body = replace(body, '\"waiting\"', '\"approved\"'), state = 'approved'",
        "UPDATE approvals SET body = replace(body, '\"amount\\\":7', '\"amount\\\":8')",
        "UPDATE approvals SET body = replace(body, '\"expires\":1', '\"expires\":9')",
        "UPDATE approvals SET caller = 0",
        "UPDATE approvals SET instance = ''",
        "UPDATE approvals SET tool = 'read'",
        "UPDATE approvals SET policy = 'other'",
        "UPDATE approvals SET since = 0",
        "UPDATE approvals SET classes = ''",
        "UPDATE approvals SET signature = zeroblob(64)",
        "UPDATE approvals SET signature = x''",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path()).unwrap();
        store.keep(&asked(7), NOW).unwrap();
        edit(folder.path(), sql);
        for error in [
            store.find(key(7)).unwrap_err(),
            store.at(7).unwrap_err(),
            store.answer(key(7), &yes(&asked(7)), NOW).unwrap_err(),
            store.take(key(7), NOW).unwrap_err(),
            store.list(Which::All, None, 10, &|_| true).unwrap_err(),
        ] {
            assert!(
                matches!(error, StoreError::Signature { .. }),
                "{sql}: {error}"
            );
            assert!(
                error
                    .to_string()
                    .contains("call 7 of session feedface00000001"),
                "{error}"
            );
        }
        // It keeps no other from ending.
        store.keep(&asked(8), NOW).unwrap();
        assert_eq!(store.close(SESSION, "over", NOW).unwrap(), 1, "{sql}");
    }
}

#[test]
fn a_row_of_one_call_is_not_one_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    approved(&store, 1);
    store.keep(&asked(2), NOW).unwrap();
    edit(
        folder.path(),
        "UPDATE approvals SET state = 'approved', \
         body = (SELECT body FROM approvals WHERE position = 1), \
         signature = (SELECT signature FROM approvals WHERE position = 1) WHERE position = 2",
    );
    assert!(matches!(
        store.take(key(2), NOW),
        Err(StoreError::Signature { .. })
    ));
}

#[test]
fn a_row_that_was_put_back_is_not_used_a_second_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    approved(&store, 1);
    edit(folder.path(), "CREATE TABLE old AS SELECT * FROM approvals");
    let _row = store.take(key(1), NOW + 2).unwrap();
    edit(
        folder.path(),
        "UPDATE approvals SET (state, body, signature) = (SELECT state, body, signature FROM old)",
    );
    assert_eq!(store.find(key(1)).unwrap().state, State::Approved);
    let error = store.take(key(1), NOW + 3).unwrap_err();
    assert!(matches!(error, StoreError::Signature { .. }), "{error}");
}

#[test]
fn what_was_given_back_is_approved_anew_and_the_old_yes_is_not_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    approved(&store, 1);
    edit(folder.path(), "CREATE TABLE old AS SELECT * FROM approvals");
    let _row = store.take(key(1), NOW + 2).unwrap();
    let row = store.give_back(key(1), NOW + 3).unwrap();
    assert_eq!(
        (row.state, row.answered, row.taken),
        (State::Waiting, None, None)
    );
    assert!(store.give_back(key(1), NOW + 3).is_err(), "it is not taken");
    assert!(store.take(key(1), NOW + 3).is_err(), "nobody said yes");
    // The yes that was given back, put there again by whoever can write the file.
    edit(
        folder.path(),
        "UPDATE approvals SET (state, body, signature) = (SELECT state, body, signature FROM old)",
    );
    let error = store.take(key(1), NOW + 4).unwrap_err();
    assert!(matches!(error, StoreError::Signature { .. }), "{error}");
}

#[test]
fn a_store_of_another_key_gives_nothing() {
    let folder = tempfile::tempdir().unwrap();
    approved(&Sqlite::open(folder.path()).unwrap(), 1);
    fs::remove_file(folder.path().join("approvals.key")).unwrap();
    // The published half tells.
    assert!(matches!(
        Sqlite::open(folder.path()),
        Err(StoreError::Key(_))
    ));
    fs::remove_file(folder.path().join("approvals.pub")).unwrap();
    fs::remove_file(folder.path().join("approvals.key")).unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    assert!(matches!(
        store.take(key(1), NOW),
        Err(StoreError::Signature { .. })
    ));
}

#[test]
fn a_file_of_others_of_another_version_or_damaged_is_said_to_be_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    fs::write(
        &path,
        "this is no database, and long enough to be looked at as one",
    )
    .unwrap();
    assert!(matches!(
        Sqlite::open(folder.path()),
        Err(StoreError::Foreign { .. })
    ));

    fs::remove_file(&path).unwrap();
    edit(folder.path(), "CREATE TABLE x (y)");
    assert!(matches!(
        Sqlite::open(folder.path()),
        Err(StoreError::Foreign { .. })
    ));

    fs::remove_file(&path).unwrap();
    drop(Sqlite::open(folder.path()).unwrap());
    edit(folder.path(), "PRAGMA user_version = 3");
    let error = Sqlite::open(folder.path()).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Version {
                found: 3,
                known: 2,
                ..
            }
        ),
        "{error}"
    );

    edit(folder.path(), "PRAGMA user_version = 2");
    {
        let store = Sqlite::open(folder.path()).unwrap();
        approved(&store, 200);
    }
    edit(folder.path(), "PRAGMA wal_checkpoint(TRUNCATE)");
    let mut bytes = fs::read(&path).unwrap();
    let (from, to) = (bytes.len() / 3, bytes.len() / 3 * 2);
    bytes[from..to].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    let error = Sqlite::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    // Nothing was made anew in its place.
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_clock_that_was_set_back_gives_no_approval_a_longer_life() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    approved(&store, 1);
    store.keep(&asked(2), NOW + 60_000).unwrap();
    let earlier = NOW + 30_000;
    for error in [
        store.keep(&asked(3), earlier).unwrap_err(),
        store.answer(key(2), &yes(&asked(2)), earlier).unwrap_err(),
        store.take(key(1), earlier).unwrap_err(),
    ] {
        assert!(
            matches!(error, StoreError::ClockBack { seconds: 30 }),
            "{error}"
        );
    }
    // Its end is believed whatever the clock says.
    assert_eq!(store.close(SESSION, "over", earlier).unwrap(), 2);
    // And a clock that is right again is believed.
    store.keep(&asked(3), NOW + 60_000).unwrap();
}

#[test]
fn a_full_disk_refuses_what_is_new_and_loses_nothing() {
    use nix::{
        mount::{MsFlags, mount, umount},
        sched::{CloneFlags, unshare},
    };

    if !nix::unistd::geteuid().is_root() {
        println!("not attempted: needs root");
        return;
    }
    // A mount namespace of this thread's own (unshare(2)); it goes with the thread.
    let done = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let size = |it| Some(format!("size={it}"));
        mount(
            Some("tmpfs"),
            folder.path(),
            Some("tmpfs"),
            MsFlags::empty(),
            size("1m").as_deref(),
        )
        .unwrap();
        {
            let store = Sqlite::open(folder.path()).unwrap();
            let mut kept = 0;
            let error = loop {
                match store.keep(&asked(kept + 1), NOW) {
                    Ok(()) => kept += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, StoreError::Full { .. }), "{error}");
            assert!(kept > 10, "{kept}");
            for position in 1..=kept {
                assert_eq!(store.find(key(position)).unwrap().state, State::Waiting);
            }
            assert!(matches!(
                store.find(key(kept + 1)),
                Err(StoreError::NotFound { .. })
            ));
            let flags = MsFlags::MS_REMOUNT;
            mount(none, folder.path(), none, flags, size("8m").as_deref()).unwrap();
            store.keep(&asked(kept + 1), NOW).unwrap();
            let _row = store.answer(key(1), &yes(&asked(1)), NOW).unwrap();
        }
        umount(folder.path()).unwrap();
    });
    done.join().unwrap();
}

#[test]
fn a_yes_that_was_forgotten_and_put_back_has_lapsed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    approved(&store, 1);
    edit(folder.path(), "CREATE TABLE old AS SELECT * FROM approvals");
    let _row = store.take(key(1), NOW + 2).unwrap();
    let _row = store
        .finish(key(1), State::Done, "performed", NOW + 3)
        .unwrap();
    assert_eq!(store.prune(u64::MAX >> 1, 10).unwrap(), 1);
    edit(folder.path(), "INSERT INTO approvals SELECT * FROM old");
    assert_eq!(store.find(key(1)).unwrap().state, State::Approved);
    let later = NOW + 30 * 24 * 60 * 60 * 1_000;
    assert!(matches!(
        store.take(key(1), later),
        Err(StoreError::Lapsed { .. })
    ));
}
