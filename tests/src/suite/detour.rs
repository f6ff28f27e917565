//! Past the ordinary entry of system calls, in Python: there is no unsafe code here to do it in Rust.

use serde_json::json;

use super::{guard::PYTHON, scene::Scene};
use crate::probe::{Attack, Effect};

const SCRIPT: &str = include_str!("detour.py");

/// Makes a socket, connects and speaks to the witness, all by operations of a ring.
pub fn ring(scene: &Scene, effect: Effect) -> Attack {
    script(scene, effect, "ring")
}

/// Makes a socket and connects by the 32-bit entry, which a filter must know too.
pub fn int80(scene: &Scene, effect: Effect) -> Attack {
    script(scene, effect, "int80")
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
