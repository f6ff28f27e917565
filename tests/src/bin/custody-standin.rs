//! `custody-standin`: a target for the suite's controls. It holds a canary and helps anyone.

use anyhow::Context as _;

fn main() -> anyhow::Result<()> {
    custody_tests::standin::run().context("standin")
}
