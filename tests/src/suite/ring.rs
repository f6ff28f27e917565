//! A ring, driven from Python: there is no unsafe code here to drive one from Rust.

use serde_json::json;

use super::{guard::PYTHON, scene::Scene};
use crate::probe::{Attack, Effect};

const SCRIPT: &str = include_str!("ring.py");

/// Makes a socket, connects and speaks to the witness, all by operations of a ring.
pub fn attack(scene: &Scene, effect: Effect) -> Attack {
    script(scene, effect, "ring")
}

/// The same script over a listener of its own and plain calls: what a session allows.
pub fn twin(scene: &Scene, effect: Effect) -> Attack {
    script(scene, effect, "own")
}

fn script(scene: &Scene, effect: Effect, way: &str) -> Attack {
    let effect = scene.with_leaked_token(effect);
    Attack::Program {
        program: PYTHON.into(),
        arguments: vec!["-c".into(), SCRIPT.into()],
        input: json!({
            "way": way,
            "witness": scene.witness_address.to_string(),
            "token": effect.token,
            "nonce": effect.nonce,
        })
        .to_string(),
    }
}
