//! What reviewers were asked, and what became of it.

use gate::record::Decision;

use crate::scene::{OFFICE, Scene, tool};

#[test]
fn what_was_held_is_counted_with_its_end_and_its_wait_by_tool_and_by_rule() {
    let mut scene = Scene::office("whatever it is");
    scene.mail("m-17", "hello");
    for wait in [1_000, 2_000, 40_000] {
        let held = scene.held("delete_everything", r#"{"folder":"inbox"}"#);
        scene.approve(&held, wait);
    }
    let held = scene.held("delete_everything", r#"{"folder":"sent"}"#);
    scene.turn_down(&held, 3_000);
    let held = scene.held("delete_everything", r#"{"folder":"a"}"#);
    scene.lapse(&held, 600_000);
    let held = scene.held("delete_everything", r#"{"folder":"b"}"#);
    scene.lapse(&held, 10);
    let _open = scene.held("delete_everything", r#"{"folder":"c"}"#);
    let report = scene.audit(&[("office", OFFICE)]);
    let said = tool(&report, "delete_everything").calls;
    // An approved call that is then allowed was asked for once.
    assert_eq!((said.decided, said.held, said.allowed), (7, 7, 0));
    assert_eq!((said.approved, said.turned_down), (3, 1));
    assert_eq!((said.expired, said.ended, said.open), (1, 1, 1));
    assert_eq!((said.waits.count, said.waits.longest_ms), (4, 40_000));
    assert!((2_000..=2_063).contains(&said.waits.median_ms), "{said:?}");
    assert_eq!(said.waits.p95_ms, 40_000);
    let rule = report.review.rules["write_gate"];
    assert_eq!((rule.held, rule.approved, rule.expired), (7, 3, 1));
    // All tools together: the mails that were searched too.
    assert_eq!((report.review.all.decided, report.review.all.held), (8, 7));
}

/// A standing approval lets more calls through, which nobody was asked about.
#[test]
fn a_second_call_on_the_same_approval_is_one_that_was_allowed() {
    let mut scene = Scene::office("whatever it is");
    scene.mail("m-17", "hello");
    let held = scene.held("delete_everything", r#"{"folder":"inbox"}"#);
    let again = scene.approve(&held, 5);
    scene.write(&again);
    let report = scene.audit(&[]);
    let said = tool(&report, "delete_everything").calls;
    assert_eq!((said.held, said.allowed, said.decided), (1, 1, 2));
}

#[test]
fn what_the_gate_refused_is_counted_by_its_rule() {
    let mut scene = Scene::office("x");
    let _place = scene.ask("send_mail", r#"{"to":"no list"}"#);
    let _place = scene.ask("no_such_tool", "{}");
    let report = scene.audit(&[("office", OFFICE)]);
    assert_eq!(report.review.all.refused, 2);
    assert_eq!(report.review.rules["unknown_tool"].refused, 1);
    assert_eq!(tool(&report, "send_mail").calls.refused, 1);
}

/// The gate forgets what waits when it starts anew.
#[test]
fn what_waits_when_the_gate_starts_anew_has_ended() {
    let mut scene = Scene::office("x");
    scene.mail("m-17", "hello");
    let _open = scene.held("delete_everything", r#"{"folder":"inbox"}"#);
    let started = Decision::Started {
        at: scene.at,
        permit_key: gate::digest::Digest::ZERO,
        version: "0".into(),
    };
    scene.write(&started);
    let report = scene.audit(&[]);
    assert_eq!((report.review.all.ended, report.review.all.open), (1, 0));
}

#[test]
fn an_answer_to_what_was_asked_before_since_is_said_not_to_be_followed() {
    let mut scene = Scene::office("x");
    scene.mail("m-17", "hello");
    let held = scene.held("delete_everything", r#"{"folder":"inbox"}"#);
    scene.turn_down(&held, 1_000);
    let since = scene.at;
    scene.close();
    let mut tally = custody_audit::Tally::new(Some(since));
    let read =
        custody_audit::source::ledger(&scene.path(), &scene.keys(), &mut |it| tally.take(it));
    let report = custody_audit::Report::new(read.unwrap(), &tally, &crate::scene::given(&[]));
    assert_eq!(report.review.all.held, 0);
    assert_eq!(report.read.not_followed, 1);
    assert!(report.read.before_since > 0);
    assert!(report.text().contains("whose beginning was not read"));
}
