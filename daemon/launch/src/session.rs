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
    sys::{signal::Signal, socket, stat},
    unistd::{chdir, execve, setsid},
};

use crate::{
    command::Command,
    dev, etc,
    failure::{Failure, Step as _},
    filter::{Filter, Installed},
    identity,
    listener::listen,
    observe::{self, Apart, Own, report},
    plan::{self, Descriptors, Without},
    root::{self, Mounting as _, Root},
    rules::{Planned, Sealed},
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
}

/// Builds, seals, reports, waits for the word and executes custody-init. Comes back only with
/// what stopped it.
pub(crate) fn run(
    plan: &Plan,
    session: &Session,
    descriptors: Descriptors,
    channel: OwnedFd,
) -> (Failure, Option<OwnedFd>) {
    // Until the descriptors are placed the channel is the caller's; afterwards it is number 3.
    match build(plan, session, descriptors) {
        Err(failure) => (failure, Some(channel)),
        Ok((built, command, apart)) => finish(plan, session, built, &command, &apart, channel),
    }
}

fn build(
    plan: &Plan,
    session: &Session,
    descriptors: Descriptors,
) -> Result<(Built, Command, Apart), Failure> {
    let without = Without(&plan.without);
    let apart = Apart::from_parent()?;
    for layer in [
        Layer::MountNamespace,
        Layer::PidNamespace,
        Layer::UtsNamespace,
    ] {
        // What follows would change the host's.
        if without.keeps(layer) && !apart.has(layer) {
            return Err(Failure::refused(
                Some(layer),
                format!(
                    "the {} is shared with the parent",
                    layer.name().replace('_', " ")
                ),
            ));
        }
    }
    setsid().step(|| "setsid(2)".into())?;
    stat::umask(stat::Mode::from_bits_truncate(0o022));
    let command = descriptors
        .command
        .ok_or_else(|| {
            Failure::refused(
                Some(Layer::Environment),
                "the plan brings no command".into(),
            )
        })
        .and_then(Command::read)?;
    if without.keeps(Layer::ResourceLimits) {
        identity::expendable()?;
    }
    if without.keeps(Layer::UtsNamespace) {
        nix::unistd::sethostname(HOSTNAME).of(Layer::UtsNamespace, || "sethostname(2)".into())?;
    }
    let built = if without.keeps(Layer::MountNamespace) {
        own_root(plan, session, descriptors.workspace)?
    } else {
        hosts_root(plan, session)?
    };
    Ok((built, command, apart))
}

/// The root of the session's own.
fn own_root(plan: &Plan, session: &Session, given: Option<OwnedFd>) -> Result<Built, Failure> {
    let root = Root::new()?;
    root.system(&session.programs)?;
    etc::build(&root, plan.uid, plan.gid)?;
    dev::build(&root)?;
    root.home(plan.uid, plan.gid)?;
    dev::proc(&root)?;
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
    let maps = Without(&plan.without).keeps(Layer::IdMap);
    let (placeholders, mapped) = match (&session.workspace, given) {
        (None, None) => (Vec::new(), Status::NotNeeded),
        (Some(workspace), Some(given)) => {
            let made = workspace::show(&root, workspace, given, plan.uid, plan.gid, maps)?;
            let mapped = if maps {
                Status::Full
            } else {
                observe::none("left out by the plan", 0)
            };
            (made, mapped)
        }
        (Some(_), None) | (None, Some(_)) => {
            return Err(Failure::refused(
                Some(Layer::IdMap),
                "a workspace needs both its path and its descriptor".into(),
            ));
        }
    };
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
    })
}

/// The host's root, for the bypass suite's arm without a mount namespace of the session's own.
/// The listener is on a tmpfs in the listener's folder, so that the host's stays free.
fn hosts_root(plan: &Plan, session: &Session) -> Result<Built, Failure> {
    let folder = session.listener.parent().unwrap_or(Path::new("/"));
    let private = nix::mount::MsFlags::MS_REC | nix::mount::MsFlags::MS_PRIVATE;
    nix::mount::mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .mount(|| "mount(2) of `/` as private".into())?;
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
        placeholders: Vec::new(),
        mapped: observe::none("left out by the plan", 0),
        init: init_in(&session.programs)?,
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
    } = built;
    let [stdin, stdout, stderr] = streams.inside;
    let mut open = vec![stdin, stdout, stderr, channel, listener];
    let mut roles = vec![Role::Listener];
    for (role, end) in streams.outside {
        roles.push(role);
        open.push(end);
    }
    // One call closes everything else: whatever came in by mistake, and the descriptors above.
    let mut placed = match fd::place_from(0, open) {
        Ok(placed) => placed,
        Err(error) => {
            let failed = Err::<Infallible, _>(error).of(Layer::Fds, || "close_range(2)".into());
            let Err(failure) = failed;
            return (failure, None);
        }
    };
    let leaving = placed.split_off(CHANNEL.saturating_add(1));
    let Some(channel) = placed.pop() else {
        return (
            Failure::refused(Some(Layer::Fds), "no channel".into()),
            None,
        );
    };
    let done = seal(plan, session, apart, mapped, leaving.len())
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

/// Gives up everything, in the only order that works, and reads it back.
fn seal(
    plan: &Plan,
    session: &Session,
    apart: &Apart,
    mapped: Status,
    leaving: usize,
) -> Result<Vec<custody_wire::layer::Report>, Failure> {
    let without = Without(&plan.without);
    let workspace = session.workspace.as_ref().map(|found| found.path.as_path());
    let fds = closed(leaving)?;
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
    identity::drop_root(plan.uid, plan.gid, without)?;
    // A change of ids clears it, so it is set here. Without it a session would outlive custodyd.
    process::parent_death_signal(Signal::SIGKILL, None)
        .step(|| "prctl(2) PR_SET_PDEATHSIG".into())?;
    let landlocked = if without.keeps(Layer::Landlock) {
        Some(Planned::session(workspace)?.seal()?)
    } else {
        None
    };
    let filtered = if without.keeps(Layer::Seccomp) {
        Some(Filter::session().install()?)
    } else {
        None
    };
    read_back(plan, session, apart, mapped, fds, landlocked, filtered)
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
            Layer::Environment => Some(Status::Full),
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
fn closed(leaving: usize) -> Result<Status, Failure> {
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
