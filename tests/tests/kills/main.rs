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

#![cfg(test)]

mod plan;
mod seen;
mod trace;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
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
use serde_json::{Value, json};

use plan::{Called, Plan, WAYS};
use seen::{Receipts, all_effects};
use trace::kill_at;

/// The tool that streams.
const FOLLOW: &str = include_str!("../../../fixtures/demo/follow.toml");

/// Services that are killed this often are started anew with custodyd, before it gives them up.
const SERVICES_KILLED_MAX: usize = 5;

/// So many points of one installation: a service reads its chain when it starts, and a killed one starts
/// with the next point.
const POINTS_OF_ONE: usize = 120;

fn start(ground: &Ground) -> Option<Agent> {
    Agent::start(ground.run(), Era::Older).ok()
}

/// The answer; none where the session or its front is gone.
fn call(agent: &mut Agent, nonce: &str) -> Option<Value> {
    agent.call("send_message", &ground::message(nonce)).ok()
}

/// Opens a stream, in the same way.
fn follow(agent: &mut Agent) -> Option<Value> {
    agent.call("follow_note", &json!({ "id": "1" })).ok()
}

/// An installation with the tool that streams.
fn set() -> Ground {
    let mut ground = Ground::lay().unwrap();
    let address = ground.witness.address().to_string();
    let policy = format!("{}{}", ground.policy(), FOLLOW.replace("SERVICE", &address));
    ground.host.write_policy("demo", &policy).unwrap();
    ground.host.up().unwrap();
    ground
}

/// What came of points.
#[derive(Debug, Default)]
struct Sums {
    points: usize,
    killed_in_mid_call: usize,
    leased: usize,
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
    longest: [usize; WAYS.len()],
}

impl Sums {
    fn and(mut self, other: &Self) -> Self {
        for (mine, theirs) in [
            (&mut self.points, other.points),
            (&mut self.killed_in_mid_call, other.killed_in_mid_call),
            (&mut self.leased, other.leased),
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
    for ((program, called), stops) in WAYS.iter().zip(sums.longest) {
        let what = match called {
            Called::Message => "a message",
            Called::Stream => "a stream",
        };
        println!("stops of the longest call: {program}, {what}: {stops}");
    }
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
fn run_lane(plan: &Plan, lane: usize) -> Sums {
    let mut sums = Sums::default();
    while plan.is_left() {
        sums = sums.and(&run_installation(plan, lane));
    }
    sums
}

/// Points of one installation, from its start until its ledger is looked through.
fn run_installation(plan: &Plan, lane: usize) -> Sums {
    let mut ground = set();
    let mut agent: Option<Agent> = None;
    let mut sums = Sums::default();
    let mut services_killed = 0;
    let mut warmed = 0_u64;
    let mut told_done = BTreeSet::new();
    for which in (0..WAYS.len()).cycle().skip(lane).take(POINTS_OF_ONE) {
        let Some(point) = plan.take(which) else {
            break;
        };
        let (program, called) = WAYS[which];
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
        let answer = match called {
            Called::Message => call(&mut living, &nonce),
            Called::Stream => follow(&mut living),
        };
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
            Some(answer) if answer.pointer("/result/_meta/custody~1stream").is_some() => {
                assert!(called == Called::Stream);
                sums.leased += 1;
            }
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
