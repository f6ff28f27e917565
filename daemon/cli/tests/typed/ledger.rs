//! A ledger that is read without a service and without a private key: listed, joined, exported.

use std::path::PathBuf;

use custody_ledger::{key, writer::Writer};
use gate::{
    chain::Place,
    decide::Grounds,
    digest::{Digest, Domain},
    id::{CredentialLabel, SessionId, ToolName},
    json::{self, Limits, Value},
    meaning::Meaning,
    nonce::Nonce,
    policy::{Label, OnTaint, Risk},
    record::{Bound, Decision, Effect, Freshness, Outcome, Verification},
};

use crate::{offline::said, service::custody};

/// What an agent may write to act on a terminal.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{202e}";

pub(crate) struct Ledger {
    pub(crate) folder: tempfile::TempDir,
    allowed: Place,
    receipt: Place,
}

fn call() -> Value {
    let text =
        format!("{{\"arguments\":{{\"amount\":7,\"to\":\"alice{HOSTILE}\"}},\"tool\":\"send\"}}");
    let text = text
        .replace('\u{1b}', "\\u001b")
        .replace('\u{7}', "\\u0007");
    json::parse(text.as_bytes(), &Limits::CALL).unwrap()
}

fn digest() -> Digest {
    Digest::of(Domain::Call, &json::canonical(&call()))
}

/// A session with a refused call, and one that was allowed, performed and recorded.
pub(crate) fn ledger() -> Ledger {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["public", "decisions", "receipts"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    let key = |chain: &str| {
        key::load_or_create(
            &path(&format!("{chain}.key")),
            &path(&format!("public/{chain}.pub")),
        )
        .unwrap()
    };
    let (decisions, receipts) = (key("decisions"), key("receipts"));
    let mut decisions = Writer::<Decision>::open(&path("decisions"), decisions)
        .unwrap()
        .0;
    let mut receipts = Writer::<Effect>::open(&path("receipts"), receipts)
        .unwrap()
        .0;
    let policy = Digest::of(Domain::Policy, b"p");
    let session = SessionId(7);
    let tool = ToolName::parse("send").unwrap();
    let refused = Decision::Refused {
        at: 1_796_000_000_000,
        argument: None,
        change: None,
        from: Vec::new(),
        grounds: None,
        arguments: None,
        digest: digest(),
        policy,
        rule: "unknown_tool".into(),
        session: SessionId(8),
        taint: [].into(),
        tool: format!("sent{HOSTILE}"),
        why: "there is no such tool".into(),
    };
    decisions.append(&refused).unwrap();
    let allowed = decisions
        .append(&Decision::Allowed {
            at: 1_796_000_001_000,
            call: call(),
            credential: CredentialLabel::parse("mail").unwrap(),
            digest: digest(),
            from: Vec::new(),
            grounds: Grounds {
                approval: None,
                arguments: [].into(),
                branch: None,
                classes: [].into(),
                on_taint: OnTaint::Refuse,
                risk: Risk::Write,
                taint: [].into(),
            },
            meaning: Meaning::default(),
            opens: None,
            policy,
            session,
        })
        .unwrap();
    let effect = Bound {
        approval: None,
        call: digest(),
        credential: CredentialLabel::parse("mail").unwrap(),
        decision: allowed,
        nonce: Nonce([3; 16]),
        policy,
        session,
        tool: tool.clone(),
    };
    let result = Digest::of(Domain::Result, b"{}");
    let receipt = receipts
        .append(&Effect::Receipt {
            at: 1_796_000_002_000,
            effect,
            intent: None,
            outcome: Outcome::Done {
                bytes: 2,
                freshness: Freshness::Unchecked,
                result,
                scrubbed: 0,
                status: 200,
                verification: Verification::UNSUPPORTED,
            },
        })
        .unwrap();
    decisions
        .append(&Decision::Done {
            at: 1_796_000_003_000,
            bytes: 2,
            call: digest(),
            decision: allowed,
            label: Label::Untrusted,
            receipt: receipt.digest,
            result,
            session,
            status: 200,
            tool,
            verification: Verification::UNSUPPORTED,
        })
        .unwrap();
    drop((decisions, receipts));
    Ledger {
        folder,
        allowed,
        receipt,
    }
}

impl Ledger {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, what: &str, more: &[&str]) -> (Option<i32>, String) {
        let output = custody(&["ledger", what])
            .arg(self.folder.path())
            .args(more)
            .output()
            .unwrap();
        let words = said(&output);
        assert!(
            words.chars().all(|c| c == '\n' || !c.is_control()) && !words.contains('\u{202e}'),
            "{words:?}"
        );
        (output.status.code(), words)
    }

    /// What `export` writes, in a file; its text.
    fn export(&self, more: &[&str]) -> (PathBuf, String) {
        let output = custody(&["ledger", "export"])
            .arg(self.folder.path())
            .args(more)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let file = self.path("export");
        std::fs::write(&file, &output.stdout).unwrap();
        (file, String::from_utf8(output.stdout).unwrap())
    }

    fn verify(&self, file: &PathBuf) -> (Option<i32>, String) {
        let output = custody(&["ledger", "verify"])
            .arg(file)
            .arg("--keys")
            .arg(self.path("public"))
            .output()
            .unwrap();
        (output.status.code(), said(&output))
    }
}

#[test]
fn records_are_listed_by_session_tool_outcome_and_time() {
    let ledger = ledger();
    let (code, all) = ledger.run("list", &[]);
    assert_eq!((code, all.lines().count()), (Some(0), 4), "{all}");
    assert!(
        all.contains("unknown_tool") && all.contains("2026-11-30T00:53:20.000Z"),
        "{all}"
    );
    for (filter, count) in [
        (&["--session=0000000000000007"][..], 3),
        (&["--tool=send"], 3),
        (&["--outcome=refused"], 1),
        (&["--outcome=done"], 2),
        (&["--outcome=done", "--chain=receipts"], 1),
        (&["--since=2026-11-30T00:53:22Z"], 2),
        (&["--tool=send", "--outcome=refused"], 0),
    ] {
        let (code, words) = ledger.run("list", filter);
        assert_eq!(
            (code, words.lines().count()),
            (Some(0), count),
            "{filter:?}: {words}"
        );
    }
    let (_code, lines) = ledger.run("list", &["--json", "--outcome=allowed"]);
    let value = json::parse(lines.trim_end().as_bytes(), &Limits::LINE).unwrap();
    let Value::Object(members) = value else {
        panic!("{lines}")
    };
    assert_eq!(members.get("signed"), Some(&Value::Bool(true)));
    let Some(Value::Object(fields)) = members.get("fields") else {
        panic!("{lines}")
    };
    assert_eq!(fields.get("call"), Some(&call()));
}

#[test]
fn a_record_is_shown_with_what_belongs_to_it_in_both_chains() {
    let ledger = ledger();
    let digest = digest().to_string();
    for which in [
        "2",
        "decisions:3",
        "receipts:1",
        &ledger.allowed.digest.to_string(),
        &ledger.receipt.digest.to_string(),
    ] {
        let (code, words) = ledger.run("show", &[which]);
        assert_eq!(code, Some(0), "{words}");
        let heads: Vec<&str> = words
            .lines()
            .filter(|line| !line.starts_with(' '))
            .collect();
        assert_eq!(heads.len(), 3, "{which}: {words}");
        assert!(
            heads[0].contains("allowed") && heads[1].starts_with("receipts"),
            "{words}"
        );
    }
    // Every record of the call, the refused one of another session too.
    let (code, words) = ledger.run("show", &[&digest]);
    let heads = words.lines().filter(|line| !line.starts_with(' ')).count();
    assert_eq!((code, heads), (Some(0), 4), "{words}");
    let (code, words) = ledger.run("show", &["99"]);
    assert_eq!(code, Some(1), "{words}");
}

#[test]
fn an_export_verifies_alone_and_a_changed_one_does_not() {
    let ledger = ledger();
    let (file, text) = ledger.export(&[]);
    let (code, words) = ledger.verify(&file);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("4 records were written so"), "{words}");
    // Each in its own way; the reason is the right one.
    for (from, to, why) in [
        ("\"unknown_tool\"", "\"unknown_tools\"", "it was changed"),
        ("\"position\":1,", "\"position\":2,", "it was changed"),
        ("\"kind\":\"done\"", "\"kind\":\"held\"", "it was changed"),
        ("\"sig\":\"", "\"sig\":\"A", "base64"),
        ("\"payload\":\"eyJ", "\"payload\":\"eyK", "envelope"),
        (
            "application/vnd.in-toto+json",
            "application/json",
            "in-toto",
        ),
        ("custody-export/1", "custody-export/2", "format"),
        (
            "{\"chain\":\"decisions\",\"envelope\"",
            "{\"chain\":\"receipts\",\"envelope\"",
            "envelope",
        ),
        (
            "\"format\":\"custody",
            "\"format\":\"x\",\"format\":\"custody",
            "twice",
        ),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        std::fs::write(&file, changed).unwrap();
        let (code, words) = ledger.verify(&file);
        assert_eq!(code, Some(1), "{from}: {words}");
        assert!(words.contains(why), "{from}: {words}");
    }
    // Another one's keys.
    let other = self::ledger();
    std::fs::write(&file, &text).unwrap();
    let (code, words) = other.verify(&file);
    assert_eq!(code, Some(1), "{words}");
    assert!(
        words.contains("not one of the chain's public keys"),
        "{words}"
    );
    // Envelopes of one group with the records of another.
    let (_file, one) = ledger.export(&["--chain=decisions"]);
    let (_file, two) = ledger.export(&["--chain=receipts"]);
    let records = |text: &str| text.split("\"records\":").nth(1).unwrap().to_owned();
    let swapped = one.replace(&records(&one), &records(&two));
    std::fs::write(&file, swapped).unwrap();
    let (code, words) = ledger.verify(&file);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("it was changed"), "{words}");
}

/// Whoever gets it cannot try values out: neither they nor anything taken of them without a salt is there.
#[test]
fn a_redacted_export_verifies_and_says_nothing_of_what_was_withheld() {
    let ledger = ledger();
    let (file, whole) = ledger.export(&[]);
    let _file = file;
    assert!(whole.contains("alice") && whole.contains(&digest().to_string()));
    let (file, text) = ledger.export(&["--redact=call.arguments.to"]);
    assert!(!text.contains("alice"), "{text}");
    assert!(
        !text.contains(&digest().to_string()),
        "the digest of the call"
    );
    assert!(text.contains("\"amount\""));
    let (code, words) = ledger.verify(&file);
    assert_eq!(code, Some(0), "{words}");
    assert!(
        words.contains("withheld: call.arguments.to, digest"),
        "{words}"
    );
    let (file, text) = ledger.export(&["--redact=session", "--redact=call"]);
    assert!(!text.contains("amount") && !text.contains(&digest().to_string()));
    assert_eq!(ledger.verify(&file).0, Some(0));
}

/// The library's tests say what is counted; here is what the command reads, writes and answers.
#[test]
fn an_audit_reads_a_ledger_or_an_export_and_writes_its_report_whole_or_not_at_all() {
    let ledger = ledger();
    let audit = |what: &std::path::Path, more: &[&str]| {
        let output = custody(&["audit"]).arg(what).args(more).output().unwrap();
        let words = said(&output);
        assert!(
            words.chars().all(|c| c == '\n' || !c.is_control()) && !words.contains('\u{202e}'),
            "{words:?}"
        );
        (output.status.code(), words)
    };
    let (code, text) = audit(ledger.folder.path(), &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("3 decision records of a ledger were read"),
        "{text}"
    );
    let (_code, json) = audit(ledger.folder.path(), &["--format=json"]);
    let whole = json::parse(json.trim_end().as_bytes(), &Limits::LINE).unwrap();
    assert!(matches!(whole, Value::Object(it) if it.contains_key("report_version")));
    // An export needs keys of one's own, and says the same.
    let (file, _lines) = ledger.export(&[]);
    let (code, words) = audit(&file, &[]);
    assert_eq!(code, Some(125));
    assert!(words.contains("give yours"), "{words}");
    let keys = ledger.path("public");
    let keys = format!("--keys={}", keys.display());
    let (code, exported) = audit(&file, &[&keys]);
    assert_eq!(code, Some(0), "{exported}");
    assert_eq!(exported.replace("of an export", "of a ledger"), text);
    // Into a file, and not if something is wrong.
    let to = ledger.path("report.md");
    let output = format!("--output={}", to.display());
    let (code, words) = audit(ledger.folder.path(), &["--format=md", &output]);
    assert_eq!((code, words.as_str()), (Some(0), ""));
    let first = std::fs::read_to_string(&to).unwrap();
    assert!(first.starts_with("# What a ledger"), "{first}");
    let chain = ledger.path("decisions/000001.jsonl");
    let text = std::fs::read_to_string(&chain).unwrap();
    std::fs::write(&chain, text.replacen("unknown_tool", "unknown_tools", 1)).unwrap();
    let (code, words) = audit(ledger.folder.path(), &["--format=text", &output]);
    assert_eq!(code, Some(125), "{words}");
    assert!(words.contains("is not good"), "{words}");
    assert_eq!(std::fs::read_to_string(&to).unwrap(), first);
    // A policy that is none.
    let bad = ledger.path("bad.toml");
    std::fs::write(&bad, "format = 1\nunknown = 1\n").unwrap();
    let policy = format!("--policy={}", bad.display());
    let (code, words) = audit(ledger.folder.path(), &[&policy]);
    assert_eq!(code, Some(125), "{words}");
    assert!(words.contains("unknown"), "{words}");
}

#[test]
fn an_export_without_keys_of_ones_own_is_not_checked() {
    let ledger = ledger();
    let (file, _text) = ledger.export(&[]);
    let output = custody(&["ledger", "verify"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).contains("give yours"), "{}", said(&output));
}
