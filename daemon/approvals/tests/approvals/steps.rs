//! What may follow what.

use custody_approvals::{
    Approval, Reach, Scope, Sqlite, State, Store as _, StoreError, Which, Word,
};

use crate::support::{NOW, WAIT, approved, asked, key, no, yes};

#[test]
fn an_approval_goes_its_way_and_every_step_is_found_by_another_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (
        Sqlite::open(folder.path()).unwrap(),
        Sqlite::open(folder.path()).unwrap(),
    );
    let asked = asked(7);
    one.keep(&asked, NOW).unwrap();
    assert_eq!(other.find(key(7)).unwrap(), Approval::new(asked.clone()));
    let _row = other.answer(key(7), &yes(&asked), NOW + 1).unwrap();
    assert_eq!(one.find(key(7)).unwrap().state, State::Approved);
    let taken = one.take(key(7), NOW + 2).unwrap();
    assert_eq!((taken.state, taken.taken), (State::Taken, Some(NOW + 2)));
    let _row = one
        .finish(key(7), State::Done, "performed", NOW + 3)
        .unwrap();
    let done = other.find(key(7)).unwrap();
    assert_eq!(done.state, State::Done);
    assert_eq!(done.answered, Some(yes(&asked)));
    assert_eq!(other.at(7).unwrap(), [done]);
}

#[test]
fn a_call_is_answered_once_and_whoever_is_second_learns_who_was_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    let asked = asked(1);
    store.keep(&asked, NOW).unwrap();
    let _row = store.answer(key(1), &no(&asked), NOW).unwrap();
    let error = store.answer(key(1), &yes(&asked), NOW).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::State {
                state: State::Refused,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("uid 1001"), "{error}");
    assert!(store.take(key(1), NOW).is_err());
}

/// Property F: what was approved once is used once, whoever asks again.
#[test]
fn an_approval_that_was_taken_is_taken_by_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (
        Sqlite::open(folder.path()).unwrap(),
        Sqlite::open(folder.path()).unwrap(),
    );
    let asked = asked(1);
    one.keep(&asked, NOW).unwrap();
    let _row = one.answer(key(1), &yes(&asked), NOW).unwrap();
    let _row = one.take(key(1), NOW).unwrap();
    for store in [&one, &other] {
        let error = store.take(key(1), NOW).unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::State {
                    state: State::Taken,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn an_approval_that_was_given_back_makes_room_for_another_answer_in_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    let asked = asked(1);
    store.keep(&asked, NOW).unwrap();
    for times in 1..=3 {
        let _row = store.answer(key(1), &yes(&asked), NOW).unwrap();
        let _row = store.take(key(1), NOW).unwrap();
        let row = store.give_back(key(1), NOW).unwrap();
        assert_eq!((row.state, row.given_back), (State::Waiting, times));
    }
    let _row = store.answer(key(1), &no(&asked), NOW).unwrap();
    assert!(store.give_back(key(1), NOW).is_err(), "a no stays");
    store.keep(&crate::support::asked(2), NOW).unwrap();
    let _row = store
        .answer(key(2), &yes(&crate::support::asked(2)), NOW)
        .unwrap();
    let _row = store.take(key(2), NOW).unwrap();
    let row = store.give_back(key(2), NOW + WAIT).unwrap();
    assert_eq!(row.state, State::Lapsed, "its time is over");
}

#[test]
fn the_same_call_is_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    store.keep(&asked(1), NOW).unwrap();
    assert!(matches!(
        store.keep(&asked(1), NOW),
        Err(StoreError::Exists { .. })
    ));
}

#[test]
fn a_digest_of_other_bytes_approves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    store.keep(&asked(1), NOW).unwrap();
    let mut answered = yes(&asked(1));
    answered.call = asked(2).call;
    let error = store.answer(key(1), &answered, NOW).unwrap_err();
    assert!(matches!(error, StoreError::Changed { .. }), "{error}");
    assert_eq!(store.find(key(1)).unwrap().state, State::Waiting);
}

#[test]
fn what_the_gate_says_again_replaces_what_it_said_and_never_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    store.keep(&asked(1), NOW).unwrap();
    let mut more = asked(1);
    more.waits = "more".into();
    more.caller = 0;
    let row = store.renew(&more, NOW).unwrap();
    assert_eq!((row.asked.waits.as_str(), row.asked.caller), ("more", 1000));
    more.call = asked(2).call;
    assert!(matches!(
        store.renew(&more, NOW),
        Err(StoreError::Changed { .. })
    ));
    let _row = store.answer(key(1), &yes(&asked(1)), NOW).unwrap();
    assert!(matches!(
        store.renew(&asked(1), NOW),
        Err(StoreError::State { .. })
    ));
}

#[test]
fn what_comes_too_late_lapses_and_is_never_used() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    for position in 1..=3 {
        store.keep(&asked(position), NOW).unwrap();
    }
    let late = store.answer(key(1), &yes(&asked(1)), NOW + WAIT);
    assert!(matches!(late, Err(StoreError::Lapsed { .. })));
    assert_eq!(store.find(key(1)).unwrap().state, State::Lapsed);
    // A clock that goes back a little is no second chance.
    assert!(
        store
            .answer(key(1), &yes(&asked(1)), NOW + WAIT - 1)
            .is_err()
    );

    let now = NOW + WAIT - 1_000;
    let mut short = yes(&asked(2));
    short.word = Word::Approve {
        scope: Scope {
            reach: Reach::Once,
            until: Some(now + 10),
        },
    };
    let _row = store.answer(key(2), &short, now).unwrap();
    let late = store.take(key(2), now + 10);
    assert!(matches!(late, Err(StoreError::Lapsed { .. })));
    assert_eq!(store.find(key(2)).unwrap().state, State::Lapsed);

    // No limit of a reviewer's is beyond what the gate said.
    let mut long = yes(&asked(3));
    long.word = Word::Approve {
        scope: Scope {
            reach: Reach::Call,
            until: Some(u64::MAX),
        },
    };
    let _row = store.answer(key(3), &long, now).unwrap();
    assert!(matches!(
        store.take(key(3), NOW + WAIT),
        Err(StoreError::Lapsed { .. })
    ));
}

#[test]
fn a_session_that_ends_leaves_nothing_open_and_what_was_used_is_in_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    approved(&store, 3);
    store.keep(&asked(4), NOW).unwrap();
    let _row = store.take(key(1), NOW + 2).unwrap();
    let _row = store.take(key(2), NOW + 2).unwrap();
    let _row = store
        .finish(key(2), State::Done, "performed", NOW + 3)
        .unwrap();
    assert_eq!(
        store
            .close(asked(1).session, "the session ended", NOW + 4)
            .unwrap(),
        3
    );
    let states: Vec<_> = (1..=4)
        .map(|it| store.find(key(it)).unwrap().state)
        .collect();
    assert_eq!(
        states,
        [State::InDoubt, State::Done, State::Lapsed, State::Lapsed]
    );
    // The truth may still come, and only once.
    let _row = store
        .finish(key(1), State::Done, "performed", NOW + 5)
        .unwrap();
    assert!(store.finish(key(1), State::Failed, "no", NOW + 6).is_err());
    assert!(store.finish(key(3), State::Done, "no", NOW + 6).is_err());
}

#[test]
fn a_daemon_that_starts_ends_what_was_its_own_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    let mut foreign = asked(1);
    foreign.instance = "/run/other".into();
    store.keep(&foreign, NOW).unwrap();
    store.keep(&asked(2), NOW).unwrap();
    assert_eq!(
        store
            .restart("/run/custody", "the service started anew", NOW)
            .unwrap(),
        1
    );
    assert_eq!(store.find(key(1)).unwrap().state, State::Waiting);
    assert_eq!(store.find(key(2)).unwrap().state, State::Lapsed);
}

#[test]
fn pages_show_each_row_once_and_only_what_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    for position in 1..=1_300 {
        let mut asked = asked(position);
        asked.caller = if position % 3 == 0 { 1000 } else { 2000 };
        store.keep(&asked, NOW).unwrap();
    }
    let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = store
            .list(Which::Waiting, after, 100, &|it| it.caller == 1000)
            .unwrap();
        pages += 1;
        seen.extend(page.rows.iter().map(|it| it.asked.decision.position));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected: Vec<u64> = (1..=1_300).filter(|it| it % 3 == 0).collect();
    assert_eq!((seen, pages), (expected, 5));
}

/// 10,000 calls that wait: the first page and the last are as quick.
#[test]
fn a_page_of_ten_thousand_is_read_in_a_moment() {
    use std::time::{Duration, Instant};

    // In memory: it is reading that is measured.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    for position in 1..=10_000 {
        store.keep(&asked(position), NOW).unwrap();
    }
    let last = custody_approvals::Cursor {
        since: NOW,
        key: key(9_950),
    };
    for (after, rows) in [(None, 50), (Some(last), 50)] {
        let begun = Instant::now();
        let page = store.list(Which::Waiting, after, 50, &|_| true).unwrap();
        let took = begun.elapsed();
        println!("{rows} rows of 10,000 behind {after:?}: {took:?}");
        assert_eq!(page.rows.len(), rows);
        assert!(took < Duration::from_millis(250), "{took:?}");
    }
    // And where a reviewer may see none of them.
    let begun = Instant::now();
    assert!(
        store
            .list(Which::Waiting, None, 50, &|_| false)
            .unwrap()
            .rows
            .is_empty()
    );
    let took = begun.elapsed();
    println!("none of 10,000: {took:?}");
    assert!(took < Duration::from_millis(500), "{took:?}");
}

#[test]
fn what_is_over_is_forgotten_in_its_time_and_what_is_open_never() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    for position in 1..=5 {
        store.keep(&asked(position), NOW).unwrap();
    }
    for position in 1..=3 {
        let asked = asked(position);
        let _row = store.answer(key(position), &no(&asked), NOW).unwrap();
    }
    let _row = store.answer(key(4), &yes(&asked(4)), NOW).unwrap();
    let _row = store.take(key(4), NOW).unwrap();
    let began = asked(1).since;
    assert_eq!(store.prune(began, 10).unwrap(), 0, "not yet");
    assert_eq!(store.prune(began + 1, 2).unwrap(), 2, "no more than asked");
    assert_eq!(store.prune(began + 1, 10).unwrap(), 1);
    assert_eq!(store.prune(began + 1, 10).unwrap(), 0);
    assert!(matches!(
        store.find(key(1)),
        Err(StoreError::NotFound { .. })
    ));
    assert_eq!(store.find(key(4)).unwrap().state, State::Taken);
    assert_eq!(store.find(key(5)).unwrap().state, State::Waiting);
}
