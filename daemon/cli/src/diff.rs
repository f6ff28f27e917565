//! `custody diff`: what changed between two exports, and whether authority grew.

use anyhow::Context as _;
use custody_scan::{
    controls::{self, Controls},
    diff::{Diff, Effect, Side},
    input::{self, Export},
};

use crate::{
    args::{Compare, DiffFormat},
    exit::Exit,
    say, scan,
};

/// `custody diff`.
///
/// # Errors
/// When an input is refused, or the diff cannot be written.
pub fn diff(wanted: &Compare) -> anyhow::Result<Exit> {
    let before = read(&wanted.before, wanted.controls_before.as_deref())?;
    let after = read(&wanted.after, wanted.controls_after.as_deref())?;
    let (before, after) = (side(&before), side(&after));
    let diff = Diff::of(before, after)?;
    let text = match wanted.format {
        DiffFormat::Json => diff
            .json(before, after)
            .context("cannot write the diff as JSON")?,
        DiffFormat::Text => diff.text(),
    };
    match &wanted.output {
        Some(output) => {
            let controls = wanted.controls_before.iter().chain(&wanted.controls_after);
            let inputs = [&wanted.before, &wanted.after].into_iter().chain(controls);
            scan::write_beside(inputs, output, &text)?;
        }
        None => say(text.trim_end()),
    }
    let grew = wanted.fail_on_increase && diff.count(Effect::AuthorityIncrease) > 0;
    let left = diff.count(Effect::Review) > 0 || !diff.debt.is_empty();
    Ok(if grew || wanted.fail_on_review && left {
        Exit::Bad
    } else {
        Exit::Done
    })
}

fn read(
    export: &std::path::Path,
    controls: Option<&std::path::Path>,
) -> anyhow::Result<(Export, Option<Controls>)> {
    let exports = input::read(&[export])?;
    let controls = controls
        .map(|file| controls::read(file, &exports))
        .transpose()?;
    let export = exports.into_iter().next();
    Ok((export.context("nothing was read")?, controls))
}

fn side(read: &(Export, Option<Controls>)) -> Side<'_> {
    Side {
        export: &read.0,
        controls: read.1.as_ref(),
    }
}
