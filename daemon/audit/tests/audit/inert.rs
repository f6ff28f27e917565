//! An agent's own text in a report, and as much of it as it likes.

use custody_audit::{Tally, source::Record};
use gate::{json::Value, record::Decision};

use crate::scene::{Scene, strange, tool};

const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{202e}`|</td><script>[x](javascript:1)\n# pay";

#[test]
fn what_an_agent_wrote_does_nothing_in_any_form_of_the_report() {
    let mut scene = Scene::office("x");
    let record = strange(HOSTILE, 9);
    scene.write(&record);
    let report = scene.audit(&[]);
    assert_eq!(report.unknown_tools.len(), 1);
    for text in [report.text(), report.markdown()] {
        let acts = |it: char| (it.is_control() && it != '\n') || it == '\u{202e}';
        assert!(!text.contains(acts), "{text:?}");
        assert!(!text.lines().any(|it| it.starts_with("# pay")), "{text}");
    }
    let markdown = report.markdown();
    let line = markdown.lines().find(|it| it.contains("script")).unwrap();
    // In one code span, in one cell.
    let (before, rest) = line.split_once('`').unwrap();
    let (inside, after) = rest.split_once('`').unwrap();
    assert_eq!((before, after), ("| ", " | 1 |"), "{line}");
    assert!(
        inside.contains("<script>") && !inside.contains('|'),
        "{line}"
    );
}

/// The agent chooses the names: however many there are, no more are kept.
#[test]
fn a_hundred_thousand_names_take_no_more_room_than_a_few() {
    let mut tally = Tally::new(None);
    for n in 0..100_000_u64 {
        let record = strange(&format!("tool-{n}"), n);
        take(&mut tally, n + 1, &record);
    }
    assert_eq!(tally.unknown.len(), 64);
    assert_eq!(tally.more_unknown, 100_000 - 64);
    assert_eq!(tally.all.refused, 100_000);
    assert!(tally.tools.is_empty() && tally.policies.is_empty());
}

/// Nor is it a tool of a policy's where something else refused the call before any tool was looked up.
#[test]
fn a_name_that_nobody_looked_up_is_no_tool_whatever_refused_its_call() {
    for rule in ["arguments", "busy", "session_closed", "unknown_tool"] {
        let mut tally = Tally::new(None);
        for n in 0..1_000_u64 {
            let mut record = strange(&format!("{HOSTILE}{n}"), n);
            let Decision::Refused { rule: by, .. } = &mut record else {
                panic!("{record:?}");
            };
            *by = rule.into();
            take(&mut tally, n + 1, &record);
        }
        assert!(tally.tools.is_empty(), "{rule}");
        assert_eq!(tally.unknown.len(), 64, "{rule}");
        assert_eq!(tally.rules[rule].refused, 1_000, "{rule}");
    }
    // The gate's own refusal, of a tool that it found.
    let mut scene = Scene::office("x");
    let _place = scene.ask("send_mail", r#"{"unknown":1}"#);
    let report = scene.audit(&[]);
    assert!(report.unknown_tools.is_empty());
    assert_eq!(tool(&report, "send_mail").calls.refused, 1);
}

fn take(tally: &mut Tally, position: u64, record: &Decision) {
    let whole = gate::json::to_value(record).unwrap();
    let Value::Object(members) = whole else {
        panic!("a record is an object of one");
    };
    let (kind, fields) = members.first_key_value().unwrap();
    tally.take(Record {
        position,
        kind,
        fields,
    });
}
