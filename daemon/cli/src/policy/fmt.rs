//! `custody policy fmt`: a policy in the form that all have. What it means does not change, which is checked.

use std::path::Path;

use anyhow::bail;

use super::{compile_text, form, of_text};
use crate::{complain, exit::Exit, say, whole};

/// Whether the file is written, or only looked at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wanted {
    /// Say whether it has the form.
    Check,
    /// Write it so.
    Write,
}

/// `custody policy fmt`.
///
/// # Errors
/// When the file cannot be read or written, or what would be written does not say the same.
pub fn fmt(file: &Path, wanted: Wanted) -> anyhow::Result<Exit> {
    let shown = file.display();
    // What is no policy has no meaning that could be kept.
    let Some((policy, text)) = compile_text(file)? else {
        return Ok(Exit::Bad);
    };
    let formed = match form::form(&text) {
        Ok(formed) => formed,
        Err(error) => bail!("`{shown}` is left as it is: {error}"),
    };
    if formed == text {
        return Ok(Exit::Done);
    }
    if wanted == Wanted::Check {
        complain(&format!(
            "`{shown}` has not the form that `custody policy fmt` writes"
        ));
        return Ok(Exit::Bad);
    }
    let same = of_text(file, &formed)?.is_some_and(|it| it.hash() == policy.hash());
    let stays = form::form(&formed).as_ref() == Ok(&formed);
    if !same || !stays || form::comments(&text) != form::comments(&formed) {
        bail!(
            "`{shown}` is left as it is: written anew it would not say the same, which is a fault of this program"
        );
    }
    whole::write(file, formed.as_bytes())?;
    say(&format!(
        "{shown}: written; its hash is {} as before",
        policy.hash()
    ));
    Ok(Exit::Done)
}
