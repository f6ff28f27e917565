//! What of the host is refused: at custodyd's start, and again before each session where it can
//! change meanwhile.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use custody_config::{Config, CredentialSource};
use custody_wire::refused::Refused;

use super::Finding;
use crate::checks::kernel;

/// Who hands out ids for containers (subuid(5), subgid(5)).
const SUBORDINATE: [&str; 2] = ["/etc/subuid", "/etc/subgid"];

/// Looks at everything of the host that can change while custodyd runs.
pub fn look(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(core_pattern(Path::new("/proc/sys/kernel/core_pattern")));
    findings.extend(custodyd_traced());
    let files = SUBORDINATE.map(Path::new);
    if let Err(error) = config.uids.check_subordinate(&files) {
        findings.push(Finding::new(Refused::AgentUidReserved, error.to_string()));
    }
    for source in config.secrets() {
        if let CredentialSource::File(path) = source {
            findings.extend(credential(path));
        }
    }
    findings
}

/// core(5), "Piping core dumps to a program": run as root of the host.
fn core_pattern(setting: &Path) -> Option<Finding> {
    match fs::read_to_string(setting) {
        Ok(pattern) => pattern.starts_with('|').then(|| {
            let pattern = pattern.trim();
            Finding::new(
                Refused::PipedCorePattern,
                format!("core_pattern is `{pattern}`"),
            )
        }),
        Err(error) => Some(Finding::unseen(
            Refused::PipedCorePattern,
            "core_pattern",
            &error,
        )),
    }
}

/// The TracerPid of /proc/self/status.
pub fn custodyd_traced() -> Option<Finding> {
    match kernel::tracer() {
        Ok(None) => None,
        Ok(Some(pid)) => Some(Finding::new(
            Refused::CustodydTraced,
            format!("process {pid} does"),
        )),
        Err(error) => Some(Finding::unseen(
            Refused::CustodydTraced,
            "its own status",
            &error,
        )),
    }
}

/// By its name, as others would open it; the vault has the file that was there at the start.
fn credential(path: &Path) -> Option<Finding> {
    let name = path.display();
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        // Moved away: whoever may do that in root's folder is root.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            let what = format!("`{name}`");
            return Some(Finding::unseen(Refused::CredentialReadable, &what, &error));
        }
    };
    (found.uid() != 0 || found.mode() & 0o077 != 0).then(|| {
        Finding::new(
            Refused::CredentialReadable,
            format!(
                "`{name}` has uid {} and mode {:04o}",
                found.uid(),
                found.mode() & 0o7777
            ),
        )
    })
}

/// Whether a process has `uid`: by the owner of its folder in /proc, which is its effective uid, or
/// root's where the process is not dumpable (proc_pid(5)). `except` is our own launcher, which takes the
/// uid meanwhile.
pub fn uid_in_use(uid: u32, except: Option<i32>) -> Option<Finding> {
    let entries = match fs::read_dir("/proc") {
        Ok(entries) => entries,
        Err(error) => return Some(Finding::unseen(Refused::AgentUidShared, "/proc", &error)),
    };
    let except = except.map(|pid| pid.to_string());
    let numbered = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(numbered))
        .filter(|entry| {
            let except = except.as_deref();
            except.is_none_or(|pid| entry.file_name() != *pid)
        })
        .find(|entry| entry.metadata().is_ok_and(|found| found.uid() == uid))
        .map(|entry| {
            let pid = entry.file_name();
            let pid = pid.to_string_lossy();
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            Finding::new(
                Refused::AgentUidShared,
                format!("process {pid} (`{}`) has uid {uid}", name.trim()),
            )
        })
}

/// The files of the credentials, for a look at what a session shows.
pub fn credential_files(config: &Config) -> Vec<PathBuf> {
    config
        .secrets()
        .filter_map(|source| match source {
            CredentialSource::File(path) => Some(path.clone()),
            CredentialSource::Systemd(name) => {
                std::env::var_os("CREDENTIALS_DIRECTORY").map(|at| Path::new(&at).join(name))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_pattern_that_is_a_pipe_is_found_and_a_file_is_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "core.%p\n").unwrap();
        assert_eq!(core_pattern(file.path()), None);
        fs::write(file.path(), "|/usr/share/apport/apport %p\n").unwrap();
        assert!(core_pattern(file.path()).unwrap().found.contains("apport"));
        assert!(core_pattern(Path::new("/no/such/setting")).is_some());
    }

    #[test]
    fn a_uid_of_a_living_process_is_in_use_and_one_of_nobodys_is_not() {
        let own = nix::unistd::geteuid().as_raw();
        assert!(uid_in_use(own, None).is_some());
        assert!(uid_in_use(2_000_111_222, None).is_none());
    }
}
