//! One writer, its crashes and its rivals.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
};

use crate::support::{Ledger, closed, copy, temporary};
use custody_ledger::{
    tail::{OpenError, Tail},
    verify::{Noted, verify},
    writer::{AppendError, Writer},
};
use gate::{chain::Place, record::Decision};

const FIRST: &str = "decisions/000001.jsonl";

fn open(ledger: &Ledger) -> Result<(Writer<Decision>, Tail), OpenError> {
    Writer::open(&ledger.decisions_folder(), ledger.decisions_key.clone())
}

#[test]
fn a_chain_goes_on_where_it_ended() {
    let ledger = Ledger::new();
    let first = {
        let mut writer = ledger.decisions();
        assert_eq!(writer.head(), Place::START);
        writer.append(&closed(1)).unwrap();
        writer.append(&closed(2)).unwrap()
    };
    assert_eq!(first.position, 2);
    let (mut writer, tail) = open(&ledger).unwrap();
    assert_eq!((writer.head(), tail), (first, Tail::Clean));
    assert_eq!(writer.append(&closed(3)).unwrap().position, 3);
    let report = verify(ledger.path(), &Noted::default()).unwrap();
    assert!(report.is_good(), "{report:?}");
    assert_eq!(report.decisions.lines, 3);
    assert_eq!(report.decisions.head, writer.head());
}

#[test]
fn a_line_is_in_the_file_when_append_returns() {
    let ledger = Ledger::new();
    let mut writer = ledger.decisions();
    for n in 1..=3 {
        let place = writer.append(&closed(n)).unwrap();
        let text = fs::read_to_string(ledger.path().join(FIRST)).unwrap();
        let last = text.lines().last().unwrap();
        assert!(
            last.contains(&format!("\"position\":{}", place.position)),
            "{last}"
        );
        assert!(text.ends_with('\n'));
    }
}

#[test]
fn a_file_is_ended_before_it_grows_over_its_size_and_the_chain_goes_on() {
    let ledger = Ledger::new();
    let open = || {
        Writer::<Decision>::open_with(
            &ledger.decisions_folder(),
            ledger.decisions_key.clone(),
            1_500,
        )
        .unwrap()
        .0
    };
    let mut writer = open();
    for n in 0..5 {
        writer.append(&closed(n)).unwrap();
    }
    drop(writer);
    let mut writer = open();
    for n in 5..12 {
        writer.append(&closed(n)).unwrap();
    }
    let files = fs::read_dir(ledger.decisions_folder()).unwrap().count();
    assert!(files >= 3, "{files} files");
    for entry in fs::read_dir(ledger.decisions_folder()).unwrap() {
        let len = entry.unwrap().metadata().unwrap().len();
        assert!(len > 0 && len <= 1_500, "{len}");
    }
    let report = verify(ledger.path(), &Noted::default()).unwrap();
    assert!(report.is_good(), "{report:?}");
    assert_eq!(
        (report.decisions.lines, report.decisions.head),
        (12, writer.head())
    );
}

#[test]
fn an_empty_last_file_is_where_a_crash_came_between_a_file_and_its_first_line() {
    let ledger = Ledger::new();
    let head = {
        let mut writer = ledger.decisions();
        writer.append(&closed(1)).unwrap()
    };
    fs::write(ledger.path().join("decisions/000002.jsonl"), "").unwrap();
    let (mut writer, tail) = open(&ledger).unwrap();
    assert_eq!((writer.head(), tail), (head, Tail::Clean));
    writer.append(&closed(2)).unwrap();
    assert!(verify(ledger.path(), &Noted::default()).unwrap().is_good());
}

#[test]
fn a_second_writer_is_refused_while_the_first_lives() {
    let ledger = Ledger::new();
    let first = ledger.decisions();
    assert!(matches!(open(&ledger), Err(OpenError::Locked { .. })));
    drop(first);
    open(&ledger).unwrap();
}

#[test]
fn a_chain_of_another_key_is_refused_and_left_as_it_is() {
    let ledger = Ledger::new();
    ledger.decisions().append(&closed(1)).unwrap();
    let before = fs::read(ledger.path().join(FIRST)).unwrap();
    let opened = Writer::<Decision>::open(&ledger.decisions_folder(), ledger.receipts_key.clone());
    let error = opened.unwrap_err();
    assert!(
        matches!(error, OpenError::BadLine { line: 1, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("key"), "{error}");
    assert_eq!(fs::read(ledger.path().join(FIRST)).unwrap(), before);
}

/// Wherever the power goes while the last lines are written: the next start either goes on behind
/// a line that is whole, and says what it cut, or it does not start.
#[test]
fn a_cut_at_any_byte_of_the_last_lines_is_recovered_and_said() {
    let ledger = Ledger::new();
    let mut heads = vec![Place::START];
    {
        let mut writer = ledger.decisions();
        for n in 1..=3 {
            heads.push(writer.append(&closed(n)).unwrap());
        }
    }
    let whole = fs::read(ledger.path().join(FIRST)).unwrap();
    let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    for cut in ends[0] + 1..=whole.len() {
        let dir = temporary();
        copy(ledger.path(), dir.path());
        fs::write(dir.path().join(FIRST), &whole[..cut]).unwrap();
        let complete = ends.iter().filter(|end| **end < cut).count();
        let rest = cut - ends[complete - 1] - 1;
        let lacks_line_feed = complete < ends.len() && cut == ends[complete];

        let (mut writer, tail) =
            Writer::<Decision>::open(&dir.path().join("decisions"), ledger.decisions_key.clone())
                .unwrap();
        let (head, said) = if lacks_line_feed {
            let head = heads[complete + 1];
            (
                head,
                Tail::Completed {
                    position: head.position,
                },
            )
        } else if rest > 0 {
            (heads[complete], Tail::Dropped { bytes: rest as u64 })
        } else {
            (heads[complete], Tail::Clean)
        };
        assert_eq!((writer.head(), tail), (head, said), "cut at {cut}");
        writer.append(&closed(9)).unwrap();
        let report = verify(dir.path(), &Noted::default()).unwrap();
        assert!(report.is_good(), "cut at {cut}: {report:?}");
        assert_eq!(report.decisions.head, writer.head(), "cut at {cut}");
        assert_eq!(report.decisions.torn, 0, "cut at {cut}");
    }
}

#[test]
fn a_changed_byte_in_the_last_file_is_refused_and_nothing_is_repaired() {
    let ledger = Ledger::new();
    {
        let mut writer = ledger.decisions();
        for n in 1..=3 {
            writer.append(&closed(n)).unwrap();
        }
    }
    let whole = fs::read(ledger.path().join(FIRST)).unwrap();
    let last_line = whole[..whole.len() - 1]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap()
        + 1;
    for at in (0..whole.len()).filter(|at| *at % 7 == 0 || *at >= last_line) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(ledger.path().join(FIRST), &changed).unwrap();
        match open(&ledger) {
            Err(OpenError::BadLine { .. }) => {}
            // The last line feed turned into another byte: what follows the line before is then
            // torn, as far as anyone can tell, or a whole line with a byte behind it.
            Ok((_writer, Tail::Dropped { .. })) if at == whole.len() - 1 => continue,
            other => panic!("byte {at} ({:?}): {other:?}", changed[at] as char),
        }
        assert_eq!(
            fs::read(ledger.path().join(FIRST)).unwrap(),
            changed,
            "byte {at}"
        );
    }
}

#[test]
fn a_whole_line_that_is_not_signed_is_never_taken_nor_cut_off() {
    let ledger = Ledger::new();
    ledger.decisions().append(&closed(1)).unwrap();
    let mut file = OpenOptions::new()
        .append(true)
        .open(ledger.path().join(FIRST))
        .unwrap();
    file.write_all(b"{\"forged\":true}").unwrap();
    assert!(matches!(
        open(&ledger),
        Err(OpenError::BadLine { line: 2, .. })
    ));
}

#[test]
fn a_record_too_long_for_a_line_is_refused_and_the_chain_goes_on() {
    let ledger = Ledger::new();
    let mut writer = ledger.decisions();
    writer.append(&closed(1)).unwrap();
    let long = Decision::Refused {
        at: 0,
        argument: None,
        change: None,
        grounds: None,
        arguments: None,
        digest: crate::support::digest(0),
        policy: crate::support::digest(0),
        rule: "x".repeat(2 << 20),
        session: gate::id::SessionId(1),
        taint: [].into(),
        tool: String::new(),
        why: "".into(),
    };
    assert!(matches!(writer.append(&long), Err(AppendError::Body(_))));
    assert_eq!(writer.append(&closed(2)).unwrap().position, 2);
    assert!(verify(ledger.path(), &Noted::default()).unwrap().is_good());
}

#[test]
fn a_folder_that_is_none_or_holds_something_else_is_refused() {
    let ledger = Ledger::new();
    let none = Writer::<Decision>::open(&ledger.path().join("no"), ledger.decisions_key.clone());
    assert!(matches!(none, Err(OpenError::Io { .. })));
    fs::write(ledger.path().join("decisions/notes.txt"), "").unwrap();
    assert!(matches!(open(&ledger), Err(OpenError::Files(_))));
}

/// A disk that is full: the append fails, the chain is as it was, and with room it goes on.
#[test]
fn a_full_disk_is_an_error_and_leaves_no_half_line() {
    use nix::{
        mount::{MsFlags, mount},
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
        let ledger = Ledger::new();
        let folder = ledger.decisions_folder();
        mount(
            Some("tmpfs"),
            &folder,
            Some("tmpfs"),
            MsFlags::empty(),
            Some("size=16k"),
        )
        .unwrap();
        {
            let mut writer = ledger.decisions();
            let error = loop {
                if let Err(error) = writer.append(&closed(1)) {
                    break error;
                }
            };
            let AppendError::Write { source, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
            let head = writer.head();
            let report = verify(ledger.path(), &Noted::default()).unwrap();
            assert!(report.is_good(), "{report:?}");
            assert_eq!((report.decisions.head, report.decisions.torn), (head, 0));

            mount(none, &folder, none, MsFlags::MS_REMOUNT, Some("size=64k")).unwrap();
            assert_eq!(
                writer.append(&closed(2)).unwrap().position,
                head.position + 1
            );
            assert!(verify(ledger.path(), &Noted::default()).unwrap().is_good());
        }
        nix::mount::umount(&folder).unwrap();
    });
    done.join().unwrap();
}
