//! `bench ledger`: records a second with signed checkpoints, beside a signature for every line and beside the
//! disk's own fdatasync; then what a long chain takes to verify and to look something up in.
//!
//! It runs the ledger's own example, built for release: nothing of a service, no root.

use anyhow::Result;

use crate::{places::Places, stage};

pub(super) fn run(places: &Places) -> Result<()> {
    stage::must(places.cargo().args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "custody-ledger",
        "--example",
        "ledger",
        "--",
        // On a disk: a folder in memory has no fdatasync to speak of.
        "/var/tmp",
    ]))
}
