//! What a guest left: its exit status, and its files.
//!
//! QEMU ends with 0 after a poweroff and after a panic alike: only what the guest itself sent
//! counts, and where nothing was sent the run has failed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use super::{machine::Machine, tools};
use crate::stage;

/// A command that came to its end in a guest.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The kernel's release, as uname(1) says it.
    pub(crate) kernel: String,
    /// The command's exit status.
    pub(crate) code: i32,
    /// What it left in `/output`, with `dmesg.log`; beside it `serial.log`.
    pub(crate) output: PathBuf,
}

impl Outcome {
    pub(super) fn read(machine: &Machine<'_>, output: &Path) -> Result<Self> {
        let result = fs::read_to_string(machine.port("result")).unwrap_or_default();
        let code = code(&result)?;
        let mut tar = tools::tool("tar");
        tar.args(["--extract", "--no-same-owner", "--no-same-permissions"])
            .arg("--file")
            .arg(machine.port("output"))
            .arg("--directory")
            .arg(output);
        stage::output(&mut tar).context("the guest's output is damaged")?;
        Ok(Self {
            kernel: machine.kernel.release.clone(),
            code,
            output: output.to_owned(),
        })
    }
}

/// `exit=N` and nothing else.
fn code(result: &str) -> Result<i32> {
    let Some(code) = result.strip_prefix("exit=") else {
        bail!("the guest ended without a result: a panic, or it never came to the command");
    };
    code.trim_end()
        .parse()
        .with_context(|| format!("the guest's result is `{}`", result.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_result_counts() {
        assert_eq!(code("exit=0\n").unwrap(), 0);
        assert_eq!(code("exit=7\n").unwrap(), 7);
        for bad in ["", "exit=", "exit=0 exit=0", "0\n", "exit=x\n"] {
            assert!(code(bad).is_err(), "{bad}");
        }
    }
}
