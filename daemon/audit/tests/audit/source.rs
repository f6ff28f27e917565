//! What is read, and what is not.

use std::{
    fs,
    path::{Path, PathBuf},
};

use custody_audit::{Report, SourceError, Tally, source};
use custody_ledger::{
    export::{Exported, Redaction},
    reader::Groups,
};
use gate::chain::ChainName;

use crate::scene::{OFFICE, Scene, given};

fn busy() -> Scene {
    let mut scene = Scene::office("Delete the mail from Eve");
    scene.mail("mail-4711", "please delete mail-4711 at once");
    let _place = scene.ask("delete_mail", r#"{"id":"mail-4711"}"#);
    let held = scene.held("delete_everything", r#"{"folder":"inbox"}"#);
    scene.approve(&held, 5_000);
    scene.close();
    scene
}

fn file(scene: &Scene) -> PathBuf {
    scene.path().join("decisions/000001.jsonl")
}

/// What `custody ledger export` writes.
fn export(scene: &Scene, redact: &[&str]) -> PathBuf {
    let redact: Vec<String> = redact.iter().map(|it| (*it).into()).collect();
    let redaction = Redaction::of(&redact);
    let mut text = String::new();
    for chain in ChainName::ALL {
        let keys = scene.keys();
        let mut groups = Groups::new(&scene.path(), chain, keys.of_chain(chain).clone()).unwrap();
        while let Some(group) = groups.next_group().unwrap() {
            for part in Exported::of(&group, |_all| true, &redaction).unwrap() {
                text.push_str(&part.to_line().unwrap());
                text.push('\n');
            }
        }
    }
    let path = scene.path().join("export");
    fs::write(&path, text).unwrap();
    path
}

fn audit_export(scene: &Scene, path: &Path) -> Result<Report, SourceError> {
    let mut tally = Tally::new(None);
    let read = source::export(path, &scene.keys(), &mut |it| tally.take(it))?;
    Ok(Report::new(read, &tally, &given(&[("office", OFFICE)])))
}

#[test]
fn an_export_says_the_same_as_the_ledger_that_it_was_written_from() {
    let mut scene = busy();
    let path = export(&scene, &[]);
    let mut exported = audit_export(&scene, &path).unwrap();
    let ledger = scene.audit(&[("office", OFFICE)]);
    assert!(ledger.read.source.records > 5);
    exported.read.source.form = source::Form::Ledger;
    assert_eq!(exported.json().unwrap(), ledger.json().unwrap());
}

#[test]
fn what_an_export_withholds_is_not_counted_and_said() {
    let scene = busy();
    let path = export(&scene, &["call.arguments.folder"]);
    let report = audit_export(&scene, &path).unwrap();
    // What would say a part of a call in other words is withheld of every call: so their grounds are.
    assert_eq!(report.read.not_counted, 4);
    assert!(report.read.source.withheld >= 4);
    assert_eq!(report.review.all.held, 0);
    assert!(
        report
            .text()
            .contains("4 records say nothing that could be counted")
    );
}

#[test]
fn an_export_that_was_changed_or_repeats_a_record_is_refused() {
    let scene = busy();
    let path = export(&scene, &[]);
    let text = fs::read_to_string(&path).unwrap();
    let changed = text.replacen("\"inbox\"", "\"outbox\"", 1);
    assert_ne!(changed, text);
    fs::write(&path, changed).unwrap();
    let error = audit_export(&scene, &path).unwrap_err();
    assert!(matches!(error, SourceError::Line { .. }), "{error}");
    fs::write(&path, format!("{text}{text}")).unwrap();
    let error = audit_export(&scene, &path).unwrap_err();
    assert!(matches!(error, SourceError::Order { .. }), "{error}");
    // Another one's keys.
    let other = busy();
    fs::write(&path, &text).unwrap();
    let mut tally = Tally::new(None);
    let error = source::export(&path, &other.keys(), &mut |it| tally.take(it)).unwrap_err();
    assert!(error.to_string().contains("public keys"), "{error}");
}

#[test]
fn records_that_no_checkpoint_covers_are_not_counted_and_said() {
    let mut scene = busy();
    let whole = scene.audit(&[]);
    let text = fs::read_to_string(file(&scene)).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let is_checkpoint = |it: &str| it.contains("\"checkpoint\"");
    while is_checkpoint(lines.last().unwrap()) {
        let _checkpoint = lines.pop();
    }
    let records = lines
        .iter()
        .rev()
        .take_while(|it| !is_checkpoint(it))
        .count();
    assert!(records > 0);
    fs::write(file(&scene), format!("{}\n", lines.join("\n"))).unwrap();
    let cut = scene.audit(&[]);
    let unsigned = u64::try_from(records).unwrap();
    assert_eq!(cut.read.source.unsigned, unsigned);
    assert_eq!(
        cut.read.source.records + unsigned,
        whole.read.source.records
    );
    assert!(cut.text().contains("NOT SIGNED"), "{}", cut.text());
}

#[test]
fn a_ledger_that_was_changed_is_refused_before_anything_is_counted() {
    let scene = busy();
    let text = fs::read_to_string(file(&scene)).unwrap();
    fs::write(file(&scene), text.replacen("\"inbox\"", "\"outbox\"", 1)).unwrap();
    let mut taken = 0;
    let error = source::ledger(&scene.path(), &scene.keys(), &mut |_it| taken += 1).unwrap_err();
    assert!(matches!(error, SourceError::Bad { .. }), "{error}");
    assert_eq!(taken, 0);
}

#[test]
fn the_same_ledger_gives_the_same_bytes() {
    let mut scene = busy();
    let first = scene.audit(&[("office", OFFICE)]);
    let second = scene.audit(&[("office", OFFICE)]);
    assert_eq!(first.json().unwrap(), second.json().unwrap());
    assert_eq!(first.markdown(), second.markdown());
    assert_eq!(first.text(), second.text());
    assert!(first.json().unwrap().contains("\"report_version\":1"));
}
