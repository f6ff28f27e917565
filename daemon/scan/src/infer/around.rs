//! What of a tool keeps a payload's name from freeing an argument.

use gate::policy::Risk;

use super::{
    names::{Form, Name},
    tier::{self, Tier},
    vocabulary::Words,
};
use crate::input::Tool;

/// What of the tool bears on each of its arguments.
#[derive(Clone, Debug)]
pub(super) struct Around {
    pub(super) nature: Nature,
    /// Words of its name, where that says that it reads or takes away: a message that is deleted is no message that
    /// is sent.
    objects: Vec<String>,
}

/// What a tool is, beside what it does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Nature {
    /// Its name is not ASCII, or has no letter: nothing says what is done.
    Foreign,
    /// Its name speaks of secrets or access.
    KeepsSecrets,
    /// Nothing.
    Plain,
    /// Its name, or the verb of its description, says that it runs code.
    RunsCode,
    /// Its name is that of something which is run later.
    StoresCode,
}

/// Words of tools that keep secrets or access.
static SECRETS: Words = Words::of(
    "apikey auth cookie cookies credential credentials key keys login passphrase password passwords permission \
     permissions secret secrets token tokens",
);

/// Words of tools whose text is run later: by a clock, an event, a build.
static RUN_LATER: Words = Words::of(
    "action actions automation cron crontab dockerfile function functions hook hooks job jobs lambda macro macros \
     pipeline pipelines plugin plugins procedure trigger triggers workflow workflows",
);

/// What is stored of a program is called so; what is said of it is not.
static TEXTS: Words = Words::of("body content text");

/// What a description of a tool that runs code begins with.
static RUNS: Words = Words::of(
    "compile compiles eval evaluate evaluates exec execute executes executing invoke invokes run running runs spawn \
     spawns",
);

impl Around {
    pub(super) fn of(tool: &Tool) -> Self {
        let name = Name::of(&tool.name);
        let tier = tier::of_name(&name).0;
        let described = tool.description.as_deref().and_then(first_word);
        let nature = if name.form() != Form::Plain {
            Nature::Foreign
        } else if tier == Tier::Known(Risk::Execute) || described.is_some_and(|it| RUNS.has(&it)) {
            Nature::RunsCode
        } else if name.tokens().any(|token| SECRETS.has(token)) {
            Nature::KeepsSecrets
        } else if name.tokens().any(|token| RUN_LATER.has(token)) {
            Nature::StoresCode
        } else {
            Nature::Plain
        };
        let objects = match tier {
            Tier::Known(Risk::Destructive | Risk::Read) => {
                name.tokens().map(str::to_owned).collect()
            }
            Tier::Known(Risk::Execute | Risk::Financial | Risk::Write) | Tier::Unknown => {
                Vec::new()
            }
        };
        Self { nature, objects }
    }

    /// Whether `word`, a payload's, names a program that the tool keeps, and no words about it.
    pub(super) fn stores(&self, word: &str) -> bool {
        self.nature == Nature::StoresCode && TEXTS.has(word)
    }

    /// Whether the tool reads or takes away what `word` names: then the argument says which.
    pub(super) fn acts_on(&self, word: &str) -> bool {
        let mut objects = self.objects.iter();
        objects.any(|it| it == word || it.strip_suffix('s') == Some(word))
    }
}

/// A description's first word, in lower case.
fn first_word(text: &str) -> Option<String> {
    let word = text
        .split(|it: char| !it.is_alphabetic())
        .find(|it| !it.is_empty())?;
    Some(word.to_lowercase())
}
