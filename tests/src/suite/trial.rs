//! One attempt in all its arms.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::Context as _;
use custody_wire::layer::Layer;

use super::{
    arms::{self, Carried},
    hooks::Hooks,
    isolate,
    judge::{self, Arms, Left, Seen, Terms},
    lsm::Lsm,
    observation::Mark,
    policy,
    scene::{self, Scene},
};
use crate::{
    attempts::{Arm, Attempt, Place, Promised, Workspace},
    evidence::row::Row,
    host::Host,
    probe::{Attack, Effect},
    witness::effects::Effects,
};

/// What all attempts of a run share.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    /// The witness, the stand-ins, secrets and places.
    pub(super) scene: &'a Scene,
    /// The installation.
    pub(super) host: &'a Host,
    /// custodyd's hooks of a cgroup.
    pub(super) hooks: &'a Hooks,
    /// BPF LSM, where sessions have it.
    pub(super) lsm: Option<&'a Lsm>,
    /// The layers that sessions have here.
    pub(super) layers: &'a BTreeSet<Layer>,
    /// Under what is judged.
    pub(super) terms: &'a Terms,
    /// Which layers are taken away and left alone.
    pub(super) ablate: &'a Ablate,
    /// How many isolating runs of an attempt are made beside each other.
    pub(super) beside: usize,
    /// Set when the run is to end.
    pub(super) stopped: Option<&'static AtomicBool>,
}

/// Which layers the isolating runs try, beside the promised legs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Ablate {
    /// The promised layers.
    #[default]
    Promised,
    /// These, and the promised legs as they are promised.
    These(BTreeSet<Layer>),
}

impl Ablate {
    /// Every layer.
    pub fn all() -> Self {
        Self::These(Layer::ALL.into_iter().collect())
    }

    /// The isolating runs of an attempt that these legs are promised to refuse.
    fn runs(&self, promised: &[&[Layer]]) -> Vec<Left> {
        if promised.is_empty() {
            return Vec::new();
        }
        let mut only: Vec<Vec<Layer>> = promised.iter().map(|leg| leg.to_vec()).collect();
        let taken: Vec<Layer> = match self {
            Self::Promised => {
                let mut layers: Vec<Layer> = only.iter().flatten().copied().collect();
                layers.sort();
                layers.dedup();
                layers
            }
            Self::These(layers) => {
                for layer in layers {
                    let single = vec![*layer];
                    if !only.contains(&single) {
                        only.push(single);
                    }
                }
                layers.iter().copied().collect()
            }
        };
        [Left::Nothing]
            .into_iter()
            .chain(only.into_iter().map(Left::Only))
            .chain(taken.into_iter().map(Left::AllBut))
            .collect()
    }
}

/// One attempt in all its arms: judged when they are over, and once more at the end of the run.
#[derive(Debug)]
pub(super) struct Tried {
    attempt: &'static Attempt,
    /// None where the host has not what it needs.
    arms: Option<Arms>,
    observed: Option<String>,
    /// The row, as it was judged last.
    pub(super) row: Row,
}

impl Ground<'_> {
    /// One attempt, judged. Where an arm that must be there cannot be made it is inconclusive.
    ///
    /// # Errors
    /// When the run is to end.
    pub(super) fn try_one(&self, attempt: &'static Attempt) -> anyhow::Result<Tried> {
        let without_arms = |row| Tried {
            attempt,
            arms: None,
            observed: None,
            row,
        };
        if let Some(need) = attempt.needs.iter().find_map(|need| need.missing()) {
            let row = judge::not_attempted(attempt, need, self.terms);
            return Ok(without_arms(row));
        }
        match self.in_all_arms(attempt) {
            Ok(tried) => Ok(tried),
            Err(error) if self.is_stopped() => Err(error),
            Err(error) => {
                let row = judge::not_made(attempt, format!("{error:#}"), self.terms);
                Ok(without_arms(row))
            }
        }
    }

    /// All arms of one attempt, judged.
    fn in_all_arms(&self, attempt: &'static Attempt) -> anyhow::Result<Tried> {
        let scene = self.scene;
        let mark = Mark::set(self.host);
        let confined = self.in_session(attempt, Arm::Confined)?;
        let observed = mark.counted(self.host);
        let (attack, place, carried) = self.prepare(attempt, Arm::Reach)?;
        let to = (attempt.owner, arms::Stderr::of(attempt.proof));
        let reach = arms::reach(scene, to, &attack, &place.nonce, &carried)?.by(
            attempt.proof,
            scene,
            &place,
        )?;
        let twin = self.in_session(attempt, Arm::Twin)?;
        let mut arms = Arms {
            confined,
            reach,
            twin,
            isolated: self.each_isolated(attempt)?,
        };
        arms::come_to_rest(scene, || {
            arms.take(&scene.all_effects().context("the witness's record")?);
            Ok(!arms.is_open())
        })?;
        let mut tried = Tried {
            attempt,
            row: judge::judge(attempt, &arms, &scene.plant, self.terms),
            arms: Some(arms),
            observed,
        };
        tried.row.observed.clone_from(&tried.observed);
        Ok(tried)
    }

    /// Judges an attempt again where the witness saw more than it had when the arms were over. Whether
    /// it had.
    pub(super) fn judge_again(&self, tried: &mut Tried, effects: &Effects) -> bool {
        let Some(arms) = tried.arms.as_mut() else {
            return false;
        };
        let is_new = arms.take(effects);
        if is_new {
            let mut row = judge::judge(tried.attempt, arms, &self.scene.plant, self.terms);
            row.observed.clone_from(&tried.observed);
            row.notes
                .push("an effect came after the row had been judged, which is judged again".into());
            tried.row = row;
        }
        is_new
    }

    /// The isolating runs, as many beside each other as the attempt allows, in their order.
    fn each_isolated(
        &self,
        attempt: &Attempt,
    ) -> anyhow::Result<Vec<(Left, Result<Seen, String>)>> {
        let legs: &[&[Layer]] = match &attempt.promised {
            Promised::Gate { .. } | Promised::Quietly { .. } => &[],
            Promised::Layers(legs) => legs,
        };
        let runs = self.ablate.runs(legs);
        let beside = match attempt.alone() {
            Some(_) => 1,
            None => self.beside.min(runs.len()),
        };
        let (next, seen) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        thread::scope(|scope| {
            for _ in 0..beside {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(left) = runs.get(number).filter(|_| !self.is_stopped()) else {
                            break;
                        };
                        let one = self.isolated(attempt, left);
                        let one = one.map_err(|error| format!("{error:#}"));
                        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                        seen.insert(number, one);
                    }
                });
            }
        });
        anyhow::ensure!(!self.is_stopped(), "interrupted");
        let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        anyhow::ensure!(
            seen.len() == runs.len(),
            "not every isolating run came to its end"
        );
        Ok(runs.into_iter().zip(seen.into_values()).collect())
    }

    /// Whether the run is to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.is_some_and(|it| it.load(Ordering::Relaxed))
    }

    /// What one arm does, with what it carries and what is laid out for it.
    fn prepare(&self, attempt: &Attempt, arm: Arm) -> anyhow::Result<(Attack, Place, Carried)> {
        let scene = self.scene;
        let nonce = scene::nonce()?;
        let (attack, carried) = match arm {
            Arm::Twin => ((attempt.twin)(scene, effect(&nonce)), Carried::nothing()),
            Arm::Confined | Arm::Isolated | Arm::Reach => (
                (attempt.attack)(scene, arm, effect(&nonce)),
                Carried::make(attempt.carries, scene)?,
            ),
        };
        let place = Place { arm, nonce };
        (attempt.before)(scene, &place).context("what is laid out before the arm")?;
        Ok((attack, place, carried))
    }

    fn in_session(&self, attempt: &Attempt, arm: Arm) -> anyhow::Result<Seen> {
        let (attack, place, carried) = self.prepare(attempt, arm)?;
        let seen = confined(
            self.host,
            self.scene,
            (attempt.workspace, arms::Stderr::of(attempt.proof)),
            &attack,
            &place.nonce,
            &carried,
        )?;
        seen.by(attempt.proof, self.scene, &place)
    }

    fn isolated(&self, attempt: &Attempt, left: &Left) -> anyhow::Result<Seen> {
        if let Some(why) = cannot(left, self.layers) {
            anyhow::bail!(why);
        }
        let (attack, place, carried) = self.prepare(attempt, Arm::Isolated)?;
        let with = isolate::With {
            carried: &carried,
            cgroups: self.host.cgroup(),
            hooks: self.hooks,
            lsm: self.lsm,
            profile: self.terms.profile,
            workspace: attempt.workspace,
        };
        isolate::run(self.scene, left, &attack, &place.nonce, &with)?.by(
            attempt.proof,
            self.scene,
            &place,
        )
    }
}

/// With what the reason begins why an isolating run is not made: the layer cannot be had or taken
/// away here.
pub const NOT_THERE: &str = "not there to be tried: ";

/// Why there is no such run; none if there is.
fn cannot(left: &Left, here: &BTreeSet<Layer>) -> Option<String> {
    let named: &[Layer] = match left {
        Left::AllBut(layer) => std::slice::from_ref(layer),
        Left::Nothing => &[],
        Left::Only(layers) => layers,
    };
    let missing = named.iter().find(|layer| !here.contains(*layer))?;
    Some(format!(
        "{NOT_THERE}no session here has `{}`",
        missing.name()
    ))
}

/// The effect of one arm.
pub(super) fn effect(nonce: &str) -> Effect {
    Effect {
        token: None,
        nonce: nonce.into(),
    }
}

/// Runs the probe in a session of the real service, through `custody run`.
pub(super) fn confined(
    host: &Host,
    scene: &Scene,
    (workspace, stderr): (Workspace, arms::Stderr),
    attack: &Attack,
    nonce: &str,
    carried: &Carried,
) -> anyhow::Result<Seen> {
    let mut command: Command = host.run(
        policy::NAME,
        [(policy::RECIPIENT, scene.recipient.as_str())],
    );
    match workspace {
        Workspace::None => {}
        Workspace::Shared => {
            command.arg("--workdir").arg(scene.workspace());
        }
    }
    command.arg("--").arg(host.programs().join("custody-probe"));
    carried.into_environment(&mut command);
    arms::run(scene, (command, stderr), attack, nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEGS: &[&[Layer]] = &[
        &[Layer::Seccomp],
        &[Layer::PidNamespace, Layer::MountNamespace],
    ];

    #[test]
    fn the_promised_layers_are_taken_away_one_by_one_and_left_alone_as_promised() {
        let runs = Ablate::Promised.runs(LEGS);
        assert_eq!(
            runs,
            [
                Left::Nothing,
                Left::Only(vec![Layer::Seccomp]),
                Left::Only(vec![Layer::PidNamespace, Layer::MountNamespace]),
                Left::AllBut(Layer::MountNamespace),
                Left::AllBut(Layer::PidNamespace),
                Left::AllBut(Layer::Seccomp),
            ]
        );
        assert_eq!(Ablate::Promised.runs(&[]), []);
    }

    #[test]
    fn a_whole_ablation_takes_every_layer_away_and_leaves_every_layer_alone() {
        let runs = Ablate::all().runs(LEGS);
        for layer in Layer::ALL {
            assert!(runs.contains(&Left::AllBut(layer)), "{layer:?}");
            assert!(runs.contains(&Left::Only(vec![layer])), "{layer:?}");
        }
        // And the leg of two, and nothing at all.
        assert_eq!(runs.len(), 2 * Layer::ALL.len() + 2);
    }

    #[test]
    fn a_layer_that_no_session_has_here_is_not_tried_and_says_so() {
        let here = BTreeSet::from([Layer::Cgroup, Layer::Seccomp]);
        let why = |left| cannot(&left, &here);
        assert_eq!(why(Left::Only(vec![Layer::Seccomp])), None);
        assert!(why(Left::AllBut(Layer::BpfLsm)).is_some_and(|why| why.contains("bpf_lsm")));
        assert!(why(Left::Only(vec![Layer::Seccomp, Layer::Uid])).is_some());
        assert_eq!(why(Left::AllBut(Layer::Cgroup)), None);
    }
}
