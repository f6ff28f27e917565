//! An installation of the test's own: cgroup, folders, uid ranges.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use custody_supervisor::hooks::Hooks;
use custody_sys::cgroup::{self, Cgroup};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

pub(crate) const CUSTODYD: &str = env!("CARGO_BIN_EXE_custodyd");

/// An installation of the test's own.
pub(crate) struct Room {
    folder: tempfile::TempDir,
    pub(crate) cgroup: PathBuf,
    pub(crate) daemon: Option<Child>,
}

impl Room {
    /// A room with custodyd in it, ready.
    pub(crate) fn new() -> Option<Self> {
        let mut room = Self::empty()?;
        room.start();
        Some(room)
    }

    pub(crate) fn empty() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return None;
        }
        if Hooks::object().is_none() || !programs().join("session/custody-init").exists() {
            println!("not attempted: needs the eBPF object and the programs (`cargo xtask build`)");
            return None;
        }
        let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
            .into_iter()
            .find(|root| Cgroup::open(root.as_ref()).is_ok());
        let Some(root) = root else {
            println!("not attempted: needs cgroup2");
            return None;
        };
        let folder = tempfile::Builder::new()
            .prefix("custodyd")
            .tempdir()
            .unwrap();
        // Callers must reach the socket.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let cgroup = Path::new(root).join(folder.path().file_name().unwrap());
        let room = Self {
            folder,
            cgroup,
            daemon: None,
        };
        fs::create_dir(room.path("policies")).unwrap();
        fs::write(room.path("policies/plain.toml"), "format = 1\n").unwrap();
        room.configure("");
        Some(room)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn configure(&self, more: &str) {
        let at = |name: &str| self.path(name).display().to_string();
        let text = format!(
            "format = 1\n[paths]\ncgroup = '{}'\npolicies = '{}'\nruntime = '{}'\nstate = '{}'\n\
             programs = '{}'\n[users]\ncontrol = '64201'\ngate = '64202'\nresolver = '64203'\n\
             review = '64205'\nvault = '64204'\n[uids.agents]\nfirst = 1920000000\ncount = 50\n\
             [uids.fronts]\nfirst = 1920000100\ncount = 50\n\
             [uids.workers]\nfirst = 1920000200\ncount = 50\n\
             [[access]]\nuids = [1000]\npolicies = ['plain']\n{more}",
            self.cgroup.display(),
            at("policies"),
            at("run"),
            at("state"),
            programs().display(),
        );
        fs::write(self.path("custodyd.toml"), text).unwrap();
    }

    /// Programs of the room's own, to break one of them.
    pub(crate) fn copied_programs(&self) -> PathBuf {
        let copy = self.path("programs");
        fs::create_dir_all(copy.join("session")).unwrap();
        for name in [
            "control", "effect", "front", "gate", "launch", "review", "vault",
        ] {
            let name = format!("custody-{name}");
            fs::copy(programs().join(&name), copy.join(&name)).unwrap();
        }
        for name in ["custody-bridge", "custody-init"] {
            let name = Path::new("session").join(name);
            fs::copy(programs().join(&name), copy.join(&name)).unwrap();
        }
        let config = fs::read_to_string(self.path("custodyd.toml")).unwrap();
        let (from, to) = (programs().display().to_string(), copy.display().to_string());
        fs::write(self.path("custodyd.toml"), config.replace(&from, &to)).unwrap();
        copy
    }

    pub(crate) fn custodyd(&self) -> Command {
        let mut command = Command::new(CUSTODYD);
        command.arg("--config").arg(self.path("custodyd.toml"));
        command
    }

    pub(crate) fn start(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .unwrap();
        let before = self.log().matches(" ready ").count();
        self.daemon = Some(self.custodyd().stderr(log).spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.log().matches(" ready ").count() == before {
            let ended = self.daemon.as_mut().unwrap().try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts custodyd, which refuses; its last words.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let output = self.custodyd().args(arguments).output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn until(&self, what: &str, is: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is() {
            assert!(
                Instant::now() < deadline,
                "not in time: {what}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn custody(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(programs().join("custody"));
        command
            .arg("--socket")
            .arg(self.path("run/control.sock"))
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.custody(&["run"]).args(arguments).output().unwrap()
    }

    /// A session whose command is a shell that says `up` and sleeps, and calls nothing.
    pub(crate) fn sleeper(&self) -> (Child, BufReader<std::process::ChildStdout>) {
        self.shell("echo up; sleep 300; echo never")
    }

    /// The same, connected to its front all the while.
    pub(crate) fn caller(&self) -> (Child, BufReader<std::process::ChildStdout>) {
        self.shell("sleep 300 | /run/custody/bin/custody-bridge & echo up; sleep 300; echo never")
    }

    /// A session whose command is a shell that says `up` first.
    pub(crate) fn shell(&self, script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut child = self
            .custody(&["run", "--", "/bin/sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n", "{}", self.log());
        (child, out)
    }

    /// The pids in the cgroups of `group` whose name begins with `name`.
    pub(crate) fn pids(&self, group: &str, name: &str) -> Vec<i32> {
        let folder = self.cgroup.join("custody").join(group);
        let Ok(entries) = fs::read_dir(folder) else {
            return Vec::new();
        };
        entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(name))
            .filter_map(|entry| fs::read_to_string(entry.path().join("cgroup.procs")).ok())
            .flat_map(|text| {
                let pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
                pids
            })
            .collect()
    }

    /// The pids of sessions: all of the agents' but launchers that wait for one.
    pub(crate) fn sessions(&self) -> Vec<i32> {
        let mut pids = self.pids("agents", "");
        // Gone meanwhile, a launcher, or a child of custodyd's that becomes one.
        pids.retain(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| !["custody-launch", "custodyd"].contains(&name.trim()))
        });
        pids
    }

    /// The agents' cgroups that have no launcher in them.
    pub(crate) fn session_cgroups(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = fs::read_dir(self.cgroup.join("custody/agents"))
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
        folders.retain(|folder| {
            let pids = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            let is_launcher = |pid: &str| {
                fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|name| name.trim() == "custody-launch")
            };
            !pids.lines().any(is_launcher)
        });
        folders
    }

    /// Kills the one process of a service; returns when there is another.
    pub(crate) fn kill_service(&self, name: &str, group: &str) {
        self.until("it runs", || self.pids(group, name).len() == 1);
        let before = self.pids(group, name);
        let [pid] = before.as_slice() else {
            panic!("{name}: {before:?}");
        };
        kill(Pid::from_raw(*pid), Signal::SIGKILL).unwrap();
        self.until("another one runs", || {
            let now = self.pids(group, name);
            now.len() == 1 && now != before
        });
    }

    pub(crate) fn daemon_pid(&self) -> Pid {
        let id = self.daemon.as_ref().unwrap().id();
        Pid::from_raw(i32::try_from(id).unwrap())
    }

    pub(crate) fn pins(&self) -> PathBuf {
        let name = self.cgroup.display().to_string().replace('/', "-");
        let top = Path::new("/sys/fs/bpf/custody");
        let found = fs::read_dir(top).unwrap().flatten().find(|entry| {
            let entry = entry.file_name().to_string_lossy().into_owned();
            entry
                .replace("_2d", "-")
                .replace("_5f", "_")
                .replace("_2e", ".")
                == name
        });
        found.map_or_else(|| top.join("none"), |entry| entry.path())
    }

    /// Ends custodyd by a signal and returns its exit code.
    pub(crate) fn end(&mut self, signal: Signal) -> Option<i32> {
        kill(self.daemon_pid(), signal).unwrap();
        let status = self.daemon.take().unwrap().wait().unwrap();
        status.code()
    }

    /// Whether no process has a uid of ours.
    pub(crate) fn uid_is_free(&self) -> bool {
        self.living().is_empty()
    }

    /// The processes that have a uid of ours, in words.
    pub(crate) fn living(&self) -> Vec<String> {
        let ours = |uid: u32| {
            (1_920_000_000..1_920_000_300).contains(&uid) || (64_201..=64_205).contains(&uid)
        };
        procfs::process::all_processes()
            .unwrap()
            .flatten()
            .filter_map(|process| process.status().ok())
            // pid 1 takes its time to reap those of a custodyd that was killed.
            .filter(|status| {
                ours(status.ruid) && !(status.ppid == 1 && status.state.starts_with('Z'))
            })
            .map(|s| {
                format!(
                    "{} {} uid {} of {} {}",
                    s.pid, s.name, s.ruid, s.ppid, s.state
                )
            })
            .collect()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
        let ours = self.cgroup.join("custody");
        cgroup::kill(&ours).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while !cgroup::is_empty(&ours).unwrap() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let pins = self.pins();
        cgroup::remove(&self.cgroup).unwrap();
        if pins.exists() {
            fs::remove_dir_all(pins).unwrap();
        }
    }
}

/// Where `cargo xtask build` puts the programs: beside the profile's folder.
fn programs() -> PathBuf {
    let profile = Path::new(CUSTODYD).parent().unwrap();
    profile.parent().unwrap().join("custody")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
