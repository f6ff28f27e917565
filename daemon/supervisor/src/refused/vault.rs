//! Whether the vault's memory is its own. The vault gives up being dumpable as it starts; what counts
//! is what the kernel says of it.

use std::{fs, io, os::unix::fs::MetadataExt as _};

use custody_wire::refused::Refused;
use procfs::process::Process;

use super::Finding;

/// Looks at the process of the vault, whose uid is `uid`. It is our child and not reaped, so the pid
/// names it and nobody else.
pub fn look(pid: i32, uid: u32) -> Vec<Finding> {
    let mut findings = Vec::new();
    // proc_pid(5): the files of a process that is not dumpable belong to root.
    match fs::metadata(format!("/proc/{pid}/environ")).map(|found| found.uid()) {
        Ok(owner) if owner == uid => findings.push(Finding::new(
            Refused::VaultDumpable,
            format!("/proc/{pid}/environ belongs to uid {owner}"),
        )),
        Ok(_) => {}
        Err(error) => findings.extend(unless_gone(Refused::VaultDumpable, error)),
    }
    match Process::new(pid).and_then(|process| process.status()) {
        Ok(status) if status.tracerpid != 0 => findings.push(Finding::new(
            Refused::VaultTraced,
            format!("process {} traces process {pid}", status.tracerpid),
        )),
        Ok(_) | Err(procfs::ProcError::NotFound(_)) => {}
        Err(error) => findings.push(Finding::unseen(Refused::VaultTraced, "its status", &error)),
    }
    findings
}

/// A vault that ended has no memory; it is started again before it gets a credential.
fn unless_gone(which: Refused, error: io::Error) -> Option<Finding> {
    (error.kind() != io::ErrorKind::NotFound)
        .then(|| Finding::unseen(which, "its folder in /proc", &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::process::CommandExt as _,
        process::{Command, Stdio},
    };

    #[test]
    fn a_process_that_others_of_its_uid_may_read_is_found() {
        if !nix::unistd::geteuid().is_root() {
            println!("not attempted: needs root");
            return;
        }
        let uid = 1_900_777_001;
        let mut child = Command::new("/bin/cat")
            .uid(uid)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let found = look(pid, uid);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].which, Refused::VaultDumpable);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(look(pid, uid).is_empty(), "it is gone");
    }
}
