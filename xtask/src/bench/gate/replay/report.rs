//! What is said of the replay: an explanation as it runs, and a table at its end.

use custody_replay::{
    format::{InjectionTask, UserTask},
    run::{Attacked, Benign},
    score::{Score, Spelling, Witness},
};
use sha2::{Digest as _, Sha256};

use crate::say;

/// Sees one suite under one policy.
pub(super) struct Watch<'a> {
    suite: &'a str,
    policy: &'a str,
    explain: bool,
    halves: [Part; 2],
}

/// A part of the tasks.
#[derive(Clone, Copy, Default)]
struct Part {
    tasks: usize,
    auto: usize,
    questions: usize,
    won: usize,
}

/// Which half a task is in: by a hash of its text, so that what is tuned on one can be looked at on
/// the other.
fn half(task: &UserTask) -> usize {
    let digest = Sha256::digest(task.prompt.as_bytes());
    usize::from(digest.first().copied().unwrap_or_default() & 1)
}

impl<'a> Watch<'a> {
    pub(super) fn new(suite: &'a str, policy: &'a str, explain: bool) -> Self {
        Self {
            suite,
            policy,
            explain,
            halves: <[Part; 2]>::default(),
        }
    }

    fn part(&mut self, task: &UserTask) -> Option<&mut Part> {
        self.halves.get_mut(half(task))
    }

    fn say(&self, text: std::fmt::Arguments<'_>) {
        if self.explain {
            say::line(format_args!("{} {}: {text}", self.policy, self.suite));
        }
    }
}

impl Witness for Watch<'_> {
    fn benign(&mut self, task: &UserTask, done: &Benign) {
        if let Some(part) = self.part(task) {
            part.tasks += 1;
            part.auto += usize::from(done.auto);
            part.questions += done.stopped.iter().filter(|it| it.question).count();
        }
        for stopped in &done.stopped {
            let what = if stopped.question { "held" } else { "refused" };
            self.say(format_args!(
                "{} call {} {what}, {}: {}",
                task.id, stopped.index, stopped.tool, stopped.why
            ));
        }
        if !done.useful {
            self.say(format_args!("{} was not done", task.id));
        }
    }

    fn attacked(
        &mut self,
        task: &UserTask,
        attack: &InjectionTask,
        spelling: Spelling,
        done: &Attacked,
    ) {
        if !done.won {
            return;
        }
        if let Some(part) = self.part(task) {
            part.won += 1;
        }
        if self.policy != super::NONE {
            let name = match spelling {
                Spelling::Encoded => "encoded",
                Spelling::Verbatim => "verbatim",
            };
            self.say(format_args!(
                "{} with {} ({name}) was won",
                task.id, attack.id
            ));
        }
    }
}

/// Everything that was seen, by policy.
#[derive(Default)]
pub(super) struct Report(Vec<Rows>);

struct Rows {
    policy: String,
    suites: Vec<Score>,
    halves: [Part; 2],
}

impl Report {
    pub(super) fn add(&mut self, score: Score, watch: Watch<'_>) {
        let halves = watch.halves;
        match self.0.iter_mut().find(|it| it.policy == score.policy) {
            None => self.0.push(Rows {
                policy: score.policy.clone(),
                suites: vec![score],
                halves,
            }),
            Some(rows) => {
                rows.suites.push(score);
                for (sum, part) in rows.halves.iter_mut().zip(halves) {
                    sum.tasks += part.tasks;
                    sum.auto += part.auto;
                    sum.questions += part.questions;
                    sum.won += part.won;
                }
            }
        }
    }

    pub(super) fn print(&self, halves: bool) {
        say::line(format_args!(
            "{:18} {:10} {:>5} {:>12} {:>6} {:>9} {:>6} {:>15} {:>15}",
            "policy",
            "suite",
            "tasks",
            "no question",
            "done",
            "questions",
            "pairs",
            "verbatim won",
            "encoded won"
        ));
        for rows in &self.0 {
            for score in &rows.suites {
                line(score);
            }
            if rows.suites.len() > 1 {
                line(&rows.sum());
            }
            if halves {
                for (index, part) in rows.halves.iter().enumerate() {
                    say::line(format_args!(
                        "{:18} half {index}     {:>5} {:>12} {:>6} {:>9} {:>6} {:>15}",
                        rows.policy,
                        part.tasks,
                        share(part.auto, part.tasks),
                        "",
                        part.questions,
                        "",
                        format!("{} (both)", part.won),
                    ));
                }
            }
        }
        say::line(
            "No model runs: the work is the recorded calls, the agent of an attack obeys it fully. \
             `custody+reviewer` is an upper bound: a person who always answers rightly.",
        );
    }
}

impl Rows {
    fn sum(&self) -> Score {
        let mut suites = self.suites.iter();
        let Some(first) = suites.next() else {
            return Score::default();
        };
        let mut sum = Score {
            suite: "together".into(),
            ..first.clone()
        };
        for score in suites {
            sum.user_tasks += score.user_tasks;
            sum.benign_auto += score.benign_auto;
            sum.benign_utility += score.benign_utility;
            sum.questions += score.questions;
            sum.pairs += score.pairs;
            for (sum, more) in [
                (&mut sum.attacks.verbatim, score.attacks.verbatim),
                (&mut sum.attacks.encoded, score.attacks.encoded),
            ] {
                sum.delivered += more.delivered;
                sum.won += more.won;
            }
        }
        sum
    }
}

fn line(score: &Score) {
    say::line(format_args!(
        "{:18} {:10} {:>5} {:>12} {:>6} {:>9} {:>6} {:>15} {:>15}",
        score.policy,
        score.suite,
        score.user_tasks,
        share(score.benign_auto, score.user_tasks),
        score.benign_utility,
        score.questions,
        score.pairs,
        format!(
            "{} of {}",
            score.attacks.verbatim.won, score.attacks.verbatim.delivered
        ),
        format!(
            "{} of {}",
            score.attacks.encoded.won, score.attacks.encoded.delivered
        ),
    ));
}

/// `31 (63.3 %)`.
fn share(part: usize, whole: usize) -> String {
    let tenths = (part * 1000 + whole / 2).checked_div(whole).unwrap_or(0);
    format!("{part} ({}.{} %)", tenths / 10, tenths % 10)
}
