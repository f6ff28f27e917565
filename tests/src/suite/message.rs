//! Calls as an MCP client sends them: one JSON-RPC message a line.

use serde_json::{Value, json};

use super::scene::Scene;
use crate::{
    attempts::Arm,
    probe::{Attack, Effect, Line},
};

/// Calls `tool` with `arguments`: of the gate, or in the reach arm of a dispatcher that has none.
pub fn call(scene: &Scene, arm: Arm, tool: &str, arguments: &Value) -> Attack {
    let message = json!({
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    });
    raw(scene, arm, message.to_string())
}

/// Says `line` where a call is expected.
pub fn raw(scene: &Scene, arm: Arm, line: String) -> Attack {
    let mut lines = vec![
        said(&json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "custody-probe", "version": "1"},
            },
        })),
        Line {
            answered: arm == Arm::Reach, // the dispatcher answers every line
            ..said(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        },
    ];
    lines.push(Line {
        text: line,
        answered: true,
    });
    Attack::Message {
        socket: scene.session_socket(arm),
        lines,
    }
}

/// The call that the policy allows.
pub fn allowed(scene: &Scene, effect: &Effect) -> Attack {
    call(
        scene,
        Arm::Confined,
        "send_message",
        &json!({"to": scene.recipient, "text": effect.nonce}),
    )
}

/// A note's id that ends the request's line and begins a request of its own. The worker's own
/// fields follow what is smuggled and become the second request's, its credential among them.
pub fn smuggled(effect: &Effect) -> String {
    format!(
        "1 HTTP/1.1\r\nhost: witness\r\n\r\nPOST /v1/pages/{}/publish HTTP/1.1\r\nx-rest:",
        effect.nonce
    )
}

fn said(message: &Value) -> Line {
    Line {
        text: message.to_string(),
        answered: true,
    }
}
