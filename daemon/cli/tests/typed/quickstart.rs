//! What a newcomer types first.

use std::fs;

use crate::service::custody;

/// Byte by byte; `custody quickstart > fixtures/quickstart.txt` writes it anew.
const SAID: &str = include_str!("../../../../fixtures/quickstart.txt");

#[test]
fn the_quickstart_says_what_it_said_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let output = custody(&["quickstart"])
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("TMPDIR", folder.path())
        .env("CUSTODY_SOCKET", "/nowhere/control.sock")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said, SAID);
    assert!(output.stderr.is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Held to the file so that nobody writes another story into it.
#[test]
fn of_three_calls_the_two_that_are_not_allowed_reach_no_effect() {
    assert!(SAID.contains("\ninvocations: 0, 0, 1\n"));
    for (rule, count) in [
        ("  refuse  rule trusted_value: ", "  invocations 0"),
        ("  refuse  rule bounds: ", "  invocations 0"),
        ("  refuse  rule taint: ", "  invocations 0"),
        ("  hold    rule confirmation: ", "  invocations 0"),
        ("  allow   ", "  invocations 1; simulated: POST https://"),
    ] {
        let mut lines = SAID.lines().skip_while(|it| !it.starts_with(rule));
        assert!(lines.next().is_some(), "{rule}");
        assert!(lines.next().unwrap().starts_with(count), "{rule}");
    }
}
