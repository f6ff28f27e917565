//! `tidy`: the rules of the tree that no compiler checks. One rule a file.

use anyhow::{Result, bail};

use crate::{places::Places, say};

mod dependencies;
mod docs;
mod imports;
pub(crate) mod layers;
mod manifests;
mod non_claims;
mod purity;
mod text;
mod unsafety;

/// One broken rule: where, and what to do.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Finding {
    /// The file, from the checkout, with a line where there is one.
    place: String,
    what: String,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
        }
    }
}

/// A file of the tree.
pub(crate) struct Source {
    /// From the checkout.
    path: String,
    text: String,
}

pub(crate) fn run(places: &Places) -> Result<()> {
    say::step("tidy");
    let sources = sources(places)?;
    let mut findings = Vec::new();
    findings.extend(dependencies::check(places)?);
    findings.extend(docs::check(places)?);
    findings.extend(imports::check(places)?);
    findings.extend(layers::check(places)?);
    findings.extend(non_claims::check(places)?);
    for source in &sources {
        findings.extend(manifests::check(source));
        findings.extend(text::check(source));
        findings.extend(unsafety::check(source));
        if let Some(warning) = text::warn(source) {
            say::line(format_args!(
                "    warning: {}: {}",
                warning.place, warning.what
            ));
        }
    }
    findings.extend(purity::check(places)?);
    for finding in &findings {
        say::line(format_args!("    {}: {}", finding.place, finding.what));
    }
    if findings.is_empty() {
        say::line(format_args!("    {} files are tidy", sources.len()));
        Ok(())
    } else {
        bail!("{} findings", findings.len());
    }
}

/// Every text file that git knows or would add.
fn sources(places: &Places) -> Result<Vec<Source>> {
    Ok(places
        .files()?
        .into_iter()
        .filter_map(|path| {
            // Deleted but not yet committed, or not text: nothing to look at.
            let text = std::fs::read_to_string(places.root.join(&path)).ok()?;
            Some(Source { path, text })
        })
        .collect())
}
