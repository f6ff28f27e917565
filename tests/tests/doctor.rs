//! `custody doctor`: a throwaway session tries; what it says is what the kernel answered.

use std::process::{Output, Stdio};

use custody_tests::{
    ground::{self, Ground, words},
    host::Host,
};
use serde_json::Value;

#[cfg(test)]
fn doctor(host: &Host, arguments: &[&str]) -> (Output, Value) {
    let output = host
        .cli()
        .arg("doctor")
        .args(arguments)
        .arg("--json")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let json = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", words(&output)));
    (output, json)
}

#[cfg(test)]
fn profile<'a>(json: &'a Value, name: &str) -> &'a Value {
    json["profiles"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == name)
        .unwrap()
}

#[test]
#[serial_test::file_serial(custody)]
fn an_ordinary_operator_learns_what_each_profile_can_and_what_stands_against_it() {
    if !ground::can_run() {
        return;
    }
    let ground = Ground::set().unwrap();
    let (output, json) = doctor(&ground.host, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert_eq!(
        (&json["format"], &json["can_be_had"]),
        (&1.into(), &true.into())
    );
    assert_eq!(json["service"], "runs");
    // Every attempt was made, and refused with an answer of the kernel's.
    let attempts = json["attempts"].as_array().unwrap();
    assert!(attempts.len() >= 20, "{attempts:?}");
    for attempt in attempts {
        assert_ne!(attempt["errno"], 0, "{attempt}");
    }
    let layers = json["layers"].as_array().unwrap();
    let landlock = layers.iter().find(|it| it["name"] == "landlock").unwrap();
    assert_eq!(landlock["status"], "full");
    assert!(json["host"].as_array().unwrap().len() >= 8);
    assert_eq!(profile(&json, "dev")["can_be_had"], true);
    // Where a kernel refuses BPF LSM programs, hardened says so by the layer's name.
    let hardened = profile(&json, "hardened");
    let missing = hardened["layers_missing"].as_array().unwrap();
    assert_eq!(
        hardened["can_be_had"] == true,
        missing.is_empty() && hardened["refused_configurations"] == serde_json::json!([]),
        "{hardened}"
    );
    let (output, json) = doctor(&ground.host, &["--profile", "hardened"]);
    let had = json["can_be_had"] == true;
    assert_eq!(
        output.status.code(),
        Some(i32::from(!had)),
        "{}",
        words(&output)
    );
    ground
        .host
        .wait("nothing is left", || {
            ground.host.session_cgroups().is_empty()
        })
        .unwrap();

    // For people too.
    let text = ground.host.cli().arg("doctor").output().unwrap();
    let said = words(&text);
    for wanted in [
        "profile standard: can be had",
        "landlock: full",
        "does not nest",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}

#[test]
#[serial_test::file_serial(custody)]
fn a_refused_configuration_is_named_and_the_session_of_the_doctor_runs_nothing_else() {
    if !ground::can_run() {
        return;
    }
    let ground = Ground::set().unwrap();
    // The credential's file becomes everyone's to read.
    let token = ground.witness.token_file(ground::NAME);
    let mode = |mode| {
        std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(mode))
            .unwrap();
    };
    mode(0o644);
    let (output, json) = doctor(&ground.host, &[]);
    mode(0o600);
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    for name in ["dev", "standard", "hardened"] {
        let names = &profile(&json, name)["refused_configurations"];
        assert_eq!(*names, serde_json::json!(["credential_readable"]), "{json}");
    }
    // Its policy is nobody's to run a command of his own under.
    let output = ground
        .host
        .run(custody_wire::doctor::POLICY, [])
        .args(["--", "/bin/true"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains('\t'),
        "the doctor's own command was not run: {}",
        words(&output)
    );
}

#[test]
#[serial_test::file_serial(custody)]
fn without_the_service_it_says_so_and_looks_at_the_host() {
    if !ground::can_run() {
        return;
    }
    let ground = Ground::lay().unwrap();
    let (output, json) = doctor(&ground.host, &[]);
    assert_eq!(output.status.code(), Some(125), "{}", words(&output));
    assert!(json["service"].as_str().unwrap().contains("does not run"));
    assert_eq!(json["can_be_had"], Value::Null);
    assert!(
        json["host"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["name"] == "kernel")
    );
}
