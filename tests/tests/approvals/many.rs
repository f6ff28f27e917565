//! What calls cost while they wait: processor time and memory of the gate and of control.
//!
//! `CUSTODY_PENDING_CALLS` says how many wait; without it a few do, so that the way is tested.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    thread,
    time::{Duration, Instant},
};

use custody_tests::{
    agent::{Agent, Era},
    ground::{self, CUSTOMER, words},
};
use serde_json::json;

use crate::desk::{Desk, held};

/// As many as wait of one session, and the sessions that one user has connections for.
const OF_A_SESSION: usize = 64;
const OF_A_USER: usize = 48;

/// How long it is watched.
const WATCHED: Duration = Duration::from_secs(10);

/// Processor time in ticks of 10 ms (proc_pid_stat(5)), and resident memory in KiB.
fn cost(pid: i32) -> (u64, u64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let field = |at: usize| rest.split(' ').nth(at).unwrap().parse::<u64>().unwrap();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|it| it.split_whitespace().next()?.parse().ok());
    (field(11) + field(12), resident.unwrap())
}

#[test]
#[serial_test::file_serial(custody)]
fn calls_cost_next_to_nothing_while_they_wait() {
    if !ground::can_run() {
        return;
    }
    let calls: usize = std::env::var("CUSTODY_PENDING_CALLS")
        .ok()
        .and_then(|it| it.parse().ok())
        .unwrap_or(200);
    let desk = Desk::set(3_600, |ground| {
        let users: Vec<String> = (1..8)
            .map(|more| (ground.host.stranger() + 2 + more).to_string())
            .collect();
        format!(
            "[[access]]\nuids = [{}]\npolicies = ['demo']\nvalues = ['customer']\nowned = ['notes', 'pages']\n\
             [approvals]\nquestions_per_minute = 1000\n",
            users.join(", ")
        )
    });
    let host = &desk.ground.host;
    let pids = ["custody-gate", "custody-control"].map(|it| host.pid(it).unwrap());
    let before = pids.map(cost);
    let begun = Instant::now();
    let mut agents = Vec::new();
    for call in 0..calls {
        if call % OF_A_SESSION == 0 {
            let user = u32::try_from(agents.len() / OF_A_USER).unwrap();
            let mut run = desk.ground.run();
            if user > 0 {
                let uid = host.stranger() + 2 + user;
                run.uid(uid).gid(uid);
            }
            agents.push(Agent::start(run, Era::Older).unwrap());
        }
        let message = json!({"to": CUSTOMER, "subject": "s", "body": call.to_string()});
        let agent = agents.last_mut().unwrap();
        let _pending = held(&agent.call("send_message", &message).unwrap());
    }
    let held_in = begun.elapsed();
    let listed = || {
        let said = desk.custody_as(0, &["pending", "--json"]);
        assert!(said.status.success(), "{}", words(&said));
        String::from_utf8(said.stdout)
            .unwrap()
            .matches("\"pending\":")
            .count()
            - 1
    };
    host.wait("all are listed", || listed() == calls).unwrap();
    thread::sleep(Duration::from_secs(2));
    let waiting = pids.map(cost);
    thread::sleep(WATCHED);
    let after = pids.map(cost);
    println!(
        "{calls} calls of {} sessions, held in {held_in:?}",
        agents.len()
    );
    for (at, name) in ["gate", "control"].into_iter().enumerate() {
        let ticks = after[at].0 - waiting[at].0;
        println!(
            "{name}: {} KiB before, {} KiB while they wait; {} ms of processor time in {WATCHED:?}",
            before[at].1,
            waiting[at].1,
            ticks * 10
        );
        // A hundredth of a processor: what a poll of each of many calls would be far beyond.
        assert!(
            u128::from(ticks * 10) <= WATCHED.as_millis() / 100,
            "{name}"
        );
    }
}
