//! `custody revoke`, `unlock`.

use std::path::Path;

use anyhow::anyhow;
use custody_wire::{operator::Request, revoke::Revoked};
use gate::id::ToolName;

use crate::{connect::Control, exit::Exit, say};

/// `custody revoke`.
///
/// # Errors
/// When there is no such thing, or the service does not answer or refuses.
pub fn revoke(socket: &Path, kind: &str, name: &str) -> anyhow::Result<Exit> {
    let what = Revoked::parse(kind, name).map_err(|why| anyhow!(why))?;
    let said = format!("{what} is revoked");
    let _done = Control::connect(socket)?.ask(&Request::Revoke(what))?;
    say(&said);
    Ok(Exit::Done)
}

/// `custody unlock`.
///
/// # Errors
/// When the tool is not locked, or the service does not answer or refuses.
pub fn unlock(socket: &Path, tool: ToolName) -> anyhow::Result<Exit> {
    let said = format!("tool {tool} goes on");
    let _done = Control::connect(socket)?.ask(&Request::Unlock { tool })?;
    say(&said);
    Ok(Exit::Done)
}
