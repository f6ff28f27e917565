//! `custody-probe`: one attack, read from standard input; what it saw, on standard output.

use std::io::{self, Read as _, Write as _};

use anyhow::Context as _;
use custody_tests::probe;

fn main() -> anyhow::Result<()> {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "hold")
    {
        return probe::hold().context("hold");
    }
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .context("standard input")?;
    let attack: probe::Attack = serde_json::from_str(&text).context("the attack does not parse")?;
    let report = serde_json::to_vec(&probe::run(&attack))?;
    io::stdout().write_all(&report).context("standard output")?;
    Ok(())
}
