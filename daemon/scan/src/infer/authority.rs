//! Who may author an argument, inferred from its name and type. The first rule that matches decides; whatever
//! none of them knows is locked.

use std::collections::BTreeSet;

use gate::policy::Risk;
use serde::Serialize;

use super::{
    around::Around,
    hints::Hint,
    names::{Form, Name},
    payload,
    tier::Tier,
    vocabulary,
};
use crate::schema::{Argument, Kind, Named};

/// Who may author an argument.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Authority {
    /// Whoever fits type and bounds. Inference never says it: a declaration leaves it open.
    Bounded,
    /// Nobody whose words are not trusted.
    Locked,
    /// What is said: anybody's words.
    Payload,
}

impl Authority {
    /// Its name in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bounded => "bounded",
            Self::Locked => "locked",
            Self::Payload => "payload",
        }
    }
}

/// How sure an inference is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Name or type say it.
    High,
    /// Nothing says otherwise: a person should look.
    Uncertain,
}

impl Confidence {
    /// Its name in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Uncertain => "uncertain",
        }
    }
}

/// What was inferred of an argument, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Inferred {
    /// Who may author it.
    pub authority: Authority,
    /// How sure that is.
    pub confidence: Confidence,
    /// Why.
    pub reason: Reason,
    /// The word that the reason rests on; empty where it rests on none. Foreign text.
    pub word: String,
}

/// Why an argument is what it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The caller chooses the name: a map, or a place in a tuple.
    ChosenName,
    /// Its name says that it is run or obeyed.
    CodeName,
    /// The tool runs code, so that what is said may be run.
    CodeTool,
    /// A declaration that it only reads, and a name that agrees, leave it open.
    DeclaredRead,
    /// Its name is not ASCII.
    ForeignName,
    /// The tool's name is not ASCII, so that nothing says what is done with it.
    ForeignTool,
    /// Its format, pattern or length is that of a value with a form, and not of what is said.
    Formed,
    /// The schema says what the value is, beside the name.
    Hinted,
    /// It stands inside an argument that is a target, looked for or run.
    InsideTarget,
    /// Its name is too long to be looked at.
    LongName,
    /// Its name says that it is looked for: it chooses where the effect goes.
    LookedFor,
    /// Its name has no letter.
    NoLetter,
    /// A type that is not free text says nothing of authority.
    NotText,
    /// Its name says that it is what is said.
    PayloadName,
    /// The schema leaves open what it is.
    Review,
    /// The tool keeps secrets.
    SecretTool,
    /// Its name says which thing is meant.
    SelectorName,
    /// Its name says where an effect goes or what lets it in.
    SinkName,
    /// Its format is that of an address.
    SinkType,
    /// Nothing is known of it.
    UnknownName,
}

impl Reason {
    /// Whether it says which of several things is meant.
    pub const fn is_selector(self) -> bool {
        matches!(self, Self::SelectorName | Self::LookedFor)
    }

    /// Its name in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChosenName => "chosen_name",
            Self::CodeName => "code_name",
            Self::CodeTool => "code_tool",
            Self::DeclaredRead => "declared_read",
            Self::ForeignName => "foreign_name",
            Self::ForeignTool => "foreign_tool",
            Self::Formed => "formed",
            Self::Hinted => "hinted",
            Self::InsideTarget => "inside_target",
            Self::LongName => "long_name",
            Self::LookedFor => "looked_for",
            Self::NoLetter => "no_letter",
            Self::NotText => "not_text",
            Self::PayloadName => "payload_name",
            Self::Review => "review",
            Self::SecretTool => "secret_tool",
            Self::SelectorName => "selector_name",
            Self::SinkName => "sink_name",
            Self::SinkType => "sink_type",
            Self::UnknownName => "unknown_name",
        }
    }

    /// A sentence for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::ChosenName => {
                "the caller chooses the name or the place, so nothing says what it is"
            }
            Self::CodeName => "the name says that the text is run or obeyed",
            Self::CodeTool => "the tool runs code, and what is said to it may be run",
            Self::DeclaredRead => "the tool only reads, by its declaration and its name",
            Self::ForeignName => "the name is not ASCII and may look like what it is not",
            Self::ForeignTool => "the tool's name is not plain, so that nothing says what is done",
            Self::Formed => "its format, pattern or length is that of a value with a form",
            Self::Hinted => {
                "the name is that of a payload, and the schema says that the value is something else"
            }
            Self::InsideTarget => {
                "it stands inside an argument that is a target, looked for or run"
            }
            Self::LongName => "the name is too long to be looked at",
            Self::LookedFor => {
                "the name says that the text is looked for, so it chooses where the effect goes"
            }
            Self::NoLetter => "the name has no letter",
            Self::NotText => "its type is not free text, and a type says nothing of authority",
            Self::PayloadName => "the name is that of a payload: what is said, not where",
            Self::Review => {
                "the name is that of a payload, and the schema leaves open what the value is"
            }
            Self::SecretTool => {
                "the tool keeps secrets or access, and what is said to it may be one"
            }
            Self::SelectorName => "the name says which thing is meant",
            Self::SinkName => {
                "the name says where the effect goes, what it acts on, or what lets it in"
            }
            Self::SinkType => "the format is that of an address or a place",
            Self::UnknownName => "nothing says what it is",
        }
    }
}

/// What `argument` is. `targets` are the arguments above it that are locked by what they are.
pub(super) fn infer(
    argument: &Argument,
    hints: &BTreeSet<Hint>,
    around: &Around,
    targets: Targets,
) -> Inferred {
    use Confidence::{High, Uncertain};
    let name = Name::of(&argument.name);
    let locked = |confidence, reason, word: &str| Inferred {
        authority: Authority::Locked,
        confidence,
        reason,
        word: word.to_owned(),
    };
    match argument.named {
        Named::ByCaller | Named::ByPosition => return locked(Uncertain, Reason::ChosenName, ""),
        Named::BySchema => {}
    }
    if name.form() == Form::Long {
        return locked(Uncertain, Reason::LongName, "");
    }
    let formats = &argument.bounds.formats;
    if let Some(format) = formats.iter().find(|it| vocabulary::is_sink_format(it)) {
        return locked(High, Reason::SinkType, format);
    }
    if let Some(word) = vocabulary::sink(&name) {
        return locked(High, Reason::SinkName, &word);
    }
    if let Some(word) = vocabulary::selector(&name) {
        return locked(Uncertain, Reason::SelectorName, &word);
    }
    match name.form() {
        Form::Foreign => return locked(Uncertain, Reason::ForeignName, ""),
        Form::Long | Form::NoLetter => return locked(Uncertain, Reason::NoLetter, ""),
        Form::Plain => {}
    }
    if !argument.types.is_text() || argument.choice.is_some() {
        return locked(Uncertain, Reason::NotText, "");
    }
    let Some(word) = vocabulary::payload(&name) else {
        return locked(Uncertain, Reason::UnknownName, "");
    };
    if let Some((reason, word)) = payload::doubt(argument, &name, word, hints, around, targets) {
        return locked(Uncertain, reason, &word);
    }
    Inferred {
        authority: Authority::Payload,
        confidence: High,
        reason: Reason::PayloadName,
        word: word.to_owned(),
    }
}

/// Whether an argument stands inside one that is locked by what it is, or that is looked for or run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Targets {
    /// It does.
    Above,
    /// It does not.
    None,
}

impl Inferred {
    /// Whether it is locked by what it is, rather than for want of knowledge.
    pub fn is_target(&self) -> bool {
        match self.reason {
            Reason::SelectorName | Reason::SinkName | Reason::SinkType => true,
            Reason::ChosenName
            | Reason::CodeName
            | Reason::CodeTool
            | Reason::DeclaredRead
            | Reason::ForeignName
            | Reason::ForeignTool
            | Reason::Formed
            | Reason::Hinted
            | Reason::InsideTarget
            | Reason::LongName
            | Reason::LookedFor
            | Reason::NoLetter
            | Reason::NotText
            | Reason::PayloadName
            | Reason::Review
            | Reason::SecretTool
            | Reason::UnknownName => false,
        }
    }

    /// What is left of it where the *effective* risk of the tool, an operator's declaration with which the name agrees,
    /// is `tier`: a tool that only reads leaves open what is locked for want of knowledge alone. What is locked by
    /// what it is, or because it cannot be read, stays.
    #[must_use]
    pub fn under(self, tier: Tier, argument: &Argument) -> Self {
        let open = match self.reason {
            Reason::NotText | Reason::SelectorName | Reason::UnknownName => true,
            Reason::ChosenName
            | Reason::CodeName
            | Reason::CodeTool
            | Reason::DeclaredRead
            | Reason::ForeignName
            | Reason::ForeignTool
            | Reason::Formed
            | Reason::Hinted
            | Reason::InsideTarget
            | Reason::LongName
            | Reason::LookedFor
            | Reason::NoLetter
            | Reason::PayloadName
            | Reason::Review
            | Reason::SecretTool
            | Reason::SinkName
            | Reason::SinkType => false,
        };
        let plain = argument
            .obligations
            .iter()
            .all(|it| it.kind == Kind::Composite && it.about.is_empty());
        if open && plain && tier == Tier::Known(Risk::Read) && !argument.is_nested() {
            return Self {
                authority: Authority::Bounded,
                reason: Reason::DeclaredRead,
                ..self
            };
        }
        self
    }
}
