//! A launcher that lies: it says that every layer holds in full, and goes astray in one thing.
//!
//! The program `custody-astray` stands in the place of custody-launch in an installation of the
//! suite's. For a service it executes the real one. A session it makes as good as procfs can tell, but
//! for the [`Astray`] of the file beside it, and reports what custodyd wants to hear. So what custodyd
//! then refuses it has seen for itself; and without anything astray it lets the liar go on, which
//! shows that nothing else was wrong.

use std::{
    fs,
    io::Write as _,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        linux::net::SocketAddrExt as _,
        unix::{
            net::{SocketAddr, UnixListener},
            process::CommandExt as _,
        },
    },
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use caps::CapSet;
use custody_sys::{channel, fd, process, seccomp};
use custody_wire::{
    Message as _, frame,
    launch::{CHANNEL_FD, Kind, Plan, Ready, Report, Role},
    layer::{self, Layer, Status},
};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, setns},
    sys::{
        resource::{Resource, setrlimit},
        socket::{MsgFlags, recv},
    },
    unistd::{Gid, Uid, pipe2, setgroups, setresgid, setresuid},
};
use serde::{Deserialize, Serialize};

/// The real launcher, beside it.
pub const REAL: &str = "custody-launch.real";

/// The file that says what is astray, beside it.
pub const FILE: &str = "astray.json";

/// What the session's command would say.
pub const RAN: &str = "the command of a lying launcher ran";

/// One thing that is not as it should be.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Astray {
    /// The bounding set keeps its capabilities.
    Capabilities,
    /// The cgroup is the root's.
    Cgroup,
    /// A cgroupfs stays mounted, writable.
    Cgroupfs,
    /// RLIMIT_CORE is not lowered.
    Core,
    /// A bpffs stays mounted, writable.
    Bpffs,
    /// Descriptor 5 stays open.
    Descriptor,
    /// There is no system call filter.
    Filter,
    /// Standard input is a socket.
    SocketStdin,
    /// The network namespace is the host's.
    Network,
    /// no_new_privs is not set.
    NewPrivileges,
    /// Nothing.
    Nothing,
    /// The uts namespace is the host's.
    Namespace,
    /// The root mount honours setuid files.
    Setuid,
    /// The ids are root's.
    Root,
}

/// The program.
///
/// # Errors
/// When a step fails; custodyd then hears nothing.
pub fn main() -> anyhow::Result<()> {
    let own = std::env::current_exe()?;
    let folder = own.parent().context("no folder")?.to_owned();
    let channel = fd::take(CHANNEL_FD)?;
    let mut bytes = vec![0; Plan::CAP];
    let peek = |bytes: &mut [u8]| {
        recv(
            std::os::fd::AsRawFd::as_raw_fd(&channel),
            bytes,
            MsgFlags::MSG_PEEK,
        )
    };
    let mut len = peek(&mut bytes)?;
    // Started ahead of its session, it waits: one that ended would be handed a plan all the same,
    // until custodyd has noticed.
    if frame::parse::<Ready>(bytes.get(..len).unwrap_or_default()).is_ok() {
        drop(channel::recv(
            channel.as_fd(),
            &mut bytes,
            channel::MAX_FDS,
        )?);
        len = peek(&mut bytes)?;
    }
    if len == 0 {
        return Ok(()); // no session came
    }
    let plan: Plan = frame::parse(bytes.get(..len).unwrap_or_default())?;
    if matches!(plan.kind, Kind::Service(_)) {
        fd::open_on_exec(&channel)?;
        fd::leave_open(channel);
        return Err(Command::new(folder.join(REAL)).exec()).context("execute the real launcher");
    }
    // Closed here: what is placed later closes all the rest without asking.
    drop(channel::recv(
        channel.as_fd(),
        &mut bytes,
        channel::MAX_FDS,
    )?);
    let astray = serde_json::from_slice(&fs::read(folder.join(FILE))?)?;
    // What closes every other descriptor closes this one too, without asking: it is never dropped.
    let said = std::mem::ManuallyDrop::new(channel.try_clone()?);
    session(&plan, astray, &folder, channel).inspect_err(|error| {
        let report = Report::Failed {
            layer: None,
            step: format!("astray: {error:#}"),
            errno: 0,
        };
        if let Ok(bytes) = frame::datagram(&report) {
            let _unheard = channel::send(said.as_fd(), &bytes, &[]);
        }
    })
}

fn session(plan: &Plan, astray: Astray, folder: &Path, channel: OwnedFd) -> anyhow::Result<()> {
    let is = |one| astray == one;
    if is(Astray::Network) {
        setns(fs::File::open(custodyds("net")?)?, CloneFlags::CLONE_NEWNET)?;
    }
    if is(Astray::Namespace) {
        setns(fs::File::open(custodyds("uts")?)?, CloneFlags::CLONE_NEWUTS)?;
    }
    if is(Astray::Cgroup) {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let root = places(&mounts, "cgroup2").pop().context("no cgroup2")?;
        fs::write(root.join("cgroup.procs"), "0")?;
    }
    mounts(astray, folder)?;
    if !is(Astray::Core) {
        setrlimit(Resource::RLIMIT_CORE, 1, 1)?;
    }
    let address = SocketAddr::from_abstract_name(b"custody-astray")?;
    let listener = OwnedFd::from(UnixListener::bind_addr(&address)?);
    let flags = nix::fcntl::OFlag::O_CLOEXEC;
    let (mut stdin, to) = pipe2(flags)?;
    let (from, stdout) = pipe2(flags)?;
    let (errors, stderr) = pipe2(flags)?;
    if is(Astray::SocketStdin) {
        (_, stdin) = channel::pair_stream()?;
    }
    let open = vec![stdin, stdout, stderr, channel, listener, to, from, errors];
    let mut placed = fd::place_from(0, open)?;
    let leaving = placed.split_off(4);
    let channel = placed.pop().context("no channel")?;
    identity(plan, astray)?;

    let layers = Layer::ALL
        .into_iter()
        .filter(|layer| !layer.is_on_cgroup())
        .map(|layer| layer::Report {
            layer,
            status: if layer == Layer::IdMap {
                Status::NotNeeded
            } else {
                Status::Full
            },
        })
        .collect();
    let report = Report::Sealed {
        layers,
        fds: vec![Role::Listener, Role::Stdin, Role::Stdout, Role::Stderr],
        placeholders: Vec::new(),
    };
    let bytes = frame::datagram(&report)?;
    let sent: Vec<BorrowedFd<'_>> = leaving.iter().map(|fd| fd.as_fd()).collect();
    let extra = is(Astray::Descriptor)
        .then(|| fs::File::open("/proc/self/status"))
        .transpose()?;
    channel::send(channel.as_fd(), &bytes, &sent)?;
    drop(leaving);
    let mut go = vec![0; 64];
    let (len, _) = channel::recv(channel.as_fd(), &mut go, channel::MAX_FDS)?;
    anyhow::ensure!(len > 0, "custodyd hung up");
    writeln!(std::io::stdout(), "{RAN}")?;
    drop(extra);
    Ok(())
}

/// A namespace of our parent's; `/proc` is still the host's.
fn custodyds(namespace: &str) -> anyhow::Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let parent = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))
        .context("no PPid")?;
    Ok(format!("/proc/{}/ns/{namespace}", parent.trim()))
}

/// Every mount nosuid, none of a kernel's control file systems, nothing of the installation.
fn mounts(astray: Astray, folder: &Path) -> anyhow::Result<()> {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let control = matches!(astray, Astray::Bpffs | Astray::Cgroupfs);
    // From the last to the first: what was mounted over another goes before it.
    for line in table.lines().rev() {
        let (place, kind) = of_line(line);
        let kept = match kind {
            "bpf" => astray == Astray::Bpffs,
            "cgroup" | "cgroup2" => astray == Astray::Cgroupfs,
            "proc" => place == Path::new("/proc"),
            _ => place == Path::new("/") || (control && place.starts_with("/sys")),
        };
        if !kept {
            // A mount that hangs below one that is gone went with it.
            let _gone = umount2(place, MntFlags::MNT_DETACH);
        }
    }
    // Custody's own folders must not be seen: what lies in them has another test.
    let installation = folder.parent().unwrap_or(folder);
    mount(
        Some("tmpfs"),
        installation,
        Some("tmpfs"),
        MsFlags::MS_NOSUID,
        none,
    )?;
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    for line in table.lines() {
        let (place, _) = of_line(line);
        if astray != Astray::Setuid || place != Path::new("/") {
            let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_NOSUID;
            // Whoever removes the place of a mount removes the mount, in every namespace.
            let _removed = mount(none, place, none, flags, none);
        }
    }
    Ok(())
}

/// Place and type of a mount (proc_pid_mountinfo(5)).
fn of_line(line: &str) -> (&Path, &str) {
    let place = line.split(' ').nth(4).unwrap_or("/");
    let (_, rest) = line.split_once(" - ").unwrap_or_default();
    (Path::new(place), rest.split(' ').next().unwrap_or_default())
}

fn places(table: &str, kind: &str) -> Vec<PathBuf> {
    table
        .lines()
        .map(of_line)
        .filter(|(_, found)| *found == kind)
        .map(|(place, _)| place.into())
        .collect()
}

fn identity(plan: &Plan, astray: Astray) -> anyhow::Result<()> {
    let is = |one| astray == one;
    // One instruction: allow (BPF_RET | BPF_K of SECCOMP_RET_ALLOW).
    let allow = [seccomp::sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: 0x7fff_0000,
    }];
    if !is(Astray::Filter) {
        // While CAP_SYS_ADMIN is there: no_new_privs may be what is astray.
        seccomp::install(&allow)?;
    }
    if !is(Astray::Capabilities) {
        caps::clear(None, CapSet::Bounding)?;
        caps::clear(None, CapSet::Ambient)?;
    }
    setgroups(&[])?;
    if !is(Astray::Root) {
        let (gid, uid) = (Gid::from_raw(plan.gid), Uid::from_raw(plan.uid));
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
    }
    for set in [CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set)?;
    }
    if !is(Astray::NewPrivileges) {
        process::no_new_privs()?;
    }
    Ok(())
}
