//! A file whose close(2) never ends: its FUSE server answers everything but FUSE_FLUSH
//! (linux/fuse.h).

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

use custody_wire::operator::{Answer, Request};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// Opcodes.
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const FLUSH: u32 = 25;
const INIT: u32 = 26;

/// `struct fuse_in_header`.
const HEAD: usize = 40;

pub(crate) struct Unclosing {
    folder: tempfile::TempDir,
    closings: Arc<AtomicUsize>,
    server: Option<JoinHandle<()>>,
}

impl Unclosing {
    pub(crate) fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let device = File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .ok()?;
        let place = folder.path().join("file");
        File::create(&place).unwrap();
        let options = format!(
            "fd={},rootmode=100644,user_id=0,group_id=0,allow_other",
            device.as_raw_fd()
        );
        let flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
        mount(
            Some("unclosing"),
            &place,
            Some("fuse"),
            flags,
            Some(options.as_str()),
        )
        .ok()?;
        let closings = Arc::<AtomicUsize>::default();
        let seen = Arc::clone(&closings);
        let server = std::thread::spawn(move || serve(device, &seen));
        Some(Self {
            folder,
            closings,
            server: Some(server),
        })
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("file")
    }

    /// A client that gives the file away, `count` times. It is a process of its own, for whoever has
    /// the file open can neither end nor execute: a test that forks must not have it.
    pub(crate) fn giver(&self, uid: u32, socket: &Path, request: &Request, count: usize) -> Giver {
        const GIVE: &str = "import array, os, socket, sys
path, there, frame, count, beside, give = sys.argv[1:]
file = os.open(path, os.O_RDONLY)
control = socket.socket(socket.AF_UNIX)
control.connect(there)
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [file] * int(count)))]
control.sendmsg([bytes.fromhex(frame)], [] if beside == 'after' else rights)
if beside == 'after':
    control.sendmsg([b'\\0'], rights)
head, body = bytes.fromhex(give), b''
while (head + body).hex() == give:
    head = control.recv(4, socket.MSG_WAITALL)
    body = control.recv(int.from_bytes(head, 'little'), socket.MSG_WAITALL) if head else b'nothing'
sys.stdout.buffer.write(head + body)
sys.stdout.flush()
os.close(1)
sys.stdin.read()";
        let after = matches!(request, Request::Run(_));
        let hex =
            |bytes: Vec<u8>| -> String { bytes.iter().map(|it| format!("{it:02x}")).collect() };
        let frame = hex(custody_wire::frame::frame(request).unwrap());
        let give = hex(custody_wire::frame::frame(&Answer::Give).unwrap());
        let mut child = Command::new("python3")
            .args(["-c", GIVE])
            .arg(self.place())
            .arg(socket)
            .arg(frame)
            .arg(count.to_string())
            .arg(if after { "after" } else { "beside" })
            .arg(give)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .uid(uid)
            .gid(uid)
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        Giver { child, out }
    }

    /// How many closings wait.
    pub(crate) fn closings(&self) -> usize {
        self.closings.load(Ordering::SeqCst)
    }
}

/// See [`Unclosing::giver`].
pub(crate) struct Giver {
    child: Child,
    out: ChildStdout,
}

impl Giver {
    /// Whether it was answered with `words` in it.
    pub(crate) fn heard(mut self, words: &str) -> Self {
        let mut bytes = Vec::new();
        self.out.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!bytes.is_empty() && text.contains(words), "{text}");
        self
    }
}

impl Drop for Giver {
    fn drop(&mut self) {
        // It ends when the file system is gone, which may be after this.
        self.child.kill().unwrap();
    }
}

impl Drop for Unclosing {
    fn drop(&mut self) {
        // Busy is no matter: MNT_FORCE aborts the connection first (umount(2)).
        let forced = umount2(&self.place(), MntFlags::MNT_FORCE);
        if forced.is_err() {
            umount2(&self.place(), MntFlags::MNT_DETACH).unwrap();
        }
        self.server.take().unwrap().join().unwrap();
    }
}

fn serve(mut device: File, closings: &AtomicUsize) {
    let mut buffer = vec![0; 1 << 20];
    loop {
        let Ok(len) = device.read(&mut buffer) else {
            return; // aborted
        };
        let head = &buffer[..len.min(HEAD)];
        let opcode = u32::from_le_bytes(head[4..8].try_into().unwrap());
        let mut body = match opcode {
            FLUSH => {
                closings.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            // fuse_init_out: version 7.31, the rest 0 but max_write.
            INIT => {
                let mut body = vec![0; 64];
                body[0] = 7;
                body[4] = 31;
                body[20..24].copy_from_slice(&4096_u32.to_le_bytes());
                body
            }
            OPEN => vec![0; 16],
            GETATTR => {
                // fuse_attr_out: ino 1, mode at 60 of fuse_attr, nlink behind it.
                let mut body = vec![0; 16 + 88];
                body[16] = 1;
                body[76..80].copy_from_slice(&0o100_644_u32.to_le_bytes());
                body[80] = 1;
                body
            }
            _ => Vec::new(),
        };
        let error = if body.is_empty() {
            -nix::libc::ENOSYS
        } else {
            0
        };
        let whole = u32::try_from(16 + body.len()).unwrap();
        let mut answer = whole.to_le_bytes().to_vec();
        answer.extend_from_slice(&error.to_le_bytes());
        answer.extend_from_slice(&head[8..16]);
        answer.append(&mut body);
        // FUSE_FORGET and the like take no answer.
        drop(device.write(&answer));
    }
}
