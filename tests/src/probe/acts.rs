//! Files, as an attacker handles them: a list of small acts, each a step of the report.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Uid, XattrFlags,
};
use serde::{Deserialize, Serialize};

use super::Report;

/// How long something that others do is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most bytes read of one file.
const READ_CAP: u64 = 1 << 20;

/// One act. Each is tried, whatever became of those before it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// chmod(2).
    Chmod {
        /// What.
        path: PathBuf,
        /// The mode, set-id bits and all.
        mode: u32,
    },
    /// chown(2).
    Chown {
        /// What.
        path: PathBuf,
        /// To whom, and to the group of the same number.
        to: u32,
    },
    /// connect(2) to a path, again and again, from a thread with a name of its own.
    Connect {
        /// Where.
        path: PathBuf,
        /// How often.
        times: u32,
        /// The name: 15 bytes count (PR_SET_NAME).
        name: String,
    },
    /// Copy a file.
    Copy {
        /// Which.
        from: PathBuf,
        /// Where to.
        to: PathBuf,
    },
    /// chdir(2).
    Enter {
        /// Where.
        path: PathBuf,
    },
    /// fchmod(2).
    Fchmod {
        /// What.
        path: PathBuf,
        /// The mode.
        mode: u32,
    },
    /// fallocate(2): as many bytes of the disk.
    Fill {
        /// What.
        path: PathBuf,
        /// How many.
        bytes: u64,
    },
    /// link(2).
    Link {
        /// What is there.
        from: PathBuf,
        /// The other name.
        to: PathBuf,
    },
    /// mkdir(2).
    Mkdir {
        /// Where.
        path: PathBuf,
        /// The mode.
        mode: u32,
    },
    /// mknod(2).
    Mknod {
        /// Where.
        path: PathBuf,
        /// What.
        kind: Node,
        /// The mode.
        mode: u32,
    },
    /// openat(2) with O_CREAT and O_EXCL.
    Open {
        /// What.
        path: PathBuf,
        /// The mode.
        mode: u32,
    },
    /// open(2) for writing, of what is there. Nothing is written.
    OpenForWriting {
        /// What.
        path: PathBuf,
    },
    /// openat2(2) with O_CREAT and O_EXCL.
    Openat2 {
        /// What.
        path: PathBuf,
        /// The mode.
        mode: u32,
    },
    /// read(2) of a file.
    Read {
        /// Which.
        path: PathBuf,
    },
    /// fcntl(2) F_SETFL on standard error: that a write does not wait.
    Unblock,
    /// open(2) of what standard error is, anew and emptied, by `/proc/self/fd`.
    Reopen,
    /// lseek(2) on standard error, to its beginning.
    Rewind,
    /// ftruncate(2) on standard error, to nothing.
    Empty,
    /// rename(2).
    Rename {
        /// What.
        from: PathBuf,
        /// Its new name.
        to: PathBuf,
    },
    /// Write to standard error, as it is.
    Say {
        /// The bytes, as text.
        text: String,
    },
    /// symlink(2).
    Symlink {
        /// What it says.
        target: PathBuf,
        /// Where it is.
        path: PathBuf,
    },
    /// openat(2) with O_TMPFILE, then linkat(2): a name for a file that was made without one.
    Tmpfile {
        /// What.
        path: PathBuf,
        /// The mode.
        mode: u32,
    },
    /// Wait until something is there.
    Wait {
        /// What.
        path: PathBuf,
    },
    /// Write a file anew.
    Write {
        /// Which.
        path: PathBuf,
        /// What is in it.
        text: String,
    },
    /// setxattr(2).
    Xattr {
        /// Of what.
        path: PathBuf,
        /// The attribute.
        name: String,
        /// Its value.
        value: Vec<u8>,
    },
}

/// What mknod(2) makes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// The device 1:3, `/dev/null`.
    Device,
    /// A FIFO.
    Fifo,
    /// An ordinary file.
    File,
}

pub(super) fn all(acts: &[Act], report: &mut Report) -> Option<()> {
    for act in acts {
        // What is refused is in the report.
        let _refused: Option<()> = one(act, report);
    }
    Some(())
}

fn one(act: &Act, report: &mut Report) -> Option<()> {
    let bits = |mode: &u32| Mode::from_raw_mode(*mode);
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    match act {
        Act::Chmod { path, mode } => report.step("chmod", rustix::fs::chmod(path, bits(mode))),
        Act::Chown { path, to } => {
            let (user, group) = (Uid::from_raw(*to), Gid::from_raw(*to));
            report.step("chown", rustix::fs::chown(path, Some(user), Some(group)))
        }
        Act::Connect { path, times, name } => {
            let last = connect(path, *times, name);
            report.step("connect", last).map(drop)
        }
        Act::Copy { from, to } => report.step("copy", fs::copy(from, to)).map(drop),
        Act::Enter { path } => report.step("chdir", std::env::set_current_dir(path)),
        Act::Fchmod { path, mode } => {
            let file = report.step("open", fs::File::open(path))?;
            report.step("fchmod", rustix::fs::fchmod(file, bits(mode)))
        }
        Act::Fill { path, bytes } => {
            let file = report.step("open", fs::File::create(path))?;
            let filled = rustix::fs::fallocate(file, FallocateFlags::empty(), 0, *bytes);
            report.step("fallocate", filled)
        }
        Act::Link { from, to } => report.step("link", fs::hard_link(from, to)),
        Act::Mkdir { path, mode } => report.step("mkdir", rustix::fs::mkdir(path, bits(mode))),
        Act::Mknod { path, kind, mode } => {
            let (kind, device) = match kind {
                Node::Device => (FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
                Node::Fifo => (FileType::Fifo, 0),
                Node::File => (FileType::RegularFile, 0),
            };
            let made = rustix::fs::mknodat(CWD, path, kind, bits(mode), device);
            report.step("mknod", made)
        }
        Act::Open { path, mode } => {
            let opened = rustix::fs::openat(CWD, path, create, bits(mode));
            report.step("openat", opened).map(drop)
        }
        Act::OpenForWriting { path } => {
            let opened = fs::File::options().write(true).open(path);
            report.step("open for writing", opened).map(drop)
        }
        Act::Openat2 { path, mode } => {
            let opened = rustix::fs::openat2(CWD, path, create, bits(mode), ResolveFlags::empty());
            report.step("openat2", opened).map(drop)
        }
        Act::Read { path } => {
            let file = report.step("open", fs::File::open(path))?;
            let mut bytes = Vec::new();
            report.step("read", file.take(READ_CAP).read_to_end(&mut bytes))?;
            report.heard(&bytes);
            Some(())
        }
        Act::Unblock => {
            let flags = report.step("fcntl F_GETFL", rustix::fs::fcntl_getfl(io::stderr()))?;
            let flags = flags | OFlags::NONBLOCK;
            report.step(
                "fcntl F_SETFL",
                rustix::fs::fcntl_setfl(io::stderr(), flags),
            )
        }
        Act::Reopen => {
            let path = "/proc/self/fd/2";
            let opened = fs::File::options().write(true).truncate(true).open(path);
            report.step("open of /proc/self/fd/2", opened).map(drop)
        }
        Act::Rewind => {
            let begin = rustix::fs::SeekFrom::Start(0);
            let moved = rustix::fs::seek(io::stderr(), begin);
            report.step("lseek", moved).map(drop)
        }
        Act::Empty => report.step("ftruncate", rustix::fs::ftruncate(io::stderr(), 0)),
        Act::Rename { from, to } => report.step("rename", fs::rename(from, to)),
        Act::Say { text } => {
            let said = io::stderr().write_all(text.as_bytes());
            report.step("write", said)
        }
        Act::Symlink { target, path } => {
            report.step("symlink", std::os::unix::fs::symlink(target, path))
        }
        Act::Tmpfile { path, mode } => {
            let folder = path.parent().unwrap_or(Path::new("/"));
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(CWD, folder, flags, bits(mode));
            let file = report.step("openat O_TMPFILE", opened)?;
            // linkat(2): by its descriptor without CAP_DAC_READ_SEARCH.
            let nameless = format!("/proc/self/fd/{}", file.as_raw_fd());
            let linked = rustix::fs::linkat(CWD, nameless, CWD, path, AtFlags::SYMLINK_FOLLOW);
            report.step("linkat", linked)
        }
        Act::Wait { path } => report.step("wait", wait(path)),
        Act::Write { path, text } => report.step("write", fs::write(path, text)),
        Act::Xattr { path, name, value } => {
            let set = rustix::fs::setxattr(path, name, value, XattrFlags::empty());
            report.step("setxattr", set)
        }
    }
}

/// The answer to the last of so many connections.
fn connect(path: &Path, times: u32, name: &str) -> io::Result<()> {
    let path = path.to_owned();
    let thread = thread::Builder::new().name(name.into()).spawn(move || {
        let mut last = Ok(());
        for _ in 0..times {
            last = UnixStream::connect(&path).map(drop);
        }
        last
    })?;
    let panicked = || io::Error::other("the connecting thread panicked");
    thread.join().map_err(|_panic| panicked())?
}

fn wait(path: &Path) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    while fs::symlink_metadata(path).is_err() {
        if Instant::now() > end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
