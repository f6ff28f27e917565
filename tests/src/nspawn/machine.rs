//! One machine: files laid over the shared root, booted once, its results read, gone afterwards.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use custody_sys::cgroup::{self, Cgroup};

/// Run by sh(1) in a mount namespace of its own: joins the cgroup, lays the machine's files over
/// the root, what changes in memory, and becomes systemd-nspawn.
const BOOT: &str = r#"set -eu
cgroup=$1 rootfs=$2 name=$3
echo 0 >"$cgroup/cgroup.procs"
mount -t tmpfs -o mode=0755 tmpfs changes
mkdir changes/upper changes/work
mount -t overlay overlay -o "lowerdir=files:../$rootfs,upperdir=changes/upper,workdir=changes/work" root
exec systemd-nspawn --quiet --directory=root --boot --machine="$name" --console=pipe \
    --register=no --keep-unit --private-network \
    --capability=all --system-call-filter=@known \
    --tmpfs=/sys/fs/bpf:mode=0700 --tmpfs=/var/tmp:mode=1777 --bind="$PWD/result:/result"
"#;

/// A machine that was not booted yet, or has ended.
///
/// What `systemd-nspawn` would take from it is given back, so that what is refused inside is
/// refused by what is tested: every capability, and every system call. By its own list
/// landlock_*(2) and bpf(2) fail with EPERM and custodyd does not start; memfd_secret(2) and
/// pidfd_getfd(2) fail, and with them the vault's memory is the second best and an attempt has no
/// reach arm. Without bpf(2) systemd's own IPAddressDeny= lets everything through and says nothing.
///
/// `/sys` is read-only in it, hence the place for a bpf file system. Its root is an overlay, which
/// cannot be id-mapped (mount_setattr(2)); `/var/tmp` can, and workspaces lie there.
#[derive(Debug)]
pub struct Machine {
    name: String,
    folder: tempfile::TempDir,
    cgroup: Cgroup,
}

/// What one step inside left.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Step {
    /// Its exit status.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Machine {
    /// An empty one, in the folder `guest`.
    ///
    /// # Errors
    /// When its folder or its cgroup cannot be made.
    pub fn new(guest: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("machine-")
            .tempdir_in(guest)
            .with_context(|| format!("`{}`", guest.display()))?;
        let name = format!("custody-machine-{}", std::process::id());
        let path = cgroup2()?.join(&name);
        let machine = Self {
            cgroup: Cgroup::create(&path).with_context(|| format!("`{}`", path.display()))?,
            folder,
            name,
        };
        for part in ["changes", "files", "result", "root"] {
            fs::create_dir(machine.at(part)).context(part)?;
        }
        Ok(machine)
    }

    /// Puts a file of root's into it, with the folders above it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &str, mode: u32, text: &str) -> anyhow::Result<()> {
        let target = self.file(path)?;
        let written = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&target)
            .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
        written.with_context(|| format!("`{}`", target.display()))
    }

    /// Puts the files of the folder `from` into its folder `to`: a link where that is possible, for
    /// programs are large.
    ///
    /// # Errors
    /// When one cannot be put there.
    pub fn install(&self, from: &Path, to: &str) -> anyhow::Result<()> {
        for entry in fs::read_dir(from).with_context(|| format!("`{}`", from.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = entry.file_name();
                let target = self.file(&format!("{to}/{}", name.to_string_lossy()))?;
                // Another file system (link(2), EXDEV), or a protected file.
                fs::hard_link(entry.path(), &target)
                    .or_else(|_| fs::copy(entry.path(), &target).map(drop))
                    .with_context(|| format!("`{}`", target.display()))?;
            }
        }
        Ok(())
    }

    /// Makes systemd start `unit` with `target`, as `systemctl enable` does.
    ///
    /// # Errors
    /// When the link cannot be made.
    pub fn enable(&self, unit: &str, target: &str) -> anyhow::Result<()> {
        let link = self.file(&format!("/etc/systemd/system/{target}.wants/{unit}"))?;
        std::os::unix::fs::symlink(format!("/etc/systemd/system/{unit}"), &link)
            .with_context(|| format!("`{}`", link.display()))
    }

    /// Boots it on `root`, a folder beside it, and waits until it ends. Its status is what the unit
    /// with `SuccessAction=exit` or `FailureAction=exit` ended with.
    ///
    /// # Errors
    /// When it cannot be started, or does not end in `limit`; what it said is in the error.
    pub fn boot(&self, root: &Path, limit: Duration) -> anyhow::Result<ExitStatus> {
        let rootfs = root.file_name().context("the root's name")?;
        let console = fs::File::create(self.at("console")).context("console")?;
        let child = Command::new("unshare")
            .args(["--mount", "/bin/sh", "-c", BOOT, "boot"])
            .arg(self.cgroup.path())
            .arg(rootfs)
            .arg(&self.name)
            .current_dir(self.folder.path())
            // Its own cgroup2 alone, as on every host that systemd runs today.
            .env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1")
            .stdin(Stdio::null())
            .stdout(console.try_clone()?)
            .stderr(console)
            .spawn()
            .context("unshare(1)")?;
        self.wait(child, limit)
    }

    fn wait(&self, mut child: Child, limit: Duration) -> anyhow::Result<ExitStatus> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(50));
        }
        self.cgroup.kill()?;
        // It may not have come as far as the cgroup.
        child.kill()?;
        child.wait()?;
        bail!("it did not end in {} s: {}", limit.as_secs(), self.said())
    }

    /// What its steps left, by their names: each `NAME.rc`, `NAME.out` and `NAME.err` in `/result`.
    ///
    /// # Errors
    /// When a file cannot be read or an exit status is none.
    pub fn steps(&self) -> anyhow::Result<BTreeMap<String, Step>> {
        let mut steps = BTreeMap::new();
        for entry in fs::read_dir(self.at("result"))? {
            let path = entry?.path();
            let Some(name) = path
                .extension()
                .filter(|ending| *ending == "rc")
                .and(path.file_stem())
            else {
                continue;
            };
            let read = |ending: &str| -> io::Result<String> {
                let bytes = fs::read(path.with_extension(ending))?;
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            };
            let step = Step {
                code: read("rc")?.trim().parse().context("an exit status")?,
                out: read("out")?,
                err: read("err")?,
            };
            steps.insert(name.to_string_lossy().into_owned(), step);
        }
        Ok(steps)
    }

    /// A file that it left in `/result`.
    pub fn result(&self, name: &str) -> PathBuf {
        self.at("result").join(name)
    }

    /// The end of what its steps and its console said.
    pub fn said(&self) -> String {
        let tail = |path: PathBuf| {
            let bytes = fs::read(path).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let lines: Vec<&str> = text.lines().collect();
            let first = lines.len().saturating_sub(20);
            lines.get(first..).unwrap_or_default().join("\n")
        };
        format!(
            "steps: {}\nconsole: {}",
            tail(self.result("steps.log")),
            tail(self.at("console"))
        )
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the file at `path` is laid, its folders made.
    fn file(&self, path: &str) -> anyhow::Result<PathBuf> {
        let files = self.at("files");
        let target = files.join(path.trim_start_matches('/'));
        ensure!(target.starts_with(&files), "`{path}` leaves the machine");
        let mut folder = files;
        for part in Path::new(path.trim_start_matches('/'))
            .parent()
            .into_iter()
            .flat_map(Path::components)
        {
            folder.push(part);
            match fs::create_dir(&folder) {
                // Whatever umask(2) the test has: systemd must be able to read below it.
                Ok(()) => fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).context(folder.display().to_string()),
            }
        }
        Ok(target)
    }

    /// Kills what runs and removes its cgroup, here and where nspawn mirrors it.
    fn clean(&self) -> io::Result<()> {
        self.cgroup.kill()?;
        let end = Instant::now() + Duration::from_secs(10);
        while !self.cgroup.is_empty()? && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        cgroup::remove(self.cgroup.path())?;
        // On a host with version 1 beside version 2, the same name in the `systemd` hierarchy.
        cgroup::remove(&Path::new("/sys/fs/cgroup/systemd").join(&self.name))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Err(error) = self.clean() {
            let said = format!("left behind: machine {}: {error}\n", self.name);
            // There is nobody left to tell when standard error is gone.
            drop(io::Write::write_all(&mut io::stderr(), said.as_bytes()));
        }
    }
}

/// Where cgroup2 is mounted.
fn cgroup2() -> anyhow::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    mounts
        .lines()
        .find_map(|line| {
            let mut fields = line.split(' ');
            let place = fields.nth(1)?;
            (fields.next()? == "cgroup2").then(|| place.into())
        })
        .context("no cgroup2 is mounted")
}
