//! Landlock: which files a session or a service may touch, whatever the mounts say.
//!
//! The rights are those of ABI 6, the kernel floor's, as a hard requirement: a kernel that cannot
//! hold all of them refuses (landlock(7)). A descriptor of the host that leaked in leads to no
//! rule, for rules are looked up from the file to its own root.

use std::{io, os::fd::OwnedFd, path::Path};

use custody_wire::{
    launch::{Network, Service},
    layer::Layer,
};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use nix::fcntl::OFlag;

use crate::{failure::Failure, session::HOME};

/// Linux 6.12, the floor.
const FLOOR: ABI = ABI::V6;

/// The system's own files that every program opens. A session has them read-only (the mount) and
/// is not their owner (the uid).
///
/// Landlock goes from the file upwards, at each open(2), until a rule grants all that is asked for,
/// else as far as the root; and truncation is always asked for (hook_file_open(),
/// security/landlock/fs.c). So here a session may truncate as far as Landlock goes, and the way
/// ends: a level that it does not take is a twelfth of an open(2), the mount of `/usr` another.
/// All other writing is refused here too.
const OPENED_OFTEN: [&str; 3] = ["/usr", "/usr/bin", "/usr/lib"];

/// What a service reads besides its plan, if it is there: the dynamic linker's, the time zone,
/// entropy.
const SERVICE_READS: [&str; 9] = [
    "/dev/null",
    "/dev/urandom",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/lib",
    "/lib64",
    "/proc/self",
    "/usr/lib",
    "/usr/share/zoneinfo",
];

/// What a service with the host's network reads besides: names and certificate authorities.
const NETWORK_READS: [&str; 10] = [
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/usr/share/ca-certificates",
];

/// A ruleset that is complete but binds nobody yet.
#[derive(Debug)]
pub(crate) struct Planned(RulesetCreated);

/// Proof that this process is bound.
#[derive(Debug)]
pub(crate) struct Sealed(());

impl Planned {
    /// A session: all of its own root to read and execute, little to write.
    pub(crate) fn session(workspace: Option<&Path>) -> Result<Self, Failure> {
        let mut rules = Self::empty(Network::None)?;
        rules.allow(Path::new("/"), reading())?;
        for place in OPENED_OFTEN {
            rules.allow_if_there(Path::new(place), reading() | AccessFs::Truncate)?;
        }
        for place in ["/tmp", "/dev/shm", HOME] {
            rules.allow_if_there(Path::new(place), writing())?;
        }
        let devices =
            AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::WriteFile | AccessFs::IoctlDev;
        rules.allow(Path::new("/dev"), devices)?;
        if let Some(workspace) = workspace {
            rules.allow(workspace, writing())?;
        }
        Ok(rules)
    }

    /// A service: its program, what the plan lists, what every program needs.
    pub(crate) fn service(service: &Service) -> Result<Self, Failure> {
        let mut rules = Self::empty(service.network)?;
        rules.allow(&service.program, AccessFs::Execute | AccessFs::ReadFile)?;
        let network: &[&str] = match service.network {
            Network::Host => &NETWORK_READS,
            Network::None => &[],
        };
        for place in SERVICE_READS.iter().chain(network) {
            rules.allow_if_there(Path::new(place), reading())?;
        }
        rules.allow_if_there(Path::new("/dev/null"), AccessFs::WriteFile.into())?;
        for place in &service.read {
            rules.allow(place, AccessFs::ReadFile | AccessFs::ReadDir)?;
        }
        for place in &service.execute {
            rules.allow_if_there(place, reading())?;
        }
        for place in &service.write {
            rules.allow(place, writing() & !BitFlags::from(AccessFs::Execute))?;
        }
        Ok(rules)
    }

    fn empty(network: Network) -> Result<Self, Failure> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(FLOOR))
            .map_err(|error| refused(&error))?
            .scope(Scope::from_all(FLOOR))
            .map_err(|error| refused(&error))?;
        let ruleset = match network {
            Network::Host => ruleset,
            Network::None => ruleset
                .handle_access(AccessNet::from_all(FLOOR))
                .map_err(|error| refused(&error))?,
        };
        // Set with the other ids, not here: a plan may leave it out.
        let created = ruleset.create().map_err(|error| refused(&error))?;
        Ok(Self(created.no_new_privs(false)))
    }

    fn allow(&mut self, place: &Path, access: BitFlags<AccessFs>) -> Result<(), Failure> {
        let opened = nix::fcntl::open(
            place,
            OFlag::O_PATH | OFlag::O_CLOEXEC,
            nix::sys::stat::Mode::empty(),
        )
        .map_err(|errno| Failure {
            layer: Some(Layer::Landlock),
            step: format!("open(2) of `{}` for a rule", place.display()),
            errno: errno as i32,
        })?;
        self.rule(opened, access)
    }

    fn allow_if_there(&mut self, place: &Path, access: BitFlags<AccessFs>) -> Result<(), Failure> {
        match self.allow(place, access) {
            Err(failure) if failure.errno == nix::libc::ENOENT => Ok(()),
            other => other,
        }
    }

    fn rule(&mut self, opened: OwnedFd, access: BitFlags<AccessFs>) -> Result<(), Failure> {
        let is_folder = nix::sys::stat::fstat(&opened)
            .is_ok_and(|found| found.st_mode & nix::libc::S_IFMT == nix::libc::S_IFDIR);
        // A right that only folders have is an error on a file (landlock_add_rule(2)).
        let access = if is_folder {
            access
        } else {
            access & AccessFs::from_file(FLOOR)
        };
        let added = (&mut self.0).add_rule(PathBeneath::new(opened, access));
        added.map(|_self| ()).map_err(|error| refused(&error))
    }

    /// Binds this process and all that it starts, for good.
    pub(crate) fn seal(self) -> Result<Sealed, Failure> {
        let status = self.0.restrict_self().map_err(|error| refused(&error))?;
        match status.ruleset {
            RulesetStatus::FullyEnforced => Ok(Sealed(())),
            weaker @ (RulesetStatus::NotEnforced | RulesetStatus::PartiallyEnforced) => {
                Err(Failure::refused(
                    Some(Layer::Landlock),
                    format!("landlock_restrict_self(2): {weaker:?}"),
                ))
            }
        }
    }
}

/// Read and execute.
fn reading() -> BitFlags<AccessFs> {
    AccessFs::from_read(FLOOR)
}

/// Everything but device nodes and their ioctls.
fn writing() -> BitFlags<AccessFs> {
    let nodes = AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev;
    AccessFs::from_all(FLOOR) & !nodes
}

fn refused(error: &landlock::RulesetError) -> Failure {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    let mut errno = 0;
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            errno = io.raw_os_error().unwrap_or(0);
        }
        text = inner.to_string();
        cause = inner.source();
    }
    Failure {
        layer: Some(Layer::Landlock),
        step: format!("landlock: {text}"),
        errno,
    }
}
