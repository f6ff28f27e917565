//! Every call of `fixtures/calls` is answered as the file says.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use crate::scene::{Sets, Values, ask, compile, json, open, saw};
use gate::policy::Policy;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    policy: String,
    values: BTreeMap<String, String>,
    owned: BTreeMap<String, Vec<String>>,
    call: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    after: Vec<String>,
    #[serde(default)]
    workspace: bool,
    tool: String,
    arguments: String,
    answer: String,
    argument: Option<String>,
    complete: Option<String>,
}

fn wrong(policy: &Policy, file: &File, case: &Case) -> Option<String> {
    let values: Vec<_> = file
        .values
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let members: Vec<Vec<&str>> = file
        .owned
        .values()
        .map(|it| it.iter().map(String::as_str).collect())
        .collect();
    let sets: Vec<_> = file
        .owned
        .keys()
        .zip(&members)
        .map(|(name, it)| (name.as_str(), it.as_slice()))
        .collect();
    let (values, sets): (Values<'_>, Sets<'_>) = (&values, &sets);
    let mut facts = open(policy, values, sets, case.workspace);
    for tool in &case.after {
        let _label = saw(policy, &mut facts, tool);
    }
    let (answer, argument, complete) = match ask(policy, &facts, &case.tool, &json(&case.arguments))
    {
        Ok(allowed) => {
            let call = String::from_utf8(allowed.bytes().to_vec()).unwrap();
            ("allow".to_owned(), None, Some(call))
        }
        Err(it) => (
            it.rule.to_string(),
            it.argument.map(|it| it.to_string()),
            None,
        ),
    };
    let same_call = case.complete.is_none() || case.complete == complete;
    (answer != case.answer || argument != case.argument || !same_call)
        .then(|| format!("{}: {answer} {argument:?} {complete:?}", case.name))
}

#[test]
fn each_known_call_is_answered_as_its_file_says() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/calls");
    let mut failed = Vec::new();
    let mut rules = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file: File = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let policy = compile("calls", &file.policy);
        for case in &file.call {
            rules.insert(case.answer.clone());
            failed.extend(wrong(&policy, &file, case));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // The files try every rule.
    let every = [
        "allow",
        "arguments",
        "bounds",
        "owned_set",
        "request",
        "taint",
        "trusted_value",
        "type",
        "unknown_tool",
    ];
    assert_eq!(rules.iter().collect::<Vec<_>>(), every);
}
