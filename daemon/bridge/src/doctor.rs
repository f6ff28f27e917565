//! What a session must not be able to do, tried from inside: for `custody doctor`.
//!
//! Each attempt is one call whose answer is the kernel's own. Nothing is harmed where one succeeds: what
//! was opened is closed, what was made is removed. The names are those of `custody doctor --json`.

use std::{
    fs, io,
    io::Write,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::Path,
    process::{Command, Stdio},
};

use nix::{
    libc,
    mount::{MsFlags, mount, umount},
    sched::{CloneFlags, unshare},
    sys::{
        ptrace,
        resource::{Resource, getrlimit},
        signal::kill,
        socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket, socketpair},
        stat::{Mode, SFlag, makedev, mknod},
    },
    unistd::{Pid, chroot, setuid},
};

/// Places where a host keeps what no session may read, or listens to what no session may ask.
const SHADOW: &str = "/etc/shadow";
const OUTSIDE: [&str; 5] = [
    "/run/custody/control.sock",
    "/run/dbus/system_bus_socket",
    "/run/docker.sock",
    "/run/systemd/private",
    "/var/run/docker.sock",
];
const STATE: [&str; 3] = ["/etc/custody", "/run/credentials", "/var/lib/custody"];

/// Tries everything, a line each: name, tab, errno (0 where it succeeded).
///
/// # Errors
/// When nobody reads.
pub fn try_all(out: &mut impl Write) -> io::Result<()> {
    for (name, attempt) in ATTEMPTS {
        let errno = match attempt() {
            Ok(()) => 0,
            Err(error) => error.raw_os_error().unwrap_or(-1),
        };
        writeln!(out, "{name}\t{errno}")?;
    }
    Ok(())
}

type Attempt = (&'static str, fn() -> io::Result<()>);

/// In an order in which one that succeeds takes nothing from those after it.
const ATTEMPTS: &[Attempt] = &[
    ("core_limit", core_limit),
    ("inherited_descriptors", inherited),
    ("capabilities", capabilities),
    ("no_new_privs", no_new_privs),
    ("open_shadow", || fs::File::open(SHADOW).map(drop)),
    ("open_state", || {
        first(&STATE, |path| fs::read_dir(path).map(drop))
    }),
    ("open_host_memory", || fs::File::open("/dev/mem").map(drop)),
    ("write_sysctl", || {
        open_to_write("/proc/sys/kernel/core_pattern")
    }),
    ("write_cgroup", || {
        open_to_write("/sys/fs/cgroup/cgroup.procs")
    }),
    ("write_root", || made("/made")),
    ("unix_connect_outside", || {
        first(&OUTSIDE, |path| UnixStream::connect(path).map(drop))
    }),
    ("socket_inet", || {
        open(AddressFamily::Inet, SockType::Stream, None)
    }),
    ("socket_inet6", || {
        open(AddressFamily::Inet6, SockType::Datagram, None)
    }),
    ("socket_netlink", || {
        open(
            AddressFamily::Netlink,
            SockType::Raw,
            Some(SockProtocol::NetlinkRoute),
        )
    }),
    ("socket_packet", || {
        open(AddressFamily::Packet, SockType::Raw, None)
    }),
    ("socket_vsock", || {
        open(AddressFamily::Vsock, SockType::Stream, None)
    }),
    ("socketpair_datagram", || {
        let pair = socketpair(
            AddressFamily::Unix,
            SockType::Datagram,
            None,
            SockFlag::SOCK_CLOEXEC,
        );
        Ok(pair.map(drop)?)
    }),
    ("setuid_bit", setuid_bit),
    ("mknod", || {
        let place = Path::new("/tmp/custody-doctor-node");
        mknod(place, SFlag::S_IFCHR, Mode::S_IRUSR, makedev(1, 3))?;
        fs::remove_file(place)
    }),
    ("mount", || {
        mount(
            Some("tmpfs"),
            "/tmp",
            Some("tmpfs"),
            MsFlags::empty(),
            None::<&str>,
        )?;
        Ok(umount("/tmp")?)
    }),
    ("chroot", || Ok(chroot("/tmp")?)),
    ("signal_outside", || {
        // Nobody but this session is to be seen: pid 2 on a host is a kernel thread.
        Ok(kill(Pid::from_raw(-1), None)?)
    }),
    ("ptrace", || traced_child()),
    ("setuid_root", || Ok(setuid(0.into())?)),
    ("user_namespace", || Ok(unshare(CloneFlags::CLONE_NEWUSER)?)),
    ("mount_namespace", || Ok(unshare(CloneFlags::CLONE_NEWNS)?)),
];

/// The first that succeeds; otherwise the last answer.
fn first(paths: &[&str], attempt: impl Fn(&str) -> io::Result<()>) -> io::Result<()> {
    let mut last = Err(io::ErrorKind::NotFound.into());
    for path in paths {
        last = attempt(path);
        if last.is_ok() {
            break;
        }
    }
    last
}

fn open(family: AddressFamily, kind: SockType, protocol: Option<SockProtocol>) -> io::Result<()> {
    Ok(socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol).map(drop)?)
}

/// Opens and writes nothing: were confinement broken, it would be the host's.
fn open_to_write(path: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path).map(drop)
}

fn made(path: &str) -> io::Result<()> {
    fs::write(path, "")?;
    fs::remove_file(path)
}

fn setuid_bit() -> io::Result<()> {
    let path = "/tmp/custody-doctor-setuid";
    fs::write(path, "")?;
    let set = fs::set_permissions(path, fs::Permissions::from_mode(0o4755));
    fs::remove_file(path)?;
    set
}

/// Succeeds where a core file could be written: a limit above one byte (core(5)).
fn core_limit() -> io::Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_CORE)?;
    allowed(soft > 1 || hard > 1)
}

/// Succeeds where something besides the three streams is open. The folder itself is one while it is read.
fn inherited() -> io::Result<()> {
    allowed(fs::read_dir("/proc/self/fd")?.count() > 4)
}

fn capabilities() -> io::Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    let left = status
        .lines()
        .filter_map(|line| line.strip_prefix("Cap"))
        .any(|line| {
            line.bytes()
                .skip(4)
                .any(|byte| matches!(byte, b'1'..=b'9' | b'a'..=b'f'))
        });
    allowed(left)
}

fn no_new_privs() -> io::Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    allowed(!status.lines().any(|line| line == "NoNewPrivs:\t1"))
}

/// What the kernel allows or not as a state, in the form of an answer.
fn allowed(is: bool) -> io::Result<()> {
    if is {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }
}

/// Attaches to a child of its own.
fn traced_child() -> io::Result<()> {
    let mut child = Command::new("/bin/cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let seized = ptrace::seize(pid, ptrace::Options::empty());
    child.kill()?;
    let _ended = child.wait()?;
    Ok(seized?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attempt_has_a_name_of_its_own() {
        let mut names: Vec<&str> = ATTEMPTS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ATTEMPTS.len());
    }

    #[test]
    fn what_can_be_opened_for_writing_keeps_its_content() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "|/usr/bin/handler").unwrap();
        open_to_write(file.path().to_str().unwrap()).unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), b"|/usr/bin/handler");
        let missing = open_to_write("/no/such/file").unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn what_is_open_to_everyone_succeeds_and_what_is_not_there_says_so() {
        assert!(
            first(&["/no/such/folder", "/"], |path| fs::read_dir(path)
                .map(drop))
            .is_ok()
        );
        let missing = first(&["/no/such/folder"], |path| fs::read_dir(path).map(drop));
        assert_eq!(missing.unwrap_err().raw_os_error(), Some(libc::ENOENT));
    }
}
