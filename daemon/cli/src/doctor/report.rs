//! What `custody doctor` says, as text and as JSON.

use custody_wire::{
    layer::{Layer, Report as LayerReport, Status},
    profile::{Profile, requires, weaknesses},
    refused::Refused,
};
use nix::errno::Errno;
use serde_json::{Value, json};

use super::{
    host::Fact,
    session::{Step, Tried, is_expected},
};
use crate::inert;

/// The version of what `doctor --json` writes.
pub const FORMAT: u32 = 1;

/// All that was seen.
#[derive(Debug)]
pub struct Report {
    /// What must be had.
    pub wanted: Profile,
    /// The host.
    pub host: Vec<Fact>,
    /// Why the service could not be asked, if it could not.
    pub service: Option<String>,
    /// Each profile, tried.
    pub profiles: Vec<Verdict>,
}

/// What came of one profile.
#[derive(Debug)]
pub struct Verdict {
    /// Which.
    pub profile: Profile,
    /// What came of it.
    pub tried: Tried,
}

impl Verdict {
    /// What stands against it; nothing if it can be had.
    pub fn against(&self) -> Vec<String> {
        match &self.tried {
            Tried::Refused(why) => vec![inert::line(why)],
            Tried::Started { layers, steps } => {
                let weak = layers
                    .iter()
                    .filter(|report| requires(self.profile, report.layer))
                    .filter(|it| !matches!(it.status, Status::Full | Status::NotNeeded))
                    .map(|it| format!("layer {}: {}", it.layer.name(), status(&it.status).1));
                let open = steps
                    .iter()
                    .filter(|it| it.errno == 0 && !is_expected(self.profile, &it.name))
                    .map(|it| format!("inside, {} succeeded", it.name));
                weak.chain(open).collect()
            }
        }
    }
}

impl Report {
    /// Whether the profile can be had; none if it was not tried.
    pub fn can_be_had(&self, profile: Profile) -> Option<bool> {
        let verdict = self.profiles.iter().find(|it| it.profile == profile)?;
        Some(verdict.against().is_empty())
    }

    /// The strictest session that started: it says most of the layers.
    fn started(&self) -> Option<(Profile, &[LayerReport], &[Step])> {
        self.profiles
            .iter()
            .rev()
            .find_map(|verdict| match &verdict.tried {
                Tried::Started { layers, steps } => Some((verdict.profile, &**layers, &**steps)),
                Tried::Refused(_) => None,
            })
    }

    /// For a person.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec!["host".to_owned()];
        for fact in &self.host {
            lines.push(format!("  {}: {}", fact.name, inert::line(&fact.found)));
            lines.extend(fact.todo.iter().map(|todo| format!("    do: {todo}")));
        }
        if let Some(why) = &self.service {
            lines.push(format!("service: {}", inert::line(why)));
        }
        if let Some((profile, layers, steps)) = self.started() {
            lines.push(format!("layers, in a session of `{}`", profile.as_str()));
            for report in layers {
                let (how, detail) = status(&report.status);
                let detail = if detail == how {
                    String::new()
                } else {
                    format!(": {}", inert::line(&detail))
                };
                lines.push(format!("  {}: {how}{detail}", report.layer.name()));
            }
            lines.push("attempts, in the same session".to_owned());
            for step in steps {
                lines.push(format!("  {}: {}", step.name, answer(step.errno)));
            }
        }
        for verdict in &self.profiles {
            let name = verdict.profile.as_str();
            let against = verdict.against();
            if against.is_empty() {
                lines.push(format!("profile {name}: can be had"));
                lines.extend(
                    weaknesses(verdict.profile)
                        .iter()
                        .map(|weak| format!("  weak: {weak}")),
                );
            } else {
                lines.push(format!("profile {name}: cannot be had"));
                lines.extend(against.iter().map(|why| format!("  against it: {why}")));
            }
        }
        lines
    }

    /// For a program. The format is [`FORMAT`]; fields are only added.
    pub fn json(&self) -> Value {
        let facts: Vec<Value> = self
            .host
            .iter()
            .map(|fact| json!({"name": fact.name, "found": fact.found, "todo": fact.todo}))
            .collect();
        let (layers, attempts) = self.started().map_or_else(
            || (Vec::new(), Vec::new()),
            |(_, layers, steps)| {
                (
                    layers.iter().map(layer_json).collect(),
                    steps
                        .iter()
                        .map(|step| json!({"name": step.name, "errno": step.errno, "answer": answer(step.errno)}))
                        .collect::<Vec<Value>>(),
                )
            },
        );
        let profiles: Vec<Value> = self
            .profiles
            .iter()
            .map(|verdict| {
                let against = verdict.against();
                let named: Vec<&str> = Refused::ALL
                    .into_iter()
                    .map(Refused::id)
                    .filter(|id| against.iter().any(|why| has_word(why, id)))
                    .collect();
                let layers: Vec<&str> = Layer::ALL
                    .into_iter()
                    .map(Layer::name)
                    .filter(|name| {
                        let quoted = format!("layer `{name}`");
                        let plain = format!("layer {name}:");
                        against
                            .iter()
                            .any(|why| why.contains(&quoted) || why.starts_with(&plain))
                    })
                    .collect();
                json!({
                    "name": verdict.profile.as_str(),
                    "can_be_had": against.is_empty(),
                    "against": against,
                    "refused_configurations": named,
                    "layers_missing": layers,
                    "weaknesses": weaknesses(verdict.profile),
                })
            })
            .collect();
        json!({
            "format": FORMAT,
            "profile": self.wanted.as_str(),
            "can_be_had": self.can_be_had(self.wanted),
            "host": facts,
            "service": self.service.as_deref().unwrap_or("runs"),
            "layers_of": self.started().map(|(profile, ..)| profile.as_str()),
            "layers": layers,
            "attempts": attempts,
            "profiles": profiles,
        })
    }
}

fn layer_json(report: &LayerReport) -> Value {
    let (how, detail) = status(&report.status);
    json!({"name": report.layer.name(), "status": how, "detail": detail})
}

/// In one word, and in all.
fn status(status: &Status) -> (&'static str, String) {
    match status {
        Status::Full => ("full", "full".into()),
        Status::None { step, errno: 0 } => ("none", step.clone()),
        Status::None { step, errno } => ("none", format!("{step}: {}", answer(*errno))),
        Status::NotNeeded => ("not needed", "not needed".into()),
        Status::Partial { missing } => ("partial", missing.clone()),
    }
}

fn answer(errno: i32) -> String {
    if errno == 0 {
        "succeeded".into()
    } else {
        let errno = Errno::from_raw(errno);
        format!("{errno:?} ({})", errno.desc())
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(tried: Tried) -> Report {
        Report {
            wanted: Profile::Standard,
            host: Vec::new(),
            service: None,
            profiles: vec![Verdict {
                profile: Profile::Standard,
                tried,
            }],
        }
    }

    fn started(name: &str, errno: i32) -> Tried {
        Tried::Started {
            layers: vec![LayerReport {
                layer: Layer::Landlock,
                status: Status::Full,
            }],
            steps: vec![Step {
                name: name.into(),
                errno,
            }],
        }
    }

    #[test]
    fn a_profile_can_be_had_where_its_session_starts_and_nothing_in_it_succeeds() {
        let held = report(started("mount", 1));
        assert_eq!(held.can_be_had(Profile::Standard), Some(true));
        assert_eq!(held.can_be_had(Profile::Hardened), None, "not tried");
        let open = report(started("mount", 0));
        assert_eq!(open.can_be_had(Profile::Standard), Some(false));
        assert!(
            open.lines()
                .iter()
                .any(|line| line.contains("mount succeeded"))
        );
    }

    #[test]
    fn what_stands_against_a_profile_is_named_in_json() {
        let why = "refused configuration key_agent_socket (profile `standard`): x; also found: old_kernel";
        let json = report(Tried::Refused(why.into())).json();
        assert_eq!(json["format"], 1);
        assert_eq!(json["can_be_had"], false);
        let names = &json["profiles"][0]["refused_configurations"];
        assert_eq!(*names, json!(["key_agent_socket", "old_kernel"]));
        let why = "profile `standard` requires layer `cgroup_unix`, which is not full: x";
        let json = report(Tried::Refused(why.into())).json();
        assert_eq!(
            json["profiles"][0]["layers_missing"],
            json!(["cgroup_unix"])
        );
    }
}
