//! The programs, loaded and attached once for all tests: in an emulated machine the verifier takes
//! longer than any test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use custody_supervisor::hooks::{Hooks, Pins};
use custody_sys::cgroup::{self, Cgroup};
use custody_wire::layer::Status;

/// Of this name, and a number, are cgroups, pins and files of this run.
fn name() -> String {
    format!("custody-lsm-{}", std::process::id())
}

/// Where the kernel has cgroup2.
pub(crate) fn root() -> Option<&'static str> {
    ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .find(|root| Cgroup::open(root.as_ref()).is_ok())
}

/// Loaded programs for one agents' folder.
pub(crate) struct Programs {
    pub(crate) hooks: Hooks,
    pub(crate) agents: Cgroup,
    pub(crate) pins: Pins,
    /// With what no session may touch: `state`, `credential`.
    pub(crate) folder: PathBuf,
}

impl Programs {
    /// Loads them; none, with the reason on standard output, where LSM programs cannot be had.
    pub(crate) fn load(label: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return None;
        }
        if Hooks::object().is_none() {
            println!("not attempted: needs the eBPF object (`cargo xtask build-ebpf`)");
            return None;
        }
        let Some(root) = root() else {
            println!("not attempted: needs cgroup2");
            return None;
        };
        let name = format!("{}-{label}", name());
        let path = Path::new(root).join(&name);
        let agents = Cgroup::create(&path).unwrap();
        let pins = Pins::open(&path).unwrap();
        let hooks = Hooks::load(&agents).unwrap();
        // Before anything is attached: what the kernel said at the load.
        if let Status::None { step, errno } = hooks.lsm_status(&pins)
            && errno != 0
        {
            println!(
                "not attempted: needs a kernel that takes LSM programs ({step}: {})",
                std::io::Error::from_raw_os_error(errno)
            );
            pins.remove().unwrap();
            cgroup::remove(&path).unwrap();
            return None;
        }
        let folder = Path::new("/var/tmp").join(name);
        fs::create_dir_all(folder.join("state")).unwrap();
        fs::write(folder.join("credential"), "obvious fake").unwrap();
        Some(Self {
            hooks,
            agents,
            pins,
            folder,
        })
    }

    /// Attaches them.
    pub(crate) fn attach(&mut self) {
        let objects = self.objects();
        self.hooks.attach_lsm(&objects, &self.pins).unwrap();
        assert_eq!(self.status(), Status::Full, "attached, and not full");
    }

    fn objects(&self) -> [PathBuf; 2] {
        ["state", "credential"].map(|name| self.folder.join(name))
    }

    /// Looks up anew what no session may touch.
    pub(crate) fn protect_again(&mut self) {
        let objects = self.objects();
        self.hooks.protect_again(&objects).unwrap();
    }

    /// What the layer says of itself.
    pub(crate) fn status(&self) -> Status {
        self.hooks.lsm_status(&self.pins)
    }

    /// Files as at the start: what is protected is the same inodes, with one file deep within.
    pub(crate) fn tidy_files(&self) {
        let emptied = |folder: &Path, but: &[&str]| {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if but.iter().any(|name| path.ends_with(name)) {
                } else if entry.file_type().unwrap().is_dir() {
                    fs::remove_dir_all(path).unwrap();
                } else {
                    fs::remove_file(path).unwrap();
                }
            }
        };
        emptied(&self.folder, &["state", "credential"]);
        emptied(&self.folder.join("state"), &[]);
        fs::create_dir_all(self.folder.join("state/deep/deeper")).unwrap();
        fs::write(self.folder.join("state/deep/deeper/file"), "obvious fake").unwrap();
    }
}

/// Those of all tests; the next test waits until this one is done.
pub(crate) fn shared() -> Option<MutexGuard<'static, Programs>> {
    static SHARED: OnceLock<Option<Mutex<Programs>>> = OnceLock::new();
    let made = SHARED.get_or_init(|| {
        let mut programs = Programs::load("all")?;
        programs.attach();
        sweep_at_the_end();
        Some(Mutex::new(programs))
    });
    // A test that failed left nothing half done that the next one does not make anew.
    made.as_ref()
        .map(|made| made.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Nothing is dropped when a test program ends. A shell waits for that, by the end of its standard
/// input, and removes what this run made: with their pins the programs go.
fn sweep_at_the_end() {
    const SWEEP: &str = r#"cat
rm -rf /sys/fs/bpf/custody/*"$2"_2d* /var/tmp/"$1"-*
for folder in "$3/$1"-*; do
    echo 1 > "$folder/cgroup.kill"
    find "$folder" -depth -type d -exec rmdir {} +
done"#;
    // As `Pins` calls them: a hyphen is no hyphen there.
    let pins = name().replace('-', "_2d");
    static SHELL: OnceLock<Child> = OnceLock::new();
    let shell = Command::new("/bin/sh")
        .args(["-c", SWEEP, "sweep", &name(), &pins, root().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // With the other end of its standard input, as long as this process lives.
    SHELL.set(shell).unwrap();
}
