//! The guard that shares the agent's process: a real one, in Python.

use serde_json::json;

use super::scene::Scene;
use crate::{
    attempts::Arm,
    probe::{Attack, Effect},
};

/// The interpreter: the system's, which every session sees.
pub const PYTHON: &str = "/usr/bin/python3";

const SCRIPT: &str = include_str!("guard.py");

/// Takes the callable out of the guard: in the reach arm it is the effect itself; in a session
/// there is nothing behind the guard but a client of the gate.
pub fn attack(scene: &Scene, arm: Arm, effect: Effect) -> Attack {
    let target = match arm {
        Arm::Confined | Arm::Isolated | Arm::Twin => "client",
        Arm::Reach => "in_process",
    };
    script(scene, target, "extract", effect)
}

/// Uses the guard as it is meant to be used, inside the session.
pub fn twin(scene: &Scene, effect: Effect) -> Attack {
    script(scene, "client", "front_door", effect)
}

fn script(scene: &Scene, target: &str, way: &str, effect: Effect) -> Attack {
    let effect = scene.with_leaked_token(effect);
    Attack::Program {
        program: PYTHON.into(),
        arguments: vec!["-c".into(), SCRIPT.into()],
        input: json!({
            "target": target,
            "way": way,
            "witness": scene.witness_address.to_string(),
            "token": effect.token,
            "socket": scene.session_socket(Arm::Confined),
            "recipient": scene.recipient,
            "nonce": effect.nonce,
        })
        .to_string(),
    }
}
