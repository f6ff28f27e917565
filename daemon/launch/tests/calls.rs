//! What a call costs in a session, and which layer it goes to: sessions that lack a layer, beside
//! bare, by turns. `cargo test --release -p custody-launch --test calls -- --ignored --nocapture
//! what_a_call_costs`. The cgroup's hooks are not on: none of them sees open(2).
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a measurement ends at the first thing that is not as it should be"
)]

#[cfg(test)]
mod support;

use std::{
    fs::{self, File},
    hint::black_box,
    io::{BufRead as _, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use custody_wire::{
    launch::Role,
    layer::Layer::{self, IdMap, Landlock, MountNamespace, Seccomp},
};
use nix::{
    sys::{
        signal::{Signal, kill},
        wait::waitpid,
    },
    time::{ClockId, clock_gettime},
};
use support::{Session, Start, can_run, folder_of};

const TURNS: usize = 150;
/// Calls in one turn: long enough for the clock.
const CALLS: u32 = 1_000;

/// What sessions lack.
const LACKING: [(&str, &[Layer]); 6] = [
    ("all layers", &[]),
    ("without Landlock", &[Landlock]),
    ("without seccomp", &[Seccomp]),
    ("without either", &[Landlock, Seccomp]),
    ("without a root of its own", &[MountNamespace]),
    (
        "without any of them",
        &[IdMap, Landlock, MountNamespace, Seccomp],
    ),
];

/// What this process has used: on a busy machine the clock on the wall says who else was there.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .expect("clock_gettime(2)")
        .into()
}

/// The program of each arm: told `open PATH`, `stat PATH` or `getppid -`, it answers with
/// nanoseconds.
#[test]
#[ignore = "the loop that the measurement starts"]
fn the_loop() {
    // libtest speaks on standard output.
    let mut said = std::io::stderr();
    writeln!(said, "ready").expect("written");
    for order in std::io::stdin().lines() {
        let order = order.expect("an order");
        let (what, path) = order.split_once(' ').expect("an order");
        let started = processor_time();
        for _ in 0..CALLS {
            match what {
                "open" => drop(black_box(File::open(path).expect("it opens"))),
                "stat" => drop(black_box(fs::metadata(path).expect("it is there"))),
                _ => {
                    black_box(nix::unistd::getppid());
                }
            }
        }
        let used = processor_time() - started;
        writeln!(said, "{}", used.as_nanos()).expect("written");
    }
}

enum Runs {
    Bare(Child),
    Inside(Session),
}

struct Arm {
    name: &'static str,
    orders: Box<dyn Write>,
    answers: BufReader<Box<dyn Read>>,
    runs: Runs,
    times: Vec<Duration>,
}

impl Arm {
    fn bare(argv: &[&str]) -> Self {
        let mut child = Command::new(argv[0])
            .args(&argv[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the loop starts");
        let orders = Box::new(child.stdin.take().expect("a pipe"));
        let answers: Box<dyn Read> = Box::new(child.stderr.take().expect("a pipe"));
        Self::ready("bare", orders, answers, Runs::Bare(child))
    }

    fn inside(name: &'static str, start: Start) -> Self {
        let mut session = start.prepare().expect("sealed");
        session.go();
        let orders = Box::new(File::from(session.end(Role::Stdin)));
        let answers = Box::new(File::from(session.end(Role::Stderr)));
        Self::ready(name, orders, answers, Runs::Inside(session))
    }

    fn ready(
        name: &'static str,
        orders: Box<dyn Write>,
        answers: Box<dyn Read>,
        runs: Runs,
    ) -> Self {
        let mut arm = Self {
            name,
            orders,
            answers: BufReader::new(answers),
            runs,
            times: Vec::new(),
        };
        assert_eq!(arm.line(), "ready", "{name}");
        arm
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it speaks");
        line.trim_end().to_owned()
    }

    fn turn(&mut self, order: &str) -> Duration {
        writeln!(self.orders, "{order}").expect("it listens");
        let line = self.line();
        let nanos = line.parse();
        Duration::from_nanos(nanos.expect("nanoseconds"))
    }
}

impl Drop for Arm {
    fn drop(&mut self) {
        match &mut self.runs {
            Runs::Bare(child) => {
                child.kill().expect("killed");
                child.wait().expect("waited for");
            }
            Runs::Inside(session) => {
                kill(session.child.pid, Signal::SIGKILL).expect("killed");
                waitpid(session.child.pid, None).expect("waited for");
            }
        }
    }
}

/// The least, and the middle.
fn of(times: &mut [Duration]) -> [f64; 2] {
    times.sort_unstable();
    [times[0], times[times.len() / 2]].map(|time| time.as_secs_f64() * 1e9 / f64::from(CALLS))
}

#[test]
#[ignore = "a measurement, not a test"]
fn what_a_call_costs_and_which_layer_takes_it() {
    if !can_run() {
        return;
    }
    let shown = folder_of(0);
    let program = shown.path().join("calls");
    fs::copy("/proc/self/exe", &program).expect("a copy");
    let work = folder_of(4321);
    let deep = work.path().join("a/b/c");
    fs::create_dir_all(&deep).expect("folders");
    for place in [work.path().join("file"), deep.join("file")] {
        fs::write(place, "x").expect("a file");
    }
    let argv = [
        program.to_str().expect("a path"),
        "the_loop",
        "--exact",
        "--ignored",
        "--nocapture",
    ];
    let mut arms = vec![Arm::bare(&argv)];
    for (name, lacking) in LACKING {
        let mut start = Start::command(&argv)
            .without(lacking)
            .workspace(work.path());
        start.read_only = vec![shown.path().to_path_buf()];
        arms.push(Arm::inside(name, start));
    }
    println!("processor time of a call, ratios of one run:");
    for order in orders(work.path()) {
        for turn in 0..TURNS + 3 {
            for arm in &mut arms {
                let time = arm.turn(&order);
                if turn >= 3 {
                    arm.times.push(time);
                }
            }
        }
        println!("{order}");
        let base = of(&mut arms[0].times);
        for arm in &mut arms {
            let [least, middle] = of(&mut arm.times);
            println!(
                "  {:28} min {least:7.0} ns  p50 {middle:7.0} ns  ratio {:.2} {:.2}",
                arm.name,
                least / base[0],
                middle / base[1]
            );
            arm.times.clear();
        }
    }
}

/// Two files of the system, one of them deeper; two of the workspace.
fn orders(work: &Path) -> Vec<String> {
    let module = [
        "/usr/lib/python3/dist-packages",
        "/usr/share/zoneinfo/Europe",
    ]
    .iter()
    .map(PathBuf::from)
    .find(|place| place.exists());
    let deeper = module.map(|place| format!("open {}", place.display()));
    [
        Some("open /usr/bin/env".to_owned()),
        deeper,
        Some(format!("open {}/file", work.display())),
        Some(format!("open {}/a/b/c/file", work.display())),
        Some("stat /usr/bin/env".to_owned()),
        Some("getppid -".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect()
}
