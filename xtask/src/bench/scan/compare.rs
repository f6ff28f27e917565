//! What two scanners say of the same arguments, and where they part.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Who may author an argument, in the words of a report of ours.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Authority {
    #[serde(alias = "trusted_fixed")]
    Locked,
    #[serde(alias = "typed_bounded")]
    Bounded,
    #[serde(alias = "outbound_payload")]
    Payload,
}

impl Authority {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::Bounded => "bounded",
            Self::Payload => "payload",
        }
    }
}

/// What a scanner says of an argument.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) authority: Authority,
    /// Why, or of which type: what a difference is counted by.
    pub(super) because: String,
}

/// By tool and path.
pub(super) type Verdicts = BTreeMap<(String, String), Verdict>;

/// Which kind of difference: theirs, ours, and our reason.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Class {
    pub(super) theirs: Option<Authority>,
    pub(super) ours: Option<Authority>,
    pub(super) because: String,
}

/// How often they agree, and each difference.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) agree: usize,
    pub(super) differ: BTreeMap<Class, Vec<String>>,
    /// Inside other arguments: the peer says nothing of them.
    pub(super) nested: usize,
}

impl Compared {
    pub(super) fn add(&mut self, file: &str, ours: &Verdicts, theirs: &Verdicts) {
        for (key @ (tool, path), our) in ours {
            let their = theirs.get(key);
            if their.is_none() && path.matches('/').count() > 1 {
                self.nested += 1;
            } else if their.is_some_and(|it| it.authority == our.authority) {
                self.agree += 1;
            } else {
                let class = Class {
                    theirs: their.map(|it| it.authority),
                    ours: Some(our.authority),
                    because: our.because.clone(),
                };
                self.note(class, file, tool, path);
            }
        }
        for ((tool, path), their) in theirs {
            if !ours.contains_key(&(tool.clone(), path.clone())) {
                let class = Class {
                    theirs: Some(their.authority),
                    ours: None,
                    because: their.because.clone(),
                };
                self.note(class, file, tool, path);
            }
        }
    }

    fn note(&mut self, class: Class, file: &str, tool: &str, path: &str) {
        let place = format!("{file} {tool} {path}");
        self.differ.entry(class).or_default().push(place);
    }

    pub(super) fn different(&self) -> usize {
        self.differ.values().map(Vec::len).sum()
    }
}

/// What a list of arguments that may be free says of a scanner's verdicts.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// Free, and not on the list.
    pub(super) wrongly_free: Vec<String>,
    /// On the list, and locked.
    pub(super) needlessly_locked: Vec<String>,
}

impl Judged {
    /// `may_be_free` has `tool path` of one file; of places that the scanner does not know it is not asked.
    pub(super) fn add(&mut self, file: &str, verdicts: &Verdicts, may_be_free: &[String]) {
        for ((tool, path), verdict) in verdicts {
            let place = format!("{tool} {path}");
            let listed = may_be_free.contains(&place);
            match verdict.authority {
                Authority::Locked if listed => {
                    self.needlessly_locked.push(format!("{file} {place}"));
                }
                Authority::Bounded | Authority::Payload if !listed => {
                    self.wrongly_free.push(format!("{file} {place}"));
                }
                Authority::Bounded | Authority::Locked | Authority::Payload => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(all: &[(&str, Authority)]) -> Verdicts {
        let verdict = |(path, authority): &(&str, Authority)| {
            let because = "because".to_owned();
            let authority = *authority;
            (
                ("send".to_owned(), (*path).to_owned()),
                Verdict { authority, because },
            )
        };
        all.iter().map(verdict).collect()
    }

    #[test]
    fn every_argument_of_either_is_counted_once() {
        use Authority::{Bounded, Locked, Payload};
        let ours = verdicts(&[
            ("/a", Locked),
            ("/b", Payload),
            ("/b/c", Locked),
            ("/d", Locked),
        ]);
        let theirs = verdicts(&[("/a", Locked), ("/b", Locked), ("/e", Bounded)]);
        let mut compared = Compared::default();
        compared.add("f", &ours, &theirs);
        assert_eq!(
            (compared.agree, compared.nested, compared.different()),
            (1, 1, 3)
        );
    }

    #[test]
    fn free_and_not_listed_is_wrong_and_listed_and_locked_is_needless() {
        use Authority::{Bounded, Locked, Payload};
        let verdicts = verdicts(&[
            ("/a", Payload),
            ("/b", Bounded),
            ("/c", Locked),
            ("/d", Locked),
        ]);
        let listed = ["send /a".to_owned(), "send /c".to_owned()];
        let mut judged = Judged::default();
        judged.add("f", &verdicts, &listed);
        assert_eq!(judged.wrongly_free, ["f send /b"]);
        assert_eq!(judged.needlessly_locked, ["f send /c"]);
    }
}
