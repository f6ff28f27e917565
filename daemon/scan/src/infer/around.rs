//! What of a tool keeps a payload's name from freeing an argument.

use gate::policy::Risk;

use super::{
    names::{Form, Name},
    tier::{self, Tier},
    vocabulary::Words,
};
use crate::input::Tool;

/// What of the tool bears on each of its arguments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Around {
    /// Its name is not ASCII, or has no letter: nothing says what is done.
    Foreign,
    /// Its name speaks of secrets or access.
    KeepsSecrets,
    /// Nothing.
    Plain,
    /// Its name, or the verb of its description, says that it runs code.
    RunsCode,
}

/// Words of tools that keep secrets or access.
const SECRETS: Words = Words(
    "apikey auth cookie cookies credential credentials key keys login passphrase password passwords permission \
     permissions secret secrets token tokens",
);

/// What a description of a tool that runs code begins with.
const RUNS: Words = Words(
    "compile compiles eval evaluate evaluates exec execute executes executing invoke invokes run running runs spawn \
     spawns",
);

impl Around {
    pub(super) fn of(tool: &Tool) -> Self {
        let name = Name::of(&tool.name);
        let described = tool.description.as_deref().and_then(first_word);
        if name.form() != Form::Plain {
            Self::Foreign
        } else if tier::of_name(&name).0 == Tier::Known(Risk::Execute)
            || described.is_some_and(|word| RUNS.has(&word))
        {
            Self::RunsCode
        } else if name.tokens().any(|token| SECRETS.has(token)) {
            Self::KeepsSecrets
        } else {
            Self::Plain
        }
    }
}

/// A description's first word, in lower case.
fn first_word(text: &str) -> Option<String> {
    let word = text
        .split(|it: char| !it.is_alphabetic())
        .find(|it| !it.is_empty())?;
    Some(word.to_lowercase())
}
