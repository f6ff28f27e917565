//! `custody policy init`: a policy to begin with, of what a scan says.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use custody_scan::{
    controls::{self, Stated},
    draft,
    infer::{self, Tier},
    input,
};
use gate::{id::PolicyName, policy::Policy};

use crate::{args::Init, exit::Exit, print, say, scan};

/// What the policy is called where no file says it.
const NAME: &str = "draft";

/// `custody policy init`.
///
/// # Errors
/// When an input is refused, or the draft cannot be written.
pub fn init(wanted: &Init) -> anyhow::Result<Exit> {
    let name = match &wanted.output {
        Some(output) => super::name_of(output)?,
        None => PolicyName::parse(NAME)?,
    };
    if let Some(output) = wanted
        .output
        .as_ref()
        .filter(|it| it.symlink_metadata().is_ok())
    {
        // What a person made of a draft is worth more than another draft.
        bail!("`{}` is there already; name another file", output.display());
    }
    let exports = input::read(&[&wanted.export])?;
    let controls = match &wanted.controls {
        Some(file) => Some(controls::read(file, &exports)?),
        None => None,
    };
    let stated = |name: &str| controls.as_ref().and_then(|it| it.tools.get(name));
    let declared = |name: &str| stated(name).map_or(Tier::Unknown, Stated::tier);
    let export = exports.first().context("nothing was read")?;
    let scanned = infer::scan(export, &declared)?;
    let draft = draft::of(export, &scanned);
    Policy::compile(&name, &draft.text).context("the draft does not compile; please report it")?;
    let Some(output) = &wanted.output else {
        print(&draft.text);
        return Ok(Exit::Done);
    };
    let inputs: Vec<&PathBuf> = [&wanted.export]
        .into_iter()
        .chain(&wanted.controls)
        .collect();
    scan::write_beside(inputs.into_iter(), output, &draft.text)?;
    say(&format!(
        "{} guesses are marked in it, and {} arguments are left out; look at each",
        draft.guesses, draft.left_out
    ));
    Ok(Exit::Done)
}
