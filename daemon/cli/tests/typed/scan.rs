//! `custody scan` as it is typed: what it writes, what it refuses, and that it writes nothing else.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{offline::said, service::custody};

fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mcp-schemas");
    format!("{folder}/{name}")
}

fn scan(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = custody(&["scan"]).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_scan_says_the_same_to_a_terminal_and_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    let to = format!("--output={}", file.display());
    let (one, two) = (
        fixture("mcp-server-fetch.json"),
        fixture("mcp-server-time.json"),
    );
    for format in ["--format=md", "--format=json"] {
        let (code, shown, errors) = scan(&[&one, &two, format]);
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        let (code, nothing, errors) = scan(&[&one, &two, format, &to]);
        assert_eq!((code, nothing.as_str(), errors.as_str()), (Some(0), "", ""));
        assert_eq!(fs::read_to_string(&file).unwrap(), shown);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let (code, redacted, _) = scan(&[&one, "--redact-names"]);
    assert_eq!(code, Some(0));
    assert!(
        !redacted.contains("max_length") && redacted.contains("tool-1"),
        "{redacted}"
    );
}

#[test]
fn a_wrong_command_line_is_2() {
    for arguments in [&[][..], &["--format=xml", "a"], &["a", "--unknown"]] {
        assert_eq!(scan(arguments).0, Some(2), "{arguments:?}");
    }
    assert!(said(&custody(&["scan", "--help"]).output().unwrap()).contains("125"));
}

/// Each is refused with one line and 125, and what was there before is there still.
#[test]
fn bad_input_is_one_line_and_125_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let whole = fs::read(fixture("playwright-mcp.json")).unwrap();
    let arguments: Vec<String> = (0..10_000).map(|n| format!(r#""a{n}":{{}}"#)).collect();
    let many = format!(
        r#"[{{"name":"t","inputSchema":{{"properties":{{{}}}}}}}]"#,
        arguments.join(",")
    );
    let circle = br##"[{"name":"t","inputSchema":{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/a"}}}}]"##;
    let ambiguous = br#"{"tools":[],"functions":[]}"#;
    let bidi = "{\"tools\":[{\"name\":\"a\u{202e}\",\"inputSchema\":{}}]}";
    let huge = folder.path().join("huge.json");
    fs::File::create(&huge).unwrap().set_len(100 << 20).unwrap();
    let cases: Vec<(PathBuf, &str)> = vec![
        (put("ambiguous.json", ambiguous), "more than one reading"),
        (put("oversized.json", &vec![b' '; (8 << 20) + 1]), "8388608"),
        (huge, "8388608"),
        (put("cyclic.json", circle), "leads back to itself"),
        (
            put("duplicate.json", br#"{"tools":[],"tools":[]}"#),
            "twice",
        ),
        (put("nul.json", br#"[{"name":"a\u0000"}]"#), "NUL"),
        (
            put("surrogate.json", br#"[{"name":"\ud800"}]"#),
            "lone surrogate",
        ),
        (put("bidi.json", bidi.as_bytes()), "turns the direction"),
        (put("many.json", many.as_bytes()), "2000 arguments"),
        (put("latin.json", b"[{\"name\":\"\xe9\"}]"), "not UTF-8"),
        (
            put("cut.json", whole.get(..whole.len() / 2).unwrap()),
            "cut off",
        ),
        (put("empty.json", b""), "not json"),
        (folder.path().join("none.json"), "No such file"),
        (folder.path().to_path_buf(), "Is a directory"),
    ];
    let kept = put("kept", b"before");
    let output = format!("--output={}", kept.display());
    let before = fs::read_dir(folder.path()).unwrap().count();
    let good = fixture("mcp-server-time.json");
    for (path, what) in &cases {
        let path = path.to_str().unwrap();
        let (code, shown, errors) = scan(&[&good, path, &output]);
        assert_eq!(code, Some(125), "{path}");
        assert_eq!(shown, "", "{path}");
        assert!(
            errors.contains(what) && errors.contains(path),
            "{path}: {errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(
            errors
                .trim_end()
                .chars()
                .all(|c| !c.is_control() && c != '\u{202e}')
        );
        let (code, shown, _) = scan(&[&good, path]);
        assert_eq!((code, shown.as_str()), (Some(125), ""), "{path}");
    }
    assert_eq!(fs::read(&kept).unwrap(), b"before");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before);
}

#[test]
fn a_report_goes_neither_into_nothing_nor_over_what_it_was_made_of() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("tools.json");
    fs::copy(fixture("mcp-server-time.json"), &input).unwrap();
    let input = input.to_str().unwrap();
    let to = |path: &Path| format!("--output={}", path.display());
    for (output, what) in [
        (folder.path().join("none/report.md"), "No such file"),
        (folder.path().to_path_buf(), "no plain file"),
        (folder.path().join("./tools.json"), "would be overwritten"),
    ] {
        let (code, shown, errors) = scan(&[input, &to(&output)]);
        assert_eq!((code, shown.as_str()), (Some(125), ""), "{errors}");
        assert!(errors.contains(what), "{errors}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(
        fs::read(input).unwrap(),
        fs::read(fixture("mcp-server-time.json")).unwrap()
    );
}

#[test]
fn controls_are_shown_as_unverified_and_refused_where_they_name_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("controls.json");
    let controls = format!("--controls={}", file.display());
    let export = fixture("mcp-server-time.json");
    fs::write(
        &file,
        r#"{"version":1,"tools":{"convert_time":{"risk":{"tier":"read","evidence":"declared"}}}}"#,
    )
    .unwrap();
    let (code, shown, _) = scan(&[&export, &controls]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("Controls: unverified"), "{shown}");
    fs::write(&file, r#"{"version":1,"tools":{"move_time":{}}}"#).unwrap();
    let (code, shown, errors) = scan(&[&export, &controls]);
    assert_eq!((code, shown.as_str()), (Some(125), ""));
    assert!(errors.contains("/tools/move_time"), "{errors}");
}
