//! What a power cut, a kill or a hand leaves at the end of a chain.
//!
//! Nobody can cut the power here, so that the bytes are made which a cut may leave: what was synced is
//! there; of the rest any block may be missing, be zeros, or be there without those before it.

use std::fs;

use custody_ledger::{
    tail::{OpenError, Tail},
    verify::{Noted, Report, verify},
    writer::Writer,
};
use gate::{
    chain::{Found, Place},
    record::Decision,
};

use crate::support::{Ledger, closed, copy, temporary};

const FIRST: &str = "decisions/000001.jsonl";

/// A chain of `synced` records that are on disk, and one group more: its records, their checkpoint.
struct Cut {
    ledger: Ledger,
    whole: Vec<u8>,
    /// Where the last group begins, and its checkpoint.
    durable: usize,
    checkpoint: usize,
    heads: Vec<Place>,
}

fn cut(group: u64) -> Cut {
    let ledger = Ledger::new();
    let mut heads = vec![Place::START];
    let mut writer = ledger.decisions();
    heads.push(writer.append(&closed(1)).unwrap());
    drop(writer);
    let path = ledger.path().join(FIRST);
    let durable = fs::read(&path).unwrap().len();
    // Written all at once, so that one checkpoint signs them.
    let mut writer = ledger.decisions();
    for n in 2..2 + group {
        heads.push(writer.append(&closed(n)).unwrap());
    }
    drop(writer);
    let mut whole = fs::read(&path).unwrap();
    let mut checkpoints: Vec<usize> = (0..whole.len())
        .filter(|at| whole[*at..].starts_with(b"{\"chain\":\"decisions\",\"checkpoint\":"))
        .collect();
    assert_eq!(
        checkpoints.len(),
        4,
        "one for each group, and one at each end"
    );
    // The power went before the end.
    whole.truncate(checkpoints.pop().unwrap());
    fs::write(&path, &whole).unwrap();
    Cut {
        ledger,
        durable,
        checkpoint: checkpoints[2],
        whole,
        heads,
    }
}

/// What a start makes of these bytes: the copy's folder, the writer's answer.
fn start(cut: &Cut, bytes: &[u8]) -> (tempfile::TempDir, Result<Tail, OpenError>) {
    let dir = temporary();
    copy(cut.ledger.path(), dir.path());
    fs::write(dir.path().join(FIRST), bytes).unwrap();
    let key = cut.ledger.decisions_key.clone();
    let opened = Writer::<Decision>::open(&dir.path().join("decisions"), key);
    let tail = opened.map(|(mut writer, tail)| {
        writer.append(&closed(99)).unwrap();
        tail
    });
    (dir, tail)
}

/// Behind a start the chain is good, goes on, and says what the start found.
fn good(dir: &tempfile::TempDir, tail: Tail) -> Report {
    let report = verify(dir.path(), &Noted::default()).unwrap();
    assert!(report.is_good(), "{report:?}");
    assert_eq!(report.decisions.signed, report.decisions.head);
    assert_eq!(report.decisions.torn, 0);
    let told: Vec<Found> = report
        .decisions
        .told
        .iter()
        .filter_map(|told| match told.what {
            custody_ledger::chain::Notice::Found(found) => Some(found),
            custody_ledger::chain::Notice::Keys(_) => None,
        })
        .collect();
    if tail == Tail::CLEAN {
        assert_eq!(told, []);
    } else {
        assert_eq!(told, [Found::from(tail)]);
    }
    report
}

#[test]
fn a_lost_suffix_of_the_unsynced_part_is_recovered_and_said() {
    let cut = cut(3);
    for len in cut.durable..=cut.whole.len() {
        let bytes = &cut.whole[..len];
        let lines = bytes.iter().filter(|b| **b == b'\n').count();
        let (dir, tail) = start(&cut, bytes);
        let tail = tail.unwrap_or_else(|error| panic!("cut at {len}: {error}"));
        // Record 1, its checkpoint, that of the end; records 2 to 4, their checkpoint.
        let whole_without_line_feed = cut.whole.get(len) == Some(&b'\n');
        let records = (lines + usize::from(whole_without_line_feed)).clamp(3, 6) - 3;
        let signed = lines + usize::from(whole_without_line_feed) == 7;
        let expected = if signed { 0 } else { records as u64 };
        assert_eq!(tail.adopted, expected, "cut at {len}");
        let end = bytes.iter().rposition(|b| *b == b'\n').unwrap() + 1;
        let dropped = if whole_without_line_feed {
            0
        } else {
            len - end
        };
        assert_eq!(tail.dropped, dropped as u64, "cut at {len}");
        assert_eq!(tail.lost, None, "cut at {len}");
        let report = good(&dir, tail);
        assert_eq!(report.decisions.head.position, records as u64 + 2);
    }
}

/// Zeros where a block did not come: with the checkpoint behind it or without.
#[test]
fn a_block_that_is_missing_from_the_unsynced_part_is_recovered_and_said() {
    let cut = cut(6);
    let len = cut.whole.len();
    for (size, step) in [(64, 17), (512, 61)] {
        for from in (cut.durable..len).step_by(step) {
            let to = (from + size).min(len);
            let mut bytes = cut.whole.clone();
            bytes[from..to].fill(0);
            let (dir, tail) = start(&cut, &bytes);
            let tail = tail.unwrap_or_else(|error| panic!("block {from}..{to}: {error}"));
            assert!(tail.dropped > 0, "block {from}..{to}");
            // The checkpoint says that records were signed which are not here: that is told.
            let head = *cut.heads.last().unwrap();
            let first_gone = from < cut.checkpoint;
            let checkpoint_whole = to <= cut.checkpoint;
            let lost = (first_gone && checkpoint_whole).then_some(head);
            assert_eq!(tail.lost, lost, "block {from}..{to}");
            // Then none of its group is kept.
            assert!(lost.is_none() || tail.adopted == 0, "block {from}..{to}");
            let report = good(&dir, tail);
            assert!(report.decisions.head.position >= 2);
            // Nothing is thrown away that is more than the beginning of a line.
            let aside = fs::read_dir(dir.path().join("decisions"))
                .unwrap()
                .filter(|it| {
                    let name = it.as_ref().unwrap().file_name();
                    name.to_str().unwrap().ends_with(".lost")
                })
                .count();
            let rest_has_lines = tail.lost.is_some();
            assert!(aside == 1 || !rest_has_lines, "block {from}..{to}");
        }
    }
}

/// The blocks of the unsynced part in another order, or old bytes in their place.
#[test]
fn blocks_in_another_order_are_recovered_and_said() {
    let cut = cut(6);
    let unsynced = &cut.whole[cut.durable..];
    let blocks: Vec<&[u8]> = unsynced.chunks(256).collect();
    for swap in 1..blocks.len() {
        let mut blocks = blocks.clone();
        blocks.swap(0, swap);
        let bytes = [&cut.whole[..cut.durable], &blocks.concat()].concat();
        let (dir, tail) = start(&cut, &bytes);
        let tail = tail.unwrap_or_else(|error| panic!("block {swap}: {error}"));
        assert!(tail.dropped > 0);
        good(&dir, tail);
    }
    let noise: Vec<u8> = (0..unsynced.len())
        .map(|at| u8::try_from(at * 31 % 251).unwrap())
        .collect();
    let bytes = [&cut.whole[..cut.durable], &noise].concat();
    let (dir, tail) = start(&cut, &bytes);
    let report = good(&dir, tail.unwrap());
    assert_eq!(report.decisions.head.position, 2);
}

/// One byte is no power cut's: it is either said, or the chain is not opened and left as it is. Never is
/// a record taken that nobody wrote.
#[test]
fn a_byte_changed_in_the_unsynced_part_is_said_or_refused() {
    let cut = cut(2);
    for at in cut.durable..cut.whole.len() {
        for xor in [1, 0x20, 0x80] {
            let mut bytes = cut.whole.clone();
            bytes[at] ^= xor;
            let (dir, tail) = start(&cut, &bytes);
            match tail {
                Ok(tail) => {
                    assert_ne!(tail, Tail::CLEAN, "byte {at}");
                    let report = good(&dir, tail);
                    assert!(report.decisions.head.position <= 4, "byte {at}");
                }
                Err(OpenError::BadLine { .. }) => {
                    assert_eq!(fs::read(dir.path().join(FIRST)).unwrap(), bytes);
                    assert!(!verify(dir.path(), &Noted::default()).unwrap().is_good());
                }
                Err(other) => panic!("byte {at}: {other}"),
            }
        }
    }
}

/// What a checkpoint says was on disk is no power cut's to take.
#[test]
fn a_byte_changed_in_the_synced_part_is_refused_and_nothing_is_repaired() {
    let cut = cut(2);
    // The checkpoint of an end is behind what it says of the disk, and may be cut off.
    let end = cut.whole[..cut.durable - 1]
        .iter()
        .rposition(|b| *b == b'\n');
    for at in 0..=end.unwrap() {
        let mut bytes = cut.whole.clone();
        bytes[at] ^= 1;
        let (dir, tail) = start(&cut, &bytes);
        match tail {
            Err(OpenError::BadLine { .. }) => {}
            other => panic!("byte {at} ({}): {other:?}", bytes[at] as char),
        }
        assert_eq!(fs::read(dir.path().join(FIRST)).unwrap(), bytes);
    }
}

/// The power went between a file and its first line: what was before it is signed, and goes on.
#[test]
fn a_file_that_was_being_begun_is_begun_again() {
    let ledger = Ledger::new();
    {
        let mut writer = Writer::<Decision>::open_with(
            &ledger.decisions_folder(),
            ledger.decisions_key.clone(),
            2_500,
        )
        .unwrap()
        .0;
        while !ledger.path().join("decisions/000003.jsonl").exists() {
            writer.append(&closed(1)).unwrap();
        }
    }
    let third = ledger.path().join("decisions/000003.jsonl");
    let whole = fs::read(&third).unwrap();
    let first_line = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
    for (bytes, dropped) in [
        (vec![], 0),
        (whole[..20].to_vec(), 20),
        (vec![0; first_line], first_line),
    ] {
        let dir = temporary();
        copy(ledger.path(), dir.path());
        fs::write(dir.path().join("decisions/000003.jsonl"), &bytes).unwrap();
        let key = ledger.decisions_key.clone();
        let (mut writer, tail) =
            Writer::<Decision>::open(&dir.path().join("decisions"), key.clone()).unwrap();
        assert_eq!(tail.dropped, dropped as u64);
        writer.append(&closed(9)).unwrap();
        drop(writer);
        let report = verify(dir.path(), &Noted::default()).unwrap();
        assert!(report.is_good(), "{report:?}");
        // The file verifies from its first line on: the next start needs no other.
        let (_writer, tail) = Writer::<Decision>::open(&dir.path().join("decisions"), key).unwrap();
        assert_eq!(tail, Tail::CLEAN);
    }
}
