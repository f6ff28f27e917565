//! A ledger that grows by real decisions: the gate decides, its records are written, and what came back is too.

use std::{collections::BTreeMap, path::PathBuf};

use custody_audit::{Declared, Report, Tally, declared::Policies, source};
use custody_ledger::{key, keys::Keys, writer::Writer};
use gate::{
    approval::{Reach, Scope},
    call::Call,
    chain::Place,
    decide::{Ask, Verdict, decide},
    digest::{Digest, Domain},
    id::{OwnedName, PolicyName, RoleName, SessionId, ToolName, ValueName},
    json::{self, Limits, Value},
    nonce::Nonce,
    policy::Policy,
    record::{
        self, Bound, Decision, Effect, Freshness, Outcome, Reviewer, Verification, result_digest,
    },
    session::{Facts, Opening},
};

pub(crate) const OFFICE: &str = include_str!("../../../../fixtures/policies/office.toml");

/// When everything begins.
pub(crate) const START: u64 = 1_796_000_000_000;

pub(crate) fn compile(name: &str, toml: &str) -> Policy {
    Policy::compile(&PolicyName::parse(name).unwrap(), toml).unwrap_or_else(|it| panic!("{it}"))
}

pub(crate) fn value(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::RESULT).unwrap_or_else(|it| panic!("{it}: {text}"))
}

/// The policies that are given to an audit, each with its text.
pub(crate) fn given(all: &[(&str, &str)]) -> Policies {
    all.iter()
        .map(|(name, toml)| {
            let declared = Declared::new(compile(name, toml), toml);
            (declared.name().to_string(), declared)
        })
        .collect()
}

/// A host's ledger and one session at a time.
pub(crate) struct Scene {
    pub(crate) folder: tempfile::TempDir,
    decisions: Option<Writer<Decision>>,
    receipts: Option<Writer<Effect>>,
    policy: Policy,
    facts: Facts,
    session: SessionId,
    pub(crate) at: u64,
}

impl Scene {
    pub(crate) fn new(name: &str, toml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["public", "decisions", "receipts"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let key = |chain: &str| {
            let public = path(&format!("public/{chain}.pub"));
            key::load_or_create(&path(&format!("{chain}.key")), &public).unwrap()
        };
        let (decisions, receipts) = (key("decisions"), key("receipts"));
        let policy = compile(name, toml);
        let mut scene = Self {
            decisions: Some(Writer::open(&path("decisions"), decisions).unwrap().0),
            receipts: Some(Writer::open(&path("receipts"), receipts).unwrap().0),
            facts: Facts::open(&policy, Opening::default()).unwrap(),
            policy,
            session: SessionId(0),
            at: START,
            folder,
        };
        scene.open("whatever it is");
        scene
    }

    /// The office, with a task.
    pub(crate) fn office(task: &str) -> Self {
        let mut scene = Self::new("office", OFFICE);
        scene.open(task);
        scene
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().into()
    }

    /// A new session.
    pub(crate) fn open(&mut self, task: &str) {
        let has = |name: &str| self.policy.values().keys().any(|it| it.as_str() == name);
        let values = has("account").then(|| (ValueName::parse("account").unwrap(), "77".into()));
        let owned = self.policy.owned().keys();
        let owned: BTreeMap<OwnedName, Vec<String>> = owned
            .map(|it| (it.clone(), vec!["deploy-35".into()]))
            .collect();
        let opening = Opening {
            owned,
            roles: [RoleName::parse("finance").unwrap()].into(),
            task: Some(task.into()),
            values: values.into_iter().collect(),
            ..Opening::default()
        };
        self.facts = Facts::open(&self.policy, opening).unwrap();
        self.session = SessionId(self.session.0 + 1);
        let record = Decision::opened(&self.scene(), &self.policy, 1_000);
        let _place = self.write(&record);
    }

    fn scene(&self) -> record::Scene<'_> {
        record::Scene {
            at: self.at,
            facts: &self.facts,
            from: &[],
            policy: self.policy.hash(),
            session: self.session,
        }
    }

    pub(crate) fn write(&mut self, record: &Decision) -> Place {
        self.decisions.as_mut().unwrap().append(record).unwrap()
    }

    /// The gate decides on a call, and writes it down.
    pub(crate) fn ask(&mut self, tool: &str, arguments: &str) -> (Place, Verdict) {
        let read = value(arguments);
        let verdict = decide(&self.policy, &self.facts, &Ask::new(tool, &read));
        let record = match &verdict {
            Verdict::Allow(it) | Verdict::Limit(it) => Decision::allowed(&self.scene(), it),
            Verdict::Defer(it) => Decision::deferred(&self.scene(), it),
            Verdict::Hold(it) => Decision::held(&self.scene(), it, self.at + 600_000),
            Verdict::Refuse(it) => {
                Decision::refused(&self.scene(), tool, arguments.as_bytes(), Some(&read), it)
            }
        };
        (self.write(&record), verdict)
    }

    /// A call that is allowed, performed, and brings this back.
    pub(crate) fn brings(&mut self, tool: &str, arguments: &str, result: &str) {
        let (decision, verdict) = self.ask(tool, arguments);
        let (Verdict::Allow(allowed) | Verdict::Limit(allowed)) = verdict else {
            panic!("{verdict:?}");
        };
        let (call, brought) = (allowed.call().clone(), value(result));
        self.done(decision, &call, &brought);
    }

    fn done(&mut self, decision: Place, call: &Call, brought: &Value) {
        let result = result_digest(&json::canonical(brought));
        let effect = Bound {
            approval: None,
            call: call.digest(),
            credential: self.policy.tools()[&call.tool].credential.clone(),
            decision,
            nonce: Nonce([3; 16]),
            policy: self.policy.hash(),
            session: self.session,
            tool: call.tool.clone(),
        };
        let receipt = Effect::Receipt {
            at: self.at,
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
        };
        let receipt = self.receipts.as_mut().unwrap().append(&receipt).unwrap();
        let label = self.facts.record_result(&self.policy, call, brought);
        let done = Decision::Done {
            at: self.at,
            bytes: 2,
            call: call.digest(),
            decision,
            label,
            receipt: receipt.digest,
            result,
            session: self.session,
            status: 200,
            tool: call.tool.clone(),
            verification: Verification::UNSUPPORTED,
        };
        let _place = self.write(&done);
    }

    /// A mail reaches the agent: the server's id, and anyone's words.
    pub(crate) fn mail(&mut self, id: &str, body: &str) {
        let mail = format!(r#"[{{"id":"{id}","body":"{body}"}}]"#);
        self.brings("search_mail", r#"{"query":"whatever it is"}"#, &mail);
    }

    /// A call that is held, and where.
    pub(crate) fn held(&mut self, tool: &str, arguments: &str) -> (Place, Verdict) {
        let (place, verdict) = self.ask(tool, arguments);
        assert!(matches!(verdict, Verdict::Hold(_)), "{verdict:?}");
        (place, verdict)
    }

    /// A reviewer approves the call held at `decision` after so many milliseconds, and it is allowed: the record of
    /// that.
    pub(crate) fn approve(
        &mut self,
        (decision, verdict): &(Place, Verdict),
        after: u64,
    ) -> Decision {
        let Verdict::Hold(held) = verdict else {
            panic!("{verdict:?}");
        };
        self.at += after;
        let approval = self.write(&Decision::Approved {
            at: self.at,
            call: held.digest(),
            decision: *decision,
            reviewer: reviewer(),
            scope: Scope {
                reach: Reach::Once,
                until: None,
            },
            session: self.session,
            signed: None,
        });
        let arguments = json::canonical(&Value::Object(
            held.call()
                .arguments
                .iter()
                .map(|(name, it)| (name.to_string(), it.clone()))
                .collect(),
        ));
        let read = value(std::str::from_utf8(&arguments).unwrap());
        let ask = Ask::new(held.call().tool.as_str(), &read).at(gate::decide::Moment::Approved, 0);
        let (Verdict::Allow(allowed) | Verdict::Limit(allowed)) =
            decide(&self.policy, &self.facts, &ask)
        else {
            panic!("an approved call is performed");
        };
        let record = Decision::allowed(&self.scene(), &allowed.resting_on(approval));
        let _place = self.write(&record);
        record
    }

    /// A reviewer refuses it.
    pub(crate) fn turn_down(&mut self, (decision, verdict): &(Place, Verdict), after: u64) {
        self.at += after;
        let record = Decision::ReviewerRefused {
            at: self.at,
            call: digest(verdict),
            decision: *decision,
            reviewer: reviewer(),
            session: self.session,
            why: "no".into(),
        };
        let _place = self.write(&record);
    }

    /// It waits no longer.
    pub(crate) fn lapse(&mut self, (decision, verdict): &(Place, Verdict), after: u64) {
        self.at += after;
        let record = Decision::Lapsed {
            at: self.at,
            call: digest(verdict),
            decision: *decision,
            session: self.session,
            why: "x".into(),
        };
        let _place = self.write(&record);
    }

    /// The writers end: everything is signed.
    pub(crate) fn close(&mut self) {
        self.decisions = None;
        self.receipts = None;
    }

    pub(crate) fn keys(&self) -> Keys {
        Keys::in_folder(&self.path().join("public")).unwrap()
    }

    /// What an audit says, beside these policies.
    pub(crate) fn audit(&mut self, policies: &[(&str, &str)]) -> Report {
        self.close();
        let mut tally = Tally::new(None);
        let read = source::ledger(&self.path(), &self.keys(), &mut |it| tally.take(it)).unwrap();
        Report::new(read, &tally, &given(policies))
    }
}

fn digest(verdict: &Verdict) -> Digest {
    let Verdict::Hold(held) = verdict else {
        panic!("{verdict:?}");
    };
    held.digest()
}

const fn reviewer() -> Reviewer {
    Reviewer { key: None, uid: 1 }
}

/// A name that no policy has.
pub(crate) fn strange(tool: &str, session: u64) -> Decision {
    Decision::Refused {
        at: START,
        argument: None,
        change: None,
        from: Vec::new(),
        grounds: None,
        arguments: None,
        digest: Digest::of(Domain::Call, b"x"),
        policy: Digest::of(Domain::Policy, b"p"),
        rule: "unknown_tool".into(),
        session: SessionId(session),
        taint: [].into(),
        tool: tool.into(),
        why: "there is no such tool".into(),
    }
}

/// A tool's part of a report.
pub(crate) fn tool<'a>(report: &'a Report, name: &str) -> &'a custody_audit::report::ToolSeen {
    let _is_a_name = ToolName::parse(name).unwrap();
    let mut tools = report.tools.iter();
    tools.find(|it| it.classed.tool == name).unwrap()
}
