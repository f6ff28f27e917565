//! `/etc` of a session: names and users are constructed, a few entries of the host are shown.
//!
//! An entry that is not listed is not there: `/etc` of a host holds tokens (`npmrc`, `pip.conf`,
//! the host's `gitconfig`) and names of people. No `resolv.conf`: nothing inside resolves. No `machine-id`.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use custody_sys::mount::{Depth, Tree};

use crate::{
    failure::Failure,
    root::{Mounting as _, READ_ONLY, Root},
    session::{HOME, HOSTNAME, USER},
};

/// Entries of the host's `/etc`, if it has them, and why a program inside needs them.
const SHOWN: [(&str, How, &str); 15] = [
    (
        "alternatives",
        How::Bind,
        "targets of symlinks in /usr/bin (Debian)",
    ),
    ("bash.bashrc", How::Copy, "interactive bash (Debian)"),
    ("bashrc", How::Copy, "interactive bash (Fedora)"),
    (
        "ca-certificates/extracted",
        How::Bind,
        "targets of /etc/ssl/certs (Arch)",
    ),
    (
        "crypto-policies",
        How::Bind,
        "OpenSSL's included configuration (Fedora)",
    ),
    ("inputrc", How::Copy, "readline"),
    (
        "java-17-openjdk",
        How::Bind,
        "targets of symlinks in the JDK (Debian)",
    ),
    (
        "java-21-openjdk",
        How::Bind,
        "targets of symlinks in the JDK (Debian)",
    ),
    (
        "ld.so.cache",
        How::Copy,
        "the dynamic linker: libraries outside its default folders",
    ),
    ("localtime", How::Copy, "the time zone"),
    ("os-release", How::Copy, "platform detection"),
    ("pki", How::Bind, "certificate authorities (Fedora)"),
    ("profile", How::Copy, "login shells"),
    ("services", How::Copy, "getservbyname(3)"),
    ("ssl", How::Bind, "certificate authorities, openssl.cnf"),
];

/// How an entry is shown.
#[derive(Clone, Copy, Debug)]
enum How {
    /// A read-only bind: folders.
    Bind,
    /// A copy, cheaper than a mount: small files, and symlinks as symlinks.
    Copy,
}

/// The largest file that is copied; the largest of those above is 75 KB on Debian 12.
const LARGEST: u64 = 1 << 20;

/// The host's entries that are looked at.
pub(crate) fn names() -> impl Iterator<Item = String> {
    let shells = [BASH.into()];
    let shown = SHOWN.iter().map(|(name, _, _)| format!("/etc/{name}"));
    shells.into_iter().chain(shown)
}

const BASH: &str = "/bin/bash";

/// Fills `/etc` with what every session has.
pub(crate) fn common(root: &Root) -> Result<(), Failure> {
    root.folder("/etc", 0o755)?;
    let mut buffer = vec![0; 16 << 10];
    for (name, how, _why) in SHOWN {
        show(root, name, how, &mut buffer)?;
    }
    write(root, "hostname", &format!("{HOSTNAME}\n"))?;
    write(
        root,
        "hosts",
        &format!("127.0.0.1 localhost {HOSTNAME}\n::1 localhost {HOSTNAME}\n"),
    )?;
    write(root, "gitconfig", GITCONFIG)?;
    write(root, "nsswitch.conf", NSSWITCH)
}

/// And with its user.
pub(crate) fn user(root: &Root, uid: u32, gid: u32) -> Result<(), Failure> {
    let shell = if Path::new(BASH).exists() {
        BASH
    } else {
        "/bin/sh"
    };
    let nobody = "x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin";
    write(
        root,
        "passwd",
        &format!(
            "root:x:0:0:root:/root:/usr/sbin/nologin\n{USER}:x:{uid}:{gid}:agent:{HOME}:{shell}\n\
             nobody:{nobody}\n"
        ),
    )?;
    write(
        root,
        "group",
        &format!("root:x:0:\ntty:x:5:\n{USER}:x:{gid}:\nnogroup:x:65534:\n"),
    )
}

/// git's index remembers each file's owner, and the workspace's has another number in each session:
/// by default git would read all files of the tree again, every time (core.checkStat in
/// git-config(1)). Times and sizes it looks at as before.
const GITCONFIG: &str = "[core]\n\tcheckStat = minimal\n";

/// Files only: a resolver's or directory's unix socket would be a way out (nsswitch.conf(5)).
const NSSWITCH: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files\n\
    networks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n";

fn write(root: &Root, name: &str, text: &str) -> Result<(), Failure> {
    fs::write(root.place("/etc").join(name), text).mount(|| format!("write(2) of `/etc/{name}`"))
}

fn show(root: &Root, name: &str, how: How, buffer: &mut [u8]) -> Result<(), Failure> {
    let host = Path::new("/etc").join(name);
    let place = root.place("/etc").join(name);
    let shown = match how {
        How::Bind => bind(&host, &place),
        How::Copy => copy(&host, &place, buffer),
    };
    match shown {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.mount(|| format!("showing `{}`", host.display())),
    }
}

fn bind(host: &Path, place: &Path) -> io::Result<()> {
    let tree = Tree::copy_of(nix::fcntl::AT_FDCWD, host, Depth::One)?;
    tree.restrict(READ_ONLY, Depth::One)?;
    fs::create_dir_all(place)?;
    tree.attach(nix::fcntl::AT_FDCWD, place)
}

/// A symlink as a symlink, a file through `buffer`, which all files share: fresh memory for each
/// would be a page fault for every 4 KiB.
fn copy(host: &Path, place: &Path, buffer: &mut [u8]) -> io::Result<()> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let mut from = match File::options().read(true).custom_flags(flags).open(host) {
        Ok(from) => from,
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => {
            return std::os::unix::fs::symlink(fs::read_link(host)?, place);
        }
        Err(error) => return Err(error),
    };
    let found = from.metadata()?;
    // What others may not read on the host is not for a session either.
    if !found.is_file() || found.permissions().mode() & 0o004 == 0 {
        return Ok(());
    }
    if found.len() > LARGEST {
        return Err(io::Error::other(format!("over {LARGEST} bytes")));
    }
    let mut to = File::create_new(place)?;
    loop {
        let len = from.read(buffer)?;
        match buffer.get(..len) {
            None | Some([]) => return Ok(()),
            Some(part) => to.write_all(part)?,
        }
    }
}
