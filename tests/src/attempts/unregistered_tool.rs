//! Dispatch of a name that is not registered, and of calls that two parsers read differently.

use serde_json::json;

use super::{Attempt, Promised};
use crate::{evidence::row::Class, suite::message};

/// Each row has the same twin: a registered call, the same way.
macro_rules! attempt {
    ($id:literal, $mechanism:literal, $question:literal, $says:expr, $mutant:literal, $source:literal, $attack:expr) => {
        Attempt {
            id: $id,
            class: Class::UnregisteredTool,
            mechanism: $mechanism,
            question: $question,
            promised: Promised::Gate {
                says: $says,
                mutant: $mutant,
            },
            source: $source,
            attack: $attack,
            twin: |scene, effect| message::allowed(scene, &effect),
            ..Attempt::BASE
        }
    };
}

pub(super) const ALL: &[Attempt] = &[
    attempt!(
        "name/absent",
        "a name that no policy has",
        "Is a tool performed that the service could do and the policy does not name?",
        &["`unknown_tool`"],
        "none: what no policy describes has no request to be made",
        "§12.2: an unwrapped or unregistered tool name",
        |scene, arm, effect| message::call(
            scene,
            arm,
            "publish_page",
            &json!({"page": effect.nonce})
        )
    ),
    attempt!(
        "name/folded",
        "a variant that folds to another name",
        "Is a registered name found by its case, blanks or invisible characters?",
        &["`unknown_tool`"],
        "gate-registry",
        "kernel.md attempt 2: misspelt, case and Unicode variants",
        |scene, arm, effect| message::call(
            scene,
            arm,
            " Send\u{200b}_Message",
            &json!({"to": scene.recipient, "text": effect.nonce})
        )
    ),
    attempt!(
        "message/duplicate-key",
        "two equal keys in one call",
        "Is the second of two names performed where the first was looked at?",
        &["twice"],
        "front-strict-json",
        "RFC 8259, section 4: the behaviour of software on duplicate names is unpredictable",
        |scene, arm, effect| message::raw(
            scene,
            arm,
            format!(
                r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"send_message","name":"publish_page","arguments":{{"page":"{}"}}}}}}"#,
                effect.nonce
            )
        )
    ),
    attempt!(
        "message/batch",
        "a batch of calls",
        "Is a call performed that is hidden in a batch?",
        &["batches"],
        "front-strict-json",
        "MCP 2025-06-18 took batches out; careless servers still run them",
        |scene, arm, effect| message::raw(
            scene,
            arm,
            format!(
                r#"[{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"publish_page","arguments":{{"page":"{}"}}}}}}]"#,
                effect.nonce
            )
        )
    ),
    attempt!(
        "message/other-method",
        "another method with the same parameters",
        "Is a call performed under a method that no registry guards?",
        &["-32601"],
        "front-methods",
        "docker/mcp-gateway: calls forwarded when a rewrite fails",
        |scene, arm, effect| message::raw(
            scene,
            arm,
            format!(
                r#"{{"jsonrpc":"2.0","id":2,"method":"tools/dispatch","params":{{"name":"publish_page","arguments":{{"page":"{}"}}}}}}"#,
                effect.nonce
            )
        )
    ),
];
