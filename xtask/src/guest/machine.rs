//! The machine: QEMU's own emulation of a PC, booted from an uncompressed kernel.
//!
//! Never KVM, not even where `/dev/kvm` opens: within another machine it may run nothing that is
//! not made for it, and a run has to be the same everywhere.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::{disk, kernel::Kernel, tools};

/// How the command is started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Boot {
    /// By a script that is pid 1 and mounts what is needed.
    Script,
    /// As a unit of systemd.
    Systemd,
}

/// One guest, before it is started.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) image: &'a Path,
    pub(super) payload: &'a Path,
    pub(super) boot: Boot,
    pub(super) memory_mib: u32,
    /// Where the ports' files are made.
    pub(super) run: &'a Path,
}

impl Machine<'_> {
    /// What the guest writes to its port `name`.
    pub(super) fn port(&self, name: &str) -> PathBuf {
        self.run.join(name)
    }

    /// QEMU, with the serial line on its standard output.
    pub(super) fn command(&self) -> Command {
        let mut qemu = tools::tool("qemu-system-x86_64");
        qemu.args(["-machine", "q35", "-accel", "tcg,thread=multi"])
            .args(["-cpu", "max", "-smp", PROCESSORS])
            .args(["-m", &self.memory_mib.to_string()])
            .args(["-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none", "-serial", "stdio"])
            .arg("-kernel")
            .arg(&self.kernel.vmlinux)
            .args(["-append", &self.boot.parameters()]);
        // The guest finds them by these ids: `inside/stub.sh`.
        qemu.args(["-device", "nvme,id=disks,serial=guest"]);
        let disks = [
            (self.image, "snapshot=on"),
            (self.payload, "readonly=on"),
            (&self.kernel.modules, "readonly=on"),
        ];
        for (number, (file, mode)) in (1..).zip(disks) {
            let file = escaped(file);
            qemu.arg("-drive")
                .arg(format!(
                    "file={file},format=raw,if=none,id=disk{number},{mode}"
                ))
                .arg("-device")
                .arg(format!(
                    "nvme-ns,bus=disks,drive=disk{number},nsid={number}"
                ));
        }
        qemu.args(["-device", "virtio-serial-pci"]);
        for name in PORTS {
            let file = escaped(&self.port(name));
            qemu.arg("-chardev")
                .arg(format!("file,id={name},path={file}"))
                .arg("-device")
                .arg(format!("virtserialport,chardev={name},name={name}"));
        }
        qemu
    }
}

/// A kernel that attaches a program to an LSM hook rewrites its own text while it runs: it puts an
/// `int3` over an instruction, makes all processors serialise, and writes the new one
/// (`smp_text_poke_bp_batch` in arch/x86/kernel/alternative.c). A second emulated processor may run
/// the translated `int3` after the kernel took it for gone, and the kernel oopses. One processor has
/// nothing to race with.
const PROCESSORS: &str = "1";

/// `output` gets a tar archive, and then `result` the exit status.
pub(super) const PORTS: [&str; 2] = ["output", "result"];

impl Boot {
    fn parameters(self) -> String {
        let root = disk::ROOT;
        // `no_timer_check`: setup_IO_APIC() counts ticks of the timer against a busy loop, and panics
        // where the emulator was held up meanwhile (kernel-parameters.txt). KVM guests have it set.
        let common = format!(
            "console=ttyS0 quiet panic=-1 no_timer_check root={root} rootfstype=ext4 rootwait rw"
        );
        match self {
            // What follows `--` is handed to init (the kernel's kernel-parameters.rst).
            Self::Script => format!("{common} init=/guest/stub -- init"),
            Self::Systemd => format!("{common} systemd.show_status=0 TERM=dumb"),
        }
    }
}

/// A comma ends a value unless it is doubled (qemu(1)).
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}
