//! `custody scan`: which arguments of exported tools carry authority.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use custody_scan::{
    controls, input,
    report::{Names, Report},
};

use crate::{
    args::{ReportFormat, Scan},
    exit::Exit,
    say, whole,
};

/// `custody scan`.
///
/// # Errors
/// When an input is refused, or the report cannot be written.
pub fn scan(wanted: &Scan) -> anyhow::Result<Exit> {
    let exports = input::read(&wanted.files)?;
    let controls = match &wanted.controls {
        Some(file) => Some(controls::read(file, &exports)?),
        None => None,
    };
    let names = if wanted.redact_names {
        Names::Redacted
    } else {
        Names::Shown
    };
    let report = Report::of(&exports, controls.as_ref(), names)?;
    let text = match wanted.format {
        ReportFormat::Json => report.json().context("cannot write the report as JSON")?,
        ReportFormat::Md => report.markdown(),
    };
    let Some(output) = &wanted.output else {
        say(text.trim_end());
        return Ok(Exit::Done);
    };
    write_beside(wanted.files.iter().chain(&wanted.controls), output, &text)?;
    Ok(Exit::Done)
}

/// Writes what was made of `inputs`, and over none of them.
///
/// # Errors
/// When it would be, or the file cannot be written.
pub(crate) fn write_beside<'a>(
    mut inputs: impl Iterator<Item = &'a PathBuf>,
    output: &Path,
    text: &str,
) -> anyhow::Result<()> {
    if let Some(input) = inputs.find(|it| is_same(it, output)) {
        bail!(
            "`{}` is read in this run and would be overwritten; name another file",
            input.display()
        );
    }
    whole::write(output, text.as_bytes())
}

/// Whether both names are of one file that is there.
fn is_same(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
    id(a).is_some_and(|a| id(b) == Some(a))
}
