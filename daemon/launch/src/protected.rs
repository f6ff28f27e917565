//! Names in a workspace that a program of the host obeys without asking: read-only in a session.
//!
//! A mount is what holds a name: it cannot be renamed, unlinked or replaced (EBUSY). A file below
//! a folder that can be renamed is not held, so `.git` is a mount of its own, writable, and the
//! names in it are read-only mounts on top.
//!
//! **Not held,** and named in README: repositories that the agent makes itself, `.git` of
//! subfolders, names of this table that did not exist when the session started (but two below),
//! and every build file, script and source that a person runs afterwards.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use custody_sys::{
    mount::{Depth, Tree},
    path,
};
use nix::{fcntl::OFlag, sys::stat::Mode};

use crate::{
    failure::Failure,
    root::{Mounting as _, READ_ONLY},
};

/// Read-only where they exist at the top of a workspace, and who obeys them.
const NAMES: [(&str, &str); 38] = [
    (".bash_login", "bash, where a workspace is a home"),
    (".bash_logout", "bash"),
    (".bash_profile", "bash"),
    (".bashrc", "bash"),
    (".cargo", "cargo: runner, rustc-wrapper, linker"),
    (".claude", "Claude Code: hooks, permissions"),
    (".codex", "Codex: configuration, MCP servers"),
    (".continue", "Continue: configuration"),
    (".cursor", "Cursor: rules, MCP servers"),
    (".devcontainer", "VS Code and others: commands at start"),
    (".envrc", "direnv"),
    (".exrc", "vi"),
    (".gdbinit", "gdb"),
    (".gemini", "Gemini CLI: configuration, MCP servers"),
    (
        ".gitconfig",
        "git, where a workspace is a home or includes it",
    ),
    (".githooks", "git, as core.hooksPath"),
    (".gitmodules", "git submodule update: URLs and commands"),
    (".husky", "git, as core.hooksPath"),
    (".idea", "JetBrains IDEs: run configurations, file watchers"),
    (".lldbinit", "lldb"),
    (".mcp.json", "MCP clients: commands of servers"),
    (".mise.toml", "mise: hooks, environment"),
    (".npmrc", "npm: registry, script-shell"),
    (".nvim.lua", "neovim"),
    (".nvimrc", "neovim"),
    (".pnpmfile.cjs", "pnpm: runs it"),
    (".pre-commit-config.yaml", "pre-commit"),
    (".profile", "login shells"),
    (".pypirc", "twine"),
    (".tool-versions", "asdf, mise"),
    (".vimrc", "vim"),
    (".vscode", "VS Code: tasks, settings"),
    (".yarnrc", "yarn: yarn-path"),
    (".yarnrc.yml", "yarn: yarnPath, plugins"),
    (".zprofile", "zsh"),
    (".zshenv", "zsh"),
    (".zshrc", "zsh"),
    ("lefthook.yml", "lefthook: git hooks"),
];

/// Read-only in `.git`, and why git obeys them. `info/attributes` is not here: attributes only
/// choose among drivers that `config` defines, and `.gitattributes` could say the same.
const GIT_NAMES: [(&str, &str); 4] = [
    ("config", "aliases, fsmonitor, hooksPath, drivers: commands"),
    ("config.worktree", "as config, where config asks for it"),
    ("modules", "config and hooks of submodules"),
    ("worktrees", "commondir of linked working trees"),
];

/// Where git looks for hooks; held even if it does not exist, by an empty folder.
const HOOKS: &str = "hooks";

/// With this file git takes config and hooks from the folder that it names
/// (gitrepository-layout(5)): to create it is to run a command at the next `git status` of the
/// host. Held by a file that names the folder itself.
const COMMONDIR: &str = "commondir";
const SAME_FOLDER: &[u8] = b".\n";

const GIT: &str = ".git";

/// Mounts over the protected names of the workspace mounted at `inside`, which is `host` outside.
pub(crate) fn protect(host: &OwnedFd, inside: &OwnedFd) -> Result<Vec<PathBuf>, Failure> {
    for (name, _why) in NAMES {
        hold(inside, name)?;
    }
    let Some(git) = find(inside, GIT)? else {
        return Ok(Vec::new());
    };
    if !is_folder(&git)? {
        // A file names the folder that git uses (gitrepository-layout(5)).
        hold(inside, GIT)?;
        return Ok(Vec::new());
    }
    pin(git)?;
    let git = find(inside, GIT)?.ok_or_else(|| vanished(GIT))?;
    let place = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let outside = path::open_within(host, Path::new(GIT), place, Mode::empty())
        .mount(|| "openat2(2) of `.git`".into())?;
    let mut placeholders = Vec::new();
    if make_folder(&outside, HOOKS)? {
        placeholders.push(Path::new(GIT).join(HOOKS));
    }
    if make_commondir(&outside)? {
        placeholders.push(Path::new(GIT).join(COMMONDIR));
    }
    for name in [HOOKS, COMMONDIR] {
        hold(&git, name)?;
    }
    for (name, _why) in GIT_NAMES {
        hold(&git, name)?;
    }
    Ok(placeholders)
}

/// Removes what [`protect`] made in `folder` if it is as it was made. For custodyd, when no
/// session has the folder any more. Says what is left.
///
/// # Errors
/// Never because a placeholder was changed or is gone; only when the kernel refuses.
pub fn tidy(folder: impl AsFd, placeholders: &[PathBuf]) -> io::Result<()> {
    for placeholder in placeholders {
        let parent = placeholder.parent().unwrap_or(Path::new(""));
        let name = placeholder
            .file_name()
            .map(Path::new)
            .unwrap_or(Path::new(""));
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let parent = match path::open_within(&folder, parent, flags, Mode::empty()) {
            Ok(parent) => parent,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let how = if name == Path::new(COMMONDIR) {
            if !is_ours(&parent)? {
                continue;
            }
            nix::unistd::UnlinkatFlags::NoRemoveDir
        } else {
            nix::unistd::UnlinkatFlags::RemoveDir
        };
        match nix::unistd::unlinkat(&parent, name, how) {
            Ok(()) => {}
            Err(
                nix::errno::Errno::ENOENT
                | nix::errno::Errno::ENOTDIR
                | nix::errno::Errno::ENOTEMPTY,
            ) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Opens a name as a place, never through a symlink.
fn find(at: &OwnedFd, name: &str) -> Result<Option<OwnedFd>, Failure> {
    match path::open_beneath(at, Path::new(name), OFlag::O_PATH, Mode::empty()) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => Err(Failure::refused(
            Some(custody_wire::layer::Layer::MountNamespace),
            format!("`{name}` in the workspace is a symlink, which cannot be protected"),
        )),
        Err(error) => Err(error).mount(|| format!("open(2) of `{name}` in the workspace")),
    }
}

fn is_folder(fd: &OwnedFd) -> Result<bool, Failure> {
    let file = File::from(fd.try_clone().mount(|| "fcntl(2)".into())?);
    let found = file
        .metadata()
        .mount(|| "stat(2) in the workspace".into())?;
    Ok(found.is_dir())
}

/// Mounts a folder on itself: it stays writable, but its name is held.
fn pin(folder: OwnedFd) -> Result<(), Failure> {
    let tree = Tree::copy_of(&folder, Path::new(""), Depth::One)
        .mount(|| "open_tree(2) of `.git`".into())?;
    tree.attach(&folder, Path::new(""))
        .mount(|| "move_mount(2) on `.git`".into())
}

/// Mounts a name on itself, read-only, if it exists.
fn hold(at: &OwnedFd, name: &str) -> Result<(), Failure> {
    let Some(found) = find(at, name)? else {
        return Ok(());
    };
    let tree = Tree::copy_of(&found, Path::new(""), Depth::One)
        .mount(|| format!("open_tree(2) of `{name}` in the workspace"))?;
    tree.restrict(READ_ONLY, Depth::One)
        .mount(|| format!("mount_setattr(2) of `{name}` in the workspace"))?;
    tree.attach(&found, Path::new(""))
        .mount(|| format!("move_mount(2) over `{name}` in the workspace"))
}

/// Makes an empty folder where there is none. It stays root's: who owns `at` can put something else
/// under the name at any moment, and a change of owner would be of that. He can remove it, too.
fn make_folder(at: &OwnedFd, name: &str) -> Result<bool, Failure> {
    match nix::sys::stat::mkdirat(at, name, Mode::from_bits_truncate(0o755)) {
        Ok(()) => Ok(true),
        Err(nix::errno::Errno::EEXIST) => Ok(false),
        Err(errno) => Err(errno).mount(|| format!("mkdir(2) of `.git/{name}`")),
    }
}

/// Whether `commondir` is a placeholder of ours, made now or left by a session that crashed.
fn make_commondir(at: &OwnedFd) -> Result<bool, Failure> {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY;
    let mode = Mode::from_bits_truncate(0o644);
    match path::open_within(at, Path::new(COMMONDIR), flags, mode) {
        Ok(file) => {
            File::from(file)
                .write_all(SAME_FOLDER)
                .mount(|| "write(2) of `.git/commondir`".into())?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            is_ours(at).mount(|| "read(2) of `.git/commondir`".into())
        }
        Err(error) => Err(error).mount(|| "making `.git/commondir`".into()),
    }
}

/// Whether the `commondir` in `at` says what ours says.
fn is_ours(at: &OwnedFd) -> io::Result<bool> {
    use std::io::Read as _;

    // O_NONBLOCK: the agent may have put a FIFO there.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK;
    let file = match path::open_within(at, Path::new(COMMONDIR), flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(_gone_or_other) => return Ok(false),
    };
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let mut text = Vec::new();
    file.take(8).read_to_end(&mut text)?;
    Ok(text == SAME_FOLDER)
}

fn vanished(name: &str) -> Failure {
    Failure::refused(
        Some(custody_wire::layer::Layer::MountNamespace),
        format!("`{name}` in the workspace vanished"),
    )
}
