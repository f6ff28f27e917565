//! `custody policy init` as it is typed: a draft that compiles, over nothing that is there.

use std::fs;

use crate::{offline::said, service::custody};

#[test]
fn a_draft_is_a_policy_of_its_file_and_never_replaces_one() {
    let folder = tempfile::tempdir().unwrap();
    let export = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/mcp-schemas/server-filesystem.json"
    );
    let file = folder.path().join("files.toml");
    let to = format!("--output={}", file.display());
    let init = |more: &[&str]| {
        let output = custody(&["policy", "init", export])
            .args(more)
            .output()
            .unwrap();
        (output.status.code(), said(&output))
    };
    let (code, shown) = init(&[]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("[tools.read_file]") && shown.contains("# guess: "),
        "{shown}"
    );
    let (code, words) = init(&[&to]);
    assert_eq!(code, Some(0), "{words}");
    assert_eq!(fs::read_to_string(&file).unwrap(), shown);
    let guesses = format!("{} guesses are marked", shown.matches("# guess: ").count());
    assert!(words.contains(&guesses), "{words}");
    let checked = custody(&["policy", "check", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", said(&checked));

    fs::write(&file, "what a person wrote").unwrap();
    let (code, words) = init(&[&to]);
    assert!(
        code == Some(125) && words.contains("is there already"),
        "{words}"
    );
    assert_eq!(fs::read(&file).unwrap(), b"what a person wrote");
    let odd = format!("--output={}/Files.txt", folder.path().display());
    let (code, words) = init(&[&odd]);
    assert!(code == Some(125) && words.contains("NAME.toml"), "{words}");
    let bad = custody(&["policy", "init", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(bad.status.code(), Some(125));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
