//! What stands around the attempts of one run: the witness, the stand-ins, secrets and places.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::Context as _;

use crate::{
    attempts::Arm,
    host::PLACE,
    probe::Effect,
    standin,
    witness::{
        effects::{Effects, NONCE},
        process::Running,
        record::Seen,
    },
};

/// The uid of the stand-ins, and of the probe in the reach arms: outside every range that custody
/// or others hand out (systemd's UIDS-GIDS document).
pub const SHARED_UID: u32 = 1_900_999_001;

/// The sockets of services that hold someone's authority, below a folder of the scene's as they
/// are below `/run` and `/tmp`.
const NAMED: [&str; 6] = [
    "dbus/system_bus_socket",
    "docker.sock",
    "gnupg/S.gpg-agent",
    "ssh-agent/agent.1000",
    "systemd/private",
    "tmux-1000/default",
];

/// What stands around the attempts of one run.
#[derive(Debug)]
pub struct Scene {
    /// Sockets of the stand-ins, for anyone, where system services have theirs.
    public: tempfile::TempDir,
    /// The programs, as they are installed.
    programs: PathBuf,
    /// The stand-ins' program where every user may execute it: a home is often its owner's alone.
    reachable: tempfile::TempDir,
    witness: Running,
    standin: Child,
    /// A deputy that works for the operator, in the shared workspace.
    neighbour: Option<Child>,
    setup: standin::Setup,
    /// Whether the folder of the sessions' listener was on the host before: custody-launch makes
    /// it where an isolating run leaves the host's root.
    listeners_were_there: bool,
    /// Where the witness listens.
    pub witness_address: SocketAddr,
    /// The recipient that the application trusts.
    pub recipient: String,
    /// What twins find.
    pub plant: String,
    /// The credential's file, as the service reads it.
    pub credential_file: PathBuf,
    /// A deputy's path.
    pub deputy_path: PathBuf,
    /// A deputy's abstract name.
    pub deputy_name: String,
    /// A datagram deputy's path.
    pub deputy_datagram: PathBuf,
    /// Under which name the kernel holds the stand-in's canary.
    pub held_name: String,
    /// Where the stand-in serves over IP.
    pub ports: standin::Ports,
    /// A token that is given to the agent on purpose.
    leaked: String,
    /// A token that the service makes for whoever asks with one of its own.
    pub made: String,
    /// What must never be read: canary and whose it is.
    canaries: Vec<(String, &'static str)>,
    /// Processes of the service that hold credentials, for the confined arm.
    pub service_pids: Vec<i32>,
    /// The installation, once there is one.
    installation: Installation,
}

/// Where the installation's things are.
#[derive(Clone, Debug, Default)]
pub struct Installation {
    /// The operators' socket.
    pub control: PathBuf,
    /// The operator's uid.
    pub operator: u32,
    /// A folder that sessions and programs outside share.
    pub workspace: PathBuf,
    /// The folder of its cgroups.
    pub cgroup: PathBuf,
    /// The folder of its pins.
    pub pins: PathBuf,
}

impl Scene {
    /// Starts the witness and the stand-in, from the programs in `programs`.
    ///
    /// # Errors
    /// When one of them does not come up.
    pub fn set(programs: &Path) -> anyhow::Result<Self> {
        let public = tempfile::Builder::new()
            .prefix("custody-bypass-")
            .tempdir_in("/run")
            .context("a folder for sockets in `/run`")?;
        fs::set_permissions(public.path(), fs::Permissions::from_mode(0o777))?;

        let vault = canary("vault")?;
        let held = canary("held")?;
        let client = canary("client")?;
        let made = format!("made{}", random()?);
        let leaked = format!("leaked{}", random()?);
        let tokens = [
            ("vault", vault.as_str()),
            ("client", &client),
            ("leaked", &leaked),
            ("made", &made),
        ];
        let witness = Running::start(programs, &tokens, "{}")?;
        let witness_address = witness.address();
        let credential_file = witness.token_file("vault");
        let path = |name: &str| public.path().join(name);
        let deputy_name = format!("custody-bypass-{}", random()?);
        for name in NAMED {
            let folder = path(name);
            let folder = folder.parent().unwrap_or(public.path());
            fs::create_dir_all(folder)?;
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
        }
        let held_name = format!("custody-bypass-{}", random()?);
        let setup = standin::Setup {
            witness: witness_address,
            token: client.clone(),
            canary: held.clone(),
            streams: [path("deputy.sock")]
                .into_iter()
                .chain(NAMED.map(path))
                .collect(),
            abstracts: vec![deputy_name.clone(), format!("{deputy_name}/.X11-unix/X0")],
            datagrams: vec![path("datagram.sock")],
            dispatchers: vec![path("dispatcher.sock")],
            permits: vec![path("permits.sock")],
            packets: vec![path("packets.sock")],
            givers: vec![path("giver.sock")],
            late: None,
            held: Some(held_name.clone()),
            signals: Some(path("signals")),
            network: true,
        };
        let reachable = reachable(programs)?;
        let (standin, ports) = start_standin(reachable.path(), &setup, SHARED_UID)?;
        let ports = ports.context("the stand-in's ports")?;
        Ok(Self {
            deputy_path: path("deputy.sock"),
            deputy_datagram: path("datagram.sock"),
            deputy_name,
            witness_address,
            recipient: "boss@example.org".into(),
            held_name,
            ports,
            plant: canary("twin")?,
            credential_file,
            leaked,
            made,
            canaries: vec![
                (vault, "the vault's credential"),
                (client, "the client's token"),
                (held, "the stand-in's canary"),
            ],
            service_pids: Vec::new(),
            installation: Installation::default(),
            public,
            programs: programs.into(),
            reachable,
            witness,
            standin,
            neighbour: None,
            setup,
            listeners_were_there: listeners().exists(),
        })
    }

    /// A program's path: inside a session the same, read-only.
    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// From now on programs are taken from `folder`: the installation's own.
    pub fn programs_are(&mut self, folder: PathBuf) {
        self.programs = folder;
    }

    /// From now on there is an installation. A deputy moves into its shared workspace.
    ///
    /// # Errors
    /// When the deputy cannot.
    pub fn installed(&mut self, installation: Installation) -> anyhow::Result<()> {
        let setup = standin::Setup {
            streams: Vec::new(),
            late: Some(standin::Late {
                door: installation.workspace.join("knock"),
                stream: installation.workspace.join("deputy.sock"),
                giver: installation.workspace.join("giver.sock"),
            }),
            abstracts: Vec::new(),
            datagrams: Vec::new(),
            dispatchers: Vec::new(),
            permits: Vec::new(),
            packets: Vec::new(),
            givers: Vec::new(),
            held: None,
            signals: None,
            network: false,
            ..self.setup.clone()
        };
        let (neighbour, _) = start_standin(self.reachable.path(), &setup, installation.operator)?;
        self.neighbour = Some(neighbour);
        self.installation = installation;
        Ok(())
    }

    /// The operators' socket.
    pub fn control_socket(&self) -> &Path {
        &self.installation.control
    }

    /// The operator's uid.
    pub const fn operator(&self) -> u32 {
        self.installation.operator
    }

    /// The folder that sessions and programs outside share.
    pub fn workspace(&self) -> &Path {
        &self.installation.workspace
    }

    /// The folder of the installation's cgroups.
    pub fn cgroup(&self) -> &Path {
        &self.installation.cgroup
    }

    /// The folder of the installation's pins.
    pub fn pins(&self) -> &Path {
        &self.installation.pins
    }

    /// How many requests the witness accepted and rejected.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub fn seen(&self) -> io::Result<(usize, usize)> {
        Ok((
            self.witness.accepted()?.len(),
            self.witness.rejected()?.len(),
        ))
    }

    /// The effect, with the token that is given to the agent on purpose.
    pub fn with_leaked_token(&self, effect: Effect) -> Effect {
        Effect {
            token: Some(self.leaked.clone()),
            ..effect
        }
    }

    /// The processes that hold a credential: the service's own; where layers are removed, a
    /// stand-in under the probe's uid.
    pub fn holders(&self, arm: Arm) -> Vec<i32> {
        match arm {
            Arm::Confined => [self.service_pids.as_slice(), &[self.standin_pid()]].concat(),
            Arm::Isolated | Arm::Reach | Arm::Twin => vec![self.standin_pid()],
        }
    }

    /// The processes that hold an authenticated connection.
    pub fn clients(&self, arm: Arm) -> Vec<i32> {
        self.holders(arm)
    }

    /// Where calls are sent: the session's socket, or a dispatcher without a registry.
    pub fn session_socket(&self, arm: Arm) -> PathBuf {
        match arm {
            Arm::Confined | Arm::Isolated | Arm::Twin => custody_wire::launch::LISTENER.into(),
            Arm::Reach => self.public.path().join("dispatcher.sock"),
        }
    }

    /// Where permits are sent: the session's socket, or a vault that takes anyone's.
    pub fn permit_socket(&self, arm: Arm) -> PathBuf {
        match arm {
            Arm::Confined | Arm::Isolated | Arm::Twin => custody_wire::launch::LISTENER.into(),
            Arm::Reach => self.public.path().join("permits.sock"),
        }
    }

    /// A path in the folder with the sockets of the stand-ins.
    pub fn public(&self, name: &str) -> PathBuf {
        self.public.path().join(name)
    }

    /// The same attack after a knock: what listens in the shared workspace does so only then.
    pub fn knocking(&self, then: crate::probe::Attack) -> crate::probe::Attack {
        crate::probe::Attack::Knock {
            door: self.workspace().join("knock"),
            opens: self.workspace().join("deputy.sock"),
            then: Box::new(then),
        }
    }

    /// A folder with the canary in a file `carried`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn carried_folder(&self) -> io::Result<PathBuf> {
        let folder = self.public("folder");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("carried"), self.carried())?;
        Ok(folder)
    }

    /// The signals that the stand-in was sent since it was last asked.
    ///
    /// # Errors
    /// When its record cannot be read.
    pub fn signals(&self) -> io::Result<String> {
        let record = self.public("signals");
        match fs::read_to_string(&record) {
            Ok(text) => {
                fs::remove_file(record)?;
                Ok(text)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error),
        }
    }

    /// The stand-in's process.
    pub fn outsider(&self) -> i32 {
        self.standin_pid()
    }

    /// What a caller carries in its environment or in a file: the stand-in's canary.
    pub fn carried(&self) -> &str {
        self.canaries
            .iter()
            .find(|(_, whose)| *whose == "the stand-in's canary")
            .map_or("", |(canary, _)| canary)
    }

    /// The effects with `nonce` that the witness saw.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn effects(&self, nonce: &str) -> io::Result<Vec<Seen>> {
        self.witness.effects(nonce)
    }

    /// All effects that the witness saw up to now.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn all_effects(&self) -> io::Result<Effects> {
        self.witness.all_effects()
    }

    /// Whose canary stands in `bytes`.
    pub fn canary_in(&self, bytes: &[u8]) -> Option<&'static str> {
        self.canaries
            .iter()
            .find(|(canary, _)| {
                bytes
                    .windows(canary.len())
                    .any(|window| window == canary.as_bytes())
            })
            .map(|(_, whose)| *whose)
    }

    /// Whether witness and stand-ins have nothing to do.
    pub fn is_at_rest(&self) -> bool {
        let neighbour = self.neighbour.as_ref().map(Child::id);
        [self.witness.pid(), self.standin.id()]
            .into_iter()
            .chain(neighbour)
            .all(is_asleep)
    }

    fn standin_pid(&self) -> i32 {
        i32::try_from(self.standin.id()).unwrap_or(0)
    }
}

/// Whether every thread of a process waits for something: state `S` (proc_pid_stat(5)). One that is
/// gone does nothing any more.
fn is_asleep(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default();
        state.is_empty() || state.starts_with('S')
    })
}

/// The folder of the sessions' listener.
fn listeners() -> &'static Path {
    let listener = Path::new(custody_wire::launch::LISTENER);
    listener.parent().unwrap_or(listener)
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !self.listeners_were_there {
            // It stays where someone else uses it by now (rmdir(2), ENOTEMPTY).
            drop(fs::remove_dir(listeners()));
        }
        // Gone already is as good.
        for child in [Some(&mut self.standin), self.neighbour.as_mut()]
            .into_iter()
            .flatten()
        {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// A nonce for one arm of one row.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn nonce() -> io::Result<String> {
    Ok(format!("{NONCE}{}", random()?))
}

/// A canary: the marker that the probe looks for, whose it is, and what nobody can guess.
fn canary(whose: &str) -> io::Result<String> {
    Ok(format!("CUSTODYCANARY{whose}{}", random()?))
}

/// 128 random bits, hexadecimal.
pub(crate) fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The stand-ins' program.
const STANDIN: &str = "custody-standin";

/// A folder with the stand-ins' program, for every user.
fn reachable(programs: &Path) -> anyhow::Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("custody-bypass-")
        .tempdir_in(PLACE)
        .with_context(|| format!("a folder in `{PLACE}`"))?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    fs::copy(programs.join(STANDIN), folder.path().join(STANDIN)).context(STANDIN)?;
    Ok(folder)
}

/// Starts a stand-in, with its canary in the environment too.
fn start_standin(
    folder: &Path,
    setup: &standin::Setup,
    uid: u32,
) -> anyhow::Result<(Child, Option<standin::Ports>)> {
    let mut child = Command::new(folder.join(STANDIN))
        .env_clear()
        .env("HELD", &setup.canary)
        .uid(uid)
        .gid(uid)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("start custody-standin")?;
    let mut line = serde_json::to_vec(setup)?;
    line.push(b'\n');
    child
        .stdin
        .as_mut()
        .context("the stand-in's input")?
        .write_all(&line)?;
    let mut ready = String::new();
    BufReader::new(child.stdout.as_mut().context("the stand-in's output")?)
        .read_line(&mut ready)?;
    let ports = serde_json::from_str(&ready).context("the stand-in does not come up")?;
    Ok((child, ports))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_is_not_asleep_and_one_that_waits_is() {
        let start = |script| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]).stdin(Stdio::piped());
            command.spawn().unwrap()
        };
        let (mut works, mut waits) = (start("while :; do :; done"), start("read -r line"));
        let seen = |child: &Child| {
            (0..200).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                is_asleep(child.id())
            })
        };
        assert!((0..10_000).any(|_| !is_asleep(works.id())), "it begins");
        assert!((0..50).all(|_| !is_asleep(works.id())), "it goes on");
        assert!(seen(&waits));
        for child in [&mut works, &mut waits] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(is_asleep(works.id()), "it is gone");
    }
}
