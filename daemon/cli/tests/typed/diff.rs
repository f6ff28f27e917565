//! `custody diff` as it is typed: its exit codes, and that it writes whole or nothing.

use std::{fs, path::Path};

use crate::service::custody;

const BEFORE: &str = r#"{"tools":[{"name":"send","inputSchema":{"type":"object","additionalProperties":false,"properties":{"to":{"type":"string","maxLength":64}}}}]}"#;

fn diff(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = custody(&["diff"]).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn put(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().into()
}

#[test]
fn it_fails_for_what_it_is_asked_to_and_for_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| put(folder.path(), name, text);
    let before = put("before.json", BEFORE);
    let wider = put("wider.json", &BEFORE.replace("64", "65"));
    let closer = put("closer.json", &BEFORE.replace("64", "63"));
    let said = put(
        "said.json",
        &BEFORE.replace(
            "\"inputSchema\"",
            "\"description\":\"Sends.\",\"inputSchema\"",
        ),
    );
    let owing = put(
        "owing.json",
        &BEFORE.replace("\"type\":\"string\"", "\"type\":[\"string\",\"integer\"]"),
    );
    let (increase, review) = ("--fail-on-increase", "--fail-on-review");
    for (old, new, flags, code) in [
        (&before, &before, &[increase, review][..], 0),
        (&before, &wider, &[], 0),
        (&before, &wider, &[increase], 1),
        (&before, &wider, &[review], 0),
        (&before, &closer, &[increase, review], 0),
        (&before, &said, &[increase], 0),
        (&before, &said, &[review], 1),
        (&before, &said, &[increase, review], 1),
        // What was left to look at before is left now.
        (&owing, &owing, &[increase], 0),
        (&owing, &owing, &[review], 1),
    ] {
        let arguments: Vec<&str> = [old.as_str(), new]
            .into_iter()
            .chain(flags.iter().copied())
            .collect();
        let (found, shown, errors) = diff(&arguments);
        assert_eq!(
            (found, errors.as_str()),
            (Some(code), ""),
            "{arguments:?}\n{shown}"
        );
    }
    let (_, shown, _) = diff(&[&before, &wider]);
    let line = "authority_increase   send /to: bound `maxLength`, 64 -> 65\n";
    assert!(shown.starts_with(line), "{shown}");
}

#[test]
fn what_cannot_be_compared_is_125_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let before = put(folder.path(), "before.json", BEFORE);
    let cut = put(folder.path(), "cut.json", BEFORE.get(..40).unwrap());
    let report = folder.path().join("report.json");
    let to = format!("--output={}", report.display());
    let scanned = custody(&["scan", &before, "--format=json", &to])
        .output()
        .unwrap();
    assert_eq!(scanned.status.code(), Some(0));
    let report = report.to_str().unwrap();
    let kept = put(folder.path(), "kept", "before");
    let kept_to = format!("--output={kept}");
    for bad in [cut.as_str(), report, "/none.json"] {
        for pair in [[&before, bad], [bad, &before]] {
            let (code, shown, errors) = diff(&[pair[0], pair[1], "--fail-on-increase", &kept_to]);
            assert_eq!((code, shown.as_str()), (Some(125), ""), "{errors}");
            assert!(
                errors.contains(bad) && errors.lines().count() == 1,
                "{errors}"
            );
        }
    }
    assert_eq!(fs::read(&kept).unwrap(), b"before");
    let over = format!("--output={before}");
    let (code, _, errors) = diff(&[&before, &before, &over]);
    assert!(
        code == Some(125) && errors.contains("overwritten"),
        "{errors}"
    );
    assert_eq!(fs::read_to_string(&before).unwrap(), BEFORE);
    assert_eq!(diff(&[&before]).0, Some(2));
}

#[test]
fn controls_are_compared_as_stated() {
    let folder = tempfile::tempdir().unwrap();
    let before = put(folder.path(), "before.json", BEFORE);
    let controls = r#"{"version":1,"tools":{"send":{"risk":{"tier":"write","evidence":"declared","effects":["sends"]},"arguments":{"to":{"authority":"locked","bounds":[]}}}}}"#;
    let old = put(folder.path(), "old.json", controls);
    let new = put(
        folder.path(),
        "new.json",
        &controls.replace("locked", "free"),
    );
    let (was, is) = (
        format!("--controls-before={old}"),
        format!("--controls-after={new}"),
    );
    let (code, shown, errors) = diff(&[&before, &before, &was, &is, "--fail-on-increase"]);
    assert_eq!((code, errors.as_str()), (Some(1), ""), "{shown}");
    assert!(
        shown.contains("as the controls state, locked -> free"),
        "{shown}"
    );
    let (code, _, errors) = diff(&[&before, &before, &format!("--controls-after={before}")]);
    assert!(
        code == Some(125) && errors.contains("before.json"),
        "{errors}"
    );
}
