//! The scanner and the gate on Verb Authority's public corpus, for `cargo xtask bench scan`: reads the corpus's file,
//! writes one JSON object of figures.

mod case;
mod figures;
mod policy;

use std::{error::Error, fs, io::Write as _};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("which corpus?")?;
    let figures = figures::of(&fs::read(path)?)?;
    writeln!(
        std::io::stdout().lock(),
        "{}",
        serde_json::to_string(&figures)?
    )?;
    Ok(())
}
