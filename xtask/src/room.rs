//! A place of one demo's or benchmark's own: files, user ids, a cgroup. Nothing of a real installation is
//! touched, and nothing is left.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    io::Read as _,
    net::SocketAddr,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    places::{self, Places},
    say, setup, stage,
};

pub(crate) mod daemon;
pub(crate) mod service;

/// Above every range that others hand out, and above custodyd's defaults.
const FIRST_UID: u32 = 1_910_000_000;

/// How many uids one demo reserves.
const UIDS: u32 = 1_000;

/// Where the demo's policy names the service.
const SERVICE: &str = "127.0.0.1:18080";

/// Sticky and root's: others cannot replace what root puts there (inode(7)). Unlike `/tmp` it is
/// not shown as a session's own.
const PARENT: &str = "/var/tmp";

/// Everything that the demo puts on the host.
pub(crate) struct Room {
    folder: PathBuf,
    /// Where the logs are kept when the room is gone.
    logs: PathBuf,
    cgroup: PathBuf,
    first_uid: u32,
}

/// Who runs what; each has its own uid, and a gid of the same number.
#[derive(Clone, Copy)]
pub(crate) enum User {
    Control = 301,
    Gate = 302,
    Vault = 303,
    Resolver = 304,
    Operator = 305,
    Service = 306,
}

impl Room {
    /// Makes the place, with a credential of random bytes, and the demo's agent in it.
    pub(crate) fn make(places: &Places) -> Result<Self> {
        let room = Self::without_agent(places)?;
        copy(
            &setup::python::environment(places),
            &room.agent().join("venv"),
        )?;
        copy(
            &places.root.join("fixtures/demo/agent.py"),
            &room.agent().join("agent.py"),
        )?;
        Ok(room)
    }

    /// The same without the agent, whose Python is no stock kernel's guest's.
    pub(crate) fn without_agent(places: &Places) -> Result<Self> {
        let pid = std::process::id();
        let room = Self {
            folder: Path::new(PARENT).join(format!("custody-demo-{pid}")),
            cgroup: cgroup2()?.join(format!("custody-demo-{pid}")),
            logs: places.target.join("demo/logs"),
            first_uid: FIRST_UID + pid % 10_000 * UIDS,
        };
        fs::create_dir(&room.folder)
            .with_context(|| format!("cannot make `{}`", room.folder.display()))?;
        fs::create_dir(&room.cgroup)
            .with_context(|| format!("cannot make `{}`", room.cgroup.display()))?;
        open_to_all(&room.folder)?;
        for name in ["agent", "logs", "policies", "run", "service", "state"] {
            fs::create_dir(room.folder.join(name))
                .with_context(|| format!("cannot make `{name}`"))?;
            open_to_all(&room.folder.join(name))?;
        }
        copy(&places.programs(), &room.programs())?;
        room.write("custodyd.toml", 0o644, &room.configuration())?;
        room.write("credential", 0o600, &token()?)?;
        Ok(room)
    }

    pub(crate) fn programs(&self) -> PathBuf {
        self.folder.join("programs")
    }

    pub(crate) fn agent(&self) -> PathBuf {
        self.folder.join("agent")
    }

    pub(crate) fn configuration_file(&self) -> PathBuf {
        self.folder.join("custodyd.toml")
    }

    pub(crate) fn credential(&self) -> PathBuf {
        self.folder.join("credential")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    pub(crate) fn control_socket(&self) -> PathBuf {
        self.folder.join("run/control.sock")
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.folder.join("logs").join(name)
    }

    pub(crate) const fn uid(&self, user: User) -> u32 {
        self.first_uid + user as u32
    }

    /// What all processes in the demo's cgroups had of the processors so far (cpu.stat, cgroups(7)).
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        let path = self.cgroup.join("cpu.stat");
        let stat = fs::read_to_string(&path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        let used = stat
            .lines()
            .find_map(|line| line.strip_prefix("usage_usec "))
            .context("cpu.stat has no usage_usec")?;
        let micros = used.trim().parse().context("usage_usec")?;
        Ok(Duration::from_micros(micros))
    }

    /// Every process in the demo's cgroups.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut found = Vec::new();
        let mut folders = vec![self.cgroup.clone()];
        while let Some(folder) = folders.pop() {
            // A cgroup may end while we look.
            let procs = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            found.extend(procs.lines().filter_map(|pid| pid.parse::<u32>().ok()));
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            folders.extend(
                entries
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path()),
            );
        }
        found
    }

    /// A folder that only `user` may look into.
    pub(crate) fn private(&self, name: &str, user: User) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        let uid = self.uid(user);
        chown(&folder, Some(uid), Some(uid)).context("chown")?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).context("chmod")?;
        Ok(folder)
    }

    /// The demo's policy, for this service and with the agent's own install shown.
    pub(crate) fn write_policy(&self, places: &Places, service: SocketAddr) -> Result<()> {
        self.write_policy_of(places, service, "standard")
    }

    /// The same with a tool more: `[tools.NAME]` and what is below, `SERVICE` for the service's address.
    pub(crate) fn write_policy_with(
        &self,
        places: &Places,
        service: SocketAddr,
        tool: &str,
    ) -> Result<()> {
        self.write_policy(places, service)?;
        let path = self.folder.join("policies/demo.toml");
        let policy = fs::read_to_string(&path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        let more = tool.replace("SERVICE", &service.to_string());
        self.write("policies/demo.toml", 0o644, &format!("{policy}{more}"))
    }

    /// The same with sessions of another profile.
    pub(crate) fn write_policy_of(
        &self,
        places: &Places,
        service: SocketAddr,
        profile: &str,
    ) -> Result<()> {
        const PROFILE: &str = "profile = \"standard\"\n";
        let path = places.root.join("fixtures/policies/demo.toml");
        let policy = fs::read_to_string(&path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        let mounts = format!(
            "[session]\nmounts = {{ read_only = [{:?}] }}\n",
            self.agent()
        );
        let placed =
            policy
                .replace(SERVICE, &service.to_string())
                .replacen("[session]\n", &mounts, 1);
        if placed == policy || !placed.contains(PROFILE) {
            bail!(
                "`{}` names no service on {SERVICE}, or has no `[session]` with {PROFILE}",
                path.display()
            );
        }
        let placed = placed.replacen(PROFILE, &format!("profile = {profile:?}\n"), 1);
        self.write("policies/demo.toml", 0o644, &placed)
    }

    /// custodyd's own file: other places, other users, and one operator without privileges.
    fn configuration(&self) -> String {
        let at = |name: &str| self.folder.join(name);
        format!(
            "format = 1\n\n\
             [paths]\ncgroup = {:?}\npolicies = {:?}\nprograms = {:?}\nruntime = {:?}\nstate = {:?}\n\n\
             [users]\ncontrol = \"{}\"\ngate = \"{}\"\nresolver = \"{}\"\nvault = \"{}\"\n\n\
             [uids]\nagents = {{ first = {}, count = 50 }}\n\
             fronts = {{ first = {}, count = 50 }}\nworkers = {{ first = {}, count = 50 }}\n\n\
             [credentials]\ndemo = {{ file = {:?} }}\n\n\
             [[access]]\nuids = [{}]\npolicies = [\"demo\"]\nvalues = [\"customer\"]\nowned = [\"notes\", \"pages\"]\n",
            self.cgroup,
            at("policies"),
            self.programs(),
            at("run"),
            self.state(),
            self.uid(User::Control),
            self.uid(User::Gate),
            self.uid(User::Resolver),
            self.uid(User::Vault),
            self.first_uid,
            self.first_uid + 100,
            self.first_uid + 200,
            self.credential(),
            self.uid(User::Operator),
        )
    }

    /// Shows a file to agents, beside the demo's own.
    pub(crate) fn show(&self, name: &str, file: &Path) -> Result<()> {
        copy(file, &self.agent().join(name))
    }

    /// Shows our own program to agents: parts of it run inside.
    pub(crate) fn show_own_program(&self) -> Result<()> {
        let own = places::own_program()?;
        self.show("xtask", &own)
    }

    /// Where [`Room::show_own_program`] shows it.
    pub(crate) fn own_program(&self) -> PathBuf {
        self.agent().join("xtask")
    }

    /// A folder that everyone may look into.
    pub(crate) fn open_folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir(&folder).with_context(|| format!("cannot make `{name}`"))?;
        open_to_all(&folder)?;
        Ok(folder)
    }

    /// Gives a folder and all in it to the operator.
    pub(crate) fn give_to_operator(&self, folder: &Path) -> Result<()> {
        let uid = self.uid(User::Operator);
        chown(folder, Some(uid), Some(uid)).context("chown")?;
        for entry in fs::read_dir(folder).context("the operator's folder")? {
            let path = entry.context("the operator's folder")?.path();
            if path.is_dir() {
                self.give_to_operator(&path)?;
            } else {
                chown(&path, Some(uid), Some(uid)).context("chown")?;
            }
        }
        Ok(())
    }

    /// A command of `user`'s own, beginning in `home`: nobody's privileges, nobody's environment.
    pub(crate) fn command_of(&self, user: User, home: &Path, argv: &[OsString]) -> Command {
        let uid = self.uid(user);
        let mut words = argv.iter();
        let mut command = Command::new(words.next().map_or(OsStr::new("/bin/true"), |it| it));
        command
            .args(words)
            .env_clear()
            .env("HOME", home)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir(home)
            .uid(uid)
            .gid(uid);
        command
    }

    /// The operator's home.
    pub(crate) fn home(&self) -> Result<PathBuf> {
        self.open_folder("home")?;
        self.private("home", User::Operator)
    }

    fn write(&self, name: &str, mode: u32, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        let done = fs::write(&path, "")
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            .and_then(|()| fs::write(&path, text));
        done.with_context(|| format!("cannot write `{}`", path.display()))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        for error in [
            keep(&self.folder.join("logs"), &self.logs),
            end_cgroup(&self.cgroup),
            remove(&pins(&self.cgroup)),
            remove(&self.folder),
        ]
        .into_iter()
        .filter_map(Result::err)
        {
            say::error(format_args!("left behind: {error:#}"));
        }
    }
}

/// Removes what a run of the bypass suite left that was ended from outside: installations that
/// are named after a process which is gone.
pub(crate) fn sweep() -> Result<()> {
    let root = cgroup2()?;
    let entries = fs::read_dir(&root).with_context(|| format!("`{}`", root.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix("custody-test-")
            .and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            end_cgroup(&entry.path())?;
            remove(&pins(&entry.path()))?;
            remove(&Path::new(PARENT).join(&name))?;
        }
    }
    Ok(())
}

/// The logs outlive the room: they say why it did not work. No secret is in them.
fn keep(from: &Path, to: &Path) -> Result<()> {
    remove(to)?;
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("`{}`", folder.display()))?;
    }
    copy(from, to)
}

/// Ends every process below `cgroup` and removes it (cgroups(7), `cgroup.kill`).
fn end_cgroup(cgroup: &Path) -> Result<()> {
    let kill = cgroup.join("cgroup.kill");
    fs::write(&kill, "1").with_context(|| format!("`{}`", kill.display()))?;
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let removed = remove_cgroups(cgroup);
        match removed {
            Ok(()) => return Ok(()),
            // Its processes are still on their way out.
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(error).with_context(|| format!("`{}`", cgroup.display())),
        }
    }
}

fn remove_cgroups(cgroup: &Path) -> io::Result<()> {
    for entry in fs::read_dir(cgroup)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_cgroups(&entry.path())?;
        }
    }
    fs::remove_dir(cgroup)
}

/// Where custodyd pins the hooks of the installation below `cgroup`.
fn pins(cgroup: &Path) -> PathBuf {
    let mut name = String::new();
    for character in cgroup.to_string_lossy().chars() {
        match character {
            '/' => name.push('-'),
            'a'..='z' | 'A'..='Z' | '0'..='9' => name.push(character),
            other => name.push_str(&format!("_{:02x}", u32::from(other))),
        }
    }
    Path::new("/sys/fs/bpf/custody").join(name)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("`{}`", path.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn cgroup2() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read the mounts")?;
    mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .find_map(|fields| match fields.as_slice() {
            [_, place, "cgroup2", ..] => Some(PathBuf::from(place)),
            _ => None,
        })
        .context("no cgroup2 is mounted")
}

fn open_to_all(folder: &Path) -> Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("chmod of `{}`", folder.display()))
}

/// A tree at another place: links where that is on the same file system, otherwise a copy. The
/// programs are root's already; nobody writes into them, a new build makes new files.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let cp = |how: &str| {
        let mut cp = Command::new("cp");
        cp.args(["-r", "--no-dereference", "--preserve=mode,links", how])
            .args([from, to]);
        cp
    };
    if stage::output(&mut cp("--link")).is_ok() {
        return Ok(());
    }
    if to.is_dir() {
        remove(to)?; // what was linked before it failed
    }
    stage::must(&mut cp("--reflink=auto"))
}

/// A token that nobody has seen before: what a canary has to be.
pub(crate) fn token() -> Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("cannot draw a token")?;
    Ok(format!("fake-token-for-demo-{}", hex::encode(bytes)))
}
