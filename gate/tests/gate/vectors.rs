//! RFC 8785 and Ed25519, on vectors that others made.

use ed25519_dalek::{Signature, VerifyingKey};
use gate::json::{Limits, canonical, parse};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const CANONICAL: &str = include_str!("../../../fixtures/vectors/aps/canonical-bytes-jcs-v2.json");
const SIGNED: [&str; 2] = [
    include_str!("../../../fixtures/vectors/aps/canonicalize-fixture-v1.json"),
    include_str!("../../../fixtures/vectors/aps/bilateral-golden-fixture-v1.json"),
];

fn vectors(file: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(file).unwrap();
    file["vectors"].as_array().unwrap().clone()
}

fn bytes(vector: &Value, key: &str) -> Vec<u8> {
    hex::decode(vector[key].as_str().unwrap()).unwrap()
}

/// The canonical form of a vector's input by our own reader and writer, or why it has none.
fn ours(vector: &Value) -> Result<Vec<u8>, String> {
    let input = serde_json::to_vec(&vector["input"]).unwrap();
    parse(&input, &Limits::LINE)
        .map(|value| canonical(&value))
        .map_err(|error| error.to_string())
}

fn agrees(vector: &Value) {
    let name = &vector["name"];
    let theirs = bytes(vector, "canonical_bytes_hex");
    assert_eq!(ours(vector).as_ref(), Ok(&theirs), "{name}");
    assert_eq!(
        Sha256::digest(&theirs).as_slice(),
        bytes(vector, "canonical_sha256"),
        "{name}"
    );
}

#[test]
fn the_canonical_bytes_are_those_of_others_and_what_has_two_meanings_has_none() {
    let all = vectors(CANONICAL);
    assert_eq!(all.len(), 10);
    let mut refused = Vec::new();
    for vector in &all {
        match ours(vector) {
            Ok(_) => agrees(vector),
            Err(why) => {
                assert!(why.contains("2^53"), "{why}");
                refused.push(vector["name"].as_str().unwrap());
            }
        }
    }
    assert_eq!(
        refused,
        [
            "float-1e21-boundary",
            "integer-above-2pow53",
            "integer-2pow60-inside-int64",
            "integer-2pow68-above-int64",
        ]
    );
}

#[test]
fn signatures_of_others_over_canonical_bytes_verify_and_over_no_other_bytes() {
    let all: Vec<Value> = SIGNED.iter().flat_map(|file| vectors(file)).collect();
    assert_eq!(all.len(), 12);
    let parts = |vector: &Value| {
        let key = bytes(vector, "ed25519_pubkey_hex").try_into().unwrap();
        let signature = bytes(vector, "ed25519_signature_over_canonical_hex");
        (
            VerifyingKey::from_bytes(&key).unwrap(),
            Signature::from_slice(&signature).unwrap(),
        )
    };
    for (at, vector) in all.iter().enumerate() {
        agrees(vector);
        assert_eq!(vector["expected_verification"], true);
        let (key, signature) = parts(vector);
        for (other, it) in all.iter().enumerate() {
            let verified = key.verify_strict(&ours(it).unwrap(), &signature).is_ok();
            // Both signatures of one receipt are over the same bytes.
            let same = at == other || ours(it) == ours(vector);
            assert_eq!(verified, same, "{} over {}", vector["name"], it["name"]);
        }
    }
}
