//! The fuzz targets on what fuzzing kept, and on what is near it: no compiler but the usual one.
//!
//! `cargo xtask fuzz` runs them under libFuzzer and keeps what reached something new.
#![cfg(test)]

#[path = "../fuzz/call_parsing.rs"]
mod call_parsing;
#[path = "../fuzz/handoff.rs"]
mod handoff;
#[path = "../fuzz/policy_parsing.rs"]
mod policy_parsing;
#[path = "../fuzz/value_origin.rs"]
mod value_origin;

use proptest::prelude::*;

type Target = fn(&[u8]);

const TARGETS: [(Target, &str); 4] = [
    (
        call_parsing::run,
        include_str!("../../fixtures/fuzz/call_parsing.jsonl"),
    ),
    (
        handoff::run,
        include_str!("../../fixtures/fuzz/handoff.jsonl"),
    ),
    (
        policy_parsing::run,
        include_str!("../../fixtures/fuzz/policy_parsing.jsonl"),
    ),
    (
        value_origin::run,
        include_str!("../../fixtures/fuzz/value_origin.jsonl"),
    ),
];

/// Each line of a corpus is a JSON text of hexadecimal digits.
fn inputs(corpus: &str) -> Vec<Vec<u8>> {
    corpus
        .lines()
        .map(|line| hex::decode(line.trim_matches('"')).unwrap())
        .collect()
}

#[test]
fn what_fuzzing_kept_breaks_nothing() {
    for (run, corpus) in TARGETS {
        let inputs = inputs(corpus);
        assert!(!inputs.is_empty());
        for input in inputs {
            run(&input);
        }
    }
}

proptest! {
    /// An input with another one's end, and with single bytes changed.
    #[test]
    fn what_is_near_it_breaks_nothing(
        target in 0_usize..4,
        (one, other) in any::<(proptest::sample::Index, proptest::sample::Index)>(),
        cut in any::<proptest::sample::Index>(),
        changes in proptest::collection::vec(any::<(proptest::sample::Index, u8)>(), 0..4),
    ) {
        let (run, corpus) = TARGETS[target];
        let inputs = inputs(corpus);
        let (one, other) = (one.get(&inputs), other.get(&inputs));
        let mut input = one[..cut.index(one.len() + 1)].to_vec();
        input.extend_from_slice(&other[cut.index(other.len() + 1)..]);
        if !input.is_empty() {
            for (at, byte) in changes {
                let at = at.index(input.len());
                input[at] = byte;
            }
        }
        run(&input);
    }
}
