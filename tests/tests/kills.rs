//! kill -9 at every system call of every program on a call's way, counted at the effect server: no
//! effect twice, no record or receipt lost, no permit used again, and each doubt an honest one.
//!
//! The programs are those that are installed, unchanged: this test traces one of them and ends it at its
//! n-th stop (the beginning or the end of a system call of any of its threads), for each n until the
//! call is over before. `CUSTODY_KILL_POINTS` says how many points; `cargo xtask kills` runs thousands.
//!
//! Most of a point is waiting (for a program to be started anew, a session to come up), so several
//! installations, each with an effect server of its own, are killed beside each other
//! (`CUSTODY_KILL_LANES`). They share the steps: whoever is free takes the next.

use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use custody_tests::{
    agent::{Agent, Era},
    ground::{self, Ground, words},
};
use nix::{
    sys::{
        ptrace,
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use serde_json::Value;

/// The programs on a call's way. The resolver is on none whose host is an address.
#[cfg(test)]
const PROGRAMS: [&str; 4] = [
    "custody-effect",
    "custody-front",
    "custody-gate",
    "custody-vault",
];

/// Services that are killed this often are started anew with custodyd, before it gives them up.
#[cfg(test)]
const SERVICES_KILLED_MAX: usize = 5;

/// How far it is is said once for so many points.
#[cfg(test)]
const SAID_EACH: usize = 250;

/// So many points of one installation: a service reads its chain when it starts, and a killed one starts
/// with the next point.
#[cfg(test)]
const POINTS_OF_ONE: usize = 120;

#[cfg(test)]
fn start(ground: &Ground) -> Option<Agent> {
    Agent::start(ground.run(), Era::Older).ok()
}

/// The answer; none where the session or its front is gone.
#[cfg(test)]
fn call(agent: &mut Agent, nonce: &str) -> Option<Value> {
    agent.call("send_message", &ground::message(nonce)).ok()
}

/// Every thread of `pid`, held at its next stop.
#[cfg(test)]
fn seize(pid: i32) -> bool {
    let options = ptrace::Options::PTRACE_O_TRACESYSGOOD | ptrace::Options::PTRACE_O_TRACECLONE;
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    for thread in threads.flatten() {
        let Some(thread) = thread.file_name().to_str().and_then(|it| it.parse().ok()) else {
            continue;
        };
        let thread = Pid::from_raw(thread);
        if ptrace::seize(thread, options).is_err() || ptrace::interrupt(thread).is_err() {
            return false;
        }
    }
    true
}

/// Kills `pid` at its stop `at`, or when `over` says that the call was answered before; how many
/// stops there were, and whether it was killed in mid-call.
#[cfg(test)]
fn kill_at(pid: i32, at: usize, ready: &mpsc::Sender<()>, over: &AtomicBool) -> (usize, bool) {
    let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG;
    let mut stops = 0;
    let seized = seize(pid);
    ready.send(()).unwrap();
    let mut killed = false;
    let mut in_time = false;
    if !seized {
        over.store(true, Ordering::SeqCst);
    }
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if !killed && (stops >= at || over.load(Ordering::SeqCst)) {
            in_time = stops >= at;
            // It may be gone already.
            let _gone = kill(Pid::from_raw(pid), Signal::SIGKILL);
            killed = true;
        }
        match waitpid(Pid::from_raw(-1), Some(flags)) {
            Err(_nobody_is_left) => return (stops, in_time),
            Ok(WaitStatus::StillAlive) => {
                assert!(Instant::now() < end, "{pid} is not gone");
                thread::sleep(Duration::from_micros(50));
            }
            Ok(WaitStatus::PtraceSyscall(thread)) => {
                stops += 1;
                if stops < at {
                    let _gone = ptrace::syscall(thread, None);
                }
            }
            Ok(WaitStatus::PtraceEvent(thread, _, _)) => {
                let _gone = ptrace::syscall(thread, None);
            }
            Ok(WaitStatus::Stopped(thread, signal)) => {
                let signal =
                    (signal != Signal::SIGTRAP && signal != Signal::SIGSTOP).then_some(signal);
                let _gone = ptrace::syscall(thread, signal);
            }
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..) | WaitStatus::Continued(_)) => {}
        }
    }
}

/// Which step is next, for whoever is free.
#[cfg(test)]
struct Plan {
    /// The points that are left, and the next stop of each program.
    next: Mutex<(usize, [usize; PROGRAMS.len()])>,
    points: usize,
    step: usize,
    begun: Instant,
}

/// A program is to be killed at its stop.
#[cfg(test)]
#[derive(Clone, Copy)]
struct Point {
    number: usize,
    which: usize,
    at: usize,
}

#[cfg(test)]
impl Plan {
    fn new(points: usize) -> Self {
        Self {
            next: Mutex::new((0, [1; PROGRAMS.len()])),
            points,
            // With few points: some at the beginning, and then further and further apart.
            step: if points < 1_000 { 7 } else { 1 },
            begun: Instant::now(),
        }
    }

    /// The next point of this program, if one is left.
    fn take(&self, which: usize) -> Option<Point> {
        let mut next = self.next.lock().unwrap();
        let (number, at) = &mut *next;
        if *number >= self.points {
            return None;
        }
        let point = Point {
            number: *number,
            which,
            at: at[which],
        };
        if *number > 0 && number.is_multiple_of(SAID_EACH) {
            println!(
                "{number} of {} points in {} s",
                self.points,
                self.begun.elapsed().as_secs()
            );
        }
        *number += 1;
        at[which] += self.step;
        Some(point)
    }

    fn is_left(&self) -> bool {
        self.next.lock().unwrap().0 < self.points
    }

    /// The call was over before this stop: the next ones begin anew.
    fn is_beyond(&self, point: Point) {
        let mut next = self.next.lock().unwrap();
        let at = &mut next.1[point.which];
        if *at > point.at {
            *at = 1;
        }
    }
}

/// What came of points.
#[cfg(test)]
#[derive(Debug, Default)]
struct Sums {
    points: usize,
    killed_in_mid_call: usize,
    done: usize,
    not_done: usize,
    in_doubt: usize,
    unanswered: usize,
    of_these_performed: usize,
    effects: usize,
    effects_twice: usize,
    intents: usize,
    permits_reused: usize,
    receipts_done: usize,
    receipts_in_doubt: usize,
    receipts_lost: usize,
    /// The stops of the longest call.
    longest: [usize; PROGRAMS.len()],
}

#[cfg(test)]
impl Sums {
    fn and(mut self, other: &Self) -> Self {
        for (mine, theirs) in [
            (&mut self.points, other.points),
            (&mut self.killed_in_mid_call, other.killed_in_mid_call),
            (&mut self.done, other.done),
            (&mut self.not_done, other.not_done),
            (&mut self.in_doubt, other.in_doubt),
            (&mut self.unanswered, other.unanswered),
            (&mut self.of_these_performed, other.of_these_performed),
            (&mut self.effects, other.effects),
            (&mut self.effects_twice, other.effects_twice),
            (&mut self.intents, other.intents),
            (&mut self.permits_reused, other.permits_reused),
            (&mut self.receipts_done, other.receipts_done),
            (&mut self.receipts_in_doubt, other.receipts_in_doubt),
            (&mut self.receipts_lost, other.receipts_lost),
        ] {
            *mine += theirs;
        }
        for (mine, theirs) in self.longest.iter_mut().zip(other.longest) {
            *mine = (*mine).max(theirs);
        }
        self
    }
}

#[cfg(test)]
fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
#[serial_test::file_serial(custody)]
fn a_program_killed_at_any_system_call_of_a_call_makes_no_effect_twice_and_loses_no_receipt() {
    if !ground::can_run() {
        return;
    }
    let plan = Plan::new(number("CUSTODY_KILL_POINTS").unwrap_or(24));
    let lanes = number("CUSTODY_KILL_LANES").unwrap_or(2).max(1);
    let sums = thread::scope(|scope| {
        let plan = &plan;
        let all: Vec<_> = (0..lanes)
            .map(|lane| scope.spawn(move || run_lane(plan, lane)))
            .collect();
        let sums = all.into_iter().map(|lane| lane.join().unwrap());
        sums.fold(Sums::default(), |sums, it| sums.and(&it))
    });
    println!("{sums:?}");
    println!("stops of the longest call: {PROGRAMS:?} {:?}", sums.longest);
    println!(
        "kill points {} in {} s on {lanes} installations: effects twice {}, records or receipts lost {}, \
         permits reused {}",
        sums.points,
        plan.begun.elapsed().as_secs(),
        sums.effects_twice,
        sums.receipts_lost,
        sums.permits_reused
    );
    assert_eq!(sums.points, plan.points);
    assert_eq!(sums.effects_twice, 0);
    assert_eq!(sums.receipts_lost, 0);
    assert_eq!(sums.permits_reused, 0);
}

/// Points of one installation after the other, until none is left.
#[cfg(test)]
fn run_lane(plan: &Plan, lane: usize) -> Sums {
    let mut sums = Sums::default();
    while plan.is_left() {
        sums = sums.and(&run_installation(plan, lane));
    }
    sums
}

/// Points of one installation, from its start until its ledger is looked through.
#[cfg(test)]
fn run_installation(plan: &Plan, lane: usize) -> Sums {
    let mut ground = Ground::set().unwrap();
    let mut agent: Option<Agent> = None;
    let mut sums = Sums::default();
    let mut services_killed = 0;
    let mut warmed = 0_u64;
    let mut told_done = BTreeSet::new();
    for which in (0..PROGRAMS.len()).cycle().skip(lane).take(POINTS_OF_ONE) {
        let Some(point) = plan.take(which) else {
            break;
        };
        let program = PROGRAMS[which];
        if services_killed >= SERVICES_KILLED_MAX {
            drop(agent.take());
            ground.host.down().unwrap();
            ground.host.up().unwrap();
            services_killed = 0;
        }
        // A call before: worker, front and session are there.
        let warm = Instant::now() + Duration::from_secs(60);
        let mut living = loop {
            assert!(Instant::now() < warm, "{}", ground.host.log_tail());
            let Some(mut trying) = agent.take().or_else(|| start(&ground)) else {
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            warmed += 1;
            match call(
                &mut trying,
                &format!("warm-{lane}-{}-{warmed}", point.number),
            ) {
                Some(answer) if ground::is_done(&answer) => break trying,
                Some(_) => {
                    thread::sleep(Duration::from_millis(10));
                    agent = Some(trying);
                }
                None => drop(trying),
            }
        };
        let Some(pid) = ground.host.pids(program).pop() else {
            panic!("no {program}")
        };
        let nonce = format!("kill-{}-{program}", point.number);
        let over = Arc::new(AtomicBool::new(false));
        let (ready, readies) = mpsc::channel();
        let tracer = {
            let over = Arc::clone(&over);
            thread::spawn(move || kill_at(pid, point.at, &ready, &over))
        };
        readies.recv().unwrap();
        let answer = call(&mut living, &nonce);
        over.store(true, Ordering::SeqCst);
        let (stops, in_time) = tracer.join().unwrap();
        sums.longest[which] = sums.longest[which].max(stops);
        if !in_time {
            plan.is_beyond(point);
        }
        sums.points += 1;
        sums.killed_in_mid_call += usize::from(in_time);
        if matches!(program, "custody-gate" | "custody-vault") {
            services_killed += 1;
        }
        let is_gone = program == "custody-gate" || program == "custody-front" || answer.is_none();
        if is_gone {
            drop(living);
        } else {
            agent = Some(living);
        }
        // Whatever was on its way arrives within this.
        thread::sleep(Duration::from_millis(20));
        let effects = ground.effects(&nonce).unwrap().len();
        assert!(
            effects <= 1,
            "{nonce} at {}: {effects} effects\n{}",
            point.at,
            ground.host.log_tail()
        );
        let in_doubt = answer
            .as_ref()
            .and_then(|it| it.pointer("/result/structuredContent/in_doubt"))
            .and_then(Value::as_bool);
        match &answer {
            Some(answer) if ground::is_done(answer) => {
                assert_eq!(effects, 1, "{nonce} was said to be done: {answer}");
                told_done.insert(nonce);
                sums.done += 1;
            }
            Some(_) if in_doubt == Some(true) => {
                sums.in_doubt += 1;
                sums.of_these_performed += effects;
            }
            Some(answer) => {
                assert_eq!(effects, 0, "{nonce} was said not to be done: {answer}");
                sums.not_done += 1;
            }
            None => {
                sums.unanswered += 1;
                sums.of_these_performed += effects;
            }
        }
    }
    drop(agent.take());
    // The last start of the vault writes what is in doubt.
    ground.host.down().unwrap();
    ground.host.up().unwrap();
    // Every record that a receipt rests on is there, and every line of both chains is signed or on its way.
    let verified = ground.verify_ledger().unwrap();
    assert!(verified.status.success(), "{}", words(&verified));
    let chain = Receipts::read(&ground);
    let seen = all_effects(&ground);
    sums.effects = seen.count;
    sums.effects_twice = seen.twice.len();
    sums.intents = chain.intents;
    sums.permits_reused = chain.intents - chain.nonces.len();
    sums.receipts_done = chain.done;
    sums.receipts_in_doubt = chain.in_doubt;
    // An intent without a receipt, an effect without an intent, a call that was told as done without one.
    sums.receipts_lost = chain.open
        + seen.count.saturating_sub(chain.intents)
        + told_done.len().saturating_sub(chain.done);
    sums
}

/// What the receipts' chain says, line by line.
#[cfg(test)]
#[derive(Default)]
struct Receipts {
    intents: usize,
    nonces: BTreeSet<String>,
    open: usize,
    done: usize,
    in_doubt: usize,
}

#[cfg(test)]
impl Receipts {
    fn read(ground: &Ground) -> Self {
        let folder = ground.host.state().join("receipts");
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
            .collect();
        names.sort();
        let mut all = Self::default();
        let mut open = BTreeSet::new();
        for name in names {
            for line in fs::read_to_string(name).unwrap().lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                if let Some(intent) = line.pointer("/body/intent") {
                    all.intents += 1;
                    let nonce = intent["effect"]["nonce"].as_str().unwrap();
                    all.nonces.insert(nonce.into());
                    open.insert(line["position"].as_u64().unwrap());
                }
                if let Some(receipt) = line.pointer("/body/receipt") {
                    if let Some(position) = receipt.pointer("/intent/position") {
                        assert!(open.remove(&position.as_u64().unwrap()), "{receipt}");
                    }
                    all.done += usize::from(receipt.pointer("/outcome/done").is_some());
                    all.in_doubt += usize::from(receipt.pointer("/outcome/in_doubt").is_some());
                }
            }
        }
        all.open = open.len();
        all
    }
}

/// What the server saw in all.
#[cfg(test)]
#[derive(Debug)]
struct Effects {
    count: usize,
    twice: Vec<String>,
}

#[cfg(test)]
fn all_effects(ground: &Ground) -> Effects {
    let mut bodies = BTreeSet::new();
    let mut twice = Vec::new();
    let seen = ground.effects("").unwrap();
    for it in &seen {
        let body = format!("{it:?}");
        let nonce = body
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .find(|word| word.starts_with("kill-") || word.starts_with("warm-"))
            .unwrap_or_default()
            .to_owned();
        if nonce.starts_with("kill-") && !bodies.insert(nonce.clone()) {
            twice.push(nonce);
        }
    }
    Effects {
        count: seen.len(),
        twice,
    }
}
