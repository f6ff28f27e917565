//! One run: the installation, every attempt in its arms, the evidence.

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};

use super::{
    arms::{self, Carried},
    host_facts, isolate,
    judge::{self, Arms, Seen},
    policy,
    scene::{self, Installation, Scene},
};
use crate::{
    attempts::{self, Arm, Attempt, Leg, Place, Promised, Workspace},
    evidence::{
        self, Evidence, FORMAT, LayerSaid, non_claims,
        row::{Expected, Outcome, Row},
        status::{self, RegisterHalf},
        words,
    },
    host::{Host, Setup},
    probe::{Attack, Effect},
    witness::record::unix_ms,
};

/// The programs of a confined session that hold credentials.
const HOLDERS: [&str; 4] = [
    "custody-effect",
    "custody-gate",
    "custody-vault",
    "custodyd",
];

/// What a run is told.
#[derive(Debug, Default)]
pub struct Options {
    /// Only attempts whose id begins with this.
    pub only: Option<String>,
    /// Changes to the policy's text, for a test that takes a property away.
    pub policy: Vec<(String, String)>,
    /// Set when the run is to end: it stops before the next row and cleans up.
    pub stopped: Option<&'static AtomicBool>,
}

/// Runs the suite. `said` is told each row as it comes.
///
/// # Errors
/// When confinement could not be started, no attempt was run, or the evidence would hold a
/// forbidden word. There is no evidence then.
pub fn run(
    options: &Options,
    register: Option<RegisterHalf>,
    said: &mut dyn FnMut(&Row),
) -> anyhow::Result<Evidence> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "the suite needs root: it starts an installation of its own"
    );
    let started_unix_ms = unix_ms();
    let built = crate::host::programs_folder()?;
    let mut scene = Scene::set(&built)?;
    let host = install(&scene, &options.policy)?;
    // From here on the very files that the installation runs.
    scene.programs_are(host.programs());
    scene.installed(Installation {
        control: host.folder().join("run/control.sock"),
        operator: host.operator(),
        workspace: host.workspace("shared")?,
    })?;
    let layers = warm_up(&host, &mut scene)?;
    let expected = evidence::expected()?;

    let mut rows = Vec::new();
    let mut nonces = Vec::new();
    for attempt in attempts::all() {
        let wanted = options
            .only
            .as_deref()
            .is_none_or(|only| attempt.id.starts_with(only));
        if !wanted {
            continue;
        }
        ensure!(
            !options.stopped.is_some_and(|it| it.load(Ordering::Relaxed)),
            "interrupted"
        );
        let (row, nonce) = one(attempt, &scene, &host, &expected)
            .with_context(|| format!("attempt `{}`", attempt.id))?;
        said(&row);
        rows.push(row);
        nonces.push(nonce);
    }
    // The witness is asked again when everything is over: what came late came all the same.
    for (row, nonce) in rows.iter_mut().zip(&nonces) {
        let late = arms::witnessed(&scene, nonce, Duration::ZERO)?;
        if let (Some(proof), false) = (late, matches!(row.outcome, Outcome::Reached { .. })) {
            row.came_late(proof);
            said(row);
        }
    }
    ensure!(
        !rows.is_empty(),
        "no attempt was run: that is an error, not a pass"
    );
    let facts = host_facts::of(&host, started_unix_ms)?;
    let e_status = status::compute(
        &rows,
        register.as_ref(),
        &[],
        scope(&facts, register.as_ref()),
    );
    let evidence = Evidence {
        format: FORMAT.into(),
        host: facts,
        layers,
        register,
        attempts: rows,
        observation: observation(&scene, &host)?,
        e_status,
        non_claims: non_claims::all()?,
    };
    if let Some(found) = words::forbidden_in(&serde_json::to_value(&evidence)?) {
        bail!("the evidence would hold {found}");
    }
    Ok(evidence)
}

/// How wide the status is.
fn scope(facts: &evidence::Host, register: Option<&RegisterHalf>) -> Vec<String> {
    let zone = register
        .and_then(|half| half.zone.first())
        .map_or("the agent zone is not declared", String::as_str);
    vec![
        zone.into(),
        "profile `standard`, network mode `sealed`, no workspace unless a row says so".into(),
        "process model: the programs of one installation on one host, each under its own uid; \
         sessions one at a time"
            .into(),
        "effects are real HTTP requests to a service in a process of its own on this host's \
         loopback; the credential is a bearer token made for the run"
            .into(),
        format!("kernel {}", facts.kernel),
        "trusted: the kernel, root on the host, the operator's configuration and policy".into(),
    ]
}

fn install(scene: &Scene, changes: &[(String, String)]) -> anyhow::Result<Host> {
    let mut host = Host::install(&Setup {
        policies: vec![(policy::NAME.into(), String::new())],
        credentials: vec![(policy::CREDENTIAL.into(), scene.credential_file.clone())],
        values: vec![policy::RECIPIENT.into()],
        owned: Vec::new(),
    })?;
    let mut text = policy::text(scene.witness_address, &host.programs());
    for (before, after) in changes {
        ensure!(
            text.contains(before.as_str()),
            "the policy has no `{before}`"
        );
        text = text.replacen(before.as_str(), after, 1);
    }
    host.write_policy(policy::NAME, &text)?;
    host.up()?;
    Ok(host)
}

/// A first allowed call: confinement starts, the layers are read, and a worker holds the
/// credential while the attempts run.
fn warm_up(host: &Host, scene: &mut Scene) -> anyhow::Result<Vec<LayerSaid>> {
    let nonce = scene::nonce()?;
    let attack = super::message::allowed(scene, &effect(&nonce));
    let seen = confined(
        host,
        scene,
        Workspace::None,
        &attack,
        &nonce,
        &Carried::nothing(),
    )?;
    if seen.reached.is_none() {
        bail!(
            "confinement could not be started, or the allowed call fails: {}\n{}",
            seen.noise,
            host.log_tail()
        );
    }
    scene.service_pids = HOLDERS
        .iter()
        .flat_map(|program| host.pids(program))
        .collect();
    host_facts::layers(host, scene)
}

fn effect(nonce: &str) -> Effect {
    Effect {
        token: None,
        nonce: nonce.into(),
    }
}

/// All arms of one attempt, and the nonce of the confined one.
fn one(
    attempt: &Attempt,
    scene: &Scene,
    host: &Host,
    expected: &BTreeMap<String, Expected>,
) -> anyhow::Result<(Row, String)> {
    if let Some(need) = attempt.needs.iter().find_map(|need| need.missing()) {
        let row = judge::not_attempted(attempt, need, expected);
        return Ok((row, scene::nonce()?));
    }
    let arm = |arm: Arm| -> anyhow::Result<(Attack, Place, Carried)> {
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
    };
    let in_session = |arm: (Attack, Place, Carried)| -> anyhow::Result<(Seen, Place)> {
        let (attack, place, carried) = arm;
        let seen = confined(
            host,
            scene,
            attempt.workspace,
            &attack,
            &place.nonce,
            &carried,
        )?;
        Ok((seen.by(attempt.proof, scene, &place)?, place))
    };
    let (seen_confined, place) = in_session(arm(Arm::Confined)?)?;
    let confined_nonce = place.nonce;
    let (attack, place, carried) = arm(Arm::Reach)?;
    let reach = arms::reach(scene, attempt.owner, &attack, &place.nonce, &carried)?.by(
        attempt.proof,
        scene,
        &place,
    )?;
    let (twin, _) = in_session(arm(Arm::Twin)?)?;

    let isolated = |layers: isolate::Layers| -> Result<Seen, String> {
        arm(Arm::Isolated)
            .and_then(|(attack, place, carried)| {
                let with = isolate::With {
                    carried: &carried,
                    agents: &agents(host),
                    workspace: attempt.workspace,
                };
                isolate::run(scene, layers, &attack, &place.nonce, &with)?.by(
                    attempt.proof,
                    scene,
                    &place,
                )
            })
            .map_err(|error| format!("{error:#}"))
    };
    let legs: &[Leg] = match &attempt.promised {
        Promised::Gate { .. } => &[],
        Promised::Layers(legs) => legs,
    };
    let seen = Arms {
        confined: seen_confined,
        reach,
        twin,
        only: legs
            .iter()
            .map(|leg| (*leg, isolated(isolate::Layers::Only(leg))))
            .collect(),
        all_but: legs
            .iter()
            .copied()
            .flatten()
            .map(|layer| (*layer, isolated(isolate::Layers::AllBut(*layer))))
            .collect(),
    };
    let row = judge::judge(attempt, &seen, &scene.plant, expected);
    Ok((row, confined_nonce))
}

/// Runs the probe in a session of the real service, through `custody run`.
fn confined(
    host: &Host,
    scene: &Scene,
    workspace: Workspace,
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
    arms::run(scene, command, attack, nonce, Duration::ZERO)
}

fn agents(host: &Host) -> std::path::PathBuf {
    host.cgroup().join("custody").join("agents")
}

/// What was watched, and what was not.
fn observation(scene: &Scene, host: &Host) -> anyhow::Result<Vec<String>> {
    let (accepted, rejected) = scene.seen()?;
    let log = host.log();
    let events = log
        .lines()
        .filter(|line| line.contains(" denied who="))
        .count();
    let dropped = log
        .lines()
        .filter(|line| line.contains("could not take"))
        .count();
    Ok(vec![
        format!(
            "the witness recorded {accepted} accepted and {rejected} rejected requests in a \
             process and files of its own"
        ),
        format!(
            "the kernel's hooks reported denials in {events} lines of the service's log; {dropped} \
             lines say that events were lost"
        ),
        "what the filter on system calls or a namespace refuses reaches no hook: it is seen in \
         the probe's own words, and the witness shows that nothing came of it"
            .into(),
        "every byte that a probe printed was searched for every credential of the run".into(),
    ])
}

/// The text of a row, for a person.
pub fn line(row: &Row) -> String {
    let mark = if row.as_expected { " " } else { "!" };
    let mut text = format!("{mark} {:<28} {}", row.id, row.outcome);
    if !row.as_expected {
        let expected = row.expected.as_ref().map_or_else(
            || "nothing is expected of it".into(),
            |it| format!("expected {} {}", it.outcome, it.layers.join(", ")),
        );
        text.push_str(&format!("\n    {expected}"));
    }
    for leg in &row.legs {
        text.push_str(&format!(
            "\n    {:?} {}: {:?}: {}",
            leg.run, leg.layer, leg.outcome, leg.saw
        ));
    }
    for note in &row.notes {
        text.push_str(&format!("\n    {note}"));
    }
    text
}

/// Whether `path` is a source tree of ours.
pub fn is_source(path: &Path) -> bool {
    path.join("fixtures/register.toml").is_file() && path.join("Cargo.lock").is_file()
}
