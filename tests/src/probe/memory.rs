//! Into other processes: memory, environment and descriptors of everyone that can be named.

use std::{
    fs::{self, File},
    io::{self, IoSliceMut},
    os::{fd::OwnedFd, unix::fs::FileExt as _, unix::net::UnixStream},
};

use nix::{
    sys::{
        ptrace,
        uio::{RemoteIoVec, process_vm_readv},
        wait::waitpid,
    },
    unistd::Pid,
};
use rustix::process::{PidfdFlags, PidfdGetfdFlags};
use serde::{Deserialize, Serialize};

use super::{Effect, Report, holdings, local};

/// By which call.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// `/proc/PID/environ` and `/proc/PID/cmdline` (proc_pid_environ(5)).
    Environ,
    /// `/proc/PID/fd`: open again what is open there (proc_pid_fd(5)).
    FdLinks,
    /// pidfd_getfd(2): take a copy of a descriptor.
    PidfdGetfd,
    /// `/proc/PID/mem` (proc_pid_mem(5)).
    ProcMem,
    /// process_vm_readv(2).
    ProcessVmReadv,
    /// PTRACE_ATTACH and PTRACE_PEEKDATA (ptrace(2)).
    Ptrace,
    /// `/proc/PID/task/TID/environ` of every thread (proc_pid_task(5)).
    TaskEnviron,
}

/// The most bytes looked at in one region: canaries are near the start of a heap.
const REGION_CAP: usize = 4 << 20;

/// PTRACE_PEEKDATA takes a word a call; a heap is enough.
const PEEK_CAP: usize = 256 << 10;

/// Descriptors tried in a process.
const FDS: i32 = 64;

pub(super) fn look(
    by: By,
    pids: &[i32],
    everyone: bool,
    effect: &Effect,
    report: &mut Report,
) -> Option<()> {
    let mut pids = pids.to_vec();
    if everyone {
        pids.extend(others(report));
    }
    pids.sort_unstable();
    pids.dedup();
    for pid in pids {
        // One process that cannot be read does not spare the next.
        let _failed: Option<()> = match by {
            By::Environ => environ(pid, report),
            By::FdLinks => fd_links(pid, report),
            By::PidfdGetfd => descriptors(pid, effect, report),
            By::ProcMem => proc_mem(pid, report),
            By::ProcessVmReadv => vm_readv(pid, report),
            By::Ptrace => peek(pid, report),
            By::TaskEnviron => task_environ(pid, report),
        };
    }
    Some(())
}

/// Every process that `/proc` shows, but this one.
fn others(report: &mut Report) -> Vec<i32> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let Some(entries) = report.step("getdents /proc", fs::read_dir("/proc")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .collect()
}

fn environ(pid: i32, report: &mut Report) -> Option<()> {
    for file in ["cmdline", "environ"] {
        let read = fs::read(format!("/proc/{pid}/{file}"));
        if let Some(bytes) = report.step(format!("open {file}"), read) {
            report.look(&bytes);
        }
    }
    Some(())
}

fn fd_links(pid: i32, report: &mut Report) -> Option<()> {
    let links = report.step("getdents fd", fs::read_dir(format!("/proc/{pid}/fd")))?;
    for link in links.flatten() {
        // What is no file (ENXIO), and what a process keeps from itself, is passed over.
        let is_file = fs::metadata(link.path()).map(|found| found.is_file());
        match is_file {
            Ok(false) => {}
            Ok(true) | Err(_) => {
                if let Some(file) = report.step("open fd", File::open(link.path())) {
                    holdings::read(&file, report);
                }
            }
        }
    }
    Some(())
}

fn task_environ(pid: i32, report: &mut Report) -> Option<()> {
    let tasks = report.step("getdents task", fs::read_dir(format!("/proc/{pid}/task")))?;
    for task in tasks.flatten() {
        let read = fs::read(task.path().join("environ"));
        if let Some(bytes) = report.step("open environ", read) {
            report.look(&bytes);
        }
    }
    Some(())
}

/// Writable private regions: start and length.
fn regions(pid: i32, report: &mut Report) -> Option<Vec<(usize, usize)>> {
    let maps = report.step("open maps", fs::read_to_string(format!("/proc/{pid}/maps")))?;
    Some(
        maps.lines()
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let (start, end) = words.next()?.split_once('-')?;
                let permissions = words.next()?;
                if !permissions.starts_with("rw") {
                    return None;
                }
                let start = usize::from_str_radix(start, 16).ok()?;
                let end = usize::from_str_radix(end, 16).ok()?;
                Some((start, end.saturating_sub(start).min(REGION_CAP)))
            })
            .collect(),
    )
}

fn proc_mem(pid: i32, report: &mut Report) -> Option<()> {
    let regions = regions(pid, report);
    let mem = report.step("open mem", File::open(format!("/proc/{pid}/mem")))?;
    for (start, length) in regions? {
        let mut bytes = vec![0; length];
        // A guard page or a secret region answers EIO: the next one may not.
        if let Ok(read) = mem.read_at(&mut bytes, u64::try_from(start).ok()?) {
            report.look(bytes.get(..read).unwrap_or_default());
        }
    }
    Some(())
}

fn vm_readv(pid: i32, report: &mut Report) -> Option<()> {
    // Where a process's program usually begins, for one whose map is hidden.
    let guess = vec![(0x0040_0000, 4096)];
    let regions = regions(pid, report).unwrap_or(guess);
    let mut done = Err(nix::errno::Errno::EFAULT);
    for (base, len) in regions {
        let mut bytes = vec![0; len];
        let read = process_vm_readv(
            Pid::from_raw(pid),
            &mut [IoSliceMut::new(&mut bytes)],
            &[RemoteIoVec { base, len }],
        );
        match read {
            Ok(read) => report.look(bytes.get(..read).unwrap_or_default()),
            Err(nix::errno::Errno::EFAULT) => continue,
            Err(_) => {}
        }
        if done.is_err() {
            done = read.map(drop);
        }
    }
    report.step("process_vm_readv", done)
}

fn peek(pid: i32, report: &mut Report) -> Option<()> {
    let regions = regions(pid, report);
    let target = Pid::from_raw(pid);
    report.step("ptrace PTRACE_ATTACH", ptrace::attach(target))?;
    report.step("wait4", waitpid(target, None))?;
    for (start, length) in regions.unwrap_or_default() {
        let mut bytes = Vec::new();
        for offset in (0..length.min(PEEK_CAP)).step_by(size_of::<usize>()) {
            let at = std::ptr::without_provenance_mut(start.saturating_add(offset));
            match ptrace::read(target, at) {
                Ok(word) => bytes.extend_from_slice(&word.to_ne_bytes()),
                Err(_) => break,
            }
        }
        report.look(&bytes);
    }
    report.step("ptrace PTRACE_DETACH", ptrace::detach(target, None))
}

fn descriptors(pid: i32, effect: &Effect, report: &mut Report) -> Option<()> {
    let raw = rustix::process::Pid::from_raw(pid)?;
    let pidfd = report.step(
        "pidfd_open",
        rustix::process::pidfd_open(raw, PidfdFlags::empty()),
    )?;
    for number in 0..FDS {
        match rustix::process::pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()) {
            Ok(fd) => {
                report.step("pidfd_getfd", Ok::<(), io::Error>(()))?;
                take(fd, effect, report);
            }
            Err(rustix::io::Errno::BADF) => {}
            Err(error) => return report.step("pidfd_getfd", Err(error)),
        }
    }
    Some(())
}

/// Uses a descriptor that was taken from someone.
fn take(fd: OwnedFd, effect: &Effect, report: &mut Report) {
    match holdings::kind(&fd) {
        holdings::Kind::File => holdings::read(&File::from(fd), report),
        holdings::Kind::Other => {}
        holdings::Kind::Socket if !holdings::is_connected_stream(&fd) => {}
        holdings::Kind::Socket => {
            let _failed: Option<()> = local::say(&mut UnixStream::from(fd), effect, report);
        }
    }
}
