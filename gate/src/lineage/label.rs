//! Whose words something is taken for, and how a policy says it of each field of a result.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

/// The provenance of a field. They are ordered: the later one is trusted less, and what is made of
/// two has the later of them ([`Label::join`]).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// The person's or the operator's own words: the task, a message over the control socket, a
    /// trusted value.
    Authoritative,
    /// A field that the system of record made itself (an id, a time) inside a record that anyone
    /// may have written. It counts whole only.
    Minted,
    /// The result of a tool whose content is the system's, not anyone's.
    Derived,
    /// Anyone's words.
    Untrusted,
}

impl Label {
    /// Every label, from the most trusted.
    pub const ALL: [Self; 4] = [
        Self::Authoritative,
        Self::Minted,
        Self::Derived,
        Self::Untrusted,
    ];

    /// The label of what is made of both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        self.max(other)
    }

    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::Authoritative => 0,
            Self::Minted => 1,
            Self::Derived => 2,
            Self::Untrusted => 3,
        }
    }

    pub(super) const fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Authoritative,
            1 => Self::Minted,
            2 => Self::Derived,
            _ => Self::Untrusted,
        }
    }
}

/// The labels of a result's fields: one for the whole, and others for what patterns name.
///
/// A pattern is a JSON pointer (RFC 6901) in which a step may also be `*` (any member or element)
/// or `**` (any number of steps, none too). It labels the field that it names and all that is
/// inside it. A pattern that names a field further inside wins there; of several that name the
/// same field, the least trusted label does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Labels {
    whole: Label,
    rules: Vec<(Vec<Step>, Label)>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Step {
    Any,
    Deep,
    Name(String),
}

/// Why a text is not a pattern.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PatternError {
    /// `~` is not followed by 0 or 1 (RFC 6901, section 3).
    #[error("pattern `{pattern}` has a `~` that is neither `~0` nor `~1`")]
    Escape {
        /// The text.
        pattern: String,
    },
    /// It has more steps than a value may be deep.
    #[error("pattern `{pattern}` has more than {STEPS_MAX} steps")]
    Long {
        /// The text.
        pattern: String,
    },
    /// It does not start with `/`.
    #[error("pattern `{pattern}` must start with `/`, as a JSON pointer does; `/*/id` for example")]
    Start {
        /// The text.
        pattern: String,
    },
}

/// The most steps of a pattern: no value is deeper (`json::Limits::DEPTH_MAX`).
pub const STEPS_MAX: usize = 64;

impl Labels {
    /// `label` for the whole.
    pub const fn all(label: Label) -> Self {
        Self {
            whole: label,
            rules: Vec::new(),
        }
    }

    /// These, and `label` for what `pattern` names.
    ///
    /// # Errors
    /// When `pattern` is none.
    pub fn with(mut self, pattern: &str, label: Label) -> Result<Self, PatternError> {
        self.add(pattern, label)?;
        Ok(self)
    }

    /// The same in place: what there was stays, whatever `pattern` is.
    ///
    /// # Errors
    /// When `pattern` is none.
    pub fn add(&mut self, pattern: &str, label: Label) -> Result<(), PatternError> {
        let steps = parse(pattern)?;
        self.rules.push((steps, label));
        Ok(())
    }

    /// Where every pattern stands before the first step.
    pub(super) fn start(&self) -> Matching {
        let mut now = Matching::default();
        for rule in 0..self.rules.len() {
            self.reach(&mut now, rule, 0);
        }
        now
    }

    /// One step inwards, to the member `name` or, where there is none, to an element. Gives the
    /// label of what is there, whose outer label is `outer`.
    pub(super) fn step(
        &self,
        from: &Matching,
        name: Option<&str>,
        index: usize,
        outer: Label,
    ) -> (Matching, Label) {
        let mut now = Matching::default();
        for &(rule, at) in &from.states {
            let Some(step) = self.rules.get(rule).and_then(|(steps, _)| steps.get(at)) else {
                continue;
            };
            match step {
                Step::Any => self.reach(&mut now, rule, at.saturating_add(1)),
                Step::Deep => self.reach(&mut now, rule, at),
                Step::Name(wanted) => {
                    let same = match name {
                        Some(name) => wanted == name,
                        None => is_index(wanted, index),
                    };
                    if same {
                        self.reach(&mut now, rule, at.saturating_add(1));
                    }
                }
            }
        }
        let label = now.named.unwrap_or(outer);
        (now, label)
    }

    /// The label of the outermost value.
    pub(super) fn outermost(&self, start: &Matching) -> Label {
        start.named.unwrap_or(self.whole)
    }

    fn reach(&self, now: &mut Matching, rule: usize, at: usize) {
        let Some((steps, label)) = self.rules.get(rule) else {
            return;
        };
        if now.states.contains(&(rule, at)) {
            return;
        }
        match steps.get(at) {
            None => now.named = Some(now.named.map_or(*label, |it| it.join(*label))),
            Some(step) => {
                now.states.push((rule, at));
                if *step == Step::Deep {
                    self.reach(now, rule, at.saturating_add(1));
                }
            }
        }
    }
}

/// Where the patterns stand at a place in a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Matching {
    states: Vec<(usize, usize)>,
    named: Option<Label>,
}

fn is_index(text: &str, index: usize) -> bool {
    let plain = !text.starts_with('0') || text == "0";
    plain && text.bytes().all(|b| b.is_ascii_digit()) && text.parse() == Ok(index)
}

fn parse(pattern: &str) -> Result<Vec<Step>, PatternError> {
    if pattern.is_empty() {
        return Ok(Vec::new());
    }
    let Some(rest) = pattern.strip_prefix('/') else {
        return Err(PatternError::Start {
            pattern: pattern.into(),
        });
    };
    let steps = rest.split('/').map(|step| match step {
        "*" => Some(Step::Any),
        "**" => Some(Step::Deep),
        name => unescape(name).map(Step::Name),
    });
    let steps: Option<Vec<Step>> = steps.collect();
    match steps {
        None => Err(PatternError::Escape {
            pattern: pattern.into(),
        }),
        Some(steps) if steps.len() > STEPS_MAX => Err(PatternError::Long {
            pattern: pattern.into(),
        }),
        Some(steps) => Ok(steps),
    }
}

fn unescape(name: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = name.chars();
    while let Some(character) = rest.next() {
        match (character, character == '~') {
            (_, true) => match rest.next() {
                Some('0') => out.push('~'),
                Some('1') => out.push('/'),
                Some(_) | None => return None,
            },
            (other, false) => out.push(other),
        }
    }
    Some(out)
}
