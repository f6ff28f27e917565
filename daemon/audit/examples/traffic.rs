//! What an audit of a long ledger costs: `cargo run --release -p custody-audit --example traffic -- RECORDS [FOLDER]`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measuring program: it stops where something is wrong, and prints what it saw"
)]

use std::{fs, path::Path, time::Instant};

use custody_audit::{Report, Tally, declared::Policies, source};
use custody_ledger::{keys::Keys, writer::Writer};
use ed25519_dalek::SigningKey;
use gate::{
    chain::Place,
    decide::{Ground, Grounds, Reason, Rule},
    digest::{Digest, Domain},
    id::{ArgumentName, CredentialLabel, SessionId},
    json::Value,
    meaning::Meaning,
    policy::{ActionClass, Authority, OnTaint, OriginClass, Risk, Role},
    record::{Decision, Effect, Reviewer},
    session::Taint,
};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let records: u64 = arguments.next().map_or(100_000, |it| it.parse().unwrap());
    let top = arguments.next().unwrap_or_else(|| "/var/tmp".into());
    let dir = tempfile::tempdir_in(top).unwrap();
    for name in ["decisions", "receipts"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let key = || SigningKey::from_bytes(&[7; 32]);
    write(dir.path(), key(), records);
    let keys = Keys::of(key().verifying_key(), key().verifying_key());
    let before = peak();
    let start = Instant::now();
    let mut tally = Tally::new(None);
    let read = source::ledger(dir.path(), &keys, &mut |it| tally.take(it)).unwrap();
    let took = start.elapsed();
    let report = Report::new(read, &tally, &Policies::new());
    println!(
        "{records} records, {} tools, {} held: verified and counted in {:.2} s, {:.1} µs a record; memory {before} MB before, {} MB at most",
        report.tools.len(),
        report.review.all.held,
        took.as_secs_f64(),
        took.as_secs_f64() * 1e6 / f64::from(u32::try_from(records).unwrap()),
        peak(),
    );
}

/// Allowed, held and answered, and refused calls, of 40 tools in ever new sessions.
fn write(dir: &Path, key: SigningKey, records: u64) {
    let mut decisions = Writer::<Decision>::open(&dir.join("decisions"), key.clone())
        .unwrap()
        .0;
    drop(Writer::<Effect>::open(&dir.join("receipts"), key).unwrap());
    let mut held: Option<Place> = None;
    for n in 0..records {
        let record = match (n % 10, held.take()) {
            (8, _) => call(n, true),
            (9, Some(decision)) => Decision::Approved {
                at: at(n),
                call: digest(n - 1),
                decision,
                reviewer: Reviewer { key: None, uid: 1 },
                scope: gate::approval::Scope {
                    reach: gate::approval::Reach::Once,
                    until: None,
                },
                session: SessionId(n / 100),
                signed: None,
            },
            (7, _) => strange(n),
            _ => call(n, false),
        };
        let place = decisions.append(&record).unwrap();
        held = (n % 10 == 8).then_some(place);
    }
}

const fn at(n: u64) -> u64 {
    1_796_000_000_000 + n * 50
}

fn digest(n: u64) -> Digest {
    Digest::of(Domain::Call, &n.to_le_bytes())
}

fn policy() -> Digest {
    Digest::of(Domain::Policy, b"bench")
}

fn grounds(n: u64) -> Grounds {
    let ground = Ground {
        authority: Authority::Agent,
        in_untrusted: n.is_multiple_of(7),
        origin: Some(OriginClass::System),
        role: Role::Identifier,
        said_by: vec![
            format!(
                "found as a field in a result of `search_mail` at /{}/id",
                n % 50
            ),
            format!(
                "found in the text in a result of `search_mail` at /{}/m{n}",
                n % 50
            ),
        ],
    };
    Grounds {
        approval: None,
        arguments: [(ArgumentName::parse("id").unwrap(), ground)].into(),
        branch: None,
        classes: [ActionClass::Deletion].into(),
        on_taint: OnTaint::Origins,
        risk: Risk::Destructive,
        taint: [Taint::Workspace].into(),
    }
}

fn call(n: u64, held: bool) -> Decision {
    let text = |text: String| Value::Text(text);
    let arguments = [
        ("body", text("x".repeat(300))),
        ("id", text(format!("m-{n}"))),
    ];
    let arguments = Value::Object(arguments.map(|(name, it)| (name.to_owned(), it)).into());
    let tool = text(format!("tool_{}", n % 40));
    let call = Value::Object(
        [
            ("arguments".to_owned(), arguments),
            ("tool".to_owned(), tool),
        ]
        .into(),
    );
    if held {
        Decision::Held {
            at: at(n),
            call,
            digest: digest(n),
            expires: at(n) + 600_000,
            from: Vec::new(),
            grounds: grounds(n),
            meaning: Meaning::default(),
            policy: policy(),
            reasons: vec![Reason {
                argument: None,
                change: "a person's approval".into(),
                rule: Rule::WriteGate,
                why: "it deletes".into(),
            }],
            session: SessionId(n / 100),
        }
    } else {
        Decision::Allowed {
            at: at(n),
            call,
            credential: CredentialLabel::parse("mail").unwrap(),
            digest: digest(n),
            from: Vec::new(),
            grounds: grounds(n),
            meaning: Meaning::default(),
            opens: None,
            policy: policy(),
            session: SessionId(n / 100),
        }
    }
}

/// A name that no policy has, another each time.
fn strange(n: u64) -> Decision {
    Decision::Refused {
        at: at(n),
        argument: None,
        change: None,
        from: Vec::new(),
        grounds: None,
        arguments: None,
        digest: digest(n),
        policy: policy(),
        rule: Rule::UnknownTool.as_str().into(),
        session: SessionId(n / 100),
        taint: [].into(),
        tool: format!("strange_{n}"),
        why: "there is no such tool".into(),
    }
}

/// The most memory that this process had at once, in MB (proc_pid_status(5), VmHWM).
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes: u64 = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kilobytes / 1_024
}
