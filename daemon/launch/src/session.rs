//! A session, step by step: each step leaves only what the next one needs.

use std::{
    convert::Infallible,
    ffi::CString,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use custody_sys::{fd, process};
use custody_wire::{
    launch::{self, PROGRAMS, Plan, Report, Role, Session},
    layer::{Layer, Status},
};
use nix::{
    sys::{signal::Signal, socket},
    unistd::{chdir, execve},
};

use crate::{
    ahead::Ahead,
    command::Command,
    dev, etc,
    failure::{Failure, Step as _},
    filter::{Filter, Installed},
    identity,
    listener::listen,
    observe::{self, Apart, Own, report},
    plan::{self, Descriptors, Without},
    root::{self, Root},
    rules::{Planned, Sealed},
    share::Shares,
    stdio::Streams,
    workspace,
};

/// The user of every session.
pub(crate) const USER: &str = "agent";
/// Its home.
pub(crate) const HOME: &str = "/home/agent";
/// The session's host name.
pub(crate) const HOSTNAME: &str = "custody";
/// Where the channel is kept for custody-init.
const CHANNEL: usize = 3;

/// The root is pivoted to, and what must leave it is at hand.
#[derive(Debug)]
struct Built {
    streams: Streams,
    listener: OwnedFd,
    placeholders: Vec<PathBuf>,
    mapped: Status,
    init: CString,
    /// What the command inherits where the plan leaves out the layer that closes it.
    kept: Vec<OwnedFd>,
}

/// Builds, seals, reports, waits for the word and executes custody-init. Comes back only with
/// what stopped it.
pub(crate) fn run(
    plan: &Plan,
    session: &Session,
    descriptors: Descriptors,
    ahead: Option<Ahead>,
    channel: OwnedFd,
) -> (Failure, Option<OwnedFd>) {
    // Until the descriptors are placed the channel is the caller's; afterwards it is number 3.
    match build(plan, session, descriptors, ahead) {
        Err(failure) => (failure, Some(channel)),
        Ok((built, command, apart)) => finish(plan, session, built, &command, &apart, channel),
    }
}

fn build(
    plan: &Plan,
    session: &Session,
    descriptors: Descriptors,
    ahead: Option<Ahead>,
) -> Result<(Built, Command, Apart), Failure> {
    let without = Without(&plan.without);
    let Ahead { apart, root, .. } = match ahead {
        Some(ahead) => ahead.for_plan(plan, session)?,
        None => Ahead::build(&session.programs, without)?,
    };
    let command = descriptors
        .command
        .ok_or_else(|| {
            Failure::refused(
                Some(Layer::Environment),
                "the plan brings no command".into(),
            )
        })
        .and_then(|fd| Command::read(fd, without))?;
    let built = match root {
        Some(root) => own_root(root, plan, session, descriptors.workspace)?,
        None => hosts_root(plan, session, descriptors.workspace)?,
    };
    let kept = if without.keeps(Layer::Fds) {
        Vec::new()
    } else {
        descriptors.inherit
    };
    Ok((Built { kept, ..built }, command, apart))
}

/// The root of the session's own.
fn own_root(
    root: Root,
    plan: &Plan,
    session: &Session,
    given: Option<OwnedFd>,
) -> Result<Built, Failure> {
    etc::user(&root, plan.uid, plan.gid)?;
    let shares = Shares::of(session.limits.memory)?;
    root.home(plan.uid, plan.gid, shares.home)?;
    root.grow_tmp(shares.tmp)?;
    dev::grow_shm(&root, shares.shm)?;
    for shown in &session.read_only {
        // The workspace is mounted later, and would bury it.
        if let Some(workspace) = &session.workspace
            && shown.starts_with(&workspace.path)
        {
            return Err(Failure::refused(
                Some(Layer::MountNamespace),
                format!(
                    "`{}` is to be read-only and lies in the workspace `{}`, which is writable",
                    shown.display(),
                    workspace.path.display()
                ),
            ));
        }
        root.show(shown)?;
    }
    let (placeholders, mapped) = show_workspace(&root, &root.place("/proc"), plan, session, given)?;
    root.var_tmp()?;
    dev::close_proc(&root)?;
    let streams = match session.tty {
        Some(size) => Streams::terminal(&root, size, plan.uid)?,
        None => Streams::pipes(plan.uid, plan.gid)?,
    };
    root.enter()?;
    let listener = listen(&session.listener)?;
    dev::close_root()?;
    Ok(Built {
        streams,
        listener,
        placeholders,
        mapped,
        init: init_in(Path::new(PROGRAMS))?,
        kept: Vec::new(),
    })
}

/// The workspace and what had to be made in it, and what became of its owner.
fn show_workspace(
    root: &Root,
    proc: &Path,
    plan: &Plan,
    session: &Session,
    given: Option<OwnedFd>,
) -> Result<(Vec<PathBuf>, Status), Failure> {
    match (&session.workspace, given) {
        (None, None) => Ok((Vec::new(), Status::NotNeeded)),
        (Some(workspace), Some(given)) => {
            let maps = Without(&plan.without).keeps(Layer::IdMap);
            let made = workspace::show(root, proc, workspace, given, (plan.uid, plan.gid), maps)?;
            let mapped = if maps {
                Status::Full
            } else {
                observe::none("left out by the plan", 0)
            };
            Ok((made, mapped))
        }
        (Some(_), None) | (None, Some(_)) => Err(Failure::refused(
            Some(Layer::IdMap),
            "a workspace needs both its path and its descriptor".into(),
        )),
    }
}

/// The host's root, for the bypass suite's arm without a mount namespace of the session's own.
/// The listener is on a tmpfs in the listener's folder, so that the host's stays free.
fn hosts_root(plan: &Plan, session: &Session, given: Option<OwnedFd>) -> Result<Built, Failure> {
    let root = Root::hosts()?;
    let folder = session.listener.parent().unwrap_or(Path::new("/"));
    let (placeholders, mapped) = if Without(&plan.without).keeps(Layer::IdMap) {
        // The host's procfs knows this process's children under other numbers than this process.
        dev::proc_at(folder)?;
        let shown = show_workspace(&root, folder, plan, session, given)?;
        nix::mount::umount2(folder, nix::mount::MntFlags::MNT_DETACH)
            .of(Layer::MountNamespace, || "umount2(2) of a procfs".into())?;
        shown
    } else {
        (Vec::new(), observe::none("left out by the plan", 0))
    };
    root::tmpfs(folder, "mode=0755,size=64k", nix::mount::MsFlags::empty())?;
    let streams = match session.tty {
        None => Streams::pipes(plan.uid, plan.gid)?,
        Some(_) => {
            return Err(Failure::refused(
                Some(Layer::MountNamespace),
                "a terminal needs a devpts of the session's own".into(),
            ));
        }
    };
    Ok(Built {
        streams,
        listener: listen(&session.listener)?,
        placeholders,
        mapped,
        init: init_in(&session.programs)?,
        kept: Vec::new(),
    })
}

fn init_in(folder: &Path) -> Result<CString, Failure> {
    use std::os::unix::ffi::OsStrExt as _;

    let path = folder.join("custody-init");
    if !path.exists() {
        return Err(Failure::refused(
            None,
            format!("`{}` is not there", path.display()),
        ));
    }
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_nul| Failure::refused(None, "the programs' folder holds a NUL".into()))
}

fn finish(
    plan: &Plan,
    session: &Session,
    built: Built,
    command: &Command,
    apart: &Apart,
    channel: OwnedFd,
) -> (Failure, Option<OwnedFd>) {
    let Built {
        streams,
        listener,
        placeholders,
        mapped,
        init,
        kept,
    } = built;
    let [stdin, stdout, stderr] = streams.inside;
    let mut leaving = vec![listener];
    let mut roles = vec![Role::Listener];
    for (role, end) in streams.outside {
        roles.push(role);
        leaving.push(end);
    }
    let own = vec![stdin, stdout, stderr, channel];
    let placed = if Without(&plan.without).keeps(Layer::Fds) {
        place(own, leaving)
    } else {
        place_among(own, leaving, kept)
    };
    let (mut placed, leaving) = match placed {
        Ok(placed) => placed,
        Err(failure) => return (failure, None),
    };
    let Some(channel) = placed.pop() else {
        return (
            Failure::refused(Some(Layer::Fds), "no channel".into()),
            None,
        );
    };
    let done = closed(plan, leaving.len())
        .and_then(|fds| seal(plan, session, apart, mapped, fds))
        .and_then(|layers| {
            let sealed = Report::Sealed {
                layers,
                fds: roles,
                placeholders,
            };
            let fds: Vec<BorrowedFd<'_>> = leaving.iter().map(|fd| fd.as_fd()).collect();
            plan::report(&channel, &sealed, &fds)
        })
        .and_then(|()| {
            drop(leaving);
            plan::wait_for_go(&channel)
        })
        .and_then(|()| execute(session, command, &init));
    match done {
        Err(failure) => (failure, Some(channel)),
        Ok(never) => match never {},
    }
}

/// Descriptors at their numbers: the session's own and the channel, and those that leave.
type Placed = (Vec<OwnedFd>, Vec<OwnedFd>);

/// 0, 1, 2, the channel, and behind them what leaves. One call closes everything else: whatever
/// came in by mistake, and what was opened here.
fn place(own: Vec<OwnedFd>, leaving: Vec<OwnedFd>) -> Result<Placed, Failure> {
    let count = own.len();
    let all = own.into_iter().chain(leaving).collect();
    let mut placed = fd::place_from(0, all).of(Layer::Fds, || "close_range(2)".into())?;
    let leaving = placed.split_off(count);
    Ok((placed, leaving))
}

/// The same without closing: `kept`, and what the launcher inherited, stay open under their
/// numbers. What was opened here is close-on-exec.
fn place_among(
    own: Vec<OwnedFd>,
    leaving: Vec<OwnedFd>,
    kept: Vec<OwnedFd>,
) -> Result<Placed, Failure> {
    let placed = fd::place_over(0, own).of(Layer::Fds, || "dup2(2)".into())?;
    for fd in kept {
        fd::open_on_exec(&fd).of(Layer::Fds, || "fcntl(2) F_SETFD".into())?;
        fd::leave_open(fd);
    }
    Ok((placed, leaving))
}

/// Gives up everything, in the only order that works, and reads it back.
fn seal(
    plan: &Plan,
    session: &Session,
    apart: &Apart,
    mapped: Status,
    fds: Status,
) -> Result<Vec<custody_wire::layer::Report>, Failure> {
    let without = Without(&plan.without);
    let workspace = session.workspace.as_ref().map(|found| found.path.as_path());
    if without.keeps(Layer::ResourceLimits) {
        identity::limit(session.limits)?;
    }
    chdir(
        workspace.unwrap_or(Path::new(if without.keeps(Layer::MountNamespace) {
            HOME
        } else {
            "/"
        })),
    )
    .step(|| "chdir(2) to the workspace".into())?;
    // Without no_new_privs the kernel takes rules and filters from root alone.
    let early = if without.keeps(Layer::NoNewPrivs) {
        None
    } else {
        Some(bind(session, workspace, without)?)
    };
    identity::drop_root(plan.uid, plan.gid, without)?;
    // A change of ids clears it, so it is set here. Without it a session would outlive custodyd.
    process::parent_death_signal(Signal::SIGKILL, None)
        .step(|| "prctl(2) PR_SET_PDEATHSIG".into())?;
    let (landlocked, filtered) = match early {
        Some(bound) => bound,
        None => bind(session, workspace, without)?,
    };
    read_back(plan, session, apart, mapped, fds, landlocked, filtered)
}

/// Landlock's rules and then the filters, as far as the plan has them.
fn bind(
    session: &Session,
    workspace: Option<&Path>,
    without: Without<'_>,
) -> Result<(Option<Sealed>, Option<Installed>), Failure> {
    let landlocked = without
        .keeps(Layer::Landlock)
        .then(|| Planned::session(workspace)?.seal())
        .transpose()?;
    let filtered = without
        .keeps(Layer::Seccomp)
        .then(|| Filter::session(session.profile).install())
        .transpose()?;
    Ok((landlocked, filtered))
}

fn read_back(
    plan: &Plan,
    session: &Session,
    apart: &Apart,
    mapped: Status,
    fds: Status,
    landlocked: Option<Sealed>,
    filtered: Option<Installed>,
) -> Result<Vec<custody_wire::layer::Report>, Failure> {
    let own = Own::read()?;
    let left_out = || observe::none("left out by the plan", 0);
    let without = Without(&plan.without);
    let status =
        |layer| match layer {
            Layer::Capabilities => Some(own.capabilities()),
            Layer::Cgroup
            | Layer::CgroupNamespace
            | Layer::IpcNamespace
            | Layer::NetworkNamespace
            | Layer::PidNamespace => Some(apart.status(layer)),
            // custodyd attaches and reports these.
            Layer::BpfLsm
            | Layer::CgroupDevice
            | Layer::CgroupInet
            | Layer::CgroupLimits
            | Layer::CgroupSockopt
            | Layer::CgroupSysctl
            | Layer::CgroupUnix => None,
            Layer::Environment if without.keeps(layer) => Some(Status::Full),
            Layer::Environment => Some(left_out()),
            Layer::Fds => Some(fds.clone()),
            Layer::IdMap => Some(mapped.clone()),
            Layer::Landlock => Some(landlocked.as_ref().map_or_else(left_out, |_| Status::Full)),
            Layer::MountNamespace if without.keeps(layer) => Some(apart.status(layer)),
            Layer::MountNamespace => Some(left_out()),
            Layer::NoNewPrivs => Some(own.no_new_privs()),
            Layer::ResourceLimits => Some(identity::limited(Some(session.limits))),
            Layer::Seccomp => Some(filtered.map_or_else(left_out, |Installed { .. }| {
                match refuses_a_network_socket() {
                    Status::Full => own.seccomp(),
                    weaker @ (Status::None { .. } | Status::NotNeeded | Status::Partial { .. }) => {
                        weaker
                    }
                }
            })),
            Layer::Uid => Some(own.uid(plan.uid, plan.gid)),
            Layer::UtsNamespace => Some(apart.status(layer)),
        };
    Ok(Layer::ALL
        .into_iter()
        .filter_map(|layer| Some(report(layer, status(layer)?)))
        .collect())
}

/// The filters at work: what they refuse first of all.
pub(crate) fn refuses_a_network_socket() -> Status {
    let tried = socket::socket(
        socket::AddressFamily::Inet,
        socket::SockType::Stream,
        socket::SockFlag::SOCK_CLOEXEC,
        None,
    );
    match tried {
        Err(nix::errno::Errno::EPERM) => Status::Full,
        Err(other) => observe::none("socket(2) of AF_INET", other as i32),
        Ok(_made) => observe::none("socket(2) of AF_INET succeeded", 0),
    }
}

/// 0, 1, 2, the channel, and what leaves with the report; nothing else.
fn closed(plan: &Plan, leaving: usize) -> Result<Status, Failure> {
    if !Without(&plan.without).keeps(Layer::Fds) {
        return Ok(observe::none("left out by the plan", 0));
    }
    let open = fd::open_numbers().of(Layer::Fds, || "listing `/proc/self/fd`".into())?;
    let most = CHANNEL.saturating_add(leaving);
    let expected = (0..=most).map(|number| i32::try_from(number).unwrap_or(-1));
    if open.iter().copied().eq(expected) {
        Ok(Status::Full)
    } else {
        Ok(observe::partial(&format!("open: {open:?}")))
    }
}

/// custody-init takes over: pid 1 of the session, with the channel and the three streams.
fn execute(session: &Session, command: &Command, init: &CString) -> Result<Infallible, Failure> {
    let streams = match session.tty {
        Some(_) => crate::init::TERMINAL,
        None => crate::init::PIPES,
    };
    let mut arguments = vec![c"custody-init", streams];
    arguments.extend(command.arguments.iter().map(CString::as_c_str));
    execve(init, &arguments, &command.environment)
        .step(|| format!("execve(2) of `{}`", init.to_string_lossy()))
}

// The number is the wire's.
const _: () = assert!(launch::CHANNEL_FD == 3 && CHANNEL == 3);
