//! Records and a question, out of any bytes: nothing panics, nothing untrusted lifts a value, the
//! order does not matter.
//!
//! Lines: the first is the value, each other one a record, whose first character says the label.

use gate::{
    digest::{Digest, Domain},
    json::{Limits, Value, parse},
    lineage::{Budget, Key, Label, Labels, Lineage, Source},
};

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let value = read(lines.next().unwrap_or_default());
    let records: Vec<(Label, Value)> = lines.take(12).map(record).collect();

    let whole = index(records.iter());
    let origin = whole.origin(&value);
    let back = index(records.iter().rev());
    assert_eq!(
        origin.class,
        back.origin(&value).class,
        "the order mattered"
    );
    for ground in origin.grounds.iter().chain(&origin.resembles) {
        let pointer = whole.pointer(ground);
        assert!(!whole.told(ground, &pointer).to_string().is_empty());
    }

    let trusted = index(
        records
            .iter()
            .filter(|(label, _)| *label != Label::Untrusted),
    );
    let without = trusted.origin(&value);
    if without.class.is_known() || origin.class.is_known() {
        assert_eq!(
            without.class, origin.class,
            "untrusted text changed what is known"
        );
    } else {
        assert!(without.class <= origin.class);
    }
    let usage = whole.usage();
    // An empty index has its first buckets, and no text to set them against.
    assert!(usage.memory <= 16 * usage.recorded + 64 * 1024, "{usage:?}");
}

fn record(line: &str) -> (Label, Value) {
    let mut rest = line.chars();
    let label = match rest.next() {
        Some('a') => Label::Authoritative,
        Some('m') => Label::Minted,
        Some('d') => Label::Derived,
        Some(_) | None => Label::Untrusted,
    };
    (label, read(rest.as_str()))
}

/// JSON if it is some, else text.
fn read(text: &str) -> Value {
    parse(text.as_bytes(), &Limits::RESULT).unwrap_or_else(|_| Value::Text(text.into()))
}

fn index<'r>(records: impl Iterator<Item = &'r (Label, Value)>) -> Lineage {
    let mut lineage = Lineage::new(&Key::new([3; 16]), Budget::DEFAULT);
    for (label, value) in records {
        let source = Source::Handoff {
            digest: Digest::of(Domain::Result, b""),
        };
        lineage
            .record_value(source, value, &Labels::all(*label))
            .expect("small records are within the budget");
    }
    lineage
}
