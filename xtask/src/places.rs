//! Where things are, and how a command becomes root.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use cargo_metadata::MetadataCommand;

use crate::stage;

const ROOT: &str = "CUSTODY_XTASK_ROOT";
const TARGET: &str = "CUSTODY_XTASK_TARGET";

/// Where things are. The target folder is the one that cargo uses (`CARGO_TARGET_DIR` counts).
#[derive(Debug)]
pub(crate) struct Places {
    /// The checkout.
    pub(crate) root: PathBuf,
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
}

impl Places {
    /// Asks cargo, unless we were started as root by ourselves: root may have no cargo.
    pub(crate) fn find() -> Result<Self> {
        if let (Some(root), Some(target)) = (std::env::var_os(ROOT), std::env::var_os(TARGET)) {
            return Ok(Self {
                root: root.into(),
                target: target.into(),
            });
        }
        let metadata = MetadataCommand::new()
            .no_deps()
            .exec()
            .context("cannot ask cargo where the workspace is")?;
        Ok(Self {
            root: metadata.workspace_root.into(),
            target: metadata.target_directory.into(),
        })
    }

    /// For env(1): what [`Places::find`] reads.
    pub(crate) fn variables(&self) -> [String; 2] {
        [
            format!("{ROOT}={}", self.root.display()),
            format!("{TARGET}={}", self.target.display()),
        ]
    }

    /// Tools that setup builds: `<target>/tools/bin`.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// The eBPF object.
    pub(crate) fn ebpf_object(&self) -> PathBuf {
        self.target.join("ebpf/custody.bpf.o")
    }

    /// The folder with all programs, as they are installed.
    pub(crate) fn programs(&self) -> PathBuf {
        self.target.join("custody")
    }

    /// This program again as root, with `arguments`: root may have no cargo to ask where things are.
    pub(crate) fn again_as_root<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Command> {
        let mut command = as_root("env");
        command
            .args(self.variables())
            .arg(own_program()?)
            .args(arguments);
        Ok(command)
    }

    /// Every file that git knows or would add, relative to the checkout; some may be deleted and
    /// not yet committed.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let mut git = Command::new("git");
        git.arg("-C").arg(&self.root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let listed = stage::output(&mut git)?;
        let names = listed.split('\0').filter(|name| !name.is_empty());
        Ok(names.map(str::to_owned).collect())
    }

    /// `cargo`, in the checkout, with this target folder.
    pub(crate) fn cargo(&self) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target);
        command
    }
}

/// Our own program, to be started again. `test` builds it anew while it runs: then the kernel calls
/// the file that runs deleted (proc_pid_exe(5)), and the new one is at the same place.
pub(crate) fn own_program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find our own program")?;
    let rebuilt = own
        .to_str()
        .and_then(|path| path.strip_suffix(" (deleted)"))
        .map(PathBuf::from)
        .filter(|path| is_executable(path));
    Ok(rebuilt.unwrap_or(own))
}

/// Whether we are root.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// `program` as root: by itself if we are root already, otherwise through sudo(8), which gives root
/// another PATH and home. What asks cargo there must find the caller's.
pub(crate) fn as_root(program: impl AsRef<OsStr>) -> Command {
    if is_root() {
        Command::new(program)
    } else {
        let mut command = Command::new("sudo");
        command.args(["--", "env"]).args(toolchain()).arg(program);
        command
    }
}

/// For env(1): where the caller's cargo is and where it keeps things.
fn toolchain() -> Vec<OsString> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let places = [
        ("CARGO", None),
        ("CARGO_HOME", Some(".cargo")),
        ("PATH", None),
        ("RUSTUP_HOME", Some(".rustup")),
    ];
    places
        .into_iter()
        .filter_map(|(name, default)| {
            let value = std::env::var_os(name).or_else(|| {
                let folder = home.as_ref()?.join(default?);
                folder.is_dir().then(|| folder.into_os_string())
            })?;
            let mut word = OsString::from(name);
            word.push("=");
            word.push(value);
            Some(word)
        })
        .collect()
}

/// The program called `name` on `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|candidate| is_executable(candidate))
}

/// Whether `path` is a file that someone may execute.
pub(crate) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
