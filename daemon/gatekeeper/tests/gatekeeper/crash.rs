//! Ends, restarts, and a ledger that cannot be written.

use custody_ledger::{tail::Tail, writer::Writer};
use custody_wire::{agent::Answer, permit};
use gate::record::Decision;

use crate::harness::{Bench, SESSION, is_quiet, message};

#[test]
fn a_restart_keeps_the_chain_and_no_session() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let first_key = vault.key;
    let mut front = bench.open(SESSION);
    front.send("whoami", "{}");
    let asked = vault.asked();
    vault.done(asked.number, b"1");
    assert!(matches!(front.answer(), Answer::Done { .. }));
    let before = bench.records();

    let mut bench = bench.again();
    let vault = bench.vault();
    assert_ne!(vault.key, first_key, "the permit key is made at each start");
    // What was open is not, until control opens it again.
    assert!(crate::harness::is_closed(&bench.front(SESSION).stream));
    let _front = bench.open(SESSION);
    let after = bench.records();
    assert_eq!(after[..before.len()], before[..]);
    assert!(matches!(after[before.len()], Decision::Started { .. }));
    assert!(matches!(after[before.len() + 1], Decision::Opened { .. }));
}

/// The program itself, killed with a decision recorded and its permit on the way: nothing of the
/// chain is lost, and the next start goes on behind it.
#[test]
fn a_kill_between_record_and_answer_leaves_a_chain_that_verifies() {
    if !nix::unistd::geteuid().is_root() {
        println!("not attempted: needs root");
        return;
    }
    let mut bench = Bench::start_program();
    let mut vault = bench.vault();
    let mut front = bench.open(SESSION);
    front.send("send_message", &message("mark-of-this-call"));
    let asked = vault.asked();
    let log = bench.kill();
    // The permit that is out rests on a record that is there.
    let records = bench.records();
    let last = records.last();
    assert!(
        matches!(last, Some(Decision::Allowed { digest, .. }) if *digest == asked.permit.call()),
        "{last:?}"
    );
    // And what the agent wrote is in the ledger, not in the log.
    assert!(log.contains("send_message"), "{log}");
    assert!(
        !log.contains("mark-of-this-call") && !log.contains("customer@"),
        "{log}"
    );

    let bench = bench.again();
    let _control_answers = bench.vault();
    let after = bench.records();
    assert_eq!(after[..records.len()], records[..]);
    assert!(matches!(after[records.len()], Decision::Started { .. }));
}

#[test]
fn a_torn_end_is_cut_and_the_next_start_goes_on() {
    let mut bench = Bench::start();
    let _front = bench.open(SESSION);
    let before = bench.records();
    bench.end();
    let path = bench.places.chain.join("000001.jsonl");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"body\":{\"allowed\":{\"at\":1");
    std::fs::write(&path, bytes).unwrap();
    let mut bench = bench.again();
    let _front = bench.open(SESSION);
    let after = bench.records();
    assert_eq!(after[..before.len()], before[..]);
    bench.end();
    let key = custody_ledger::key::load_or_create(
        &bench.places.state.join("decisions.key"),
        &bench.places.public.join("decisions.pub"),
    )
    .unwrap();
    let (_writer, tail) = Writer::<Decision>::open(&bench.places.chain, key).unwrap();
    assert_eq!(tail, Tail::CLEAN);
}

/// A full disk: nothing is decided that cannot be recorded, and nothing reaches the vault.
#[test]
fn without_room_for_its_record_every_call_is_refused_and_with_room_it_is_not() {
    use nix::{
        mount::{MsFlags, mount, umount},
        sched::{CloneFlags, unshare},
    };

    if !nix::unistd::geteuid().is_root() {
        println!("not attempted: needs root");
        return;
    }
    // A mount namespace of this thread's own, which the gate's thread inherits.
    let done = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let places = crate::harness::places(dir.path());
        let tmpfs = Some("tmpfs");
        let folder = places.chain.clone();
        mount(tmpfs, &folder, tmpfs, MsFlags::empty(), Some("size=32k")).unwrap();
        let mut bench = Bench::start_in(dir, places);
        let mut vault = bench.vault();
        let mut front = bench.open(SESSION);
        // A call whose result finds no room: performed, and withheld.
        front.send("read_note", "{\"id\":\"n1\"}");
        let on_its_way = vault.asked();
        // And one that fails in words from outside.
        front.send("read_note", "{\"id\":\"n1\"}");
        let failing = vault.asked();
        let (rule, why) = loop {
            let found = front.refused("no_such_tool", "{}");
            if found.0 != "unknown_tool" {
                break found;
            }
        };
        assert_eq!(rule, "ledger", "{why}");
        assert!(why.contains("cannot be recorded"), "{why}");
        vault.done(on_its_way.number, b"secret of the note");
        let Answer::Failed { why, in_doubt, .. } = front.answer() else {
            panic!("released")
        };
        assert!(why.contains("withheld") && in_doubt, "{why}");
        vault.say(&permit::Answer::Failed {
            number: failing.number,
            receipt: gate::digest::Digest::ZERO,
            why: "words of the server ".repeat(20),
            in_doubt: false,
            verification: gate::record::Verification::UNSUPPORTED,
        });
        let Answer::Failed { why, .. } = front.answer() else {
            panic!("released")
        };
        assert!(
            why.contains("withheld") && !why.contains("words of the server"),
            "{why}"
        );
        // Small records fit longer than large ones; this one fits no more.
        let text = message(&"x".repeat(3_900));
        let (rule, _why) = front.refused("send_message", &text);
        assert_eq!(rule, "ledger");
        assert!(is_quiet::<permit::Request>(&vault.stream));

        mount(none, &folder, none, MsFlags::MS_REMOUNT, Some("size=256k")).unwrap();
        front.send("send_message", &text);
        assert_eq!(vault.asked().call.tool.as_str(), "send_message");
        // That the result was withheld does not untaint: it was anyone's words all the same.
        let publish = "{\"page\":\"p1\",\"reason\":\"release\"}";
        assert_eq!(front.refused("publish_page", publish).0, "taint");
        drop(bench.records());
        bench.end();
        umount(&folder).unwrap();
    });
    done.join().unwrap();
}
