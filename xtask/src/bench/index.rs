//! `bench index`: what the index of value origin takes, recording and asked, up to its cap.
//!
//! It runs the gate's own example, built for release: nothing of a service, no root.

use anyhow::Result;

use crate::{places::Places, stage};

pub(super) fn run(places: &Places) -> Result<()> {
    stage::must(places.cargo().args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "gate",
        "--example",
        "index",
    ]))
}
