//! `custody-probe`: one attack, read from standard input; what it saw, on standard output.

use std::io::{self, Read as _, Write as _};

use anyhow::Context as _;
use custody_tests::probe;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hold"] => return probe::hold().context("hold"),
        ["linger", role, mark] => return probe::linger(role, mark).context("linger"),
        _ => {}
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
