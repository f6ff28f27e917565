//! One run: the installation, every attempt in its arms, the evidence.

use std::{collections::BTreeSet, num::NonZeroUsize, path::Path, sync::atomic::AtomicBool, thread};

use anyhow::{Context as _, bail, ensure};
use custody_wire::{layer::Layer, profile::Profile};

use super::{
    arms::{self, Carried},
    hooks::Hooks,
    host_facts,
    judge::Terms,
    lsm::Lsm,
    observation, policy,
    scene::{self, Installation, Scene},
    trial::{Ablate, Ground, confined, effect},
};
use crate::{
    attempts::{self, Workspace},
    evidence::{
        self, Evidence, FORMAT, LayerSaid, ablation, counts, doors, expected, incidents,
        non_claims,
        row::Row,
        status::{self, RefusedConfiguration, RegisterHalf},
        words,
    },
    host::{Host, Setup},
    refused,
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
#[derive(Debug)]
pub struct Options {
    /// Only attempts whose id begins with one of these; all if there is none.
    pub only: Vec<String>,
    /// Which layers are taken away and left alone.
    pub ablate: Ablate,
    /// How many isolating runs are made beside each other; by default as many as suit the host.
    pub beside: Option<NonZeroUsize>,
    /// The profile of the sessions.
    pub profile: Profile,
    /// Configurations that are refused, as their own run showed it (§12.3).
    pub refused: Vec<refused::Row>,
    /// Changes to the policy's text, for a test that takes a property away.
    pub policy: Vec<(String, String)>,
    /// Set when the run is to end: it stops before the next row and cleans up.
    pub stopped: Option<&'static AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            only: Vec::new(),
            ablate: Ablate::Promised,
            beside: None,
            profile: Profile::Standard,
            refused: Vec::new(),
            policy: Vec::new(),
            stopped: None,
        }
    }
}

impl Options {
    /// Whether the attempt is in the run.
    fn wants(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| id.starts_with(only))
    }
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
    let release = host_facts::release()?;
    let terms = Terms {
        expected: expected::of(options.profile, release.parse()?)?,
        kernel: release,
        profile: options.profile,
    };
    let built = crate::host::programs_folder()?;
    let mut scene = Scene::set(&built)?;
    let host = install(&scene, options)?;
    // From here on the very files that the installation runs.
    scene.programs_are(host.programs());
    scene.installed(Installation {
        control: host.folder().join("run/control.sock"),
        operator: host.operator(),
        workspace: host.workspace("shared")?,
        cgroup: host.cgroup().to_owned(),
        pins: host.pin_folder(),
    })?;
    let layers = warm_up(&host, &mut scene)?;
    let before = host_facts::programs(&host.programs())?;
    let hooks = Hooks::pinned_in(&host.pin_folder())?;
    let here = here(&layers);
    let lsm = if here.contains(&Layer::BpfLsm) {
        Some(Lsm::beside(&host, &scene.credential_file)?)
    } else {
        None
    };
    let ground = Ground {
        scene: &scene,
        host: &host,
        hooks: &hooks,
        lsm: lsm.as_ref(),
        layers: &here,
        terms: &terms,
        ablate: &options.ablate,
        beside: options.beside.map_or_else(beside, NonZeroUsize::get),
        stopped: options.stopped,
    };

    let mut tried = Vec::new();
    for attempt in attempts::all() {
        if !options.wants(attempt.id) {
            continue;
        }
        ensure!(!ground.is_stopped(), "interrupted");
        let one = ground
            .try_one(attempt)
            .with_context(|| format!("attempt `{}`", attempt.id))?;
        said(&one.row);
        tried.push(one);
    }
    // The witness is asked again when everything is over: what came late came all the same, in
    // whichever arm.
    let effects = scene.all_effects().context("the witness's record")?;
    for one in &mut tried {
        if ground.judge_again(one, &effects) {
            said(&one.row);
        }
    }
    let rows: Vec<Row> = tried.into_iter().map(|one| one.row).collect();
    ensure!(
        !rows.is_empty(),
        "no attempt was run: that is an error, not a pass"
    );
    let facts = host_facts::of(&host, started_unix_ms, hooks.digests())?;
    ensure!(
        facts.programs == before,
        "a program was replaced during the run: its arms are not of the same binaries"
    );
    let shown: Vec<RefusedConfiguration> = options
        .refused
        .iter()
        .filter(|row| row.holds())
        .map(RefusedConfiguration::from)
        .collect();
    let mut e_status = status::compute(
        &rows,
        register.as_ref(),
        &shown,
        scope(&facts, options.profile, register.as_ref()),
    );
    e_status
        .caveats
        .extend(options.refused.iter().map(status::of_refused));
    let whole = options.ablate == Ablate::all();
    let observation = observation::of(&scene, &host, &rows)?;
    let evidence = Evidence {
        format: FORMAT.into(),
        host: facts,
        profile: options.profile,
        layers,
        register,
        counts: counts::of(&rows),
        ablation: ablation::of(&rows, whole),
        incidents: incidents::replayed(incidents::all()?, &rows),
        refused_configurations: options.refused.clone(),
        doors: doors::of(&rows, &terms.kernel, options.profile.as_str(), whole),
        attempts: rows,
        observation,
        e_status,
        non_claims: non_claims::all()?,
    };
    if let Some(found) = words::forbidden_in(&serde_json::to_value(&evidence)?) {
        bail!("the evidence would hold {found}");
    }
    Ok(evidence)
}

/// How many isolating runs are made beside each other: each waits for the kernel as long as it works,
/// to take namespaces and hooks apart.
fn beside() -> usize {
    const EACH_PROCESSOR: usize = 2;
    thread::available_parallelism().map_or(1, NonZeroUsize::get) * EACH_PROCESSOR
}

/// The layers that a session here has: in full, or not needed by the one that was asked.
fn here(layers: &[LayerSaid]) -> BTreeSet<Layer> {
    let has = |layer: &Layer| {
        layers.iter().any(|said| {
            said.layer == layer.name() && matches!(&*said.status, "full" | "not needed")
        })
    };
    Layer::ALL.into_iter().filter(has).collect()
}

/// How wide the status is.
fn scope(facts: &evidence::Host, profile: Profile, register: Option<&RegisterHalf>) -> Vec<String> {
    let zone = register
        .and_then(|half| half.zone.first())
        .map_or("the agent zone is not declared", String::as_str);
    vec![
        zone.into(),
        format!(
            "profile `{}`, network mode `sealed`, no workspace unless a row says so",
            profile.as_str()
        ),
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

fn install(scene: &Scene, options: &Options) -> anyhow::Result<Host> {
    let mut host = Host::install(&Setup {
        policies: vec![(policy::NAME.into(), String::new())],
        credentials: vec![(policy::CREDENTIAL.into(), scene.credential_file.clone())],
        values: vec![policy::RECIPIENT.into()],
        owned: Vec::new(),
    })?;
    let mut text = policy::text(scene.witness_address, &host.programs(), options.profile);
    for (before, after) in &options.policy {
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
        (Workspace::None, arms::Stderr::Pipe),
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
