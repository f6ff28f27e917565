//! What holds for every text and every value.

use gate::{
    json::{Limits, Value, parse},
    lineage::{Budget, Class, Key, Label, Labels, Lineage},
};
use proptest::prelude::*;

use super::{digest, result_of};

/// A record: its label and its text.
type Record = (Label, String);

/// Words that meet often, so that values are found in every way there is.
fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        3 => "[ab]{1,2}",
        1 => "[aAb\u{430}\u{200b}]{1,3}",
        1 => Just("boss@acme.com".to_owned()),
        1 => Just("boss@acme.co".to_owned()),
        1 => Just("1,200.50".to_owned()),
        1 => Just("2024-05-19".to_owned()),
        1 => Just("Ym9zc0BhY21lLmNv".to_owned()),
        1 => "[0-9]{1,4}",
    ];
    let gap = prop_oneof![
        4 => Just(" "), 1 => Just(", "), 1 => Just("."), 1 => Just("-"), 1 => Just("'"), 1 => Just("")
    ];
    proptest::collection::vec((word, gap), 0..10).prop_map(|pieces| {
        pieces
            .into_iter()
            .flat_map(|(word, gap)| [word, gap.to_owned()])
            .collect()
    })
}

fn label() -> impl Strategy<Value = Label> {
    proptest::sample::select(Label::ALL.to_vec())
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    proptest::collection::vec((label(), text()), 0..6)
}

/// A text, a part of one, or a number.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => text().prop_map(Value::Text),
        2 => (0_i64..2_000).prop_map(|n| Value::try_from(n).unwrap()),
        1 => Just(Value::try_from(1200.5).unwrap()),
        1 => proptest::collection::vec(text().prop_map(Value::Text), 0..3).prop_map(Value::List),
    ]
}

fn index(key: u8, records: &[Record]) -> Lineage {
    let mut lineage = Lineage::new(&Key::new([key; 16]), Budget::DEFAULT);
    for (label, text) in records {
        lineage
            .record_text(result_of("read", text), text, *label)
            .unwrap();
    }
    lineage
}

/// How much is known of a value: untrusted and novel are the same, neither is known.
fn known(class: Class) -> Option<Class> {
    class.is_known().then_some(class)
}

/// Whether `value` is in `text`, but for case and white space, and neither side of it goes on with
/// a letter or a digit.
fn stands(text: &str, value: &str) -> bool {
    let spaced = |text: &str| {
        let lower = text.to_lowercase();
        lower.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (text, wanted) = (spaced(text), spaced(value));
    let joins = |edge: Option<char>, inner: Option<char>| {
        edge.is_some_and(char::is_alphanumeric) && inner.is_some_and(char::is_alphanumeric)
    };
    // From every place: one that overlaps another may be the one that stands.
    (0..=text.len()).any(|at| {
        let Some(after) = text.get(at..).and_then(|rest| rest.strip_prefix(&wanted)) else {
            return false;
        };
        let before = text.get(..at).unwrap().chars().next_back();
        let after = after.chars().next();
        !joins(before, wanted.chars().next()) && !joins(after, wanted.chars().next_back())
    })
}

/// Some value out of what was recorded: as a whole, or from one place to another.
fn excerpt(records: &[Record], which: usize, from: usize, len: usize) -> Value {
    let text: String = records
        .get(which % records.len().max(1))
        .map(|(_, text)| text.chars().skip(from).take(len).collect())
        .unwrap_or_default();
    Value::Text(text)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_same_records_give_the_same_answer_under_every_key(
        records in records(), value in value(), key in any::<u8>()
    ) {
        let (one, other) = (index(1, &records).origin(&value), index(key, &records).origin(&value));
        prop_assert_eq!(one, other);
    }

    #[test]
    fn the_order_of_records_does_not_matter(
        (records, shuffled) in records().prop_flat_map(|records| {
            (Just(records.clone()), Just(records).prop_shuffle())
        }),
        value in value(),
        (which, from, len) in (any::<usize>(), 0_usize..30, 0_usize..20)
    ) {
        for value in [value, excerpt(&records, which, from, len)] {
            let (one, other) = (index(1, &records).origin(&value), index(1, &shuffled).origin(&value));
            prop_assert_eq!(one.class, other.class, "{:?}", value);
            let labels = |it: &gate::lineage::Origin| {
                it.grounds.iter().map(|ground| ground.label).collect::<Vec<_>>()
            };
            prop_assert_eq!(labels(&one), labels(&other));
        }
    }

    /// The short question has the long one's answer, where that is a value that is known.
    #[test]
    fn what_is_known_sooner_is_known_as_well(
        records in records(), value in value(),
        (which, from, len) in (any::<usize>(), 0_usize..30, 0_usize..20)
    ) {
        let index = index(1, &records);
        for value in [value, excerpt(&records, which, from, len)] {
            let class = index.origin(&value).class;
            prop_assert_eq!(index.known(&value), class.is_known().then_some(class), "{:?}", value);
        }
    }

    /// Untrusted text makes nothing known, and nothing better known.
    #[test]
    fn untrusted_text_lifts_nothing(
        records in records(), more in text(), value in value(),
        (from, len) in (0_usize..30, 0_usize..20)
    ) {
        let before = index(1, &records);
        let after = {
            let mut all = records;
            all.push((Label::Untrusted, more.clone()));
            index(1, &all)
        };
        for value in [value, excerpt(&[(Label::Untrusted, more)], 0, from, len)] {
            let (before, after) = (before.origin(&value), after.origin(&value));
            prop_assert_eq!(known(before.class), known(after.class), "{:?}", value);
            prop_assert!(before.class <= after.class);
        }
    }

    /// A record under a better label changes only what stands in it, and makes nothing worse:
    /// whatever becomes known by it has a leaf that is known to an index that has nothing else.
    #[test]
    fn authoritative_text_lifts_only_what_stands_in_it(
        records in records(), more in text(), value in value(),
        label in proptest::sample::select(&Label::ALL[..3])
    ) {
        let before = index(1, &records).origin(&value).class;
        let mut all = records;
        all.push((label, more.clone()));
        let after = index(1, &all).origin(&value).class;
        let alone = index(1, &[(label, more)]);
        let leaves = if let Value::List(items) = &value {
            items.clone()
        } else {
            vec![value.clone()]
        };
        if known(after) != known(before) {
            let stands = leaves.iter().any(|leaf| alone.origin(leaf).class.is_known());
            prop_assert!(stands, "{:?} became {} and stands nowhere", value, after);
        }
        if before.is_known() {
            prop_assert!(after <= before);
        }
    }

    /// Whatever is authoritative stands in authoritative text: looked up without any index, by a
    /// second and slower reading of what a word is.
    #[test]
    fn what_is_authoritative_stands_in_the_text(
        records in proptest::collection::vec((label(), "[abAB.@ '-]{0,24}"), 0..6),
        (which, from, len) in (any::<usize>(), 0_usize..24, 1_usize..16),
        other in "[abAB.@' -]{1,8}"
    ) {
        let lineage = index(1, &records);
        for value in [Value::Text(other), excerpt(&records, which, from, len)] {
            let Value::Text(text) = &value else { continue };
            if lineage.origin(&value).class == Class::Authoritative {
                let stands = records
                    .iter()
                    .filter(|(label, _)| *label == Label::Authoritative)
                    .any(|(_, record)| stands(record, text));
                prop_assert!(stands, "`{}` is in none of {:?}", text, records);
            }
        }
    }

    #[test]
    fn any_json_can_be_recorded_and_asked_for(
        text in "[\\[\\]{}\",:a1 .\\\\-]{0,60}", other in any::<String>(), label in label()
    ) {
        let value = parse(text.as_bytes(), &Limits::RESULT).unwrap_or(Value::Text(other));
        let mut lineage = index(1, &[]);
        let source = result_of("read", &text);
        lineage.record_value(source, &value, &Labels::all(label)).unwrap();
        let origin = lineage.origin(&value);
        for ground in &origin.grounds {
            let pointer = lineage.pointer(ground);
            prop_assert!(!lineage.told(ground, &pointer).to_string().is_empty());
        }
        // What was just recorded is known by its label, as a whole; but an empty container is
        // nobody's, and neither is what has one in it.
        if !matches!(&value, Value::List(_) | Value::Object(_)) {
            prop_assert_eq!(origin.class == Class::Novel, false, "{:?}", value);
            prop_assert_eq!(origin.under(label).is_some(), true);
        }
    }

    /// A record enters whole, or it closes the index: at every budget.
    #[test]
    fn a_record_enters_whole_or_closes_the_index(records in records(), text in 0_usize..400) {
        let budget = Budget { text, ..Budget::DEFAULT };
        let mut lineage = Lineage::new(&Key::new([1; 16]), budget);
        let mut closed = false;
        for (label, text) in &records {
            let entered = lineage.record_text(result_of("read", text), text, *label);
            prop_assert!(!closed || entered.is_err(), "closed is closed");
            closed = entered.is_err();
            let class = lineage.origin(&Value::Text(text.clone())).class;
            if closed {
                prop_assert_eq!(class, Class::Saturated);
            } else {
                prop_assert_ne!(class, Class::Novel);
            }
            prop_assert!(lineage.usage().text <= budget.text);
        }
    }
}

#[test]
fn a_value_stands_where_an_overlapping_place_does_not() {
    assert!(stands("a'aAb B b", " B b"));
    assert!(!stands("ab b", "b b"));
}

/// Past every depth that the parser lets through: refused, and nothing overflows.
#[test]
fn a_value_that_no_parser_lets_through_closes_the_index() {
    let deep = (0..1_000).fold(Value::Null, |inner, _| Value::List(vec![inner]));
    let mut lineage = index(1, &[]);
    assert_eq!(lineage.origin(&deep).class, Class::Untrusted);
    let source = gate::lineage::Source::Handoff { digest: digest("") };
    let labels = Labels::all(Label::Untrusted);
    assert!(lineage.record_value(source, &deep, &labels).is_err());
    assert_eq!(lineage.origin(&Value::Null).class, Class::Saturated);
}
