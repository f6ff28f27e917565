//! A server that is run for its tools: nothing unasked, nothing unbounded, nothing left.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use custody_sys::pty::{self, Pty};

use crate::{offline::said, service::custody};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a server that is this script of the shell, which has `$DIR`.
    fn import(&self, script: &str, more: &[&str]) -> Output {
        custody(&["import-live", "--output"])
            .arg(self.path("tools.json"))
            .args(more)
            .args(["--env", &format!("DIR={}", self.folder.path().display())])
            .args(["--", "/bin/sh", "-c", script])
            .env("SECRET_TOKEN", "s3cret")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn written(&self) -> Option<String> {
        fs::read_to_string(self.path("tools.json")).ok()
    }
}

/// Answers by the number of a request, which is that of its order. What it was asked lies in `$DIR/asked`.
const SERVER: &str = r#"
tool() { printf '{"name":"%s","description":"%s","inputSchema":{"type":"object","properties":{"to":{"type":"string"}}}}' "$1" "$2"; }
while IFS= read -r line; do
  printf '%s\n' "$line" >> "$DIR/asked"
  case $line in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"desk","version":"3"}}}\n' ;;
    *'"cursor":"two"'*) printf '{"jsonrpc":"2.0","id":3,"result":{"tools":[%s]}}\n' "$(tool second "${SECRET_TOKEN-not given}")" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":2,"result":{"tools":[%s],"nextCursor":"two"}}\n' "$(tool first x)" ;;
  esac
done
printf 'ended\n' >> "$DIR/asked"
"#;

#[test]
fn every_page_of_a_servers_tools_is_written_in_a_file_that_can_be_scanned() {
    let place = Place::new();
    let output = place.import(SERVER, &["--yes-run-it"]);
    let words = said(&output);
    assert_eq!(output.status.code(), Some(0), "{words}");
    for part in [
        "RUNS THE SERVER, UNCONFINED",
        "all rights of uid",
        "2 tools in",
        "`desk 3` says them by MCP 2025-06-18",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let written = place.written().unwrap();
    // Its environment is made anew.
    assert!(
        written.contains("not given") && !written.contains("s3cret"),
        "{written}"
    );
    let scan = custody(&["scan"])
        .arg(place.path("tools.json"))
        .output()
        .unwrap();
    assert_eq!(scan.status.code(), Some(0), "{}", said(&scan));
    assert!(said(&scan).contains("second"), "{}", said(&scan));
    // It ended by itself: its input did.
    let asked = fs::read_to_string(place.path("asked")).unwrap();
    assert!(asked.ends_with("ended\n"), "{asked}");
}

#[test]
fn what_is_named_is_given_and_said_where_it_seems_to_be_a_credential() {
    let place = Place::new();
    let output = place.import(SERVER, &["--yes-run-it", "--env", "SECRET_TOKEN"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        said(&output).contains("given `SECRET_TOKEN`"),
        "{}",
        said(&output)
    );
    assert!(!said(&output).contains("s3cret"), "{}", said(&output));
    assert!(place.written().unwrap().contains("s3cret"));
}

#[test]
fn nothing_runs_unless_the_caller_says_so() {
    let place = Place::new();
    let output = place.import("touch \"$DIR/ran\"", &[]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        said(&output).contains("nothing was run"),
        "{}",
        said(&output)
    );
    assert!(!place.path("ran").exists() && place.written().is_none());
    // Where the export is to go must be said, and what to run.
    for arguments in [
        &["import-live", "--", "true"][..],
        &["import-live", "--output", "x"],
    ] {
        let output = custody(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_server_that_is_silent_endless_or_wrong_writes_nothing_and_is_ended() {
    let one = r#"read -r line; printf '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}\n'; read -r a; read -r b;"#;
    for (script, why) in [
        // Its child too, and what ignores SIGTERM.
        (
            r#"trap '' TERM; sleep 300 & echo $! > "$DIR/child"; sleep 300"#.to_owned(),
            "did not answer `initialize` in its time",
        ),
        (
            r#"printf '\033[2Jno such thing\n' >&2; exit 3"#.into(),
            "\\u{1b}[2Jno such thing",
        ),
        (
            r#"head -c 9000000 /dev/zero | tr '\0' a; sleep 300"#.into(),
            "more than 8 MiB",
        ),
        (
            r#"while :; do printf '{"jsonrpc":"2.0","method":"x"}\n'; done"#.into(),
            "messages that nobody asked for",
        ),
        (
            format!(
                r#"{one} printf '{{"jsonrpc":"2.0","id":2,"result":{{"tools":[{{"name":"a"}}]}}}}\n'"#
            ),
            "no export that can be scanned",
        ),
        (
            format!(
                r#"{one} printf '{{"jsonrpc":"2.0","id":2,"result":{{"tools":[],"tools":[]}}}}\n'"#
            ),
            "twice",
        ),
    ] {
        let place = Place::new();
        let begun = Instant::now();
        let output = place.import(&script, &["--yes-run-it", "--seconds", "5"]);
        let words = said(&output);
        assert_eq!(output.status.code(), Some(125), "{script}: {words}");
        assert!(words.contains(why), "{script}: {words}");
        assert!(place.written().is_none(), "{script}");
        // Five seconds, and one for each way to end; the rest is for a busy machine.
        assert!(begun.elapsed() < Duration::from_secs(60), "{script}");
        if let Ok(child) = fs::read_to_string(place.path("child")) {
            let proc = PathBuf::from(format!("/proc/{}/stat", child.trim()));
            let is_over = || fs::read_to_string(&proc).map_or(true, |it| it.contains(") Z "));
            while !is_over() && begun.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(is_over(), "{script}");
        }
    }
}

/// Whoever sits at a terminal is asked, and only `yes` is one.
#[test]
fn at_a_terminal_it_asks_and_only_yes_runs_it() {
    for (answer, code) in [("yes\n", Some(0)), ("y\n", Some(125)), ("\n", Some(125))] {
        let place = Place::new();
        let Pty { master, slave } = pty::open(Path::new("/dev")).unwrap();
        let stdio = || Stdio::from(slave.try_clone().unwrap());
        let mut child = custody(&["import-live", "--output"])
            .arg(place.path("tools.json"))
            .args(["--env", &format!("DIR={}", place.folder.path().display())])
            .args(["--", "/bin/sh", "-c", SERVER])
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .unwrap();
        // A program that ends without a question ends the reading.
        drop(slave);
        let mut screen = File::from(master);
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("Write `yes`: ") {
            let mut bytes = [0; 512];
            let read = screen.read(&mut bytes).unwrap();
            seen.extend_from_slice(&bytes[..read]);
        }
        assert!(!place.path("asked").exists());
        screen.write_all(answer.as_bytes()).unwrap();
        assert_eq!(child.wait().unwrap().code(), code, "{answer:?}");
        assert_eq!(place.written().is_some(), code == Some(0), "{answer:?}");
    }
}

/// What was there stays as it was where something is wrong.
#[test]
fn an_export_is_replaced_whole_or_not_at_all() {
    let place = Place::new();
    fs::write(place.path("tools.json"), "kept").unwrap();
    let output = place.import("exit 1", &["--yes-run-it"]);
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(place.written().unwrap(), "kept");
    let output = place.import(SERVER, &["--yes-run-it"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(place.written().unwrap().contains("first"));
}
