//! Who the session is: limits, ids, no capability, no new privilege. In the order in which the
//! kernel still allows the next step.

use std::fs;

use caps::CapSet;
use custody_sys::process;
use custody_wire::{
    launch::Limits,
    layer::{Layer, Status},
};
use nix::{
    sys::resource::{Resource, getrlimit, setrlimit},
    unistd::{Gid, Uid, setgroups, setresgid, setresuid},
};

use crate::{
    failure::{Failure, Step as _},
    observe,
    plan::Without,
};

/// RLIMIT_CORE: one byte, and never more. A `core_pattern` that begins with `|` is run by the
/// kernel as root of the host even at a limit of 0; only a limit of 1 stops it (core(5)). The
/// filters refuse to lower it again.
const CORE: u64 = 1;

/// Sets the limits of a session; the host's own hard limits are never exceeded.
pub(crate) fn limit(limits: Limits) -> Result<(), Failure> {
    core_limit()?;
    for (resource, name, wanted) in [
        (Resource::RLIMIT_NPROC, "RLIMIT_NPROC", limits.processes),
        (Resource::RLIMIT_NOFILE, "RLIMIT_NOFILE", limits.open_files),
    ] {
        let (_soft, hard) =
            getrlimit(resource).of(Layer::ResourceLimits, || format!("getrlimit(2) of {name}"))?;
        let most = wanted.min(hard);
        setrlimit(resource, most, most)
            .of(Layer::ResourceLimits, || format!("setrlimit(2) of {name}"))?;
    }
    Ok(())
}

/// Where memory runs out, an agent ends before any service (proc_pid_oom_score_adj(5)). While /proc
/// is still the host's: the session's own is read-only.
pub(crate) fn expendable() -> Result<(), Failure> {
    fs::write("/proc/self/oom_score_adj", "1000")
        .of(Layer::ResourceLimits, || "write(2) of oom_score_adj".into())
}

/// No core file, of a service neither.
pub(crate) fn core_limit() -> Result<(), Failure> {
    setrlimit(Resource::RLIMIT_CORE, CORE, CORE).of(Layer::ResourceLimits, || {
        "setrlimit(2) of RLIMIT_CORE".into()
    })
}

/// Reads the limits back.
pub(crate) fn limited(limits: Option<Limits>) -> Status {
    let within = |resource, most: u64| {
        getrlimit(resource).is_ok_and(|(soft, hard)| soft <= most && hard <= most)
    };
    if !within(Resource::RLIMIT_CORE, CORE) {
        return observe::none("RLIMIT_CORE", 0);
    }
    match limits {
        Some(limits) if !within(Resource::RLIMIT_NPROC, limits.processes) => {
            observe::partial("RLIMIT_NPROC")
        }
        Some(limits) if !within(Resource::RLIMIT_NOFILE, limits.open_files) => {
            observe::partial("RLIMIT_NOFILE")
        }
        Some(_) | None => Status::Full,
    }
}

/// Gives up what no exec shall bring back. What this process has itself, it still has.
pub(crate) fn drop_bounds(without: Without<'_>) -> Result<(), Failure> {
    if !without.keeps(Layer::Capabilities) {
        return Ok(());
    }
    // To look first which are there, as clearing does, would cost as much again.
    for capability in caps::all() {
        caps::drop(None, CapSet::Bounding, capability)
            .map_err(|error| refused(CapSet::Bounding, &error))?;
    }
    clear(CapSet::Ambient)
}

/// Gives up root, for good. What is left then is read back at the end.
pub(crate) fn drop_root(uid: u32, gid: u32, without: Without<'_>) -> Result<(), Failure> {
    if without.keeps(Layer::Uid) {
        if uid == 0 || gid == 0 {
            return Err(Failure::refused(
                Some(Layer::Uid),
                "the plan says root".into(),
            ));
        }
        setgroups(&[]).of(Layer::Uid, || "setgroups(2)".into())?;
        let gid = Gid::from_raw(gid);
        setresgid(gid, gid, gid).of(Layer::Uid, || "setresgid(2)".into())?;
        let uid = Uid::from_raw(uid);
        setresuid(uid, uid, uid).of(Layer::Uid, || "setresuid(2)".into())?;
    }
    if without.keeps(Layer::Capabilities) {
        // Inheritable first: afterwards nothing is left that could change it.
        for set in [CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
            clear(set)?;
        }
    }
    if without.keeps(Layer::NoNewPrivs) {
        process::no_new_privs().of(Layer::NoNewPrivs, || "prctl(2) PR_SET_NO_NEW_PRIVS".into())?;
    }
    Ok(())
}

fn clear(set: CapSet) -> Result<(), Failure> {
    caps::clear(None, set).map_err(|error| refused(set, &error))
}

fn refused(set: CapSet, error: &caps::errors::CapsError) -> Failure {
    Failure::refused(
        Some(Layer::Capabilities),
        format!("the {set:?} set: {error}"),
    )
}
