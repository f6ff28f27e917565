//! What is withheld of a record cannot be guessed, and the rest still verifies.

use gate::{
    chain::{Disclosed, Place, Salt, Tip, append, fields::Field, read_record},
    digest::{Digest, Domain},
    id::SessionId,
    json::{Value, canonical},
    record::Decision,
};
use proptest::prelude::*;

use crate::scene::json;

fn said(text: &str, salt: u8) -> (Disclosed, Place) {
    let record = Decision::Said {
        at: 1_796_000_000_000,
        session: SessionId(3),
        text: text.into(),
    };
    let (line, tip) = append(&Tip::START, &Salt([salt; 16]), &record).unwrap();
    let line = line.strip_suffix(b"\n").unwrap();
    let (place, read) = read_record::<Decision>(line).unwrap().unwrap();
    assert_eq!((place, read), (tip.head, record));
    (Disclosed::of(line).unwrap().unwrap(), tip.head)
}

#[test]
fn a_record_has_its_place_whatever_is_withheld_of_it() {
    let (mut record, place) = said("yes", 1);
    assert_eq!(record.place(), place);
    assert!(record.withhold("text"));
    assert_eq!(record.place(), place);
    assert_eq!(record.fields.withheld(), ["text"]);
    assert!(record.withhold("text"), "twice is once");
    assert!(!record.withhold("no_such_field") && !record.withhold("at.x"));
    let shown = record.fields.shown().unwrap();
    assert_eq!(
        shown,
        json(r#"{"at":1796000000000,"session":"0000000000000003"}"#)
    );
}

#[test]
fn what_is_withheld_is_no_more_in_what_is_written_and_neither_is_its_salt() {
    let (mut record, _place) = said("a word that is secret", 1);
    let before = String::from_utf8(gate::json::to_canonical(&record).unwrap()).unwrap();
    let Field::Members(members) = &record.fields else {
        panic!("no members")
    };
    let Some(Field::Shown { salt, .. }) = members.get("text") else {
        panic!("not shown")
    };
    let salt = String::from(*salt);
    assert!(before.contains(&salt) && before.contains("secret"));
    assert!(record.withhold("text"));
    let after = String::from_utf8(gate::json::to_canonical(&record).unwrap()).unwrap();
    assert!(!after.contains(&salt) && !after.contains("secret"));
    // Nor the salt that all of them are drawn from.
    assert!(!before.contains(&String::from(Salt([1; 16]))));
}

/// One of two words, and the digest does not say which: without the salt nothing can be tried out.
#[test]
fn a_word_of_few_is_not_guessed_by_its_digest() {
    let digest = |text: &str, salt| {
        let (mut record, _place) = said(text, salt);
        assert!(record.withhold("text"));
        let Field::Members(members) = record.fields else {
            panic!("no members")
        };
        members["text"].digest()
    };
    assert_eq!(digest("yes", 1), digest("yes", 1));
    assert_ne!(digest("yes", 1), digest("yes", 2));
    let yes = canonical(&json("\"yes\""));
    for guess in [yes.clone(), [vec![0; 16], yes].concat()] {
        for domain in [Domain::Field, Domain::Fields, Domain::Line, Domain::Salt] {
            assert_ne!(digest("yes", 1), Digest::of(domain, &guess));
        }
    }
    // Two fields of one record that say the same have two digests.
    let fields = Field::of(&json(r#"{"a":"yes","b":"yes"}"#), &Salt([1; 16]));
    let Field::Members(members) = fields else {
        panic!("no members")
    };
    assert_ne!(members["a"].digest(), members["b"].digest());
}

#[test]
fn an_empty_object_is_a_field_and_says_nothing_when_it_is_withheld() {
    let digests = [1, 2].map(|salt| Field::of(&json("{\"a\":{}}"), &Salt([salt; 16])).digest());
    assert_ne!(digests[0], digests[1]);
}

#[test]
fn a_changed_value_or_a_field_moved_or_renamed_has_another_place() {
    let (record, place) = said("yes", 1);
    let written = String::from_utf8(gate::json::to_canonical(&record).unwrap()).unwrap();
    for (from, to) in [
        ("\"yes\"", "\"no\""),
        ("\"text\":{", "\"texs\":{"),
        ("\"kind\":\"said\"", "\"kind\":\"told\""),
        ("\"position\":1", "\"position\":2"),
        ("\"chain\":\"decisions\"", "\"chain\":\"receipts\""),
    ] {
        let changed = written.replace(from, to);
        assert_ne!(changed, written, "{from}");
        let limits = gate::json::Limits::LINE;
        let changed: Disclosed = gate::json::from_canonical(changed.as_bytes(), &limits).unwrap();
        assert_ne!(changed.place(), place, "{from}");
    }
}

#[test]
fn what_lies_deeper_than_a_field_is_withheld_with_the_field() {
    let mut fields = Field::of(&json(r#"{"a":{"b":{"c":{"d":1}}}}"#), &Salt([1; 16]));
    let digest = fields.digest();
    assert!(!fields.withhold(&["a", "b", "c", "x"]));
    assert!(fields.withhold(&["a", "b", "c", "d"]));
    assert_eq!(fields.withheld(), ["a.b.c"]);
    assert_eq!(fields.digest(), digest);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        "[a-c]{0,3}".prop_map(Value::Text),
        (-9_i64..9).prop_map(|n| Value::try_from(n).unwrap()),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::List),
            prop::collection::btree_map("[a-c]{1,2}", inner, 0..4).prop_map(Value::Object),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn withholding_never_changes_the_digest(value in value(), path in prop::collection::vec("[a-c]{1,2}", 0..4)) {
        let whole = Field::of(&value, &Salt([7; 16]));
        let mut part = whole.clone();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let was_there = part.withhold(&path);
        prop_assert_eq!(part.digest(), whole.digest());
        prop_assert_eq!(was_there, part != whole);
        prop_assert_eq!(whole.shown(), Some(value));
    }

    #[test]
    fn two_values_have_two_digests(a in value(), b in value()) {
        let (first, second) = (Field::of(&a, &Salt([7; 16])), Field::of(&b, &Salt([7; 16])));
        prop_assert_eq!(first.digest() == second.digest(), a == b);
    }
}
