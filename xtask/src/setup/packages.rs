//! Debian packages, each with its reason, installed in one call.

use std::{collections::BTreeSet, process::Command};

use anyhow::{Result, bail};

use crate::{build_ebpf::Toolchain, places, say, stage};

/// Packages with one reason.
pub(super) struct Need {
    packages: &'static [&'static str],
    why: &'static str,
}

/// What the programs are built with.
const BUILD: Need = Need {
    packages: &["gcc", "libc6-dev"],
    why: "link the programs; custody-launch, custody-init and custody-bridge statically",
};

/// What the eBPF object is built with, where there is no nightly toolchain with rust-src: a second
/// rustc beside rustup's, with `core` for BPF precompiled. The LLVM version is that rustc's.
const EBPF: Need = Need {
    packages: &[
        "rustc-web",
        "libstd-rust-web-dev-bpf",
        "llvm-22-dev",
        "libpolly-22-dev",
        "zlib1g-dev",
        "libzstd-dev",
    ],
    why: "compile the eBPF object, and build bpf-linker which links it",
};

/// What the demo, the tests and the benchmark need.
const RUN: &[Need] = &[
    Need {
        packages: &["python3", "python3-venv"],
        why: "the demo's agent is a Python program with the MCP client package",
    },
    Need {
        packages: &["bubblewrap"],
        why: "`bench launch` runs it beside our launcher",
    },
    Need {
        packages: &["mmdebstrap", "systemd-container"],
        why: "a test starts custodyd as a systemd unit in systemd-nspawn",
    },
    Need {
        packages: &[
            "e2fsprogs",
            "kmod",
            "mmdebstrap",
            "qemu-system-x86",
            "seabios",
            "zstd",
        ],
        why: "`guest` boots stock kernels in an emulated machine; BPF LSM programs run there",
    },
    Need {
        packages: &["git", "nodejs", "vim-tiny"],
        why: "tests run them confined, as agents would",
    },
];

/// What a reviewer has; large, and one test's alone.
const BROWSER: Need = Need {
    packages: &["chromium", "chromium-driver", "fonts-dejavu-core"],
    why: "a test of the reviewers' page drives a real browser",
};

/// A need that is not met.
pub(super) struct Missing {
    packages: Vec<&'static str>,
    why: &'static str,
}

impl Missing {
    pub(super) fn say(&self) {
        say::line(format_args!(
            "    {}: {}",
            self.packages.join(" "),
            self.why
        ));
    }
}

pub(super) fn missing(browser: bool) -> Result<Vec<Missing>> {
    let mut needs: Vec<&Need> = vec![&BUILD];
    if Toolchain::find_nightly().is_none() || Toolchain::find_debian().is_some() {
        needs.push(&EBPF);
    }
    needs.extend(RUN);
    if browser {
        needs.push(&BROWSER);
    }
    if places::on_path("dpkg-query").is_none() {
        bail!(
            "this is not a Debian system (no `dpkg-query`); install by hand what xtask/src/setup/packages.rs lists"
        );
    }
    let installed = installed(needs.iter().flat_map(|need| need.packages));
    Ok(needs
        .into_iter()
        .map(|need| Missing {
            packages: need
                .packages
                .iter()
                .copied()
                .filter(|package| !installed.contains(*package))
                .collect(),
            why: need.why,
        })
        .filter(|missing| !missing.packages.is_empty())
        .collect())
}

/// Which of `packages` are installed. dpkg-query(1) fails if it does not know one and still
/// prints the others.
fn installed<'a>(packages: impl Iterator<Item = &'a &'static str>) -> BTreeSet<String> {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status} ${Package}\\n"])
        .args(packages)
        .output();
    output.map_or_else(
        |_| BTreeSet::new(),
        |output| {
            String::from_utf8_lossy(&output.stdout)
                .lines()
                .filter_map(|line| line.strip_prefix("installed "))
                .map(str::to_owned)
                .collect()
        },
    )
}

pub(super) fn install(missing: &[Missing]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    say::line("    installing Debian packages:");
    missing.iter().for_each(Missing::say);
    // Another apt-get may be at work: wait for its lock instead of failing (apt.conf(5)).
    let apt = |arguments: &[&str]| {
        let mut command = places::as_root("env");
        command
            .args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"])
            .args(["-o", "DPkg::Lock::Timeout=400"])
            .args(arguments);
        command
    };
    stage::must(&mut apt(&["update"]))?;
    let mut command = apt(&["install", "-y", "--no-install-recommends"]);
    command.args(missing.iter().flat_map(|need| &need.packages));
    stage::must(&mut command)
}
