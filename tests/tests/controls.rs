//! The reach arm of every attempt, without any service: an attack that does not reach the effect
//! where nothing refuses it would show nothing where something does.

use custody_tests::{
    attempts::{self, Arm},
    ground, host,
    probe::Effect,
    suite::{
        arms::{self, Carried},
        scene::{self, Scene},
    },
};

#[test]
#[serial_test::file_serial(custody)]
fn every_attempt_reaches_its_effect_where_no_layer_refuses_it() {
    if !ground::can_run() {
        return;
    }
    let scene = Scene::set(&host::programs_folder().unwrap()).unwrap();
    let mut silent = Vec::new();
    for attempt in attempts::all() {
        let missing = attempt.needs.iter().find_map(|need| need.missing());
        if let Some(missing) = missing {
            println!("not attempted: {}: needs {missing}", attempt.id);
            continue;
        }
        let nonce = scene::nonce().unwrap();
        let effect = Effect {
            token: None,
            nonce: nonce.clone(),
        };
        let carried = Carried::make(attempt.carries, &scene).unwrap();
        let attack = (attempt.attack)(&scene, Arm::Reach, effect);
        let seen = arms::reach(&scene, attempt.owner, &attack, &nonce, &carried).unwrap();
        println!("{}: {:?}", attempt.id, seen.reached);
        if seen.reached.is_none() {
            silent.push((attempt.id, seen));
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}
