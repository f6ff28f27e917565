//! A diff for people and for machines.

use custody_shown::inert;
use gate::excerpt::excerpt;
use serde::Serialize;

use super::{Change, Diff, Effect, Side, What};

/// The version of the form. A reader refuses one that it does not know.
pub const VERSION: u32 = 1;

/// What a diff is not.
const WORTH: &str = "read off two files: neither is authenticated, and nothing is proven of what an implementation does";

#[derive(Serialize)]
struct Form<'a> {
    diff_version: u32,
    worth: &'static str,
    before: File<'a>,
    after: File<'a>,
    counts: Counts,
    #[serde(flatten)]
    diff: &'a Diff,
}

#[derive(Serialize)]
struct File<'a> {
    file: &'a str,
    sha256: gate::digest::Digest,
    controls_sha256: Option<gate::digest::Digest>,
}

#[derive(Serialize)]
struct Counts {
    authority_increase: usize,
    review: usize,
    protection_increase: usize,
}

impl Diff {
    /// As JSON, in ASCII: nothing in it acts on a terminal.
    ///
    /// # Errors
    /// When it cannot be written, which no diff's content brings about.
    pub fn json(&self, before: Side<'_>, after: Side<'_>) -> Result<String, serde_json::Error> {
        let form = Form {
            diff_version: VERSION,
            worth: WORTH,
            before: file(before),
            after: file(after),
            counts: Counts {
                authority_increase: self.count(Effect::AuthorityIncrease),
                review: self.count(Effect::Review),
                protection_increase: self.count(Effect::ProtectionIncrease),
            },
            diff: self,
        };
        let pretty = serde_json::to_string_pretty(&form)?;
        Ok(pretty
            .lines()
            .map(|line| inert::json(line) + "\n")
            .collect())
    }

    /// As text, a change a line; every foreign text is inert.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for change in &self.changes {
            out.push_str(&line(change));
            out.push('\n');
        }
        let debt: usize = self.debt.values().sum();
        out.push_str(&format!(
            "{} changes: authority increases {}, for review {}, protection increases {}; left to look at in the \
             newer file: {debt} in {} tools\n",
            self.changes.len(),
            self.count(Effect::AuthorityIncrease),
            self.count(Effect::Review),
            self.count(Effect::ProtectionIncrease),
            self.debt.len(),
        ));
        out
    }
}

fn file(side: Side<'_>) -> File<'_> {
    File {
        file: &side.export.file,
        sha256: side.export.sha256,
        controls_sha256: side.controls.map(|it| it.sha256),
    }
}

fn line(change: &Change) -> String {
    let mut line = format!("{:<19}", change.effect.as_str());
    if let Some(tool) = &change.tool {
        line.push_str(&format!("  {}", excerpt(tool)));
    }
    if let Some(argument) = &change.argument {
        line.push_str(&format!(" {}", excerpt(argument)));
    }
    line.push_str(&format!(": {}", change.what.sentence()));
    if let Some(about) = &change.about {
        line.push_str(&format!(" `{}`", excerpt(about)));
    }
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => {
            line.push_str(&format!(", {} -> {}", excerpt(before), excerpt(after)));
        }
        (Some(before), None) => line.push_str(&format!(", was {}", excerpt(before))),
        (None, Some(after)) => line.push_str(&format!(", is {}", excerpt(after))),
        (None, None) => {}
    }
    line
}

impl What {
    /// What it means, for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Annotations => "what it says of itself in annotations is another",
            Self::ArgumentAdded => "the argument is new",
            Self::ArgumentRemoved => "the argument is gone from the schema",
            Self::ArgumentText => "its words for people and models are others",
            Self::Authority => "who may author it",
            Self::Bound => "bound",
            Self::Branches => "what chooses among its branches is another",
            Self::Choices => "the values that it is one of",
            Self::Confidence => "how sure it is who may author it",
            Self::ControlAuthority => "who may author it, as the controls state",
            Self::ControlBound => "a bound that the controls state",
            Self::ControlRisk => "its risk, as the controls state",
            Self::ControlUnexposed => "what the server fixes, as the controls state",
            Self::Dialect => "the form of the file",
            Self::Format => "its formats are others",
            Self::Items => "the types of its items",
            Self::ObligationAdded => "new to look at",
            Self::ObligationCleared => "no longer to look at",
            Self::Output => "the schema of its results is another",
            Self::Pattern => "its patterns are others",
            Self::Presence => "whether a call must have it",
            Self::Schema => "its schema is another, in a way that nothing else here says",
            Self::ToolAdded => "the tool is new",
            Self::ToolRemoved => "the tool is gone",
            Self::ToolText => "its words for people and models are others",
            Self::Type => "its types",
            Self::UnknownArguments => "arguments that the schema does not name",
            Self::Unmodelled => "what is not modelled is another",
        }
    }
}
