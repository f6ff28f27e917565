//! Property A: chains and exports that are not what they say they are, each refused for its own reason,
//! counted. `cargo xtask forgeries` prints the table.

use std::{fs, path::PathBuf};

use custody_ledger::{
    export::{Exported, Redaction},
    keys::Keys,
    reader::Groups,
    verify::{Noted, Report, verify, verify_with},
    writer::Writer,
};
use ed25519_dalek::SigningKey;
use gate::{
    chain::{ChainName, Place, keys::Keyring},
    record::Effect,
};

use crate::support::{Ledger, allowed, bound, closed, copy, digest, intent, receipt, temporary};

/// What was tried, the reason that it must be refused for, and what was said.
struct Tried {
    family: &'static str,
    what: &'static str,
    reason: &'static str,
    said: String,
}

/// Three decisions, and the effects of two of them.
fn honest() -> (Ledger, Vec<Place>) {
    let ledger = Ledger::new();
    let mut decisions = ledger.decisions();
    let places: Vec<Place> = (1..=3)
        .map(|n| decisions.append(&allowed(n)).unwrap())
        .collect();
    for (n, decision) in (1..).zip(places.iter().take(2)) {
        // Each by a writer of its own: its checkpoint stands behind it.
        let mut receipts = ledger.receipts();
        let place = receipts.append(&intent(bound(n, *decision))).unwrap();
        let done = receipt(bound(n, *decision), Some(place));
        receipts.append(&done).unwrap();
    }
    drop(decisions);
    assert!(check(&ledger).is_good());
    (ledger, places)
}

fn check(ledger: &Ledger) -> Report {
    verify(ledger.path(), &Noted::default()).unwrap()
}

/// Every reason that a report gives.
fn why(report: &Report) -> String {
    let bad = [&report.decisions.bad, &report.receipts.bad];
    let bad = bad.into_iter().flatten().map(ToString::to_string);
    let said: Vec<String> = bad.chain(report.contradictions.clone()).collect();
    if said.is_empty() {
        return format!("NOT REFUSED: {report:?}");
    }
    assert!(!report.is_good());
    // Where it lies differs with every run.
    let words: Vec<String> = said
        .iter()
        .flat_map(|it| it.split(' '))
        .map(|word| match word.rsplit_once('/') {
            Some((_folder, name)) => format!("`{name}"),
            None => word.into(),
        })
        .collect();
    words.join(" ")
}

fn file(ledger: &Ledger, chain: &str) -> PathBuf {
    ledger.path().join(chain).join("000001.jsonl")
}

/// What is said of the ledger when a chain's lines are changed so.
fn changed(chain: &str, change: impl FnOnce(&mut Vec<String>)) -> String {
    let (ledger, _places) = honest();
    let path = file(&ledger, chain);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.split_inclusive('\n').map(String::from).collect();
    change(&mut lines);
    fs::write(&path, lines.concat()).unwrap();
    why(&check(&ledger))
}

/// The first checkpoint: others follow, so that it is no torn end.
fn checkpoint(lines: &[String]) -> usize {
    let is_one = |it: &String| it.contains("\"checkpoint\"");
    lines.iter().position(is_one).unwrap()
}

fn lines(table: &mut Vec<Tried>) {
    let mut note = |what, reason, said| {
        table.push(Tried {
            family: "chain",
            what,
            reason,
            said,
        });
    };
    note(
        "a value changed",
        "digest",
        changed("decisions", |it| {
            it[1] = it[1].replace("\"send\"", "\"sent\"");
        }),
    );
    note(
        "two records exchanged",
        "position",
        changed("decisions", |it| it.swap(0, 1)),
    );
    note(
        "a record twice",
        "position",
        changed("decisions", |it| it.insert(1, it[1].clone())),
    );
    note(
        "a record taken out",
        "position",
        changed("decisions", |it| drop(it.remove(1))),
    );
    note(
        "a record truncated in mid-chain",
        "not json",
        changed("decisions", |it| {
            let half = it[1].len() / 2;
            it[1].truncate(half);
            it[1].push('\n');
        }),
    );
    note(
        "a key twice",
        "key twice",
        changed("decisions", |it| {
            it[1] = it[1].replacen('{', "{\"position\":2,", 1);
        }),
    );
    note(
        "a NUL in a value",
        "NUL",
        changed("decisions", |it| {
            it[1] = it[1].replace("\"send\"", "\"send\\u0000\"");
        }),
    );
    note(
        "its keys re-ordered",
        "RFC 8785",
        changed("decisions", |it| {
            let line = it[1].trim_end().strip_prefix('{').unwrap();
            let (head, rest) = line.strip_suffix('}').unwrap().rsplit_once(",\"").unwrap();
            let rest = format!("\"{rest}");
            it[1] = format!("{{{rest},{head}}}\n");
        }),
    );
    note(
        "a checkpoint's signature of another checkpoint",
        "signature",
        changed("receipts", |it| {
            let (other, _) = honest();
            let theirs = fs::read_to_string(file(&other, "receipts")).unwrap();
            let theirs: Vec<String> = theirs.lines().map(String::from).collect();
            let signature = |line: &str| {
                let (_head, rest) = line.split_once("\"signature\":\"").unwrap();
                rest.split('"').next().unwrap().to_owned()
            };
            let at = checkpoint(it);
            let (mine, other) = (signature(&it[at]), signature(&theirs[checkpoint(&theirs)]));
            it[at] = it[at].replace(&mine, &other);
        }),
    );
    note(
        "another service's history put in",
        "was due",
        changed("receipts", |it| {
            let (other, _) = honest();
            let theirs = fs::read_to_string(file(&other, "receipts")).unwrap();
            it.insert(checkpoint(it) + 1, theirs);
        }),
    );
}

/// The two chains, their keys, and what they say of each other.
fn chains(table: &mut Vec<Tried>) {
    let mut note = |what, reason, said| {
        table.push(Tried {
            family: "chains",
            what,
            reason,
            said,
        });
    };
    let (ledger, _places) = honest();
    let other = Ledger::new();
    let keys = |decisions: &SigningKey, receipts: &SigningKey| {
        Keys::of(decisions.verifying_key(), receipts.verifying_key())
    };
    let under = |keys: &Keys| why(&verify_with(ledger.path(), keys, &Noted::default()).unwrap());
    note(
        "the keys of another service",
        "not one of the chain's public keys",
        under(&keys(&other.decisions_key, &other.receipts_key)),
    );
    note(
        "each chain under the other's key",
        "not one of the chain's public keys",
        under(&keys(&ledger.receipts_key, &ledger.decisions_key)),
    );
    // Both halves are genuine, and each is signed by a key that counts.
    let mixed = temporary();
    copy(ledger.path(), mixed.path());
    for (from, to) in [("receipts", "decisions"), ("decisions", "receipts")] {
        fs::copy(
            file(&ledger, from),
            mixed.path().join(to).join("000001.jsonl"),
        )
        .unwrap();
    }
    let both = Keyring::of(&[
        ledger.decisions_key.verifying_key(),
        ledger.receipts_key.verifying_key(),
    ]);
    let both = Keys {
        decisions: both.clone(),
        receipts: both,
    };
    let swapped = verify_with(mixed.path(), &both, &Noted::default()).unwrap();
    note("the two chains exchanged", "chain", why(&swapped));
    let halves = temporary();
    copy(ledger.path(), halves.path());
    let lines = |chain| {
        let text = fs::read_to_string(file(&ledger, chain)).unwrap();
        let lines: Vec<String> = text.split_inclusive('\n').map(String::from).collect();
        lines
    };
    let mut half = lines("decisions")[..2].to_vec();
    half.extend_from_slice(&lines("receipts")[2..]);
    fs::write(halves.path().join("decisions/000001.jsonl"), half.concat()).unwrap();
    let halves = verify_with(halves.path(), &both, &Noted::default()).unwrap();
    note(
        "the halves of the two chains exchanged",
        "chain",
        why(&halves),
    );
    let head = verify(ledger.path(), &Noted::default()).unwrap();
    let noted = Noted {
        decisions: vec![Place {
            digest: digest(7),
            position: 3,
        }],
        receipts: vec![Place {
            digest: head.receipts.head.digest,
            position: 9,
        }],
    };
    let report = verify(ledger.path(), &noted).unwrap();
    note("an end that is not the one noted", "noted", why(&report));
    // What the receipts rest on.
    let lie = |write: &dyn Fn(&mut Writer<Effect>, Place)| {
        let (ledger, places) = honest();
        let mut receipts = ledger.receipts();
        write(&mut receipts, places[2]);
        drop(receipts);
        why(&check(&ledger))
    };
    note(
        "a receipt of a decision that there is not",
        "do not have",
        lie(&|receipts, _unused| {
            let decision = Place {
                digest: digest(9),
                position: 99,
            };
            receipts.append(&receipt(bound(9, decision), None)).unwrap();
        }),
    );
    note(
        "a receipt of another call than was decided",
        "does not allow",
        lie(&|receipts, place| {
            receipts.append(&receipt(bound(1, place), None)).unwrap();
        }),
    );
    note(
        "two effects of one decision",
        "second one",
        lie(&|receipts, place| {
            for _ in 0..2 {
                receipts.append(&receipt(bound(3, place), None)).unwrap();
            }
        }),
    );
    let (ledger, _places) = honest();
    let mut decisions = ledger.decisions();
    let nothing = decisions.append(&closed(1)).unwrap();
    drop(decisions);
    let mut receipts = ledger.receipts();
    receipts.append(&intent(bound(1, nothing))).unwrap();
    drop(receipts);
    note(
        "an effect of a record that allows nothing",
        "does not allow",
        why(&check(&ledger)),
    );
}

/// The first group of the decisions, for others.
fn exported(ledger: &Ledger) -> Exported {
    let ring = Keyring::of(&[ledger.decisions_key.verifying_key()]);
    let mut groups = Groups::new(ledger.path(), ChainName::Decisions, ring).unwrap();
    let group = groups.next_group().unwrap().unwrap();
    Exported::of(&group, |_any| true, &Redaction::default())
        .unwrap()
        .remove(0)
}

fn exports(table: &mut Vec<Tried>) {
    let (ledger, _places) = honest();
    let good = exported(&ledger);
    let line = good.to_line().unwrap();
    let ring = Keyring::of(&[ledger.decisions_key.verifying_key()]);
    let judge = |line: &str, ring: &Keyring| match Exported::read(line.as_bytes())
        .and_then(|it| it.verify(ring))
    {
        Ok(opened) => format!("NOT REFUSED: {opened:?}"),
        Err(error) => error.to_string(),
    };
    assert!(judge(&line, &ring).starts_with("NOT REFUSED"));
    let (other, _places) = honest();
    let theirs = exported(&other);
    let with = |change: &dyn Fn(&mut Exported)| {
        let mut changed = good.clone();
        change(&mut changed);
        changed.to_line().unwrap()
    };
    let mut note = |what, reason, line: &str, ring: &Keyring| {
        table.push(Tried {
            family: "export",
            what,
            reason,
            said: judge(line, ring),
        });
    };
    note(
        "under another service's key",
        "not one of the chain's public keys",
        &line,
        &Keyring::of(&[other.decisions_key.verifying_key()]),
    );
    note(
        "under the other chain's key",
        "not one of the chain's public keys",
        &line,
        &Keyring::of(&[ledger.receipts_key.verifying_key()]),
    );
    note(
        "a value changed",
        "is not what the envelope signs",
        &line.replace("send", "sent"),
        &ring,
    );
    note(
        "another's envelope around these records",
        "is not what the envelope signs",
        &with(&|it| it.envelope = theirs.envelope.clone()),
        &Keyring::of(&[other.decisions_key.verifying_key()]),
    );
    note(
        "another's records in this envelope",
        "is not what the envelope signs",
        &with(&|it| {
            it.records = theirs.records.clone();
            for record in &mut it.records {
                record.position += 1;
            }
        }),
        &ring,
    );
    note(
        "its positions exchanged",
        "is not what the envelope signs",
        &with(&|it| {
            let (one, two) = (it.records[0].position, it.records[1].position);
            it.records[0].position = two;
            it.records[1].position = one;
        }),
        &ring,
    );
    note(
        "said to be of the other chain",
        "is of chain `decisions`",
        &with(&|it| it.chain = ChainName::Receipts),
        &ring,
    );
    note(
        "another's signature",
        "signature",
        &with(&|it| it.envelope.signatures[0].sig = theirs.envelope.signatures[0].sig.clone()),
        &ring,
    );
    note(
        "two signatures",
        "one signature",
        &with(&|it| {
            let again = it.envelope.signatures[0].clone();
            it.envelope.signatures.push(again);
        }),
        &ring,
    );
    note(
        "another type of payload (DSSE's domain)",
        "type is not in-toto's",
        &with(&|it| it.envelope.payload_type = "text/plain".into()),
        &ring,
    );
    note(
        "the payload truncated",
        "base64",
        &with(&|it| it.envelope.payload.truncate(it.envelope.payload.len() - 1)),
        &ring,
    );
    note(
        "another format",
        "format `custody-export/2`",
        &with(&|it| it.format = "custody-export/2".into()),
        &ring,
    );
    note(
        "a key twice",
        "key twice",
        &line.replacen('{', "{\"format\":\"custody-export/1\",", 1),
        &ring,
    );
    note(
        "a NUL in a value",
        "NUL",
        &line.replace("\"send\"", "\"send\\u0000\""),
        &ring,
    );
    note(
        "truncated",
        "not a line of an export",
        line.strip_suffix('}').unwrap(),
        &ring,
    );
}

#[test]
fn each_chain_and_export_that_is_forged_is_refused_for_its_own_reason() {
    let mut table = Vec::new();
    lines(&mut table);
    chains(&mut table);
    exports(&mut table);
    let mut wrong = Vec::new();
    for Tried {
        family,
        what,
        reason,
        said,
    } in &table
    {
        println!("forgery | {family} | {what} | {said}");
        if said.starts_with("NOT REFUSED") || !said.contains(reason) {
            wrong.push(format!("{family}: {what}: not `{reason}`: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("forgeries of chains and exports: {}", table.len());
    assert_eq!(table.len(), 34);
}
