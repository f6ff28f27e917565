//! What is not of the form is refused, with words that say where.

use serde_json::{Value as Json, json};

use crate::scene::{read, suite};

/// The whole error, its sources too.
fn refused(change: impl FnOnce(&mut Json)) -> String {
    let mut suite = suite();
    change(&mut suite);
    let error = read(&suite).unwrap_err();
    match std::error::Error::source(&error) {
        None => error.to_string(),
        Some(source) => format!("{error}: {source}"),
    }
}

#[test]
fn the_small_suite_is_of_the_form() {
    assert_eq!(read(&suite()).unwrap().form(), "agentdojo-replay/1");
}

#[test]
fn another_form_is_refused_by_its_name_before_anything_else() {
    let why = refused(|it| {
        it["format"] = json!("agentdojo-replay/2");
        it["new"] = json!(1);
    });
    assert_eq!(
        why,
        "`small.json` is of the form `agentdojo-replay/2`; only `agentdojo-replay/1` is read"
    );
}

#[test]
fn what_does_not_fit_together_is_refused() {
    type Change = fn(&mut Json);
    let cases: [(Change, &str); 11] = [
        (|it| it["new"] = json!(1), "unknown field `new`"),
        (
            |it| it["tools"][1]["name"] = json!("list"),
            "tools: a name stands twice",
        ),
        (
            |it| it["injection_tasks"][0]["id"] = json!("u"),
            "task `u`: its id stands twice",
        ),
        (
            |it| it["user_tasks"][0]["calls"][0]["tool"] = json!("x"),
            "task `u`: call 0 is of the unknown tool `x`",
        ),
        (
            |it| it["user_tasks"][0]["calls"][0]["args"] = json!([]),
            "task `u`: call 0 has args that are no object",
        ),
        (
            |it| it["user_tasks"][0]["calls"][1]["vectors"] = json!([]),
            "task `u`: call 1 says that its markers are {}; its result has {\"note\"}",
        ),
        (
            |it| it["vectors"] = json!({}),
            "task `u`: call 1 has the unknown marker `note`",
        ),
        (
            |it| it["user_tasks"][0]["first_injected_call"] = json!(2),
            "task `u`: says that call Some(2) is the first with a marker; it is Some(1)",
        ),
        (
            |it| it["user_tasks"][0]["required_calls"] = json!([3]),
            "task `u`: required_calls names call 3; there are 3",
        ),
        (
            |it| it["injection_tasks"][0]["minimal_success_sets"] = json!([[]]),
            "task `i`: wants calls, and has no set of them that wins",
        ),
        (
            |it| it["injection_tasks"][0]["minimal_success_sets"] = json!([[2]]),
            "task `i`: minimal_success_sets names call 2; there are 2",
        ),
    ];
    for (change, expected) in cases {
        let why = refused(change);
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn a_folder_without_a_suite_and_a_suite_in_two_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = custody_replay::format::read_folder(folder.path()).unwrap_err();
    assert!(
        empty.to_string().contains("has no file NAME.json"),
        "{empty}"
    );
    for name in ["a.json", "b.json"] {
        std::fs::write(folder.path().join(name), suite().to_string()).unwrap();
    }
    let twice = custody_replay::format::read_folder(folder.path()).unwrap_err();
    assert!(
        twice.to_string().contains("suite `small` is in two files"),
        "{twice}"
    );
}
