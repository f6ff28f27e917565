//! Each refused configuration, provoked on the real kernel with the real programs: the session, or
//! custodyd, does not start under a profile that refuses it, and says its name.
//!
//! Where custodyd judges the process itself, a [lying launcher](super::astray) stands in the place of
//! the real one; without anything astray its session starts, so the one thing is what was refused.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::Path,
    process::{Child, Command, Output},
};

use anyhow::{Context as _, bail, ensure};
use custody_wire::{profile::Profile, refused::Refused};
use nix::{libc, unistd::Pid};

use super::{
    astray::{Astray, RAN},
    inject,
    place::{PLAIN, Place, SECRETS, SHOWN, Setting, listen},
    tracer,
};
use crate::ground::words;

/// Every one that is provoked here.
pub const NAMES: [Refused; Refused::ALL.len()] = Refused::ALL;

/// The setting of core(5).
const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";

/// What a command inside would say.
const INSIDE: &str = "the command ran";

/// Provokes it, and returns what was said instead of a start.
///
/// # Errors
/// When something starts, or does not start for another reason.
pub fn not_started(which: Refused) -> anyhow::Result<String> {
    let said = provoke(which).with_context(|| format!("provoking {}", which.id()))?;
    let name = format!("refused configuration {}", which.id());
    ensure!(said.contains(&name), "`{name}` was not said: {said}");
    ensure!(
        !said.contains(INSIDE) && !said.contains(RAN),
        "it ran: {said}"
    );
    Ok(said)
}

fn provoke(which: Refused) -> anyhow::Result<String> {
    match which {
        Refused::AgentUidReserved => configured(|line| {
            if line.starts_with("agents = ") {
                // systemd's DynamicUser (its UIDS-GIDS document).
                "agents = { first = 61184, count = 90 }".into()
            } else {
                line.into()
            }
        }),
        Refused::AgentUidRoot => lying(Astray::Root),
        Refused::AgentUidShared => uid_shared(),
        Refused::CapabilityLeft => lying(Astray::Capabilities),
        Refused::Cgroup2Missing => {
            lying(Astray::Cgroup)?;
            configured(|line| {
                if line.starts_with("cgroup = ") {
                    "cgroup = \"/var/tmp\"".into()
                } else {
                    line.into()
                }
            })
        }
        Refused::ContainerSocket
        | Refused::DbusSocket
        | Refused::DisplaySocket
        | Refused::KeyAgentSocket
        | Refused::SystemdSocket
        | Refused::TerminalSocket => socket_shown(which),
        Refused::CoreDumpAllowed => lying(Astray::Core),
        Refused::CredentialReadable => credential_readable(),
        Refused::CredentialShown => {
            let place = Place::set()?;
            refused_session(&place, &mut place.run(SECRETS, Profile::Dev))
        }
        Refused::CustodydTraced => traced("custodyd", Profile::Standard),
        Refused::EnvironmentCredential => {
            let place = Place::set()?;
            let mut run = place.run(PLAIN, Profile::Standard);
            run.args(["--env", "SERVICE_API_KEY=fake-for-tests"]);
            let said = refused_session(&place, &mut run)?;
            ensure!(
                !said.contains("fake-for-tests"),
                "it says the value: {said}"
            );
            Ok(said)
        }
        Refused::ExtraDescriptor => lying(Astray::Descriptor),
        Refused::HostNetwork => lying(Astray::Network),
        Refused::IoUringAllowed | Refused::SeccompMissing => no_filter(which),
        Refused::LandlockMissing => {
            let mut place = Place::lay()?;
            place.host.lack(&[libc::SYS_landlock_create_ruleset]);
            place.does_not_come_up(&mut place.host.daemon_command())
        }
        Refused::NewPrivileges => lying(Astray::NewPrivileges),
        Refused::OldKernel => old_kernel(),
        Refused::PipedCorePattern => {
            let place = Place::set()?;
            let _setting = Setting::change(CORE_PATTERN, "|/bin/false")?;
            starts(&place, &mut place.run(PLAIN, Profile::Standard))?;
            refused_session(&place, &mut place.run(PLAIN, Profile::Hardened))
        }
        Refused::SetuidHonoured => lying(Astray::Setuid),
        Refused::SharedNamespace => lying(Astray::Namespace),
        Refused::SocketStdio => lying(Astray::SocketStdin),
        Refused::VaultDumpable => vault_dumpable(),
        Refused::VaultTraced => traced("custody-vault", Profile::Dev),
        Refused::WorkspaceCredential => in_workspace(|folder| {
            fs::write(
                folder.join(".netrc"),
                "machine a login b password fake-for-tests\n",
            )?;
            Ok(())
        }),
        Refused::WorkspaceFifo => in_workspace(|folder| {
            nix::unistd::mkfifo(&folder.join("fifo"), nix::sys::stat::Mode::S_IRWXU)?;
            Ok(())
        }),
        Refused::WorkspaceHoldsState => holds_state(),
        Refused::WorkspaceSocket => in_workspace(|folder| {
            drop(listen(&folder.join("app.sock"))?);
            Ok(())
        }),
        Refused::WritableBpffs => lying(Astray::Bpffs),
        Refused::WritableCgroupfs => lying(Astray::Cgroupfs),
    }
}

/// A session that must not start; what was said.
fn refused_session(place: &Place, run: &mut Command) -> anyhow::Result<String> {
    let output = place.shell(run, &format!("echo {INSIDE}"))?;
    ensure!(
        output.status.code() == Some(125),
        "it started: {}",
        words(&output)
    );
    place.host.wait("nothing of it is left", || {
        place.host.session_cgroups().is_empty()
    })?;
    Ok(words(&output))
}

/// The control: a session that must start; what was said.
fn starts(place: &Place, run: &mut Command) -> anyhow::Result<String> {
    let output = place.shell(run, &format!("echo {INSIDE}"))?;
    ensure!(
        output.status.success() && words(&output).contains(INSIDE),
        "the control does not start: {}",
        words(&output)
    );
    place
        .host
        .wait("it is gone", || place.host.session_cgroups().is_empty())?;
    Ok(words(&output))
}

/// Under `dev` it starts, and says aloud what is weak.
fn starts_loudly(place: &Place, run: &mut Command, which: Refused) -> anyhow::Result<()> {
    starts(place, run)?;
    ensure!(
        place.host.log().contains(which.id()),
        "`{}` is permitted and not said: {}",
        which.id(),
        place.host.log_tail()
    );
    Ok(())
}

fn configured(change: impl Fn(&str) -> String) -> anyhow::Result<String> {
    let place = Place::lay()?;
    let text = place.host.configuration_text()?;
    let changed: String = text.lines().map(|line| change(line) + "\n").collect();
    ensure!(changed != text, "nothing was changed in: {text}");
    place.host.write("custodyd.toml", 0o644, &changed)?;
    place.does_not_come_up(&mut place.host.daemon_command())
}

/// A session of the lying launcher, under the weakest profile. Its command is the liar's own.
fn lying(astray: Astray) -> anyhow::Result<String> {
    let mut place = Place::lay()?;
    place.lie()?;
    place.host.up()?;
    let run = |place: &Place| -> anyhow::Result<Output> {
        place
            .run(PLAIN, Profile::Dev)
            .args(["--", "/bin/true"])
            .output()
            .context("custody run")
    };
    let control = run(&place)?;
    ensure!(
        words(&control).contains(RAN),
        "without anything astray it does not start: {}",
        words(&control)
    );
    place.stray(astray)?;
    let output = run(&place)?;
    ensure!(
        output.status.code() == Some(125),
        "it started: {}",
        words(&output)
    );
    Ok(words(&output))
}

/// Two names for one thing: without a filter rings are made too.
fn no_filter(which: Refused) -> anyhow::Result<String> {
    let said = lying(Astray::Filter)?;
    ensure!(said.contains(which.id()), "{said}");
    // The first is said in full, the others are named.
    Ok(format!("refused configuration {}: {said}", which.id()))
}

/// Whoever has the uids came after custodyd looked around. One that others have is passed over; when
/// they have all, no session starts.
fn uid_shared() -> anyhow::Result<String> {
    const COUNT: u32 = 3;
    let mut place = Place::lay()?;
    let text = place.host.configuration_text()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("agents = "))
        .context("no agents")?;
    let first: u32 = line
        .split(|c: char| !c.is_ascii_digit())
        .find(|part| !part.is_empty())
        .context("no uid")?
        .parse()?;
    let few = format!("agents = {{ first = {first}, count = {COUNT} }}");
    place
        .host
        .write("custodyd.toml", 0o644, &text.replacen(line, &few, 1))?;
    place.host.up()?;
    let mut others = Others::default();
    let after = |uid: u32| first + (uid - first + 1) % COUNT;
    // Wherever in its range custodyd began, each of the places comes.
    for _ in 0..COUNT {
        let taken = after(uid_of_session(&place)?);
        others.make(taken)?;
        let got = uid_of_session(&place)?;
        ensure!(got == after(taken), "not the next to {taken}: {got}");
        others.end()?;
    }
    for uid in first..first + COUNT {
        others.make(uid)?;
    }
    let said = refused_session(&place, &mut place.run(PLAIN, Profile::Dev))?;
    let again = refused_session(&place, &mut place.run(PLAIN, Profile::Dev))?;
    let name = Refused::AgentUidShared.id();
    ensure!(again.contains(name), "the second time: {again}");
    others.end()?;
    uid_of_session(&place)?;
    Ok(said)
}

/// The uid of a session of `dev`, which must start.
fn uid_of_session(place: &Place) -> anyhow::Result<u32> {
    let output = place.shell(&mut place.run(PLAIN, Profile::Dev), "id -u")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let uid = said.trim().parse().with_context(|| words(&output))?;
    place
        .host
        .wait("it is gone", || place.host.session_cgroups().is_empty())?;
    Ok(uid)
}

/// Processes of others.
#[derive(Default)]
struct Others(Vec<Child>);

impl Others {
    fn make(&mut self, uid: u32) -> anyhow::Result<()> {
        let sleep = Command::new("/bin/sleep").uid(uid).arg("60").spawn()?;
        self.0.push(sleep);
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        for mut other in self.0.drain(..) {
            other.kill()?;
            other.wait()?;
        }
        Ok(())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        // The first failure is told already.
        drop(self.end());
    }
}

fn socket_shown(which: Refused) -> anyhow::Result<String> {
    let place = Place::set()?;
    starts(&place, &mut place.run(SHOWN, Profile::Standard))?;
    let _listener = listen(&place.shown().join(socket_name(which)))?;
    starts_loudly(&place, &mut place.run(SHOWN, Profile::Dev), which)?;
    refused_session(&place, &mut place.run(SHOWN, Profile::Standard))
}

/// Where sockets of others lie, below a folder.
const SOCKETS: [(Refused, &str); 6] = [
    (Refused::ContainerSocket, "docker.sock"),
    (Refused::DbusSocket, "dbus/system_bus_socket"),
    (Refused::DisplaySocket, ".X11-unix/X0"),
    (Refused::KeyAgentSocket, "gnupg/S.gpg-agent"),
    (Refused::SystemdSocket, "systemd/private"),
    (Refused::TerminalSocket, "tmux-1000/default"),
];

/// Where such a socket lies, below a folder.
pub(super) fn socket_name(which: Refused) -> &'static str {
    let known = SOCKETS.iter().find(|(whose, _)| *whose == which);
    known.map_or("app.sock", |(_, name)| name)
}

fn credential_readable() -> anyhow::Result<String> {
    let place = Place::set()?;
    starts(&place, &mut place.run(PLAIN, Profile::Dev))?;
    fs::set_permissions(place.token(), fs::Permissions::from_mode(0o644))?;
    let said = refused_session(&place, &mut place.run(PLAIN, Profile::Dev))?;
    // And custodyd itself does not start again.
    let mut place = place;
    place.host.down()?;
    let start = place.does_not_come_up(&mut place.host.daemon_command())?;
    ensure!(
        start.contains("refused configuration credential_readable"),
        "{start}"
    );
    Ok(said)
}

fn old_kernel() -> anyhow::Result<String> {
    const SETARCH: &str = "/usr/bin/setarch";
    let place = Place::lay()?;
    if !Path::new(SETARCH).exists() {
        bail!("not attempted: needs setarch(8)");
    }
    let real = place.host.daemon_command();
    // uname(2) then says 2.6 (UNAME26 in personality(2)).
    let mut command = Command::new(SETARCH);
    command
        .args(["--uname-2.6"])
        .arg(real.get_program())
        .args(real.get_args());
    place.does_not_come_up(&mut command)
}

fn in_workspace(fill: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<String> {
    let place = Place::set()?;
    let folder = place.host.workspace("work")?;
    let with = |profile| {
        let mut run = place.run(PLAIN, profile);
        run.arg("--workdir").arg(&folder);
        run
    };
    starts(&place, &mut with(Profile::Standard))?;
    fill(&folder)?;
    for entry in fs::read_dir(&folder)? {
        chown(
            entry?.path(),
            Some(place.host.operator()),
            Some(place.host.operator()),
        )?;
    }
    starts(&place, &mut with(Profile::Dev))?;
    refused_session(&place, &mut with(Profile::Standard))
}

fn holds_state() -> anyhow::Result<String> {
    let place = Place::set()?;
    // The folder that the state lies in is the operator's own.
    chown(place.host.folder(), Some(place.host.operator()), None)?;
    let mut run = place.run(PLAIN, Profile::Dev);
    run.arg("--workdir").arg(place.host.folder());
    let said = refused_session(&place, &mut run);
    chown(place.host.folder(), Some(0), None)?;
    said
}

fn traced(program: &str, refusing: Profile) -> anyhow::Result<String> {
    let place = Place::set()?;
    starts(&place, &mut place.run(PLAIN, refusing))?;
    let pid = Pid::from_raw(place.host.pid(program)?);
    let refused = || refused_session(&place, &mut place.run(PLAIN, refusing));
    let (said, ()) = tracer::traced(pid, refused, |_| ())?;
    // And afterwards sessions start again.
    starts(&place, &mut place.run(PLAIN, refusing))?;
    said
}

fn vault_dumpable() -> anyhow::Result<String> {
    let place = Place::set()?;
    starts(&place, &mut place.run(PLAIN, Profile::Dev))?;
    inject::dumpable(Pid::from_raw(place.host.pid("custody-vault")?))?;
    refused_session(&place, &mut place.run(PLAIN, Profile::Dev))
}
