//! One meaning for each line, from the front to what is sent: on what fuzzing kept, and on lines that are made
//! of what readers of JSON do not agree on. `cargo xtask fuzz one_meaning` goes further.
#![cfg(test)]

#[path = "../fuzz/one_meaning.rs"]
mod one_meaning;

use one_meaning::{line, run, way};
use proptest::{prelude::*, sample::Index};

/// What readers of JSON do not agree on, and what they do.
const VALUES: &[&str] = &[
    r#""a""#,
    r#""\u0061""#,
    r#""\ud83e\udd80""#,
    r#""\ud83e""#,
    r#""\u0000""#,
    r#""\/""#,
    "1",
    "1.0",
    "1e0",
    "-0",
    "0.1",
    "1e400",
    "9007199254740993",
    "9007199254740991",
    "01",
    "+1",
    ".5",
    "NaN",
    "true",
    "null",
    "[]",
    r#"["a","b"]"#,
    r#"["a",]"#,
    r#"{"a":1}"#,
    "'a'",
    "1/**/",
];

fn member() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "\"text\"",
        "\"n\"",
        "\"x\"",
        "\"flag\"",
        "\"list\"",
        "\"te\\u0078t\"",
        "\"N\"",
        "text",
        "\"\\u006e\"",
    ]);
    let gap = prop::sample::select(vec!["", " ", "\t", "\n", "\u{a0}"]);
    let value = prop_oneof![
        4 => prop::sample::select(VALUES).prop_map(String::from),
        2 => any::<String>().prop_map(|it| serde_json::to_string(&it).unwrap()),
        1 => any::<f64>().prop_map(|it| it.to_string()),
        1 => any::<i64>().prop_map(|it| it.to_string()),
    ];
    (key, gap, value).prop_map(|(key, gap, value)| format!("{key}{gap}:{gap}{value}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn what_is_read_is_what_is_sent_or_nothing_is(members in prop::collection::vec(member(), 0..4)) {
        run(&line(&format!("{{{}}}", members.join(","))));
    }

    #[test]
    fn no_changed_byte_gives_a_line_a_second_meaning(
        members in prop::collection::vec(member(), 1..3),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let mut written = line(&format!("{{{}}}", members.join(",")));
        for (at, byte) in changes {
            let at = at.index(written.len());
            written[at] = byte;
        }
        run(&written);
    }
}

#[test]
fn the_way_is_gone_by_what_can_be_read() {
    let sent = way(&line(
        r#"{"x":1.0,"te\u0078t":"\u00e9","list":[],"flag":true}"#,
    ));
    assert_eq!(
        sent.unwrap(),
        "{\"flag\":true,\"list\":[],\"text\":\"\u{e9}\",\"x\":1}".as_bytes()
    );
    assert_eq!(way(&line(r#"{"n":1,"n":2}"#)), None);
}

#[test]
fn what_fuzzing_kept_has_one_meaning() {
    let kept = include_str!("../../../fixtures/fuzz/one_meaning.jsonl");
    assert!(!kept.is_empty());
    for input in kept.lines() {
        run(&hex::decode(input.trim_matches('"')).unwrap());
    }
}
