//! The strict parser and the one written form, against RFC 8785 and another implementation of it.

use std::collections::BTreeMap;

use gate::json::{
    JsonError, Limits, Value, canonical, from_canonical, parse, parse_located, reparse,
};
use proptest::prelude::*;

const WIDE: Limits = Limits::LINE;

/// Numbers of both kinds, from every part of the range.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        any::<f64>(),
        -1e6..1e6_f64,
        (-(1_i64 << 53)..(1 << 53)).prop_map(|n| n as f64),
        (-400..400_i32).prop_map(|e| 10_f64.powi(e)),
    ]
    .prop_filter("a number of ours", |x| {
        x.is_finite() && x.abs() < 9_007_199_254_740_992.0 && !(*x == 0.0 && x.is_sign_negative())
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        // Around the surrogates, where UTF-8 and UTF-16 sort differently, and the controls.
        "[\u{1}-\u{20}a\u{d7ff}\u{e000}-\u{ffff}\u{10000}-\u{10ffff}\"\\\\/]{0,6}",
    ]
    .prop_map(|it| it.replace('\0', ""))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number().prop_map(|x| Value::try_from(x).unwrap()),
        text().prop_map(Value::Text),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
            prop::collection::btree_map(text(), inner, 0..6).prop_map(Value::Object),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn what_we_write_is_what_the_oracle_writes(value in value()) {
        let ours = canonical(&value);
        let oracle = serde_json_canonicalizer::to_vec(&value).unwrap();
        prop_assert_eq!(String::from_utf8(ours).unwrap(), String::from_utf8(oracle).unwrap());
    }

    #[test]
    fn what_we_write_we_read_again(value in value()) {
        prop_assert_eq!(reparse(&canonical(&value), &WIDE), Ok(value));
    }

    #[test]
    fn every_number_is_written_as_the_oracle_writes_it(x in number()) {
        let source = format!("[{x:?}]");
        let ours = canonical(&parse(source.as_bytes(), &WIDE).unwrap());
        let oracle = serde_json_canonicalizer::pipe(&source).unwrap();
        prop_assert_eq!(String::from_utf8(ours).unwrap(), oracle);
    }

    #[test]
    fn whatever_bytes_reparse_takes_are_canonical_already(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "[\\[\\]{}\",:0-9a-e\\\\u+. -]{0,40}".prop_map(String::into_bytes),
        ]
    ) {
        if let Ok(value) = reparse(&bytes, &WIDE) {
            prop_assert_eq!(canonical(&value), bytes);
        }
    }

    #[test]
    fn a_space_anywhere_outside_a_string_is_not_canonical(value in value(), at in any::<prop::sample::Index>()) {
        let mut bytes = canonical(&value);
        let at = at.index(bytes.len() + 1);
        bytes.insert(at, b' ');
        // Inside a string it is another value, in its own canonical form; never this one.
        if let Ok(other) = reparse(&bytes, &WIDE) {
            prop_assert_ne!(other, value);
        }
    }
}

fn refused(text: &str) -> JsonError {
    match parse(text.as_bytes(), &WIDE) {
        Ok(value) => panic!("{text} is taken as {value:?}"),
        Err(error) => error,
    }
}

#[test]
fn a_key_that_stands_twice_is_refused_however_it_is_written() {
    assert_eq!(refused(r#"{"a":1,"a":1}"#), JsonError::DuplicateKey);
    assert_eq!(refused(r#"{"a":1,"\u0061":2}"#), JsonError::DuplicateKey);
    assert_eq!(
        refused(r#"[{"b":{"a":1,"c":2,"a":3}}]"#),
        JsonError::DuplicateKey
    );
    assert!(parse(br#"{"a":{"a":1},"b":{"a":1}}"#, &WIDE).is_ok());
}

#[test]
fn a_nul_is_refused_in_strings_and_in_keys() {
    assert_eq!(refused(r#""a\u0000b""#), JsonError::Nul);
    assert_eq!(refused(r#"{"\u0000":1}"#), JsonError::Nul);
    assert!(matches!(refused("\"\0\""), JsonError::Syntax { .. }));
}

#[test]
fn lone_surrogates_and_bytes_that_are_not_utf8_are_refused() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\ud800""#,
        r#""\udc00\ud800""#,
        r#"{"\ud800":1}"#,
    ] {
        assert!(matches!(refused(text), JsonError::Syntax { .. }), "{text}");
    }
    for bytes in [&b"\"\xff\""[..], b"\"\xed\xa0\x80\"", b"\"\xc0\xaf\""] {
        assert!(parse(bytes, &WIDE).is_err(), "{bytes:?}");
    }
    assert_eq!(
        parse(br#""\ud83d\ude00""#, &WIDE),
        Ok(Value::Text("\u{1f600}".into()))
    );
}

#[test]
fn numbers_that_readers_disagree_on_are_refused() {
    for text in ["-0", "-0.0", "-0e5", "-1e-400"] {
        assert_eq!(refused(text), JsonError::MinusZero, "{text}");
    }
    for text in [
        "9007199254740992",
        "-9007199254740992",
        "9007199254740993",
        "9007199254740991.5",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "1e300",
    ] {
        assert_eq!(refused(text), JsonError::Magnitude, "{text}");
    }
    for text in [
        "1e400",
        "NaN",
        "Infinity",
        "-Infinity",
        "01",
        "+1",
        "1.",
        ".5",
        "0x1",
        "1e",
    ] {
        assert!(parse(text.as_bytes(), &WIDE).is_err(), "{text}");
    }
}

#[test]
fn an_integral_number_is_one_integer_however_it_is_written() {
    for text in ["1", "1.0", "1e0", "10e-1", "0.1e1", "1.000"] {
        assert_eq!(
            parse(text.as_bytes(), &WIDE),
            Value::try_from(1_i64),
            "{text}"
        );
    }
    assert_eq!(parse(b"0", &WIDE), Value::try_from(0_i64));
    assert_eq!(parse(b"0.0", &WIDE), Value::try_from(0_i64));
    for n in ["9007199254740991", "-9007199254740991"] {
        assert_eq!(
            canonical(&parse(n.as_bytes(), &WIDE).unwrap()),
            n.as_bytes()
        );
    }
    assert!(matches!(parse(b"1.5", &WIDE), Ok(Value::Real(_))));
}

#[test]
fn what_is_not_one_json_value_is_refused() {
    for text in [
        "",
        " ",
        "1 2",
        "{}x",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "'a'",
        "// x\n1",
        "\u{feff}1",
        "\"a\nb\"",
        "\"\\x41\"",
        "tru",
        "[",
        "{\"a\"",
    ] {
        assert!(
            matches!(refused(text), JsonError::Syntax { .. }),
            "{text:?}"
        );
    }
}

#[test]
fn each_limit_holds_exactly() {
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    let limits = Limits {
        bytes: 1_000,
        depth: 3,
        nodes: 10,
    };
    let parse = |text: &str| parse(text.as_bytes(), &limits);
    assert!(parse(&nested(3)).is_ok());
    assert_eq!(parse(&nested(4)), Err(JsonError::Depth { most: 3 }));
    assert_eq!(
        parse(r#"{"a":{"b":{"c":{}}}}"#),
        Err(JsonError::Depth { most: 3 })
    );
    // One array and nine values; each key counts as well.
    assert!(parse("[1,2,3,4,5,6,7,8,9]").is_ok());
    assert_eq!(
        parse("[1,2,3,4,5,6,7,8,9,10]"),
        Err(JsonError::Nodes { most: 10 })
    );
    assert_eq!(
        parse(r#"{"a":1,"b":2,"c":3,"d":4,"e":5}"#),
        Err(JsonError::Nodes { most: 10 })
    );
    let padded = |n: usize| "1".to_owned() + &" ".repeat(n - 1);
    assert!(parse(&padded(1_000)).is_ok());
    assert_eq!(
        parse(&padded(1_001)),
        Err(JsonError::Bytes {
            found: 1_001,
            most: 1_000
        })
    );
}

#[test]
fn no_depth_at_all_breaks_the_parser() {
    for open in ["[", "{\"a\":"] {
        let text = open.repeat(40_000);
        assert_eq!(
            parse(text.as_bytes(), &Limits::CALL),
            Err(JsonError::Depth { most: 32 })
        );
        let boundless = Limits {
            bytes: usize::MAX,
            depth: usize::MAX,
            nodes: usize::MAX,
        };
        assert_eq!(
            parse(text.as_bytes(), &boundless),
            Err(JsonError::Depth {
                most: Limits::DEPTH_MAX
            })
        );
    }
}

#[test]
fn the_examples_of_rfc_8785_come_out_as_printed() {
    // Section 3.2.2 and 3.2.3 (without numbers beyond 2^53, which we refuse).
    let source = r#"{
        "numbers": [4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    let written = "{\"literals\":[null,true,false],\"numbers\":[4.5,0.002,1e-27],\
                   \"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
    assert_eq!(
        canonical(&parse(source.as_bytes(), &WIDE).unwrap()),
        written.as_bytes()
    );
    let keys = "{\"\u{20ac}\":1,\"\\r\":2,\"\u{fb33}\":3,\"1\":4,\"\u{1f600}\":5,\"\u{80}\":6,\"\u{f6}\":7}";
    let sorted = "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}";
    assert_eq!(
        canonical(&parse(keys.as_bytes(), &WIDE).unwrap()),
        sorted.as_bytes()
    );
}

#[test]
fn reparse_takes_no_other_form_of_the_same_value() {
    for text in [
        "{\"b\":1,\"a\":2}",
        "{\"a\": 1}",
        "[1.0]",
        "[1e0]",
        "\"\\u0041\"",
        "\"\\/\"",
        "\"\\u000A\"",
        "[1] ",
        "1.50",
    ] {
        assert!(parse(text.as_bytes(), &WIDE).is_ok(), "{text}");
        assert_eq!(
            reparse(text.as_bytes(), &WIDE),
            Err(JsonError::NotCanonical),
            "{text}"
        );
    }
}

#[test]
fn a_value_inside_a_record_is_held_to_the_same_rules() {
    let read = |text: &str| serde_json::from_str::<BTreeMap<String, Value>>(text);
    assert!(read(r#"{"a":[1,1.5,"x"]}"#).is_ok());
    for text in [
        r#"{"a":{"b":1,"b":2}}"#,
        r#"{"a":-0}"#,
        r#"{"a":"\u0000"}"#,
        r#"{"a":9007199254740992}"#,
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_read_as_a_type_is_held_to_the_one_form_too() {
    let read = |text: &str| from_canonical::<BTreeMap<String, u8>>(text.as_bytes(), &WIDE);
    assert_eq!(read(r#"{"a":1}"#), Ok(BTreeMap::from([("a".into(), 1)])));
    for text in [r#"{"a": 1}"#, r#"{"b":1,"a":1}"#, r#"{"\u0061":1}"#] {
        assert_eq!(read(text), Err(JsonError::NotCanonical), "{text}");
    }
    assert!(matches!(read(r#"{"a":256}"#), Err(JsonError::Shape { .. })));
}

#[test]
fn an_error_says_where_in_the_text_it_is() {
    for (text, pointer) in [
        (r#"{"a":[1,{"b/c":-0}]}"#, "/a/1/b~1c"),
        (r#"{"a":{"x~":1,"x~":1}}"#, "/a/x~0"),
        (r#"[0,[1,"\ud800"]]"#, "/1/1"),
        (r#"{"a":[1,2"#, "/a/2"),
        ("", ""),
    ] {
        assert_eq!(
            parse_located(text.as_bytes(), &WIDE).unwrap_err().pointer,
            pointer,
            "{text}"
        );
    }
}
