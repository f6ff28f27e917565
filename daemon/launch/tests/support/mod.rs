//! Starts real sessions and services as custodyd does: clone3 into a cgroup and namespaces, then
//! the plan over the channel.
//!
//! The programs are this build's own; `CUSTODY_PROGRAMS` names a folder with other ones (static,
//! optimised): custody-launch, and custody-init in it or in its `session/`.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test file uses its own part of this module"
)]

use std::{
    ffi::CString,
    fs::{self, File},
    io::{Read as _, Write as _},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use custody_sys::{
    cgroup::{self, Cgroup},
    channel,
    clone::{self, Child, Namespaces, Spawn},
    memfd,
};
use custody_wire::{
    Message as _, frame,
    launch::{
        Go, Kind, LISTENER, Limits, Outcome, Plan, Ready, Report, Role, Service, WindowSize,
        Workspace,
    },
    layer::{self, Layer, Status},
    profile::Profile,
};
use nix::{
    sched::CloneFlags,
    sys::wait::{WaitStatus, waitpid},
    unistd::{Pid, pipe2},
};
use tempfile::TempDir;

/// The uid and gid of the tests' sessions, in the range that is the product's default.
pub(crate) const UID: u32 = 1_900_065_000;
pub(crate) const GID: u32 = 1_900_065_000;

/// Says why and answers false where the tests of a file cannot run.
pub(crate) fn can_run() -> bool {
    if !nix::unistd::geteuid().is_root() {
        println!("not attempted: needs root");
        return false;
    }
    if cgroup_root().is_none() {
        println!("not attempted: needs cgroup2");
        return false;
    }
    true
}

fn cgroup_root() -> Option<PathBuf> {
    ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .map(PathBuf::from)
        .find(|root| Cgroup::open(root).is_ok())
}

/// A cgroup of the test's own, emptied and removed at its end.
pub(crate) struct Group(Cgroup);

impl Group {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "custody-launch-{}-{}",
            Pid::this(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = cgroup_root().unwrap().join(name);
        Self(Cgroup::create(&path).unwrap())
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        cgroup::kill(self.0.path()).unwrap();
        while !self.0.is_empty().unwrap() {
            std::thread::yield_now();
        }
        cgroup::remove(self.0.path()).unwrap();
    }
}

/// The folder that a session sees as the programs', with custody-init in it; and custody-launch.
pub(crate) struct Programs {
    pub(crate) launch: PathBuf,
    pub(crate) session: PathBuf,
    _kept: Option<TempDir>,
    /// Where the listener's folder has to be the host's.
    run: TempDir,
}

impl Programs {
    /// Where the listener is: a session in the host's root needs a folder of the host's.
    fn listener(&self, without: &[Layer]) -> PathBuf {
        if without.contains(&Layer::MountNamespace) {
            self.run.path().join("session.sock")
        } else {
            LISTENER.into()
        }
    }
}

pub(crate) fn programs() -> Programs {
    let run = tempfile::tempdir_in("/run").unwrap();
    if let Some(folder) = std::env::var_os("CUSTODY_PROGRAMS") {
        let folder = PathBuf::from(folder);
        let session = folder.join("session");
        return Programs {
            launch: folder.join("custody-launch"),
            session: if session.exists() { session } else { folder },
            _kept: None,
            run,
        };
    }
    // A link, not a copy: a descriptor that is open for writing in another test's clone3 at this
    // moment would make the program busy (execve(2), ETXTBSY).
    let init = Path::new(env!("CARGO_BIN_EXE_custody-init"));
    let kept = tempfile::tempdir_in(init.parent().unwrap()).unwrap();
    let session = kept.path().to_path_buf();
    open_to_all(&session);
    fs::hard_link(init, session.join("custody-init")).unwrap();
    Programs {
        launch: env!("CARGO_BIN_EXE_custody-launch").into(),
        session,
        _kept: Some(kept),
        run,
    }
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What to start.
#[derive(Default)]
pub(crate) struct Start {
    pub(crate) command: Vec<String>,
    pub(crate) environment: Vec<String>,
    pub(crate) workspace: Option<PathBuf>,
    pub(crate) read_only: Vec<PathBuf>,
    pub(crate) tty: Option<WindowSize>,
    pub(crate) without: Vec<Layer>,
    pub(crate) uid: Option<u32>,
    pub(crate) profile: Option<Profile>,
    /// What lies beside the plan, to be inherited.
    pub(crate) inherit: Vec<OwnedFd>,
}

impl Start {
    pub(crate) fn command(command: &[&str]) -> Self {
        Self {
            command: command.iter().map(|part| (*part).into()).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn sh(script: &str) -> Self {
        Self::command(&["/bin/sh", "-c", script])
    }

    pub(crate) fn python(script: &str) -> Self {
        Self::command(&["/usr/bin/python3", "-c", script])
    }

    pub(crate) fn workspace(mut self, folder: &Path) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    pub(crate) fn without(mut self, layers: &[Layer]) -> Self {
        self.without = layers.to_vec();
        self
    }

    pub(crate) fn profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// As clone3 gives them where the plan's layers are all that is made. The mount namespace is
    /// always made: the layer is the root in it.
    fn namespaces(&self) -> Namespaces {
        let flags = [
            (Layer::CgroupNamespace, CloneFlags::CLONE_NEWCGROUP),
            (Layer::IpcNamespace, CloneFlags::CLONE_NEWIPC),
            (Layer::NetworkNamespace, CloneFlags::CLONE_NEWNET),
            (Layer::PidNamespace, CloneFlags::CLONE_NEWPID),
            (Layer::UtsNamespace, CloneFlags::CLONE_NEWUTS),
        ];
        Namespaces::Only(
            flags
                .into_iter()
                .filter(|(layer, _)| !self.without.contains(layer))
                .fold(CloneFlags::CLONE_NEWNS, |all, (_, flag)| all | flag),
        )
    }

    fn plan(&self, programs: &Programs) -> (Plan, Vec<OwnedFd>) {
        use std::os::unix::fs::MetadataExt as _;

        let mut bytes = format!("{}\0", self.command.len()).into_bytes();
        for string in self.command.iter().chain(&self.environment) {
            bytes.extend_from_slice(string.as_bytes());
            bytes.push(0);
        }
        let mut fds = vec![memfd::sealed(c"command", &bytes).unwrap()];
        let mut roles = vec![Role::Command];
        let workspace = self.workspace.as_ref().map(|path| {
            // What cannot be opened is for the launcher to refuse; it needs some folder.
            let opened = File::open(path)
                .or_else(|_missing| File::open("/var"))
                .unwrap();
            let found = opened.metadata().unwrap();
            fds.push(opened.into());
            roles.push(Role::Workspace);
            Workspace {
                path: path.clone(),
                owner_uid: found.uid(),
                owner_gid: found.gid(),
            }
        });
        for fd in &self.inherit {
            fds.push(fd.try_clone().unwrap());
            roles.push(Role::Inherit);
        }
        let uid = self.uid.unwrap_or(UID);
        let plan = Plan {
            kind: Kind::Session(custody_wire::launch::Session {
                id: gate_session(),
                read_only: self.read_only.clone(),
                workspace,
                programs: programs.session.clone(),
                tty: self.tty,
                listener: programs.listener(&self.without),
                profile: self.profile.unwrap_or(Profile::Standard),
                limits: Limits {
                    memory: 1 << 30,
                    processes: 512,
                    open_files: 1024,
                },
            }),
            uid,
            gid: if uid == UID { GID } else { uid },
            without: self.without.clone(),
            fds: roles,
        };
        (plan, fds)
    }

    /// Starts it up to the report.
    pub(crate) fn prepare(self) -> Result<Session, String> {
        let programs = programs();
        let (plan, fds) = self.plan(&programs);
        let own = self.without.contains(&Layer::Cgroup).then(own_cgroup);
        prepare_in(own.as_ref(), &plan, &fds, programs, self.namespaces())
    }

    /// Runs it to its end with nothing on standard input.
    pub(crate) fn run(self) -> Ended {
        self.prepare().expect("the session is sealed").run(b"")
    }

    /// The refusal when the descriptor leads to `other`.
    pub(crate) fn refused_with_workspace_of(self, other: &Path) -> String {
        let programs = programs();
        let (plan, mut fds) = self.plan(&programs);
        fds[1] = File::open(other).unwrap().into();
        match prepare(&plan, &fds, programs, Namespaces::Own) {
            Err(why) => why,
            Ok(_session) => panic!("it was sealed"),
        }
    }

    /// The refusal when it is started in these namespaces.
    pub(crate) fn refused_in(self, namespaces: Namespaces) -> String {
        let programs = programs();
        let (plan, fds) = self.plan(&programs);
        match prepare(&plan, &fds, programs, namespaces) {
            Err(why) => why,
            Ok(_session) => panic!("it was sealed"),
        }
    }

    /// The refusal of what must not start.
    pub(crate) fn refused(self) -> String {
        match self.prepare() {
            Err(why) => why,
            Ok(_session) => panic!("it was sealed"),
        }
    }
}

fn gate_session() -> gate::id::SessionId {
    gate::id::SessionId(7)
}

/// A sealed session or service that waits for the word.
pub(crate) struct Session {
    pub(crate) group: Group,
    pub(crate) child: Child,
    pub(crate) channel: OwnedFd,
    pub(crate) layers: Vec<layer::Report>,
    pub(crate) placeholders: Vec<PathBuf>,
    pub(crate) ends: Vec<(Role, OwnedFd)>,
    _programs: Programs,
}

/// The cgroup of this process itself.
fn own_cgroup() -> Cgroup {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap();
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"));
    Cgroup::open(&cgroup_root().unwrap().join(path.unwrap())).unwrap()
}

pub(crate) fn prepare(
    plan: &Plan,
    fds: &[OwnedFd],
    programs: Programs,
    namespaces: Namespaces,
) -> Result<Session, String> {
    prepare_in(None, plan, fds, programs, namespaces)
}

fn prepare_in(
    cgroup: Option<&Cgroup>,
    plan: &Plan,
    fds: &[OwnedFd],
    programs: Programs,
    namespaces: Namespaces,
) -> Result<Session, String> {
    let group = Group::new();
    let (child, ours) = spawn(cgroup.unwrap_or(&group.0), &programs, namespaces);
    converse(group, child, ours, plan, fds, programs)
}

/// custody-launch, before it was told anything.
fn spawn(cgroup: &Cgroup, programs: &Programs, namespaces: Namespaces) -> (Child, OwnedFd) {
    let (ours, theirs) = channel::pair_seqpacket().unwrap();
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    let errors = File::options().write(true).open("/dev/stderr");
    let stderr = errors.as_ref().map_or(null.as_fd(), |file| file.as_fd());
    let child = clone::spawn(&Spawn {
        argv: &[CString::new(programs.launch.to_str().unwrap()).unwrap()],
        envp: &[c"LEAK=from-the-launcher".into()],
        fds: &[null.as_fd(), null.as_fd(), stderr, theirs.as_fd()],
        cgroup: cgroup.as_fd(),
        namespaces,
    })
    .unwrap();
    (child, ours)
}

/// A launcher that is ready for a plan.
pub(crate) struct Waiting {
    group: Group,
    child: Child,
    channel: OwnedFd,
    programs: Programs,
}

impl Waiting {
    pub(crate) fn start() -> Self {
        let (group, programs) = (Group::new(), programs());
        let (child, channel) = spawn(&group.0, &programs, Namespaces::Own);
        let ready = Ready {
            programs: programs.session.clone(),
        };
        channel::send(&channel, &frame::datagram(&ready).unwrap(), &[]).unwrap();
        // The last but the covers in it.
        let mounts = format!("/proc/{}/mountinfo", child.pid);
        while !fs::read_to_string(&mounts).is_ok_and(|text| text.contains("/sys/proc ")) {
            std::thread::yield_now();
        }
        Self {
            group,
            child,
            channel,
            programs,
        }
    }

    /// Closes its channel and waits for its end.
    pub(crate) fn hang_up(self) -> WaitStatus {
        drop(self.channel);
        waitpid(self.child.pid, None).unwrap()
    }

    /// Hands it a plan.
    pub(crate) fn serve(self, start: &Start) -> Result<Session, String> {
        let (plan, fds) = start.plan(&self.programs);
        self.serve_plan(&plan, &fds)
    }

    pub(crate) fn serve_plan(self, plan: &Plan, fds: &[OwnedFd]) -> Result<Session, String> {
        converse(
            self.group,
            self.child,
            self.channel,
            plan,
            fds,
            self.programs,
        )
    }
}

fn converse(
    group: Group,
    child: Child,
    ours: OwnedFd,
    plan: &Plan,
    fds: &[OwnedFd],
    programs: Programs,
) -> Result<Session, String> {
    let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
    channel::send(&ours, &frame::datagram(plan).unwrap(), &borrowed).unwrap();
    let mut buffer = vec![0; Report::CAP];
    let (len, fds) = channel::recv(&ours, &mut buffer, 8).unwrap();
    match frame::parse(&buffer[..len]) {
        Ok(Report::Sealed {
            layers,
            fds: roles,
            placeholders,
        }) => {
            assert_eq!(roles.len(), fds.len());
            Ok(Session {
                group,
                child,
                channel: ours,
                layers,
                placeholders,
                ends: roles.into_iter().zip(fds).collect(),
                _programs: programs,
            })
        }
        Ok(Report::Failed { layer, step, errno }) => {
            let status = waitpid(child.pid, None).unwrap();
            assert_eq!(status, WaitStatus::Exited(child.pid, 125));
            Err(format!("{layer:?}: {step}: errno {errno}"))
        }
        Err(error) => panic!("{error}: {:?}", waitpid(child.pid, None)),
    }
}

/// How a session ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Option<Outcome>,
    pub(crate) status: WaitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Its standard output, if it ended well.
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.outcome, Some(Outcome::Exited { code: 0 }), "{self:?}");
        self.stdout.trim_end()
    }
}

impl Session {
    pub(crate) fn status_of(&self, layer: Layer) -> &Status {
        let report = self.layers.iter().find(|report| report.layer == layer);
        &report.expect("reported").status
    }

    pub(crate) fn end(&mut self, role: Role) -> OwnedFd {
        let at = self.ends.iter().position(|(found, _)| *found == role);
        self.ends.remove(at.expect("an end of this role")).1
    }

    pub(crate) fn go(&self) {
        channel::send(&self.channel, &frame::datagram(&Go).unwrap(), &[]).unwrap();
    }

    /// The word, then everything to its end.
    pub(crate) fn run(mut self, input: &[u8]) -> Ended {
        let mut stdin = File::from(self.end(Role::Stdin));
        let mut stdout = File::from(self.end(Role::Stdout));
        let mut stderr = File::from(self.end(Role::Stderr));
        self.go();
        stdin.write_all(input).unwrap();
        drop(stdin);
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            stderr.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut text = Vec::new();
        stdout.read_to_end(&mut text).unwrap();
        let (outcome, status) = self.ended();
        Ended {
            outcome,
            status,
            stdout: String::from_utf8_lossy(&text).into_owned(),
            stderr: errors.join().unwrap(),
        }
    }

    /// Waits for the outcome; none is the end of the channel.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let mut buffer = [0; 64];
        let (len, _) = channel::recv(&self.channel, &mut buffer, 0).unwrap();
        (len > 0).then(|| frame::parse(&buffer[..len]).unwrap())
    }

    /// Waits for the outcome and the end of pid 1.
    pub(crate) fn ended(&self) -> (Option<Outcome>, WaitStatus) {
        let outcome = self.outcome();
        (outcome, waitpid(self.child.pid, None).unwrap())
    }
}

/// A process of the session's uid, outside, that anybody of its uid may trace and signal.
pub(crate) struct Outside(pub(crate) std::process::Child);

impl Outside {
    pub(crate) fn start() -> Self {
        use std::os::unix::process::CommandExt as _;

        let mut sleep = std::process::Command::new("/bin/sleep");
        Self(sleep.arg("600").uid(UID).gid(GID).spawn().unwrap())
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // It fails only where it has ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A service's plan of the tests' own uid.
pub(crate) fn service(service: Service) -> Plan {
    Plan {
        kind: Kind::Service(service),
        uid: UID,
        gid: GID,
        without: Vec::new(),
        fds: Vec::new(),
    }
}

/// A pipe of which the write end is a service's standard error.
pub(crate) fn pipe() -> (File, OwnedFd) {
    let (reader, writer) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    (reader.into(), writer)
}

/// A folder outside /tmp that belongs to `uid`, for workspaces.
pub(crate) fn folder_of(uid: u32) -> TempDir {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    open_to_all(folder.path());
    std::os::unix::fs::chown(folder.path(), Some(uid), Some(uid)).unwrap();
    folder
}
