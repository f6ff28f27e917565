//! A workspace written in place: whose files appear as whose, and which names are held.
#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as it should be"
)]

#[cfg(test)]
mod support;

use std::{
    fs,
    os::{
        fd::OwnedFd,
        unix::{fs::MetadataExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::Command,
};

use custody_sys::{
    mount::{Depth, Tree},
    path,
};
use custody_wire::{
    launch::{self, Outcome},
    layer::{Layer, Status},
};
use nix::mount::{MsFlags, umount2};
use support::{Start, UID, can_run, folder_of};
use tempfile::TempDir;

/// A user of the host who owns workspaces.
const OWNER: u32 = 4321;

/// A repository of the owner's with one commit.
fn repository() -> TempDir {
    let folder = folder_of(OWNER);
    let git = |arguments: &[&str]| {
        let done = Command::new("git")
            .args(arguments)
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", "/nonexistent")
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "safe.directory")
            .env("GIT_CONFIG_VALUE_0", "*")
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["config", "user.name", "owner"]);
    git(&["config", "user.email", "owner@localhost"]);
    fs::write(folder.path().join("file"), "one\n").unwrap();
    git(&["add", "file"]);
    git(&["commit", "-qm", "first"]);
    give(folder.path());
    folder
}

/// All below `path` belongs to the owner.
fn give(path: &Path) {
    let given = Command::new("chown")
        .args(["-R", &format!("{OWNER}:{OWNER}")])
        .arg(path)
        .status()
        .unwrap();
    assert!(given.success());
}

fn sh(folder: &Path, script: &str) -> support::Ended {
    Start::sh(script).workspace(folder).run()
}

#[test]
fn the_owners_files_are_the_sessions_and_new_ones_are_the_owners() {
    if !can_run() {
        return;
    }
    let folder = folder_of(OWNER);
    let old = folder.path().join("old");
    fs::write(&old, "x").unwrap();
    give(folder.path());
    let session = Start::sh("pwd; stat -c %u:%g . old; echo y > new; mkdir d; stat -c %u new")
        .workspace(folder.path())
        .prepare()
        .unwrap();
    assert_eq!(session.status_of(Layer::IdMap), &Status::Full);
    assert!(session.placeholders.is_empty());
    let ended = session.run(b"");
    let wanted = format!(
        "{0}\n{UID}:{UID}\n{UID}:{UID}\n{UID}",
        folder.path().display()
    );
    assert_eq!(ended.text(), wanted);
    for made in ["new", "d"] {
        let found = fs::metadata(folder.path().join(made)).unwrap();
        assert_eq!((found.uid(), found.gid()), (OWNER, OWNER), "{made}");
    }
}

#[test]
fn others_files_in_the_workspace_are_nobodys() {
    if !can_run() {
        return;
    }
    let folder = folder_of(OWNER);
    fs::write(folder.path().join("roots"), "secret").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(folder.path().join("roots"), mode).unwrap();
    let ended = sh(
        folder.path(),
        "stat -c %u roots; cat roots; chmod 666 roots",
    );
    assert_ne!(ended.outcome, Some(Outcome::Exited { code: 0 }));
    assert_eq!(ended.stdout, "65534\n");
    assert!(
        ended.stderr.contains("cat: roots: Permission denied"),
        "{ended:?}"
    );
    let after = fs::metadata(folder.path().join("roots")).unwrap();
    assert_eq!(after.mode() & 0o7777, 0o600);
}

#[test]
fn no_file_of_the_owners_gets_a_set_user_id_bit() {
    if !can_run() {
        return;
    }
    let folder = folder_of(OWNER);
    let ended = sh(
        folder.path(),
        "cp /bin/true t; chmod u+s t; chmod 6755 t; install -m 4755 t u; stat -c %a t",
    );
    assert!(ended.stdout.starts_with("755"), "{ended:?}");
    for entry in fs::read_dir(folder.path()).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().mode();
        assert_eq!(mode & 0o6000, 0);
    }
}

#[test]
fn git_works_and_the_commit_is_the_owners() {
    if !can_run() {
        return;
    }
    let folder = repository();
    let ended = sh(
        folder.path(),
        "git status --short && echo two >> file && git commit -qam second && git log --format=%s && \
         git checkout -qb branch && git gc -q && git stash list && git fsck",
    );
    assert_eq!(ended.text(), "second\nfirst");
    let head = fs::metadata(folder.path().join(".git/HEAD")).unwrap();
    assert_eq!(head.uid(), OWNER);
    let log = Command::new("git")
        .args(["-c", "safe.directory=*", "log", "--format=%s"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&log.stdout), "second\nfirst\n");
}

#[test]
fn git_trusts_the_index_that_the_owner_wrote() {
    if !can_run() {
        return;
    }
    // The distribution's: one that was built here has its own idea of where `/etc` is.
    const GIT: &str = "/usr/bin/git";
    let folder = repository();
    let status = |when: &str| {
        let script = format!("{when}{GIT} status --short");
        let done = Command::new("/bin/sh")
            .args(["-c", &script])
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .uid(OWNER)
            .gid(OWNER)
            .status();
        assert!(done.unwrap().success());
    };
    let inside = |when: &str| {
        let ended = sh(folder.path(), &format!("{when}{GIT} status --short"));
        ended.text().to_owned()
    };
    // What is as new as the index is compared by content, whatever else is known of it.
    status("touch -d @1000000000 file && ");
    let index = folder.path().join(".git/index");
    let before = fs::read(&index).unwrap();
    assert_eq!(inside(""), "");
    // It writes the index again where it had to look into a file.
    assert!(fs::read(&index).unwrap() == before);
    assert_eq!(inside("echo two >> file && "), " M file");
}

#[test]
fn what_git_obeys_is_read_only_and_its_name_is_held() {
    if !can_run() {
        return;
    }
    let folder = repository();
    let git = folder.path().join(".git");
    fs::create_dir_all(git.join("modules/sub/hooks")).unwrap();
    give(folder.path());
    let before = fs::read(git.join("config")).unwrap();
    for attack in [
        "echo x >> .git/config",
        "git config core.fsmonitor evil",
        "rm -f .git/config",
        "mv .git/config .git/c",
        "cp .git/config c && mv c .git/config",
        "mv .git moved",
        "rm -rf .git",
        "mkdir evil && mv -T evil .git",
        "echo x > .git/hooks/post-commit",
        "mv .git/hooks .git/h",
        "rmdir .git/hooks",
        "ln -f file .git/config",
        "ln .git/config linked && echo x >> linked",
        "echo evil > .git/commondir",
        "rm -f .git/commondir",
        "mv .git/commondir .git/c",
        "echo x > .git/modules/sub/config",
        "chmod 777 .git/config",
        "python3 -c 'import os; os.rename(\".git\", \"g\")'",
        "umount .git/config",
    ] {
        let ended = sh(folder.path(), attack);
        assert_ne!(
            ended.outcome,
            Some(Outcome::Exited { code: 0 }),
            "{attack}: {ended:?}"
        );
        assert_eq!(fs::read(git.join("config")).unwrap(), before, "{attack}");
        assert!(fs::read_dir(git.join("hooks")).unwrap().all(|hook| {
            hook.unwrap()
                .file_name()
                .to_string_lossy()
                .ends_with(".sample")
        }));
        if git.join("commondir").exists() {
            assert_eq!(fs::read(git.join("commondir")).unwrap(), b".\n", "{attack}");
        }
    }
}

#[test]
fn placeholders_are_named_belong_to_the_owner_and_are_tidied() {
    if !can_run() {
        return;
    }
    let folder = repository();
    let git = folder.path().join(".git");
    fs::remove_dir_all(git.join("hooks")).unwrap();
    let session = Start::sh("mkdir -p .git/hooks/x; git status --short")
        .workspace(folder.path())
        .prepare()
        .unwrap();
    let wanted = [PathBuf::from(".git/hooks"), PathBuf::from(".git/commondir")];
    assert_eq!(session.placeholders, wanted);
    for made in ["hooks", "commondir"] {
        // Never given away: the owner may put another file under the name meanwhile.
        assert_eq!(fs::metadata(git.join(made)).unwrap().uid(), 0);
    }
    let placeholders = session.placeholders.clone();
    assert_eq!(session.run(b"").outcome, Some(Outcome::Exited { code: 0 }));

    // A session that crashed left them: the next one names the file again.
    let session = Start::sh("true")
        .workspace(folder.path())
        .prepare()
        .unwrap();
    assert_eq!(session.placeholders, [PathBuf::from(".git/commondir")]);
    drop(session);

    let at = path::folder(folder.path()).unwrap();
    custody_launch::tidy(&at, &placeholders).unwrap();
    assert!(!git.join("hooks").exists() && !git.join("commondir").exists());
    custody_launch::tidy(&at, &placeholders).unwrap();
}

#[test]
fn a_read_only_mount_in_the_workspace_is_refused_by_both_names() {
    if !can_run() {
        return;
    }
    let folder = repository();
    let vendor = folder.path().join("vendor");
    fs::create_dir(&vendor).unwrap();
    let mut start = Start::sh("true").workspace(folder.path());
    start.read_only = vec![vendor.clone()];
    let refused = start.refused();
    for path in [vendor.as_path(), folder.path()] {
        assert!(refused.contains(path.to_str().unwrap()), "{refused}");
    }
}

#[test]
fn tidying_takes_away_nothing_that_somebody_else_put_there() {
    if !can_run() {
        return;
    }
    let folder = repository();
    let git = folder.path().join(".git");
    let placeholders = [PathBuf::from(".git/hooks"), PathBuf::from(".git/commondir")];
    fs::write(git.join("hooks/kept"), "x").unwrap();
    fs::write(git.join("commondir"), "../elsewhere\n").unwrap();
    let at = path::folder(folder.path()).unwrap();
    custody_launch::tidy(&at, &placeholders).unwrap();
    assert!(git.join("hooks/kept").exists() && git.join("commondir").exists());

    // The agent's last word: symlinks and a FIFO instead.
    fs::remove_file(git.join("commondir")).unwrap();
    nix::unistd::mkfifo(&git.join("commondir"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    custody_launch::tidy(&at, &placeholders).unwrap();
    assert!(git.join("commondir").exists());
    let outside = folder_of(OWNER);
    fs::create_dir(outside.path().join("hooks")).unwrap();
    fs::remove_dir_all(&git).unwrap();
    std::os::unix::fs::symlink(outside.path(), &git).unwrap();
    assert!(custody_launch::tidy(&at, &placeholders).is_err());
    assert!(outside.path().join("hooks").exists());
}

#[test]
fn files_that_tools_obey_are_read_only_where_they_exist() {
    if !can_run() {
        return;
    }
    let folder = folder_of(OWNER);
    fs::create_dir(folder.path().join(".vscode")).unwrap();
    for file in [".envrc", ".npmrc", ".mcp.json", ".vscode/tasks.json"] {
        fs::write(folder.path().join(file), "before").unwrap();
    }
    give(folder.path());
    for attack in [
        "echo x > .envrc",
        "rm -f .npmrc",
        "mv .mcp.json m",
        "echo x > .vscode/tasks.json",
        "mv .vscode v",
        "echo x > .vscode/new",
    ] {
        let ended = sh(folder.path(), attack);
        assert_ne!(ended.outcome, Some(Outcome::Exited { code: 0 }), "{attack}");
    }
    for file in [".envrc", ".npmrc", ".mcp.json", ".vscode/tasks.json"] {
        assert_eq!(
            fs::read(folder.path().join(file)).unwrap(),
            b"before",
            "{file}"
        );
    }
    assert_eq!(
        sh(folder.path(), "echo x > ordinary && cat .envrc").text(),
        "before"
    );
}

#[test]
fn a_protected_name_that_is_a_symlink_is_refused() {
    if !can_run() {
        return;
    }
    for name in [".git", ".envrc", ".git/hooks"] {
        let folder = repository();
        let place = folder.path().join(name);
        if place.is_dir() {
            fs::remove_dir_all(&place).unwrap();
        }
        std::os::unix::fs::symlink("/var", &place).unwrap();
        let refused = Start::sh("true").workspace(folder.path()).refused();
        assert!(refused.contains("symlink"), "{name}: {refused}");
    }
}

#[test]
fn a_workspace_that_cannot_be_is_refused_by_name() {
    if !can_run() {
        return;
    }
    let real = folder_of(OWNER);
    let link = folder_of(OWNER);
    let link = link.path().join("link");
    std::os::unix::fs::symlink(real.path(), &link).unwrap();
    let in_tmp = tempfile::tempdir_in("/tmp").unwrap();
    std::os::unix::fs::chown(in_tmp.path(), Some(OWNER), Some(OWNER)).unwrap();
    let roots = tempfile::tempdir_in("/var/tmp").unwrap();
    for (place, why) in [
        (Path::new("/no/such/folder"), "`/no/such/folder`"),
        (Path::new("/"), "hide the session's own"),
        (Path::new("/home"), "hide the session's own"),
        (Path::new("/usr/src"), "lies below `/usr`"),
        (in_tmp.path(), "lies below `/tmp`"),
        (roots.path(), "owned by root"),
        (&link, "without symlinks"),
    ] {
        let refused = Start::sh("true").workspace(place).refused();
        assert!(refused.contains(why), "{place:?}: {refused}");
    }
}

/// A mount that is taken off at the end. In the tests' own mount namespace, below a folder of the
/// test's own.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        umount2(&self.0, nix::mount::MntFlags::MNT_DETACH).unwrap();
    }
}

#[test]
fn a_workspace_with_a_mount_inside_is_refused() {
    if !can_run() {
        return;
    }
    let folder = folder_of(OWNER);
    let inner = folder.path().join("a b");
    fs::create_dir(&inner).unwrap();
    let none = None::<&str>;
    nix::mount::mount(Some("tmpfs"), &inner, Some("tmpfs"), MsFlags::empty(), none).unwrap();
    let _mounted = Mounted(inner.clone());
    let refused = Start::sh("true").workspace(folder.path()).refused();
    assert!(refused.contains("holds a mount at"), "{refused}");
    assert!(refused.contains("a b"), "{refused}");
}

#[test]
fn a_file_system_without_id_maps_is_refused_with_its_layer_and_errno() {
    if !can_run() {
        return;
    }
    let parts = folder_of(OWNER);
    for part in ["lower", "upper", "work", "merged"] {
        fs::create_dir(parts.path().join(part)).unwrap();
    }
    give(parts.path());
    let place = |part: &str| parts.path().join(part);
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        place("lower").display(),
        place("upper").display(),
        place("work").display()
    );
    let merged = place("merged");
    let flags = MsFlags::empty();
    nix::mount::mount(
        Some("o"),
        &merged,
        Some("overlay"),
        flags,
        Some(options.as_str()),
    )
    .unwrap();
    let _mounted = Mounted(merged.clone());
    let refused = Start::sh("true").workspace(&merged).refused();
    for part in ["IdMap", "MOUNT_ATTR_IDMAP", "overlay", "errno 22"] {
        assert!(refused.contains(part), "{part} in {refused}");
    }
}

#[test]
fn another_folder_than_the_one_handed_over_is_refused() {
    if !can_run() {
        return;
    }
    let (one, other) = (folder_of(OWNER), folder_of(OWNER));
    let start = Start::sh("true").workspace(one.path());
    let refused = start.refused_with_workspace_of(other.path());
    assert!(
        refused.contains("not the folder that was handed over"),
        "{refused}"
    );
}

#[test]
fn a_read_only_file_system_stays_read_only() {
    if !can_run() {
        return;
    }
    let folder = folder_of(OWNER);
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    give(folder.path());
    let at: OwnedFd = path::folder(&inner).unwrap();
    let tree = Tree::copy_of(&at, Path::new(""), Depth::One).unwrap();
    tree.restrict(custody_sys::mount::Attributes::READ_ONLY, Depth::One)
        .unwrap();
    tree.attach(&at, Path::new("")).unwrap();
    let _mounted = Mounted(inner.clone());
    let ended = sh(&inner, "echo x > y");
    assert!(ended.stderr.contains("Read-only"), "{ended:?}");
}

/// Every call that gives a file its mode bits, by raw number (syscall_64.tbl), with set-user-id
/// and set-group-id; then the names that were made and what each call answered.
const SETS_BITS: &str = r"
import ctypes, errno, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
os.umask(0)
HERE, M = -100, 0o6755
def call(*a):
    r = libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    return 'ok' if r >= 0 else errno.errorcode[ctypes.get_errno()]
def s(name): return ctypes.c_char_p(name.encode())
def file(name):
    os.close(os.open(name, os.O_CREAT | os.O_RDWR, 0o755))
    return name
def fchmod(name): return call(91, os.open(file(name), os.O_RDONLY), M)
def unnamed(number, name):
    flags = os.O_TMPFILE | os.O_RDWR
    at = [s('.')] if number == 2 else [HERE, s('.')]
    fd = libc.syscall(number, *at, flags, M)
    if fd < 0: return errno.errorcode[ctypes.get_errno()]
    return call(265, HERE, s('/proc/self/fd/%d' % fd), HERE, s(name), 0x400)
def openat2(name):
    how = ctypes.create_string_buffer(struct.pack('QQQ', os.O_CREAT | os.O_RDWR, M, 0))
    return call(437, HERE, s(name), how, 24)
def bound(name):
    x = socket.socket(socket.AF_UNIX)
    done = call(91, x.fileno(), M)
    x.bind(name)
    return done
for name, tried in (
    ('chmod', lambda n: call(90, s(file(n)), M)),
    ('fchmod', fchmod),
    ('fchmodat', lambda n: call(268, HERE, s(file(n)), M)),
    ('fchmodat2', lambda n: call(452, HERE, s(file(n)), M, 0)),
    ('fchmodat2-path', lambda n: call(452, os.open(file(n), os.O_PATH), s(''), M, 0x1000)),
    ('open', lambda n: call(2, s(n), os.O_CREAT | os.O_RDWR, M)),
    ('creat', lambda n: call(85, s(n), M)),
    ('openat', lambda n: call(257, HERE, s(n), os.O_CREAT | os.O_RDWR, M)),
    ('openat2', openat2),
    ('open-unnamed', lambda n: unnamed(2, n)),
    ('openat-unnamed', lambda n: unnamed(257, n)),
    ('mkdir', lambda n: call(83, s(n), M)),
    ('mkdirat', lambda n: call(258, HERE, s(n), M)),
    ('mknod', lambda n: call(133, s(n), M | 0o100000, 0)),
    ('mknod-fifo', lambda n: call(133, s(n), M | 0o10000, 0)),
    ('mknodat', lambda n: call(259, HERE, s(n), M | 0o100000, 0)),
    ('socket', bound),
    ('chmod-folder', lambda n: os.mkdir(n) or call(90, s(n), M)),
):
    print(name, tried(name))
";

#[test]
fn set_user_id_bits_reach_no_file_of_the_owners_by_any_call() {
    if !can_run() {
        return;
    }
    let run = |without: &[Layer]| {
        let folder = folder_of(OWNER);
        let start = Start::python(SETS_BITS).workspace(folder.path());
        let text = start.without(without).run().text().to_owned();
        let mut with_bits: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.metadata().unwrap().mode() & 0o6000 != 0)
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        with_bits.sort();
        (text, with_bits)
    };
    let (text, with_bits) = run(&[]);
    assert_eq!(with_bits, Vec::<String>::new(), "{text}");
    for line in text.lines() {
        let wanted = if line.starts_with("openat2") {
            "ENOSYS"
        } else {
            "EPERM"
        };
        assert!(line.ends_with(wanted), "{text}");
    }
    // The control: without the filters each of them does it, on the owner's own files. Off a
    // folder that is made the kernel takes the bits itself (vfs_mkdir(), fs/namei.c).
    let (text, with_bits) = run(&[Layer::Seccomp]);
    let mut all: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    all.sort_unstable();
    assert_eq!(all.len(), 18, "{text}");
    all.retain(|call| !call.starts_with("mkdir"));
    assert_eq!(with_bits, all, "{text}");
}

#[test]
fn the_table_of_mounts_names_no_place_of_the_host_but_what_is_shown() {
    if !can_run() {
        return;
    }
    let folder = folder_of(OWNER);
    let ended = sh(folder.path(), "cat /proc/self/mountinfo");
    let mut of_the_host = 0;
    for line in ended.text().lines() {
        let (mount, system) = line.split_once(" - ").unwrap();
        let fields: Vec<&str> = mount.split(' ').collect();
        // proc_pid_mountinfo(5): the folder of the file system, and where it is mounted.
        let (root, point) = (fields[3], fields[4]);
        let own = ["devpts ", "proc ", "tmpfs "];
        if own.iter().any(|kind| system.starts_with(kind)) {
            assert!(root == "/" || root == "/null", "{line}");
            continue;
        }
        of_the_host += 1;
        // A name of its own has the programs' folder alone; an installed one is where it is shown.
        let shown = root == "/" || point.ends_with(root) || point == launch::PROGRAMS;
        assert!(shown, "{line}");
    }
    assert!(of_the_host > 2, "{ended:?}");
}
