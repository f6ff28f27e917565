//! Refused configurations in the real service: what a session reaches under the shipped profile that
//! permits one, what still refuses it there, and what whoever got at the vault reads in it.

use std::{
    fs,
    io::Write as _,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use custody_wire::{profile::Profile, refused::Refused};
use nix::{
    sys::{ptrace, wait::waitpid},
    unistd::Pid,
};

use super::{
    inject,
    permitted::{self, Witness, is_in_memory},
    place::{PLAIN, Place, SHOWN, Setting, listen},
    provoked::socket_name,
};
use crate::{ground::words, probe::Address, suite::scene};

/// How long a witness is listened to when the session is over.
const AFTER: Duration = Duration::from_millis(500);

/// A socket that a policy shows: `dev` permits it, and the hook of connect(2) refuses it.
pub(crate) fn shown_socket(which: Refused) -> anyhow::Result<String> {
    let name = socket_name(which);
    let place = Place::set()?;
    let path = place.shown().join(name);
    let held = held_in_dev(&place, path, None, which)?;
    let without = permitted::socket_without_hooks(Some(name), |_, _| Ok(()))?;
    Ok(format!("{held}; without the hooks of the cgroup {without}"))
}

/// A socket that lies in the workspace: the same.
pub(crate) fn workspace_socket() -> anyhow::Result<String> {
    let place = Place::set()?;
    let folder = place.host.workspace("work")?;
    let path = folder.join("app.sock");
    let held = held_in_dev(&place, path, Some(&folder), Refused::WorkspaceSocket)?;
    let without = permitted::socket_without_hooks(None, operators)?;
    Ok(format!("{held}; without the hooks of the cgroup {without}"))
}

fn operators(place: &Place, path: &Path) -> anyhow::Result<()> {
    let uid = Some(place.host.operator());
    chown(path, uid, uid).with_context(|| format!("`{}`", path.display()))
}

/// The probe speaks to a socket from a session of `dev`: it starts, and the hook says no.
fn held_in_dev(
    place: &Place,
    path: PathBuf,
    workdir: Option<&Path>,
    which: Refused,
) -> anyhow::Result<String> {
    let nonce = scene::nonce()?;
    let listener = listen(&path)?;
    if workdir.is_some() {
        operators(place, &path)?;
    }
    let witness = Witness::new(&nonce, move || Ok(listener.accept()?.0));
    let probe = place.shown().join("probe");
    fs::copy(place.host.programs().join("custody-probe"), &probe)?;
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o755))?;
    let mut run = place.run(SHOWN, Profile::Dev);
    if let Some(folder) = workdir {
        run.arg("--workdir").arg(folder);
    }
    run.arg("--").arg(&probe);
    let said = words(&fed(
        &mut run,
        &permitted::order(Address::Path(path.clone()), &nonce)?,
    )?);
    ensure!(
        said.contains("connect"),
        "the probe did not come to connect(2): {said}"
    );
    let log = place.host.log();
    ensure!(
        log.contains("session runs") && log.contains(which.id()),
        "`dev` does not permit it: {said}"
    );
    ensure!(
        witness.saw_within(AFTER, &said).is_err(),
        "the witness heard it from a session of `dev`"
    );
    let shown = path.display().to_string();
    place
        .host
        .wait("the refusal is in the log", || {
            place.host.log().lines().any(|line| {
                line.contains("denied") && line.contains("connect_unix") && line.contains(&shown)
            })
        })
        .with_context(|| said.clone())?;
    Ok(
        "a session of `dev` started, and its connect(2) was still refused by layer cgroup_unix"
            .into(),
    )
}

fn fed(run: &mut Command, input: &[u8]) -> anyhow::Result<Output> {
    let mut child = run
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // One that ended already has said why.
    drop(child.stdin.take().map(|mut to| to.write_all(input)));
    child.wait_with_output().context("custody run")
}

/// A program of the host's that the kernel runs as root when a command crashes: not for a command of
/// `dev` or `standard`, whose core limit stops the pipe too.
pub(crate) fn core_pipe() -> anyhow::Result<String> {
    let place = Place::set()?;
    let marker = place.host.folder().join("marker");
    let script = place.host.folder().join("handler");
    // Of a host's other crashes it says nothing.
    fs::write(
        &script,
        format!("#!/bin/sh\nid -u > {}\n", marker.display()),
    )?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let setting = Setting::change(
        "/proc/sys/kernel/core_pattern",
        &format!("|{}", script.display()),
    )?;
    for profile in [Profile::Dev, Profile::Standard] {
        let output = place.shell(&mut place.run(PLAIN, profile), "kill -SEGV $$")?;
        ensure!(
            output.status.code() == Some(128 + nix::libc::SIGSEGV),
            "it did not crash: {}",
            words(&output)
        );
        thread::sleep(AFTER);
        ensure!(
            !marker.exists(),
            "the kernel ran the host's program for a session of `{}`",
            profile.as_str()
        );
    }
    let said = permitted::crash_unlimited()?;
    let ran = (0..100).find_map(|_| {
        thread::sleep(Duration::from_millis(20));
        fs::read_to_string(&marker)
            .ok()
            .filter(|text| !text.is_empty())
    });
    drop(setting);
    let uid = ran.with_context(|| format!("the kernel ran nothing: {said}"))?;
    Ok(format!(
        "sessions of `dev` and `standard` crashed and the kernel ran nothing, by layer \
         resource_limits; without that layer it ran the host's program as uid {}",
        uid.trim()
    ))
}

/// A running service whose vault knows a policy by a name that nobody else of its uid knows.
struct Vault {
    place: Place,
    pid: Pid,
    name: String,
}

impl Vault {
    fn start() -> anyhow::Result<Self> {
        let mut place = Place::lay()?;
        let name = format!("canary-{}", scene::nonce()?);
        place.host.write_policy(&name, "format = 1\n")?;
        place.host.up()?;
        let pid = Pid::from_raw(place.host.pid("custody-vault")?);
        Ok(Self { place, pid, name })
    }

    /// The first number of a line of proc_pid_status(5).
    fn status(&self, key: &str) -> anyhow::Result<u32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let first = line.and_then(|line| line.split_whitespace().next());
        first.context("no such line")?.parse().context("no number")
    }

    /// Whether a process of the vault's own ids finds `wanted` in its memory; else what it said.
    fn is_read_by_its_uid(&self, wanted: &str) -> anyhow::Result<Result<(), String>> {
        let script = format!(
            "exec 3< /proc/{pid}/maps || exit 1\n\
             while read -r range rights rest <&3; do\n\
             case $rights in rw*) ;; *) continue ;; esac\n\
             from=$((0x${{range%-*}} / 4096)) to=$((0x${{range#*-}} / 4096))\n\
             dd if=/proc/{pid}/mem bs=4096 skip=$from count=$((to - from)) 2>/dev/null\n\
             done | grep -aqF {wanted} && echo it is there",
            pid = self.pid
        );
        let output = Command::new("/bin/bash")
            .args(["-c", &script])
            .uid(self.status("Uid:")?)
            .gid(self.status("Gid:")?)
            .stdin(Stdio::null())
            .output()?;
        let said = words(&output);
        Ok(if said.contains("it is there") {
            Ok(())
        } else {
            Err(said)
        })
    }
}

/// The real vault's memory, by a process of its uid, when the vault is dumpable.
pub(crate) fn vault_by_its_uid() -> anyhow::Result<String> {
    let vault = Vault::start()?;
    let before = vault.is_read_by_its_uid(&vault.name)?;
    ensure!(before.is_err(), "it is read although it is not dumpable");
    inject::dumpable(vault.pid)?;
    let after = vault.is_read_by_its_uid(&vault.name)?;
    if let Err(said) = after {
        anyhow::bail!("the policy's name is not in its memory: {said}");
    }
    let credential = vault.is_read_by_its_uid(&vault.place.canary)?.is_ok();
    Ok(format!(
        "a process of the vault's uid read a policy's name in it; {}",
        of_credential(credential)
    ))
}

/// The real vault's memory, by who traces it.
pub(crate) fn vault_by_tracer() -> anyhow::Result<String> {
    let vault = Vault::start()?;
    ptrace::attach(vault.pid).context("PTRACE_ATTACH")?;
    waitpid(vault.pid, None)?;
    let name = is_in_memory(vault.pid, vault.name.as_bytes());
    let credential = is_in_memory(vault.pid, vault.place.canary.as_bytes());
    ptrace::detach(vault.pid, None)?;
    ensure!(name?, "the policy's name is not in its memory");
    Ok(format!(
        "the tracer read a policy's name in the vault; {}",
        of_credential(credential?)
    ))
}

/// What was found of the credential: recorded as it is, for it depends on the kernel.
const fn of_credential(found: bool) -> &'static str {
    if found {
        "and the credential"
    } else {
        "the credential's bytes were not among them (memfd_secret(2))"
    }
}
