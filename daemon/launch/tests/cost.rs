//! What a confined start costs beside a bare one. `cargo test -p custody-launch --test cost --
//! --ignored --nocapture`, with `CUSTODY_PROGRAMS` naming static release builds; the numbers of
//! debug builds say nothing.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a measurement ends at the first thing that is not as it should be"
)]

#[cfg(test)]
mod support;

use std::{
    fs::{self, File},
    os::fd::AsFd as _,
    process::Command,
    time::{Duration, Instant},
};

use custody_sys::clone::{self, Namespaces, Spawn};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
    wait::waitpid,
};
use support::{Group, Session, Start, Waiting, can_run, folder_of};

const TURNS: u128 = 300;

/// Puts this thread, and what it starts, before whatever else runs on the machine: else that
/// stands between any two steps of a launch (sched(7), chrt(1)).
fn hurry() -> &'static str {
    let done = fs::read_link("/proc/thread-self").is_ok_and(|link| {
        let thread = link.file_name().unwrap_or_default().to_owned();
        let mut chrt = Command::new("chrt");
        let status = chrt.args(["--rr", "--pid", "5"]).arg(thread).status();
        status.is_ok_and(|status| status.success())
    });
    if done { "real-time" } else { "usual" }
}

fn bare(group: &Group) -> Duration {
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .expect("/dev/null");
    let start = Instant::now();
    let child = clone::spawn(&Spawn {
        argv: &[c"/bin/true".into()],
        envp: &[],
        fds: &[null.as_fd(), null.as_fd(), null.as_fd()],
        cgroup: group.as_fd(),
        namespaces: Namespaces::Inherited,
    })
    .expect("clone3");
    waitpid(child.pid, None).expect("waitpid");
    start.elapsed()
}

/// To the report, to the command's outcome, and to the end of pid 1 and its namespaces.
fn confined(start: Start) -> [Duration; 3] {
    timed(|| start.prepare().expect("sealed"))
}

/// The same with a launcher that was ready.
fn confined_by(waiting: Waiting, start: &Start) -> [Duration; 3] {
    timed(|| waiting.serve(start).expect("sealed"))
}

fn timed(start: impl FnOnce() -> Session) -> [Duration; 3] {
    let begin = Instant::now();
    let session = start();
    let sealed = begin.elapsed();
    session.go();
    session.outcome().expect("an outcome");
    let outcome = begin.elapsed();
    waitpid(session.child.pid, None).expect("waitpid");
    [sealed, outcome, begin.elapsed()]
}

/// CPU time of all that was waited for: what a busy machine does not change.
fn cpu() -> Duration {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).expect("getrusage");
    let micros = |time: TimeVal| {
        let whole = time.tv_sec() * 1_000_000 + time.tv_usec();
        u64::try_from(whole).expect("time goes on")
    };
    Duration::from_micros(micros(used.user_time()) + micros(used.system_time()))
}

fn p(of: &mut [Duration], percent: usize) -> u128 {
    of.sort_unstable();
    of[of.len() * percent / 100].as_micros()
}

#[test]
#[ignore = "a measurement, not a test"]
fn a_confined_start_beside_a_bare_one() {
    if !can_run() {
        return;
    }
    let class = hurry();
    println!("ratios of one run, in the {class} scheduling class:");
    let group = Group::new();
    let folder = folder_of(4321);
    let mut series: [Vec<Duration>; 8] = Default::default();
    let mut cpus = [Duration::ZERO; 4];
    for turn in 0..TURNS + 30 {
        let begin = cpu();
        let one = bare(&group);
        let bare_cpu = cpu();
        let [sealed, outcome, end] = confined(Start::command(&["/bin/true"]));
        let end_cpu = cpu();
        let start = Start::command(&["/bin/true"]).workspace(folder.path());
        let [_, workspace, _] = confined(start);
        let workspace_cpu = cpu();
        let waiting = Waiting::start();
        let start = Start::command(&["/bin/true"]);
        let [ready_sealed, ready, _] = confined_by(waiting, &start);
        let ready_cpu = cpu();
        let waiting = Waiting::start();
        let start = Start::command(&["/bin/true"]).workspace(folder.path());
        let [_, ready_workspace, _] = confined_by(waiting, &start);
        if turn >= 30 {
            cpus[0] += bare_cpu - begin;
            cpus[1] += end_cpu - bare_cpu;
            cpus[2] += workspace_cpu - end_cpu;
            cpus[3] += ready_cpu - workspace_cpu;
            let all = [
                one,
                sealed,
                outcome,
                end,
                workspace,
                ready_sealed,
                ready,
                ready_workspace,
            ];
            series
                .iter_mut()
                .zip(all)
                .for_each(|(kept, one)| kept.push(one));
        }
    }
    let base_cpu = cpus[0].as_micros();
    for (name, used) in [
        "bare",
        "confined",
        "with a workspace",
        "by one that was ready",
    ]
    .iter()
    .zip(cpus)
    {
        let used = used.as_micros();
        println!(
            "{name:28} CPU {:6} µs  ratio {}.{:02}",
            used / TURNS,
            used / base_cpu,
            used * 100 / base_cpu % 100
        );
    }
    let base = p(&mut series[0], 50);
    let names = [
        "bare clone3 + exec",
        "confined, to the report",
        "confined, to the outcome",
        "confined, to its last trace",
        "with a workspace, outcome",
        "ready, to the report",
        "ready, to the outcome",
        "ready, workspace, outcome",
    ];
    for (name, series) in names.iter().zip(&mut series) {
        let (middle, slow) = (p(series, 50), p(series, 99));
        println!(
            "{name:28} p50 {middle:6} µs  p99 {slow:6} µs  ratio {}.{:02}",
            middle / base,
            middle * 100 / base % 100
        );
    }
}
