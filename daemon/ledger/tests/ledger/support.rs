//! Chains to break.

use std::{
    fs,
    path::{Path, PathBuf},
};

use custody_ledger::{key, writer::Writer};
use ed25519_dalek::SigningKey;
use gate::{
    chain::Place,
    digest::{Digest, Domain},
    id::{CredentialLabel, SessionId, ToolName},
    json::Value,
    nonce::Nonce,
    policy::{OnTaint, Risk},
    record::{Bound, Decision, Effect, Outcome},
};

/// A ledger's folders and keys.
pub(crate) struct Ledger {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) decisions_key: SigningKey,
    pub(crate) receipts_key: SigningKey,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        let dir = temporary();
        for folder in [
            "decisions",
            "receipts",
            "public/decisions",
            "public/receipts",
            "gate",
            "vault",
        ] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let key = |owner: &str, chain: &str| {
            key::load_or_create(
                &dir.path().join(owner).join(format!("{chain}.key")),
                &dir.path().join(format!("public/{chain}/{chain}.pub")),
            )
            .unwrap()
        };
        let decisions_key = key("gate", "decisions");
        let receipts_key = key("vault", "receipts");
        Self {
            dir,
            decisions_key,
            receipts_key,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn decisions_folder(&self) -> PathBuf {
        self.path().join("decisions")
    }

    pub(crate) fn decisions(&self) -> Writer<Decision> {
        Writer::open(&self.decisions_folder(), self.decisions_key.clone())
            .unwrap()
            .0
    }

    pub(crate) fn receipts(&self) -> Writer<Effect> {
        Writer::open(&self.path().join("receipts"), self.receipts_key.clone())
            .unwrap()
            .0
    }
}

/// A folder in memory where there is one: thousands of syncs to a busy disk take minutes, and no
/// test here can cut the power.
pub(crate) fn temporary() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_none| tempfile::tempdir().unwrap())
}

pub(crate) fn closed(n: u64) -> Decision {
    Decision::Closed {
        at: 1_700_000_000_000 + n,
        session: SessionId(n),
        why: "the test said so".into(),
    }
}

pub(crate) fn digest(n: u64) -> Digest {
    Digest::of(Domain::Call, &n.to_le_bytes())
}

pub(crate) fn allowed(n: u64) -> Decision {
    Decision::Allowed {
        at: 1_700_000_000_000,
        call: Value::Object([("tool".to_owned(), Value::Text("send".into()))].into()),
        credential: CredentialLabel::parse("mail").unwrap(),
        digest: digest(n),
        from: Vec::new(),
        grounds: gate::decide::Grounds {
            approval: None,
            arguments: [].into(),
            branch: None,
            classes: [].into(),
            on_taint: OnTaint::Refuse,
            risk: Risk::Write,
            taint: [].into(),
        },
        meaning: gate::meaning::Meaning::default(),
        opens: None,
        policy: digest(1_000),
        session: SessionId(7),
    }
}

pub(crate) fn bound(n: u64, decision: Place) -> Bound {
    Bound {
        approval: None,
        call: digest(n),
        credential: CredentialLabel::parse("mail").unwrap(),
        decision,
        nonce: Nonce([u8::try_from(n % 256).unwrap(); 16]),
        policy: digest(1_000),
        session: SessionId(7),
        tool: ToolName::parse("send").unwrap(),
    }
}

pub(crate) fn intent(effect: Bound) -> Effect {
    Effect::Intent {
        call: None,
        at: 1_700_000_000_001,
        effect,
    }
}

pub(crate) fn receipt(effect: Bound, intent: Option<Place>) -> Effect {
    Effect::Receipt {
        at: 1_700_000_000_002,
        effect,
        intent,
        outcome: Outcome::Done {
            freshness: gate::record::Freshness::Unchecked,
            verification: gate::record::Verification::UNSUPPORTED,
            bytes: 2,
            result: digest(2_000),
            scrubbed: 0,
            status: 200,
        },
    }
}

/// Copies a folder tree of plain files.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
