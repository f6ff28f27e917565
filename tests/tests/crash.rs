//! Each program killed with -9 in the middle of a call: no effect twice, what is in doubt is
//! named, the ledger verifies, and nothing is left on the machine.

use std::{
    fs,
    process::Child,
    time::{Duration, Instant},
};

use custody_tests::{
    ground::{self, Ground, is_done, message},
    host::PATIENCE,
    suite::scene::nonce,
};
use serde_json::Value;

/// Starts a call and waits until the witness has the effect, unanswered.
fn in_the_air(ground: &Ground, nonce: &str) -> anyhow::Result<Child> {
    ground.witness.hold()?;
    let child = ground.start_probe(&ground::calling(&[("send_message", message(nonce))]))?;
    ground.host.wait("the effect is in the air", || {
        ground.effects(nonce).is_ok_and(|seen| !seen.is_empty())
    })?;
    Ok(child)
}

/// What the agent was told, if anything.
fn told(child: Child) -> anyhow::Result<Option<Value>> {
    let output = child.wait_with_output()?;
    let Ok(report) = ground::report(&output) else {
        return Ok(None);
    };
    Ok(ground::answers(&report)?.pop())
}

/// Whether the file of a process's memory, mounts or the like still names `pid`.
fn lives(pid: i32) -> bool {
    fs::metadata(format!("/proc/{pid}")).is_ok()
}

#[test]
#[serial_test::file_serial(custody)]
fn a_program_that_is_killed_in_mid_call_repeats_nothing_and_leaves_nothing() {
    if !ground::can_run() {
        return;
    }
    let mut ground = Ground::set().unwrap();
    let mut in_doubt = 0;
    for program in [
        "custody-front",
        "custody-effect",
        "custody-control",
        "custody-gate",
        "custody-vault",
        "custodyd",
    ] {
        let sent = nonce().unwrap();
        let child = in_the_air(&ground, &sent).unwrap();
        let agents: Vec<_> = ground.host.session_cgroups();
        assert_eq!(agents.len(), 1, "{program}");
        let killed = match program {
            "custodyd" => {
                let pids = ground.host.pids(program);
                ground.host.kill_daemon().unwrap();
                pids
            }
            _ => ground.host.kill(program).unwrap(),
        };
        ground.witness.let_go().unwrap();
        let answer = told(child).unwrap();
        if program == "custodyd" {
            // Everything of it dies with it, before anything is started again.
            ground
                .host
                .wait("its programs are gone", || {
                    ground.host.processes().is_empty()
                })
                .unwrap();
            ground.host.up().unwrap();
        }
        ground.host.wait_ready().unwrap();
        ground
            .host
            .wait("the session is gone", || {
                ground.host.session_cgroups().is_empty()
            })
            .unwrap();
        for pid in killed {
            assert!(!lives(pid), "{program} {pid} is still there");
        }

        // Once, and only once; and whoever was told anything was told that it may have happened.
        let seen = ground.effects(&sent).unwrap();
        assert_eq!(seen.len(), 1, "{program}: {seen:?}");
        if let Some(answer) = &answer
            && !is_done(answer)
        {
            let text = answer.to_string();
            assert!(text.contains("may have"), "{program}: {text}");
        }
        let verified = ground.verify_ledger().unwrap();
        let said = ground::words(&verified);
        assert!(verified.status.success(), "{program}: {said}");
        let doubts = said.matches("tool send_message").count();
        if matches!(program, "custody-effect" | "custody-vault" | "custodyd") {
            assert!(
                doubts > in_doubt,
                "{program} left no doubt that is named: {said}"
            );
        }
        in_doubt = doubts;

        // And the service works again; what it refuses until then it does not do.
        let end = Instant::now() + PATIENCE;
        loop {
            let after = nonce().unwrap();
            let answer = ground.call("send_message", message(&after)).unwrap();
            let effects = ground.effects(&after).unwrap().len();
            if is_done(&answer) {
                assert_eq!(effects, 1, "{program}: {answer}");
                break;
            }
            assert_eq!(effects, 0, "{program}: {answer}");
            assert!(Instant::now() < end, "{program}: {answer}");
        }
    }

    let end = Instant::now() + Duration::from_secs(5);
    ground.host.down().unwrap();
    while !ground.host.processes().is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let left: Vec<String> = ground
        .host
        .leftovers()
        .into_iter()
        .filter(|left| !left.starts_with("pin "))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
#[serial_test::file_serial(custody)]
fn hooks_stay_closed_when_custodyd_is_killed() {
    if !ground::can_run() {
        return;
    }
    let mut ground = Ground::set().unwrap();
    let pins = ground.host.pins();
    assert!(!pins.is_empty());
    ground.host.kill_daemon().unwrap();
    assert_eq!(ground.host.pins(), pins);
    // A process in the agents' cgroup, as one that was left would be: still no socket.
    let folder = ground.host.cgroup().join("custody/agents/left");
    fs::create_dir(&folder).unwrap();
    let output = std::process::Command::new("/bin/bash")
        .arg("-c")
        .arg(format!(
            "echo 0 > {}/cgroup.procs && exec 3<>/dev/tcp/{}/{}",
            folder.display(),
            ground.witness.address().ip(),
            ground.witness.address().port()
        ))
        .output()
        .unwrap();
    let said = ground::words(&output);
    assert!(
        !output.status.success() && said.contains("not permitted"),
        "{said}"
    );
}
