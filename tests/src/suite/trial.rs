//! One attempt in all its arms.

use std::{collections::BTreeSet, process::Command, time::Duration};

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

impl Ground<'_> {
    /// All arms of one attempt, judged, and the nonce of the confined one.
    ///
    /// # Errors
    /// When an arm that must be there cannot be made.
    pub(super) fn try_one(&self, attempt: &Attempt) -> anyhow::Result<(Row, String)> {
        let scene = self.scene;
        if let Some(need) = attempt.needs.iter().find_map(|need| need.missing()) {
            let row = judge::not_attempted(attempt, need, self.terms);
            return Ok((row, scene::nonce()?));
        }
        let mark = Mark::set(self.host);
        let (seen_confined, nonce) = self.in_session(attempt, Arm::Confined)?;
        let observed = mark.counted(self.host);
        let (attack, place, carried) = self.prepare(attempt, Arm::Reach)?;
        let to = (attempt.owner, arms::Stderr::of(attempt.proof));
        let reach = arms::reach(scene, to, &attack, &place.nonce, &carried)?.by(
            attempt.proof,
            scene,
            &place,
        )?;
        let (twin, _) = self.in_session(attempt, Arm::Twin)?;
        let legs: &[&[Layer]] = match &attempt.promised {
            Promised::Gate { .. } | Promised::Quietly { .. } => &[],
            Promised::Layers(legs) => legs,
        };
        let isolated = self
            .ablate
            .runs(legs)
            .into_iter()
            .map(|left| {
                let seen = self.isolated(attempt, &left);
                (left, seen.map_err(|error| format!("{error:#}")))
            })
            .collect();
        let arms = Arms {
            confined: seen_confined,
            reach,
            twin,
            isolated,
        };
        let mut row = judge::judge(attempt, &arms, &scene.plant, self.terms);
        row.observed = observed;
        Ok((row, nonce))
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

    fn in_session(&self, attempt: &Attempt, arm: Arm) -> anyhow::Result<(Seen, String)> {
        let (attack, place, carried) = self.prepare(attempt, arm)?;
        let seen = confined(
            self.host,
            self.scene,
            (attempt.workspace, arms::Stderr::of(attempt.proof)),
            &attack,
            &place.nonce,
            &carried,
        )?;
        Ok((seen.by(attempt.proof, self.scene, &place)?, place.nonce))
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
    // What comes late is seen when the witness is asked again, at the end of all.
    arms::run(scene, (command, stderr), attack, nonce, Duration::ZERO)
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
