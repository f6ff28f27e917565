//! What one run brings into its guest: programs, tests, the checkout's files, the command.
//!
//! ```text
//! /payload/custody/    the programs, as `cargo xtask build` leaves them
//! /payload/tests/      test programs
//! /payload/checkout/   the files that git knows; mounted where the checkout was built, too
//! /payload/guest/      our scripts and the command
//! ```

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::disk::{self, Kind};
use crate::{
    places::{self, Places},
    stage,
};

const INIT: &str = include_str!("inside/init.sh");
const RUN: &str = include_str!("inside/run.sh");

/// Makes the payload's disk in the folder `run`.
pub(super) fn make(
    places: &Places,
    command: &[String],
    tests: &[PathBuf],
    run: &Path,
) -> Result<PathBuf> {
    let folder = run.join("payload");
    for below in ["", "checkout", "guest", "tests"] {
        fs::create_dir(folder.join(below)).context("the payload's folder")?;
    }
    // Linked, not copied: they are large, and nothing changes them.
    let mut link = places::as_root("cp");
    stage::must(link.arg("-al").args([&places.programs(), &folder]))?;
    for test in tests {
        let name = test.file_name().context("a test's name")?;
        let to = folder.join("tests").join(name);
        fs::hard_link(test, &to)
            .or_else(|_| fs::copy(test, &to).map(drop))
            .with_context(|| format!("`{}`", test.display()))?;
    }
    checkout(places, &folder.join("checkout"))?;
    for (name, text) in [
        ("init", INIT.to_owned()),
        ("run", RUN.to_owned()),
        ("command", script(command)),
        ("checkout", places.root.display().to_string()),
        ("target", places.target.display().to_string()),
    ] {
        fs::write(folder.join("guest").join(name), text).context(name)?;
    }
    let file = run.join("payload.ext4");
    disk::make(&folder, &file, Kind::Plain)?;
    Ok(file)
}

/// Every file that git knows or would add, as it is now.
fn checkout(places: &Places, to: &Path) -> Result<()> {
    for name in places.files()? {
        let from = places.root.join(&name);
        if !from.is_file() {
            continue; // deleted and not yet committed
        }
        let file = to.join(name);
        let folder = file.parent().context("a folder")?;
        fs::create_dir_all(folder)
            .and_then(|()| fs::copy(&from, &file))
            .with_context(|| format!("`{}`", from.display()))?;
    }
    Ok(())
}

/// The command as one line for sh(1): every word stays one word.
fn script(command: &[String]) -> String {
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    format!("exec {}\n", words.join(" "))
}

/// Within single quotes nothing has a meaning but the quote itself (sh(1p), 2.2.2).
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn every_word_of_a_command_stays_one_word() {
        let command = ["printf", "%s.", "a b", "it's", "$HOME", "", "`x`\n"];
        let command = command.map(str::to_owned);
        let output = Command::new("sh")
            .args(["-c", &script(&command)])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "a b.it's.$HOME..`x`\n."
        );
    }
}
