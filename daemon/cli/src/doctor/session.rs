//! A throwaway session of one profile, and what the kernel answered in it.

use std::{fs::File, io::Read as _, path::Path};

use anyhow::{Context as _, bail};
use custody_wire::{
    doctor::{POLICY, PRINTED_MAX},
    layer::Report as LayerReport,
    operator::{Answer, Request, Run},
    profile::Profile,
};
use gate::id::PolicyName;

use crate::connect::{Control, GONE, Heard};

/// What came of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Tried {
    /// It did not start, and the service says why.
    Refused(String),
    /// It started.
    Started {
        /// What each layer said.
        layers: Vec<LayerReport>,
        /// What each attempt answered.
        steps: Vec<Step>,
    },
}

/// One attempt inside.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// errno(3), 0 where it succeeded.
    pub errno: i32,
}

/// What succeeds under `profile` and is its named weakness.
pub fn is_expected(profile: Profile, step: &str) -> bool {
    profile == Profile::Dev && step == "ptrace"
}

/// Starts a session of `profile` and lets the attempts be made in it.
///
/// # Errors
/// When the service goes away, or says what it should not.
pub fn try_out(socket: &Path, profile: Profile) -> anyhow::Result<Tried> {
    let request = Request::Run(Run {
        policy: Some(PolicyName::parse(POLICY)?),
        profile: Some(profile),
        from: None,
        workspace: false,
        values: Default::default(),
        owned: Default::default(),
        scope: None,
        subject: None,
        task: None,
        tenant: None,
        tty: None,
    });
    let mut control = Control::connect(socket)?;
    control.send(&request)?;
    let mut started = None;
    loop {
        let (answer, fds) = match control.hear()? {
            Heard::Part => continue,
            Heard::End => bail!(GONE),
            Heard::Answer(answer, fds) => (*answer, fds),
        };
        match (answer, started.take()) {
            (Answer::Refused { why }, None) => return Ok(Tried::Refused(why)),
            (Answer::Started { layers, .. }, None) => {
                let Some(printed) = fds.into_iter().nth(1) else {
                    bail!("the session has no standard output");
                };
                let mut text = String::new();
                let most = u64::try_from(PRINTED_MAX)?;
                File::from(printed)
                    .take(most)
                    .read_to_string(&mut text)
                    .context("what the session printed")?;
                started = Some((layers, parse(&text)?));
            }
            (Answer::Ended { .. }, Some((layers, steps))) => {
                return Ok(Tried::Started { layers, steps });
            }
            _ => bail!("the service answered something else; is it of another version?"),
        }
    }
}

/// A line for each attempt: name, tab, errno.
fn parse(text: &str) -> anyhow::Result<Vec<Step>> {
    let steps: Vec<Step> = text
        .lines()
        .filter_map(|line| {
            let (name, errno) = line.split_once('\t')?;
            Some(Step {
                name: crate::inert::line(name),
                errno: errno.parse().ok()?,
            })
        })
        .collect();
    if steps.is_empty() || steps.len() != text.lines().count() {
        bail!("the session did not say what it could do; is it of another version?");
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_answer_is_no_result() {
        assert_eq!(parse("mount\t1\nptrace\t0\n").unwrap().len(), 2);
        for bad in ["", "mount", "mount\tx", "mount\t1\nnoise\n"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
