//! Calls that a reviewer signs: a real `ssh-keygen -Y sign`, and the vault that verifies it.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use custody_tests::{
    agent::Agent,
    ground::{self, Ground, is_done, words},
    suite::scene::nonce,
};

use crate::desk::{Desk, held, page};

/// Whoever signs: ssh-keygen(1) works for users of passwd(5) alone, and this one is in every.
const SIGNER: u32 = 65_534;

/// What this needs beside the ground: OpenSSH's own program.
fn can_run() -> bool {
    if !ground::can_run() {
        return false;
    }
    if !ground::has("/usr/bin/ssh-keygen") {
        println!("not attempted: needs ssh-keygen (openssh-client)");
        return false;
    }
    true
}

/// A key pair of the reviewer's own.
fn key(desk: &Desk, name: &str) -> PathBuf {
    let folder = desk.ground.host.folder().join("keys");
    fs::create_dir_all(&folder).unwrap();
    let key = folder.join(name);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"])
        .arg(&key)
        .status()
        .unwrap();
    assert!(made.success());
    chown(&key, Some(SIGNER), Some(SIGNER)).unwrap();
    key
}

/// `key`'s public half is a reviewer's from now on.
fn admit(desk: &Desk, key: &Path, name: &str) {
    let line = fs::read_to_string(key.with_extension("pub")).unwrap();
    let file = format!("reviewers/{name}.pub");
    desk.ground.host.write(&file, 0o644, &line).unwrap();
}

/// custodyd reads the reviewers' folder again.
fn again(desk: &Desk) {
    let lines = || desk.ground.host.log().matches("SIGHUP").count();
    let before = lines();
    let custodyd = desk.ground.host.pid("custodyd").unwrap();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(custodyd),
        nix::sys::signal::Signal::SIGHUP,
    )
    .unwrap();
    let heard = || lines() > before;
    desk.ground.host.wait("SIGHUP is heard", heard).unwrap();
    // From custodyd to the vault it is one datagram more.
    thread::sleep(Duration::from_millis(300));
}

fn reviewers(ground: &Ground) -> String {
    format!(
        "[[review]]\nuids = [{SIGNER}, {}]\npolicies = ['demo']\n",
        ground.host.operator()
    )
}

fn ask(desk: &Desk, agent: &mut Agent, nonce: &str) -> u64 {
    let pending = held(&agent.call("publish_page", &page(nonce)).unwrap());
    desk.listed(pending);
    pending
}

fn sign(desk: &Desk, pending: u64, how: &[&str]) -> Output {
    let id = pending.to_string();
    desk.custody_as(SIGNER, &[&["approve", &id], how].concat())
}

#[test]
#[serial_test::file_serial(custody)]
fn only_a_reviewers_own_signature_of_this_call_lets_it_through() {
    if !can_run() {
        return;
    }
    let desk = Desk::set(600, reviewers);
    let (alice, mallory) = (key(&desk, "alice"), key(&desk, "mallory"));
    admit(&desk, &alice, "alice");
    again(&desk);
    let mut agent = desk.agent();
    let [alice, mallory] = [&alice, &mallory].map(|it| it.to_str().unwrap().to_owned());

    // Without a signature it is not even answered, and waits on.
    let nonce = nonce().unwrap();
    let pending = ask(&desk, &mut agent, &nonce);
    assert_eq!(desk.sheet(pending)["needs"], "signature");
    let said = sign(&desk, pending, &[]);
    assert_eq!(said.status.code(), Some(125), "{}", words(&said));
    assert!(words(&said).contains("signature"), "{}", words(&said));
    let said = sign(&desk, pending, &["--key", &alice, "--scope", "session"]);
    assert_eq!(said.status.code(), Some(125), "{}", words(&said));
    assert!(words(&said).contains("signed alone"), "{}", words(&said));
    assert_eq!(desk.sheet(pending)["state"], "waiting");

    // A key that is no reviewer's, and a signature for something else: the vault says no, and the call
    // that they were given for is over.
    let elsewhere = format!("ssh-keygen -q -Y sign -n file -f {alice}");
    let other_bytes =
        format!("cat >/dev/null; echo x | ssh-keygen -q -Y sign -n custody-approval@v1 -f {alice}");
    for (what, how) in [
        ("another's key", ["--key", mallory.as_str()]),
        ("another namespace", ["--sign-with", elsewhere.as_str()]),
        ("other bytes", ["--sign-with", other_bytes.as_str()]),
    ] {
        let pending = ask(&desk, &mut agent, &nonce);
        let said = sign(&desk, pending, &how);
        assert_eq!(said.status.code(), Some(1), "{what}: {}", words(&said));
        let sheet = desk.becomes(pending, "failed");
        assert_eq!(desk.effects(&nonce), 0, "{what}: {sheet}");
        let answer = agent.call("publish_page", &page(&nonce)).unwrap();
        assert!(!is_done(&answer), "{what}: {answer}");
    }

    // The reviewer's own.
    let pending = ask(&desk, &mut agent, &nonce);
    let said = sign(&desk, pending, &["--key", &alice]);
    assert_eq!(said.status.code(), Some(0), "{}", words(&said));
    assert_eq!(desk.effects(&nonce), 1);
    let answer = agent.call("publish_page", &page(&nonce)).unwrap();
    assert!(is_done(&answer), "{answer}");
    let said = sign(&desk, pending, &["--key", &alice]);
    assert_eq!(said.status.code(), Some(125), "{}", words(&said));
    assert_eq!(desk.effects(&nonce), 1);

    // A key that is taken back signs nothing any longer.
    let printed = Command::new("ssh-keygen")
        .args(["-l", "-f", &format!("{alice}.pub")])
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let fingerprint = printed.split_whitespace().nth(1).unwrap();
    let revoked = format!("{fingerprint}\n");
    let host = &desk.ground.host;
    host.write("reviewers/revoked", 0o644, &revoked).unwrap();
    again(&desk);
    let pending = ask(&desk, &mut agent, &nonce);
    let said = sign(&desk, pending, &["--key", &alice]);
    assert_eq!(said.status.code(), Some(1), "{}", words(&said));
    desk.becomes(pending, "failed");
    assert_eq!(desk.effects(&nonce), 1);
    desk.is_sound();
}

#[test]
#[serial_test::file_serial(custody)]
fn a_statement_is_void_when_the_vault_has_started_again_and_a_new_one_is_good() {
    if !can_run() {
        return;
    }
    let desk = Desk::set(600, reviewers);
    let alice = key(&desk, "alice");
    admit(&desk, &alice, "alice");
    again(&desk);
    let mut agent = desk.agent();
    let nonce = nonce().unwrap();
    let pending = ask(&desk, &mut agent, &nonce);

    // Signed before the vault ends, and handed in after.
    let folder = alice.parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    let [signed, go] = ["signed", "go"].map(|name| folder.join(name));
    let alice = alice.to_str().unwrap();
    let signer = format!(
        "ssh-keygen -q -Y sign -n custody-approval@v1 -f {alice}; touch {}; while [ ! -e {} ]; do sleep 0.05; done",
        signed.display(),
        go.display()
    );
    let late = desk
        .ground
        .host
        .cli_as(SIGNER)
        .args(["approve", &pending.to_string(), "--sign-with", &signer])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let host = &desk.ground.host;
    host.wait("it is signed", || signed.exists()).unwrap();
    let ended = host.kill("custody-vault").unwrap();
    host.wait("the vault is replaced", || {
        let pids = host.pids("custody-vault");
        !pids.is_empty() && pids != ended
    })
    .unwrap();
    host.wait_ready().unwrap();
    fs::write(&go, "").unwrap();
    let said = late.wait_with_output().unwrap();
    assert_eq!(said.status.code(), Some(125), "{}", words(&said));
    assert!(
        words(&said).contains("the gate did not take the answer"),
        "{}",
        words(&said)
    );
    assert_eq!(desk.effects(&nonce), 0);

    // The call waits as before, and what is signed now is good.
    assert_eq!(ask(&desk, &mut agent, &nonce), pending);
    let said = sign(&desk, pending, &["--key", alice]);
    assert_eq!(said.status.code(), Some(0), "{}", words(&said));
    assert_eq!(desk.effects(&nonce), 1);
    desk.is_sound();
}
