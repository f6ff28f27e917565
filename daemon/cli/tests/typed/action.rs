//! The action for CI: what it compares with, how it ends, and that nothing of a repository is ever a command.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::offline::said;

const ACTION: &str = include_str!("../../../../.github/actions/authority-diff/action.yml");

/// One tool whose argument has this schema.
fn tools(schema: &str) -> String {
    format!(
        r#"{{"tools":[{{"name":"send","inputSchema":{{"type":"object","additionalProperties":false,"properties":{{"body":{schema}}}}}}}]}}"#
    )
}

const NARROW: &str = r#"{"type":"string","maxLength":100}"#;
const WIDE: &str = r#"{"type":"string","maxLength":2000}"#;

/// A repository with a protected branch at an origin, and a checkout of a change.
struct Change {
    folder: tempfile::TempDir,
}

impl Change {
    /// Whose protected branch has this list, by this name.
    fn on(file: &str, before: &str) -> Self {
        let change = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let origin = change.folder.path().join("origin");
        fs::create_dir(&origin).unwrap();
        git(&origin, &["init", "--quiet", "--initial-branch=main"]);
        fs::write(origin.join(file), before).unwrap();
        git(&origin, &["add", "--all"]);
        git(&origin, &["commit", "--quiet", "--message=x"]);
        git(
            change.folder.path(),
            &["clone", "--quiet", "origin", "checkout"],
        );
        change
    }

    fn checkout(&self) -> PathBuf {
        self.folder.path().join("checkout")
    }

    fn run(&self, file: &str, more: &[(&str, &str)]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../.github/actions/authority-diff/diff.sh");
        Command::new("bash")
            .arg(script)
            .current_dir(self.checkout())
            .env("FILE", file)
            .env("BASELINE", "main")
            .env("CUSTODY", env!("CARGO_BIN_EXE_custody"))
            .env("GITHUB_STEP_SUMMARY", self.folder.path().join("summary"))
            .envs(more.iter().copied())
            .output()
            .unwrap()
    }
}

fn git(folder: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@example.test"])
        .args(["-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_change_that_gives_more_authority_fails_and_one_that_does_not_passes() {
    let change = Change::on("tools.json", &tools(NARROW));
    let output = change.run("tools.json", &[("FAIL_ON_REVIEW", "false")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));

    let list = change.checkout().join("tools.json");
    fs::write(&list, tools(WIDE)).unwrap();
    let output = change.run("tools.json", &[("FAIL_ON_REVIEW", "false")]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("maxLength"), "{}", said(&output));
    let summary = fs::read_to_string(change.folder.path().join("summary")).unwrap();
    let quoted = |it: &&str| it.starts_with("    ") || it.starts_with("###") || it.is_empty();
    assert!(summary.lines().all(|it| quoted(&it)), "{summary}");
    let neither = [("FAIL_ON_REVIEW", "false"), ("FAIL_ON_INCREASE", "false")];
    assert_eq!(change.run("tools.json", &neither).status.code(), Some(0));

    // Whoever commits to the change does not change the baseline.
    git(
        &change.checkout(),
        &["commit", "--quiet", "--all", "--message=y"],
    );
    git(
        &change.checkout(),
        &["branch", "--quiet", "--force", "keep"],
    );
    let output = change.run("tools.json", &[("FAIL_ON_REVIEW", "false")]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

#[test]
fn what_cannot_be_compared_fails() {
    let change = Change::on("tools.json", &tools(NARROW));
    for (file, more, why) in [
        ("", ("X", ""), "no file"),
        ("tools.json", ("BASELINE", ""), "no baseline"),
        ("tools.json", ("BASELINE", "nowhere"), "cannot be fetched"),
        ("other.json", ("X", ""), "has no other.json"),
        ("tools.json", ("FAIL_ON_REVIEW", "maybe"), "true or false"),
        ("tools.json", ("CUSTODY", "/nowhere/custody"), "no custody"),
    ] {
        let output = change.run(file, &[more]);
        assert_eq!(output.status.code(), Some(125), "{why}: {}", said(&output));
        assert!(said(&output).contains(why), "{why}: {}", said(&output));
    }
    fs::write(change.checkout().join("tools.json"), "no list").unwrap();
    let output = change.run("tools.json", &[]);
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
}

/// Names of files and branches are a stranger's in a pull request.
#[test]
fn no_name_is_ever_a_command_or_an_option() {
    let name = "$(touch ran);`touch ran`'\"; touch ran #.json";
    let change = Change::on(name, &tools(NARROW));
    let output = change.run(name, &[("FAIL_ON_REVIEW", "false")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    for branch in ["--upload-pack=touch ran", "main; touch ran", "$(touch ran)"] {
        let output = change.run(name, &[("BASELINE", branch)]);
        assert_eq!(
            output.status.code(),
            Some(125),
            "{branch}: {}",
            said(&output)
        );
    }
    assert!(!change.checkout().join("ran").exists());
    // An expression in a script is pasted into it before the shell reads it.
    for line in ACTION
        .lines()
        .filter(|it| it.trim_start().starts_with("run:"))
    {
        assert!(!line.contains("${{"), "{line}");
    }
    assert_eq!(ACTION.matches("run:").count(), 1);
}
