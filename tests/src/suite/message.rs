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

/// Says messages where a call is expected, many at once, and hears every answer.
pub fn several(scene: &Scene, arm: Arm, messages: &[Value]) -> Attack {
    // What is not read yet has room in a socket's buffer, on both sides.
    const AT_ONCE: usize = 40;
    let mut attack = raw(scene, arm, String::new());
    let Attack::Message { lines, .. } = &mut attack else {
        return attack;
    };
    lines.pop();
    for together in messages.chunks(AT_ONCE) {
        let texts: Vec<String> = together.iter().map(Value::to_string).collect();
        // A notification has no answer but the dispatcher's.
        let answers = together
            .iter()
            .filter(|message| arm == Arm::Reach || message.get("id").is_some())
            .count();
        // An empty line says nothing.
        let rest = (1..answers).map(|_| String::new());
        lines.extend([texts.join("\n")].into_iter().chain(rest).map(|text| Line {
            text,
            answered: answers > 0,
        }));
    }
    attack
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
