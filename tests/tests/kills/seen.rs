//! What came of all points: in the chain of receipts, and at the effect server.

use std::{collections::BTreeSet, fs};

use custody_tests::ground::Ground;
use serde_json::Value;

/// What the receipts' chain says, line by line.
#[derive(Default)]
pub(crate) struct Receipts {
    pub(crate) intents: usize,
    pub(crate) nonces: BTreeSet<String>,
    pub(crate) open: usize,
    pub(crate) done: usize,
    pub(crate) in_doubt: usize,
}

impl Receipts {
    pub(crate) fn read(ground: &Ground) -> Self {
        let folder = ground.host.state().join("receipts");
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
            .collect();
        names.sort();
        let mut all = Self::default();
        let mut open = BTreeSet::new();
        for name in names {
            for line in fs::read_to_string(name).unwrap().lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                if let Some(intent) = line.pointer("/body/intent") {
                    all.intents += 1;
                    let nonce = intent["effect"]["nonce"].as_str().unwrap();
                    all.nonces.insert(nonce.into());
                    open.insert(line["position"].as_u64().unwrap());
                }
                if let Some(receipt) = line.pointer("/body/receipt") {
                    if let Some(position) = receipt.pointer("/intent/position") {
                        assert!(open.remove(&position.as_u64().unwrap()), "{receipt}");
                    }
                    all.done += usize::from(receipt.pointer("/outcome/done").is_some());
                    all.in_doubt += usize::from(receipt.pointer("/outcome/in_doubt").is_some());
                }
            }
        }
        all.open = open.len();
        all
    }
}

/// What the server saw in all.
#[derive(Debug)]
pub(crate) struct Effects {
    pub(crate) count: usize,
    pub(crate) twice: Vec<String>,
}

pub(crate) fn all_effects(ground: &Ground) -> Effects {
    let mut bodies = BTreeSet::new();
    let mut twice = Vec::new();
    let seen = ground.effects("").unwrap();
    for it in &seen {
        let body = format!("{it:?}");
        let nonce = body
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .find(|word| word.starts_with("kill-") || word.starts_with("warm-"))
            .unwrap_or_default()
            .to_owned();
        if nonce.starts_with("kill-") && !bodies.insert(nonce.clone()) {
            twice.push(nonce);
        }
    }
    Effects {
        count: seen.len(),
        twice,
    }
}
