//! custodyd's hooks on a cgroup of the suite's own, a layer at a time.
//!
//! custodyd attaches its programs to the folder of all sessions and pins the links. The very same
//! loaded programs are attached here to the cgroup of one isolating run: those of the layers that
//! it keeps, and no others.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
};

use anyhow::{Context as _, bail, ensure};
use custody_sys::{bpf::pinned::Pinned, cgroup::Cgroup};
use custody_wire::layer::Layer;

/// How custodyd names the pins of the sessions' hooks: the group, then the hook.
const OF_SESSIONS: &str = "agents_";

/// The hooks of custodyd's sessions.
#[derive(Debug)]
pub struct Hooks(Vec<Hook>);

#[derive(Debug)]
struct Hook {
    name: String,
    layer: Layer,
    pinned: Pinned,
}

impl Hooks {
    /// Those that are pinned in `folder`.
    ///
    /// # Errors
    /// When a pin cannot be opened, or holds a hook that belongs to no layer that we know.
    pub fn pinned_in(folder: &Path) -> anyhow::Result<Self> {
        let mut hooks = Vec::new();
        let entries = fs::read_dir(folder).with_context(|| format!("`{}`", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(hook) = name.strip_prefix(OF_SESSIONS) else {
                continue;
            };
            let opened =
                Pinned::open(&entry.path()).with_context(|| format!("the pin `{name}`"))?;
            // A hook of the whole machine is attached to no cgroup.
            let Some(pinned) = opened else {
                continue;
            };
            let Some(layer) = layer_of(pinned.attach_type()) else {
                bail!("the pinned hook `{hook}` belongs to no layer that the suite knows");
            };
            hooks.push(Hook {
                name: hook.into(),
                layer,
                pinned,
            });
        }
        ensure!(
            !hooks.is_empty(),
            "custodyd has pinned no hook of a session in `{}`",
            folder.display()
        );
        hooks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self(hooks))
    }

    /// The layers that there are hooks of.
    pub fn layers(&self) -> BTreeSet<Layer> {
        self.0.iter().map(|hook| hook.layer).collect()
    }

    /// Each hook's program: the kernel's digest of its instructions, the same in every arm.
    pub fn digests(&self) -> BTreeMap<String, String> {
        let digest = |hook: &Hook| (hook.name.clone(), hook.pinned.tag().to_owned());
        self.0.iter().map(digest).collect()
    }

    /// A program that watches which sockets are made, as an attempt may take it away from a cgroup
    /// of the suite's own.
    ///
    /// # Errors
    /// When there is none.
    pub fn to_be_taken(&self) -> anyhow::Result<&Pinned> {
        let of = |hook: &&Hook| hook.pinned.attach_type() == SOCK_CREATE;
        let hook = self.0.iter().find(of).context("no hook of sockets")?;
        Ok(&hook.pinned)
    }

    /// Attaches what `keeps` says to the cgroup at `path`, for as long as the result is held.
    ///
    /// # Errors
    /// When the kernel refuses an attachment.
    pub fn attach(
        &self,
        path: &Path,
        keeps: impl Fn(Layer) -> bool,
    ) -> anyhow::Result<Vec<OwnedFd>> {
        let cgroup = Cgroup::open(path).with_context(|| format!("`{}`", path.display()))?;
        let kept = self.0.iter().filter(|hook| keeps(hook.layer));
        kept.map(|hook| {
            let link = hook.pinned.attach_also(cgroup.as_fd());
            link.with_context(|| format!("attach hook `{}`", hook.name))
        })
        .collect()
    }
}

/// BPF_CGROUP_INET_SOCK_CREATE.
pub const SOCK_CREATE: u32 = 2;

/// The layer that a hook of a cgroup is of, by `enum bpf_attach_type`
/// (include/uapi/linux/bpf.h).
const fn layer_of(attach_type: u32) -> Option<Layer> {
    match attach_type {
        // INET_SOCK_CREATE; INET4/6_BIND, INET4/6_CONNECT, INET4/6_POST_BIND, UDP4/6_SENDMSG.
        SOCK_CREATE | 8..=15 => Some(Layer::CgroupInet),
        // DEVICE.
        6 => Some(Layer::CgroupDevice),
        // SYSCTL.
        18 => Some(Layer::CgroupSysctl),
        // GETSOCKOPT, SETSOCKOPT.
        21 | 22 => Some(Layer::CgroupSockopt),
        // UNIX_CONNECT, UNIX_SENDMSG.
        49 | 50 => Some(Layer::CgroupUnix),
        _ => None,
    }
}
