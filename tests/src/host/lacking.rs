//! A kernel that lacks system calls: the same one, with a filter that answers ENOSYS for them.
//!
//! custodyd and all that it starts run under the filter (seccomp(2) is inherited), so that a layer
//! is missing as it is on an older kernel, and nothing of ours knows why.

use std::{collections::BTreeMap, os::unix::process::CommandExt as _, process::Command};

use anyhow::Context as _;
use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// The program `custody-lacking NUMBER[,NUMBER…] PROGRAM ARGUMENT…`.
///
/// # Errors
/// When the filter cannot be installed or the program not be executed.
pub fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let numbers = arguments.next().context("no system calls")?;
    let program = arguments.next().context("no program")?;
    let rules = numbers
        .to_string_lossy()
        .split(',')
        .map(|number| Ok((number.parse()?, Vec::new())))
        .collect::<anyhow::Result<BTreeMap<i64, _>>>()?;
    let enosys = SeccompAction::Errno(u32::try_from(libc::ENOSYS)?);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, enosys, TargetArch::x86_64)?;
    let filter: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&filter)?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).context("execute")
}
