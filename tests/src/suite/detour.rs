//! Past the ordinary entry of system calls, in Python: there is no unsafe code here to do it in Rust.

use std::{path::Path, sync::OnceLock};

use serde_json::json;

use super::scene::Scene;
use crate::{
    probe::{Attack, Effect, PYTHON},
    standin::ring,
};

/// The script.
pub const SCRIPT: &str = include_str!("detour.py");

/// Makes a socket, connects and speaks to the witness, all by operations of a ring.
pub fn ring(scene: &Scene, effect: Effect) -> Attack {
    script(scene, effect, "ring")
}

/// The same by a ring that the caller left open.
pub fn inherited_ring(scene: &Scene, effect: Effect) -> Attack {
    with(scene, effect, "ring_inherited", json!({"layout": layout()}))
}

/// Opens a file and reads it, by operations of a ring.
pub fn opened_by_ring(scene: &Scene, effect: Effect, path: &Path) -> Attack {
    with(scene, effect, "ring_open", json!({"path": path}))
}

/// Where the parts of a ring lie: the same for each of its size on one kernel.
fn layout() -> &'static str {
    static LAYOUT: OnceLock<String> = OnceLock::new();
    LAYOUT.get_or_init(|| ring::layout().unwrap_or_default())
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
    with(scene, effect, way, json!({}))
}

fn with(scene: &Scene, effect: Effect, way: &str, more: serde_json::Value) -> Attack {
    let effect = scene.with_leaked_token(effect);
    let mut order = json!({
        "way": way,
        "witness": scene.witness_address.to_string(),
        "token": effect.token,
        "nonce": effect.nonce,
    });
    if let (Some(order), serde_json::Value::Object(more)) = (order.as_object_mut(), more) {
        order.extend(more);
    }
    Attack::Program {
        program: PYTHON.into(),
        arguments: vec!["-c".into(), SCRIPT.into()],
        input: order.to_string(),
    }
}
