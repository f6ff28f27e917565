//! `custody audit`: what a ledger's own traffic says of the policies that it was decided by.

use std::path::Path;

use anyhow::Context as _;
use custody_audit::{Declared, Report, Source, Tally, declared::Policies, source};

use crate::{
    args::{Audit, AuditFormat},
    exit::Exit,
    ledger::Trusted,
    policy, print, whole,
};

/// `custody audit`.
///
/// # Errors
/// When the ledger, the export, a key or a policy is not good, or the report cannot be written.
pub fn audit(wanted: &Audit) -> anyhow::Result<Exit> {
    let mut policies = Policies::new();
    for file in &wanted.policies {
        let Some((policy, text)) = policy::compile_text(file)? else {
            return Ok(Exit::Failed);
        };
        let declared = Declared::new(policy, &text);
        let name = declared.name().to_string();
        if policies.insert(name.clone(), declared).is_some() {
            anyhow::bail!("policy `{name}` is given twice");
        }
    }
    let mut tally = Tally::new(wanted.since);
    let source = read(&wanted.what, &(&wanted.keys).into(), &mut tally)?;
    let report = Report::new(source, &tally, &policies);
    let text = match wanted.format {
        AuditFormat::Json => report.json().context("the report has no form")?,
        AuditFormat::Md => report.markdown(),
        AuditFormat::Text => report.text(),
    };
    match &wanted.output {
        Some(path) => whole::write(path, text.as_bytes())?,
        None => print(&text),
    }
    Ok(Exit::Done)
}

fn read(what: &Path, trusted: &Trusted, tally: &mut Tally) -> anyhow::Result<Source> {
    let mut take = |record: source::Record<'_>| tally.take(record);
    if !what.is_file() {
        let keys = trusted.for_ledger(what)?;
        return Ok(source::ledger(what, &keys, &mut take)?);
    }
    Ok(source::export(what, &trusted.for_export()?, &mut take)?)
}
