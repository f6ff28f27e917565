//! One writer, its crashes and its rivals.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
};

use crate::support::{Ledger, closed};
use custody_ledger::{
    keys::Keys,
    tail::{OpenError, Tail},
    verify::{Noted, verify, verify_with},
    writer::{AppendError, FILE_BYTES, Writer},
};
use ed25519_dalek::SigningKey;
use gate::{
    chain::{
        Place, key_id,
        keys::{Certified, Keyring, PublicKey, Role},
    },
    record::Decision,
};

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
    assert_eq!((writer.head(), tail), (first, Tail::CLEAN));
    assert_eq!(writer.append(&closed(3)).unwrap().position, 3);
    writer.durability().sync().unwrap();
    let report = verify(ledger.path(), &Noted::default()).unwrap();
    assert!(report.is_good(), "{report:?}");
    assert_eq!(report.decisions.records, 3);
    assert_eq!(report.decisions.signed, writer.head());
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
            2_500,
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
    for n in 5..20 {
        writer.append(&closed(n)).unwrap();
    }
    let files = fs::read_dir(ledger.decisions_folder()).unwrap().count();
    assert!(files >= 3, "{files} files");
    for entry in fs::read_dir(ledger.decisions_folder()).unwrap() {
        let len = entry.unwrap().metadata().unwrap().len();
        // A checkpoint may come behind the record that fills it.
        assert!(len > 0 && len <= 2_500 + 700, "{len}");
    }
    let report = verify(ledger.path(), &Noted::default()).unwrap();
    assert!(report.is_good(), "{report:?}");
    assert_eq!(
        (report.decisions.records, report.decisions.head),
        (20, writer.head())
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
    assert_eq!((writer.head(), tail), (head, Tail::CLEAN));
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
        matches!(error, OpenError::BadLine { line: 2, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("key"), "{error}");
    assert_eq!(fs::read(ledger.path().join(FIRST)).unwrap(), before);
}

#[test]
fn a_whole_line_that_is_no_record_is_never_taken_and_it_is_said() {
    let ledger = Ledger::new();
    ledger.decisions().append(&closed(1)).unwrap();
    let mut file = OpenOptions::new()
        .append(true)
        .open(ledger.path().join(FIRST))
        .unwrap();
    file.write_all(b"{\"forged\":true}\n").unwrap();
    let (writer, tail) = open(&ledger).unwrap();
    assert_eq!((writer.head().position, tail.dropped), (1, 16));
    let aside = fs::read_dir(ledger.decisions_folder())
        .unwrap()
        .map(|it| it.unwrap().path())
        .find(|it| it.extension().is_some_and(|it| it == "lost"))
        .unwrap();
    assert_eq!(fs::read(aside).unwrap(), b"{\"forged\":true}\n");
    let report = verify(ledger.path(), &Noted::default()).unwrap();
    assert!(report.is_good(), "{report:?}");
    assert_eq!(report.decisions.told.len(), 1);
}

#[test]
fn durable_is_signed_and_on_disk_before_anyone_is_told() {
    let ledger = Ledger::new();
    let mut writer = ledger.decisions();
    for n in 1..=3 {
        let place = writer.append(&closed(n)).unwrap();
        writer.durability().sync().unwrap();
        let report = verify(ledger.path(), &Noted::default()).unwrap();
        assert_eq!(report.decisions.signed, place);
        assert_eq!(writer.durability().synced(), place);
    }
}

/// A record waits for its signature no longer than for the disk, and many share one.
#[test]
fn records_that_come_together_share_a_checkpoint_and_none_waits_for_more_than_a_group() {
    let ledger = Ledger::new();
    let mut writer = ledger.decisions();
    for n in 0..1_000 {
        writer.append(&closed(n)).unwrap();
    }
    drop(writer);
    let report = verify(ledger.path(), &Noted::default()).unwrap();
    assert!(report.is_good(), "{report:?}");
    let checkpoints = report.decisions.checkpoints;
    assert!((4..200).contains(&checkpoints), "{checkpoints}");
}

/// A key is replaced at a start; a start that was cut short there goes on with it.
#[test]
fn a_key_is_rotated_at_a_start_once() {
    let ledger = Ledger::new();
    ledger.decisions().append(&closed(1)).unwrap();
    let new = SigningKey::from_bytes(&[3; 32]);
    let rotating = |ledger: &Ledger| {
        Writer::<Decision>::open_rotating(
            &ledger.decisions_folder(),
            ledger.decisions_key.clone(),
            Some(new.clone()),
            FILE_BYTES,
        )
        .unwrap()
        .0
    };
    rotating(&ledger).append(&closed(2)).unwrap();
    // As if the new key's file had not taken the old one's place yet.
    rotating(&ledger).append(&closed(3)).unwrap();
    let (mut writer, tail) =
        Writer::<Decision>::open(&ledger.decisions_folder(), new.clone()).unwrap();
    assert_eq!(tail, Tail::CLEAN);
    writer.append(&closed(4)).unwrap();
    drop(writer);
    for key in [&ledger.decisions_key, &new] {
        let keys = Keys::of(key.verifying_key(), ledger.receipts_key.verifying_key());
        let report = verify_with(ledger.path(), &keys, &Noted::default()).unwrap();
        if key == &new {
            // What was before the rotation is signed by a key that this reader does not have.
            assert!(!report.is_good());
            continue;
        }
        assert!(report.is_good(), "{report:?}");
        assert_eq!(report.decisions.signed.position, 4);
        assert_eq!(report.decisions.key.unwrap().1, 2, "rotated once");
    }
    // The old key alone no longer opens it.
    assert!(matches!(open(&ledger), Err(OpenError::BadLine { .. })));
}

/// A certificate says whose a key is, not since when: of a chain and its instance's key both may be older.
#[test]
fn a_certificate_is_kept_of_the_own_key_alone_and_counts_for_what_stands_before_it() {
    let ledger = Ledger::new();
    let instance = SigningKey::from_bytes(&[5; 32]);
    let certificate = |key: &SigningKey, role| {
        let says = Certified {
            at: 1,
            instance: key_id(&instance.verifying_key()),
            key: PublicKey::of(key),
            role,
        };
        says.sign(&instance).unwrap()
    };
    let mut writer = ledger.decisions();
    writer.append(&closed(1)).unwrap();
    writer.durability().sync().unwrap();
    for other in [
        certificate(&ledger.receipts_key, Role::Decisions),
        certificate(&ledger.decisions_key, Role::Receipts),
        certificate(&ledger.decisions_key, Role::Permit),
    ] {
        let refused = writer.certificate(other).unwrap_err();
        assert!(matches!(refused, AppendError::Certificate { .. }));
    }
    let by_instance = || Keyring::of(&[]).certified_by(&[instance.verifying_key()]);
    let keys = Keys {
        decisions: by_instance(),
        receipts: Keyring::of(&[ledger.receipts_key.verifying_key()]),
    };
    let good = || {
        let report = verify_with(ledger.path(), &keys, &Noted::default()).unwrap();
        report.decisions.bad.is_none()
    };
    assert!(!good(), "nothing certifies it yet");
    writer
        .certificate(certificate(&ledger.decisions_key, Role::Decisions))
        .unwrap();
    writer.append(&closed(2)).unwrap();
    writer.durability().sync().unwrap();
    assert!(good());
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
        from: Vec::new(),
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
            // What was written has its room for a signature.
            writer.durability().sync().unwrap();
            let report = verify(ledger.path(), &Noted::default()).unwrap();
            assert!(report.is_good(), "{report:?}");
            assert_eq!((report.decisions.signed, report.decisions.torn), (head, 0));

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
