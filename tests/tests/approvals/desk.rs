//! An installation whose calls wait for a person, its agents, and its reviewers.

use std::process::{Command, Output};

use custody_tests::{
    agent::{Agent, Era},
    ground::{self, Ground, words},
};
use serde_json::{Value, json};

/// The demo's service and policy; a person confirms each message, and signs for each page.
pub(crate) struct Desk {
    pub(crate) ground: Ground,
}

impl Desk {
    /// One whose calls wait for `seconds`, with `rules` in custodyd.toml.
    pub(crate) fn set(seconds: u32, rules: impl FnOnce(&Ground) -> String) -> Self {
        let mut ground = Ground::lay().unwrap();
        ground.host.configure(&rules(&ground)).unwrap();
        let policy = policy(&ground, seconds);
        ground.host.write_policy(ground::NAME, &policy).unwrap();
        ground.host.up().unwrap();
        Self { ground }
    }

    pub(crate) fn agent(&self) -> Agent {
        Agent::start(self.ground.run(), Era::Older).unwrap()
    }

    /// `custody` as the operator, who runs the sessions.
    pub(crate) fn custody(&self, arguments: &[&str]) -> Output {
        run(self.ground.host.cli(), arguments)
    }

    /// `custody` as whoever has this uid.
    pub(crate) fn custody_as(&self, uid: u32, arguments: &[&str]) -> Output {
        run(self.ground.host.cli_as(uid), arguments)
    }

    /// What waits, as the operator sees it.
    pub(crate) fn pending(&self) -> Vec<Value> {
        let said = self.custody(&["pending", "--json"]);
        assert!(said.status.success(), "{}", words(&said));
        let said: Value = serde_json::from_slice(&said.stdout).unwrap();
        said["pending"].as_array().unwrap().clone()
    }

    /// Waits until the call that an agent was told of is on the list.
    pub(crate) fn listed(&self, pending: u64) {
        let listed = || self.pending().iter().any(|it| it["pending"] == pending);
        self.ground.host.wait("the call is listed", listed).unwrap();
    }

    /// The call as its reviewer's program knows it.
    pub(crate) fn sheet(&self, pending: u64) -> Value {
        let said = self.custody(&["show", &pending.to_string(), "--json"]);
        assert!(said.status.success(), "{}", words(&said));
        serde_json::from_slice(&said.stdout).unwrap()
    }

    /// Waits until the call is in this state, as control keeps it.
    pub(crate) fn becomes(&self, pending: u64, state: &str) -> Value {
        // The agent may hear of it before control does.
        let kept = || {
            let said = self.custody(&["show", &pending.to_string(), "--json"]);
            said.status.success()
        };
        let is = || kept() && self.sheet(pending)["state"] == state;
        if let Err(error) = self.ground.host.wait(state, is) {
            panic!("{}: {error:#}", self.sheet(pending));
        }
        self.sheet(pending)
    }

    /// Has an agent ask for a message with `nonce`, which waits; the call's number.
    pub(crate) fn held(&self, agent: &mut Agent, nonce: &str) -> u64 {
        let answer = agent.call("send_message", &ground::message(nonce)).unwrap();
        let pending = held(&answer);
        self.listed(pending);
        pending
    }

    /// How many effects with `nonce` the server saw.
    pub(crate) fn effects(&self, nonce: &str) -> usize {
        self.ground.effects(nonce).unwrap().len()
    }

    /// The ledger is whole.
    pub(crate) fn is_sound(&self) {
        let verified = self.ground.verify_ledger().unwrap();
        assert!(verified.status.success(), "{}", words(&verified));
    }
}

/// The call's number, if the agent was told that it waits.
pub(crate) fn held(answer: &Value) -> u64 {
    let said = &answer["result"]["structuredContent"];
    assert_eq!(said["decision"], "hold", "{answer}");
    said["pending"].as_u64().unwrap()
}

fn run(mut custody: Command, arguments: &[&str]) -> Output {
    custody.args(arguments).output().unwrap()
}

fn policy(ground: &Ground, seconds: u32) -> String {
    let service = ground.witness.address().to_string();
    let policy = ground
        .policy()
        .replacen(
            "[session]\n",
            &format!("[session]\nhold_seconds = {seconds}\n"),
            1,
        )
        .replacen(
            "[tools.send_message]\n",
            "[tools.send_message]\nconfirm = \"always\"\n",
            1,
        )
        .replacen(
            "[tools.publish_page]\n",
            "[tools.publish_page]\nconfirm = \"signature\"\n",
            1,
        );
    assert_eq!(policy.matches("confirm").count(), 2);
    let floor = [
        "\"/v1/notes/{}\"",
        "\"/v1/notes/{}\", \"/v1/notes/{}/append\"",
    ];
    policy.replacen(floor[0], floor[1], 1) + &APPEND.replace(SERVICE, &service)
}

/// A tool whose target the agent chooses among the session's own; what is said there is open.
const APPEND: &str = r#"
[tools.append_note]
description = "Appends to one of the session's notes."
credential = "demo"
risk = "write"
result = "trusted"
on_taint = "hold"
confirm = "always"

[tools.append_note.request]
method = "POST"
url = "http://SERVICE/v1/notes/{id}/append"
body = { text = "{text}" }
timeout_ms = 10000

[tools.append_note.arguments.id]
description = "Which note."
authority = "owned"
set = "notes"

[tools.append_note.arguments.text]
description = "What is appended."
authority = "payload"
type = "string"
max_length = 200
"#;
const SERVICE: &str = "SERVICE";

/// A page of the session's, as the agent asks for it.
pub(crate) fn page(nonce: &str) -> Value {
    json!({"page": "home", "reason": "release", "reference": nonce})
}
