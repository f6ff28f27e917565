//! The signed statement: made here, signed by `ssh-keygen` or whatever the reviewer names. No private key
//! is read by this program.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail};
use custody_shown::Sheet;
use custody_wire::{operator::Shown, session::Signed};
use gate::{
    approval::{FORMAT, NAMESPACE, Scope, Statement},
    nonce::Nonce,
};

/// How long a statement is good for, if nothing else is said, in milliseconds: it is used at once.
const LIFE: u64 = 10 * 60 * 1_000;

/// Who signs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signer<'a> {
    /// A command that reads the statement and writes the signature.
    Command(&'a str),
    /// `ssh-keygen` with this key.
    Key(&'a Path),
}

/// A statement of the call on `sheet`, signed.
///
/// # Errors
/// When there is no vault to name, or nothing comes back that looks like a signature.
pub(crate) fn sign(
    shown: &Shown,
    sheet: &Sheet,
    scope: Scope,
    now: u64,
    signer: Signer<'_>,
) -> anyhow::Result<Signed> {
    let waits = &shown.waits;
    let Some(vault) = waits.vault else {
        bail!("the vault is not there, and a signature is for one run of it; try again");
    };
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(|error| anyhow::anyhow!("getrandom(2): {error}"))?;
    let statement = Statement {
        audience: vault.audience,
        call: sheet.digest,
        decision: waits.decision,
        epoch: vault.epoch,
        expires: scope
            .until
            .unwrap_or_else(|| now.saturating_add(LIFE))
            .min(waits.expires),
        format: FORMAT,
        nonce: Nonce(nonce),
        policy: waits.policy_hash,
        scope,
        session: waits.session,
        tool: waits.tool.clone(),
    };
    let statement = statement.to_bytes()?;
    let signature = run(signer, &statement)?;
    Ok(Signed {
        statement,
        signature,
    })
}

/// Runs the signer with the reviewer's own terminal: it may ask for a passphrase or a touch.
fn run(signer: Signer<'_>, statement: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut command = match signer {
        Signer::Command(line) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", line]);
            shell
        }
        Signer::Key(key) => {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-Y", "sign", "-n", NAMESPACE, "-f"]).arg(key);
            keygen
        }
    };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run the signer (ssh-keygen of OpenSSH 8.2 or newer)")?;
    // Less than a pipe holds: it is written before anything is read.
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(statement)
            .context("the signer does not read")?;
    }
    let output = child.wait_with_output().context("the signer")?;
    if !output.status.success() {
        bail!(
            "the signer failed ({}); nothing was approved",
            output.status
        );
    }
    if !output.stdout.starts_with(b"-----BEGIN SSH SIGNATURE-----")
        || output.stdout.len() > Signed::PART_MAX
    {
        bail!("what the signer wrote is no SSH signature; nothing was approved");
    }
    Ok(output.stdout)
}
