//! `forgeries`: every permit, statement, chain and export that is not what it says it is, and why each is
//! refused. The same tests run in `cargo xtask test`.

use anyhow::{Context as _, Result, bail};

use crate::{places::Places, say, stage};

/// Package, its tests' target, test.
const TESTS: [(&str, &str, &str); 2] = [
    (
        "custody-vault",
        "vault",
        "forgeries::each_permit_and_statement_that_is_forged_is_refused_for_its_own_reason",
    ),
    (
        "custody-ledger",
        "ledger",
        "forgeries::each_chain_and_export_that_is_forged_is_refused_for_its_own_reason",
    ),
];

pub(crate) fn run(places: &Places) -> Result<()> {
    let mut count = 0_usize;
    say::line("family | what was tried | refused: why");
    for (package, target, test) in TESTS {
        let mut cargo = places.cargo();
        cargo
            .args(["test", "--locked", "--package", package, "--test", target])
            .args(["--", "--exact", test, "--nocapture"]);
        let said = stage::output(&mut cargo)?;
        let tried = said
            .lines()
            .filter_map(|line| line.strip_prefix("forgery | "));
        for line in tried {
            say::line(line);
            count = count.checked_add(1).context("the count")?;
        }
    }
    if count == 0 {
        bail!("the tests said nothing");
    }
    say::line(format_args!(
        "{count} forgeries, each refused for its own reason"
    ));
    Ok(())
}
