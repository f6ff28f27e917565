//! One of our own programs: its own uid, nothing that it does not need.
//!
//! No namespaces but an empty network and ipc where the plan says so: what a service may open is
//! Landlock's list, and its uid is nobody else's.

use std::{
    convert::Infallible,
    ffi::CString,
    fs::File,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
};

use custody_sys::{fd, process};
use custody_wire::{
    launch::{Network, Plan, Report, Service},
    layer::{self, Layer, Status},
};
use nix::{
    sched::{CloneFlags, unshare},
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::Signal,
        stat,
    },
    unistd::{chdir, execve, getppid, setsid},
};

use crate::{
    failure::{Failure, Step as _},
    filter::{Filter, Installed},
    identity,
    observe::{self, Apart, Own, report},
    plan::{self, Descriptors, Without},
    rules::{Planned, Sealed},
    session::refuses_a_network_socket,
};

/// Builds, seals, reports, waits for the word and executes the program. Comes back only with what
/// stopped it, and the channel to say it on.
pub(crate) fn run(
    plan: &Plan,
    service: &Service,
    descriptors: Descriptors,
    channel: OwnedFd,
) -> (Failure, Option<OwnedFd>) {
    let apart = match detach(plan, service) {
        Ok(apart) => apart,
        Err(failure) => return (failure, Some(channel)),
    };
    // From here on the channel is the last number, and closed by the exec.
    let channel = match place(descriptors, channel) {
        Ok(channel) => channel,
        Err(failure) => return (failure, None),
    };
    let done = seal(plan, service, &apart, &channel)
        .and_then(|sealed| plan::report(&channel, &sealed, &[]))
        .and_then(|()| plan::wait_for_go(&channel))
        .and_then(|()| execute(plan, service));
    match done {
        Err(failure) => (failure, Some(channel)),
        Ok(never) => match never {},
    }
}

/// Leaves the caller's session and, for most, its network.
fn detach(plan: &Plan, service: &Service) -> Result<Apart, Failure> {
    setsid()
        .or_else(already_leads)
        .step(|| "setsid(2)".into())?;
    stat::umask(stat::Mode::from_bits_truncate(0o077));
    chdir("/").step(|| "chdir(2) to `/`".into())?;
    let without = Without(&plan.without);
    if service.network == Network::None && without.keeps(Layer::NetworkNamespace) {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC)
            .of(Layer::NetworkNamespace, || {
                "unshare(2) of network and ipc".into()
            })?;
    }
    Apart::from_parent()
}

/// 0 is /dev/null; 1 and 2 are the plan's standard error, or /dev/null; then what is inherited,
/// and the channel.
fn place(descriptors: Descriptors, channel: OwnedFd) -> Result<OwnedFd, Failure> {
    let null = || {
        let file = File::options().read(true).write(true).open("/dev/null");
        file.map(OwnedFd::from)
            .step(|| "open(2) of `/dev/null`".into())
    };
    let stderr = match descriptors.stderr {
        Some(stderr) => stderr,
        None => null()?,
    };
    let stdout = stderr.try_clone().step(|| "fcntl(2)".into())?;
    let mut fds = vec![null()?, stdout, stderr];
    fds.extend(descriptors.inherit);
    fds.push(channel);
    let mut placed = fd::place_from(0, fds).of(Layer::Fds, || "close_range(2)".into())?;
    let channel = placed
        .pop()
        .ok_or_else(|| Failure::refused(Some(Layer::Fds), "no channel".into()))?;
    fd::close_on_exec(&channel).of(Layer::Fds, || "fcntl(2) F_SETFD".into())?;
    // Theirs until the exec: this process ends with it or with its own exit.
    for inherited in placed {
        fd::leave_open(inherited);
    }
    Ok(channel)
}

fn seal(
    plan: &Plan,
    service: &Service,
    apart: &Apart,
    channel: &OwnedFd,
) -> Result<Report, Failure> {
    let without = Without(&plan.without);
    let parent = getppid();
    let fds = closed(channel)?;
    if without.keeps(Layer::ResourceLimits) {
        identity::core_limit()?;
        whole(Resource::RLIMIT_NOFILE)?;
        whole(Resource::RLIMIT_MEMLOCK)?;
    }
    // Opened as root: a service's uid may not reach every folder that it is given.
    let rules = without
        .keeps(Layer::Landlock)
        .then(|| Planned::service(service))
        .transpose()?;
    let bind = |rules: Option<Planned>| -> Result<_, Failure> {
        let landlocked = rules.map(Planned::seal).transpose()?;
        let filtered = without
            .keeps(Layer::Seccomp)
            .then(|| Filter::service(service.network).install())
            .transpose()?;
        Ok((landlocked, filtered))
    };
    // Without no_new_privs the kernel takes rules and filters from root alone.
    let (early, rules) = if without.keeps(Layer::NoNewPrivs) {
        (None, rules)
    } else {
        (Some(bind(rules)?), None)
    };
    identity::drop_bounds(without)?;
    identity::drop_root(plan.uid, plan.gid, without)?;
    // A change of ids clears it.
    process::parent_death_signal(Signal::SIGKILL, Some(parent.as_raw()))
        .step(|| "prctl(2) PR_SET_PDEATHSIG, of a parent that is alive".into())?;
    let (landlocked, filtered) = match early {
        Some(bound) => bound,
        None => bind(rules)?,
    };
    Ok(Report::Sealed {
        layers: read_back(plan, service, apart, &fds, landlocked.as_ref(), filtered)?,
        fds: Vec::new(),
        placeholders: Vec::new(),
    })
}

/// Nothing is open but what is placed: every number up to the channel's.
fn closed(channel: &OwnedFd) -> Result<Status, Failure> {
    let open = fd::open_numbers().of(Layer::Fds, || "listing `/proc/self/fd`".into())?;
    if open.iter().copied().eq(0..=channel.as_raw_fd()) {
        Ok(Status::Full)
    } else {
        Ok(observe::partial(&format!("open: {open:?}")))
    }
}

fn already_leads(errno: nix::errno::Errno) -> nix::Result<nix::unistd::Pid> {
    // setsid(2): a process group leader stays where it is.
    if errno == nix::errno::Errno::EPERM {
        Ok(nix::unistd::getpid())
    } else {
        Err(errno)
    }
}

/// As much as the host's hard limit gives: locked memory for the vault, files for many sessions.
fn whole(resource: Resource) -> Result<(), Failure> {
    let (_soft, hard) = getrlimit(resource).of(Layer::ResourceLimits, || {
        format!("getrlimit(2) of {resource:?}")
    })?;
    setrlimit(resource, hard, hard).of(Layer::ResourceLimits, || {
        format!("setrlimit(2) of {resource:?}")
    })
}

fn arguments(service: &Service) -> Result<Vec<CString>, Failure> {
    let program = service.program.as_os_str().as_bytes();
    let arguments = service.arguments.iter().map(String::as_bytes);
    std::iter::once(program)
        .chain(arguments)
        .map(|argument| {
            CString::new(argument)
                .map_err(|_nul| Failure::refused(None, "an argument holds a NUL".into()))
        })
        .collect()
}

/// Constructed: the language, and how much custodyd's own operator wants to be logged.
fn environment() -> Result<Vec<CString>, Failure> {
    let mut variables = vec!["LANG=C.UTF-8".to_owned(), "PATH=/usr/bin:/bin".to_owned()];
    if let Ok(level) = std::env::var("RUST_LOG") {
        variables.push(format!("RUST_LOG={level}"));
    }
    // As `gate::mutant` has it, of which nothing else is needed here.
    #[cfg(custody_mutants)]
    if let Ok(name) = std::env::var("CUSTODY_MUTANT") {
        variables.push(format!("CUSTODY_MUTANT={name}"));
    }
    variables
        .into_iter()
        .map(|variable| {
            CString::new(variable).map_err(|_nul| {
                Failure::refused(Some(Layer::Environment), "a variable holds a NUL".into())
            })
        })
        .collect()
}

fn read_back(
    plan: &Plan,
    service: &Service,
    apart: &Apart,
    fds: &Status,
    landlocked: Option<&Sealed>,
    filtered: Option<Installed>,
) -> Result<Vec<layer::Report>, Failure> {
    let own = Own::read()?;
    let left_out = || observe::none("left out by the plan", 0);
    let status = |layer| match layer {
        Layer::Capabilities => Some(own.capabilities()),
        Layer::Cgroup => Some(apart.status(layer)),
        Layer::BpfLsm
        | Layer::CgroupDevice
        | Layer::CgroupInet
        | Layer::CgroupLimits
        | Layer::CgroupSockopt
        | Layer::CgroupSysctl
        | Layer::CgroupUnix => None,
        Layer::Environment if Without(&plan.without).keeps(layer) => Some(Status::Full),
        Layer::Environment => Some(left_out()),
        Layer::Fds => Some(fds.clone()),
        Layer::CgroupNamespace
        | Layer::IdMap
        | Layer::MountNamespace
        | Layer::PidNamespace
        | Layer::UtsNamespace => Some(Status::NotNeeded),
        Layer::IpcNamespace | Layer::NetworkNamespace => Some(match service.network {
            Network::Host => Status::NotNeeded,
            Network::None => apart.status(layer),
        }),
        Layer::Landlock => Some(landlocked.map_or_else(left_out, |_| Status::Full)),
        Layer::NoNewPrivs => Some(own.no_new_privs()),
        Layer::ResourceLimits => Some(identity::limited(None)),
        Layer::Seccomp => Some(filtered.map_or_else(left_out, |Installed { .. }| {
            let refuses = match service.network {
                Network::Host => Status::Full,
                Network::None => refuses_a_network_socket(),
            };
            match refuses {
                Status::Full => own.seccomp(),
                weaker @ (Status::None { .. } | Status::NotNeeded | Status::Partial { .. }) => {
                    weaker
                }
            }
        })),
        Layer::Uid => Some(own.uid(plan.uid, plan.gid)),
    };
    Ok(Layer::ALL
        .into_iter()
        .filter_map(|layer| Some(report(layer, status(layer)?)))
        .collect())
}

fn execute(plan: &Plan, service: &Service) -> Result<Infallible, Failure> {
    let argv = arguments(service)?;
    let path = argv.first().cloned().unwrap_or_default();
    let mut environment = environment()?;
    if !Without(&plan.without).keeps(Layer::Environment) {
        for (name, value) in crate::command::inherited() {
            let variable = [name.as_slice(), b"=", &value].concat();
            environment.extend(CString::new(variable).ok());
        }
    }
    execve(&path, &argv, &environment)
        .step(|| format!("execve(2) of `{}`", service.program.display()))
}
