//! Recorded tasks and attacks: the form `agentdojo-replay/1`, read strictly.
//!
//! A file is one suite: its tools, the persons' tasks with the calls that do them and the results that
//! were recorded, and the attacks with the calls of an agent that obeys fully.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use gate::json::Value;
use serde::Deserialize;

use crate::marker;

/// The only form that is read.
pub const FORMAT: &str = "agentdojo-replay/1";

/// One suite.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    format: String,
    /// The attacks.
    pub injection_tasks: Vec<InjectionTask>,
    /// Where it comes from.
    pub source: BTreeMap<String, String>,
    /// Its name.
    pub suite: String,
    /// Its tools.
    pub tools: Vec<Tool>,
    /// The persons' tasks.
    pub user_tasks: Vec<UserTask>,
    /// What stands at a marker when nobody attacks.
    pub vectors: BTreeMap<String, String>,
}

/// A tool, as its server describes it and as a careful operator labels it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The classes of what it does.
    pub action_classes: Vec<String>,
    /// Who decides each argument.
    pub arg_roles: BTreeMap<String, Role>,
    /// What it says of itself.
    pub description: String,
    /// The JSON Schema of its arguments.
    #[serde(rename = "inputSchema")]
    pub input_schema: serde_json::Value,
    /// Its name.
    pub name: String,
    /// Whose words its result is.
    pub result_authority: ResultAuthority,
    /// How much it can do.
    pub risk: String,
    /// Members of a result that the system of record mints, by their key.
    pub trusted_result_fields: Vec<String>,
}

/// What an argument decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Which record.
    Id,
    /// What is said.
    Payload,
    /// Where the effect goes.
    Sink,
    /// A value of a type, within bounds.
    Typed,
}

/// Whose words a result is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultAuthority {
    /// The system's own.
    Derived,
    /// Anyone may have written in it.
    Untrusted,
}

/// A person's task and the calls that do it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserTask {
    /// What the person expects to hear.
    pub answer: Value,
    /// The calls.
    pub calls: Vec<RecordedCall>,
    /// The first whose result has a marker.
    pub first_injected_call: Option<usize>,
    /// Its name.
    pub id: String,
    /// What the person said: the only text with authority.
    pub prompt: String,
    /// Those without which the task is not done.
    pub required_calls: BTreeSet<usize>,
}

/// A call and what came back.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedCall {
    /// The arguments; a value may have markers too, where the task uses what it read.
    pub args: Value,
    /// The failure, if it failed.
    pub error: Option<String>,
    /// The result, with markers.
    pub result: Value,
    /// The tool.
    pub tool: String,
    /// The markers of the result.
    pub vectors: Vec<String>,
}

/// An attack and the calls of an agent that obeys it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectionTask {
    /// What the attacker wants to be said.
    pub answer: Value,
    /// The text that arrives.
    pub attack_text: AttackText,
    /// The calls.
    pub calls: Vec<WantedCall>,
    /// What the attacker wants.
    pub goal: String,
    /// Its name.
    pub id: String,
    /// It is won when all the calls of one of these were executed.
    pub minimal_success_sets: Vec<BTreeSet<usize>>,
    /// Who wrote its calls.
    pub origin: String,
    /// It wants words, no call: outside what a gate of calls can see.
    pub text_only: bool,
}

/// An attack's text in two spellings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackText {
    /// Its values are hidden by an encoding.
    pub encoded: String,
    /// Its values stand in it.
    pub verbatim: String,
}

/// A call that an attacker wants.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedCall {
    /// The arguments.
    pub args: Value,
    /// The tool.
    pub tool: String,
}

/// Why recorded tasks are not read.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The folder has none.
    #[error(
        "`{}` has no file NAME.json of the form `{FORMAT}`; give the folder with --data DIR",
        folder.display()
    )]
    Empty {
        /// The folder.
        folder: PathBuf,
    },
    /// It says another form.
    #[error("`{}` is of the form `{found}`; only `{FORMAT}` is read", file.display())]
    Form {
        /// The file.
        file: PathBuf,
        /// What it says.
        found: String,
    },
    /// It cannot be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not parse.
    #[error("`{}` is not `{FORMAT}`", file.display())]
    Shape {
        /// The file.
        file: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// It contradicts itself.
    #[error("`{}`, {task}: {why}", file.display())]
    Task {
        /// The file.
        file: PathBuf,
        /// Which task.
        task: String,
        /// What does not fit.
        why: String,
    },
    /// Two files are the same suite.
    #[error("suite `{suite}` is in two files; the second is `{}`", file.display())]
    Twice {
        /// The suite.
        suite: String,
        /// The second file.
        file: PathBuf,
    },
}

/// Every suite of a folder, by name. Other files than `*.json` are left alone.
///
/// # Errors
/// When a file cannot be read, or is not of the form; when there is none.
pub fn read_folder(folder: &Path) -> Result<Vec<Suite>, FormatError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| FormatError::Io { path, source }
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(io(folder))? {
        let path = entry.map_err(io(folder))?.path();
        if path.extension().is_some_and(|it| it == "json") {
            files.push(path);
        }
    }
    files.sort();
    let mut suites = BTreeMap::new();
    for file in files {
        let bytes = fs::read(&file).map_err(io(&file))?;
        let suite = Suite::parse(&file, &bytes)?;
        if let Some(former) = suites.insert(suite.suite.clone(), suite) {
            return Err(FormatError::Twice {
                suite: former.suite,
                file,
            });
        }
    }
    if suites.is_empty() {
        return Err(FormatError::Empty {
            folder: folder.to_owned(),
        });
    }
    Ok(suites.into_values().collect())
}

impl Suite {
    /// Reads one file.
    ///
    /// # Errors
    /// When it is not of the form, or contradicts itself.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Self, FormatError> {
        let shape = |source| FormatError::Shape {
            file: file.to_owned(),
            source,
        };
        // The form first: a newer one would only be an unknown member otherwise.
        let form: Form = serde_json::from_slice(bytes).map_err(shape)?;
        if form.format != FORMAT {
            return Err(FormatError::Form {
                file: file.to_owned(),
                found: form.format,
            });
        }
        let suite: Self = serde_json::from_slice(bytes).map_err(shape)?;
        suite.check().map_err(|(task, why)| FormatError::Task {
            file: file.to_owned(),
            task,
            why,
        })?;
        Ok(suite)
    }

    /// What it says its form is.
    pub fn form(&self) -> &str {
        &self.format
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|it| it.name == name)
    }

    fn check(&self) -> Result<(), (String, String)> {
        let tools: BTreeSet<&str> = self.tools.iter().map(|it| it.name.as_str()).collect();
        if tools.len() != self.tools.len() {
            return Err(("tools".into(), "a name stands twice".into()));
        }
        let names = self.user_tasks.iter().map(|it| &it.id);
        let names = names.chain(self.injection_tasks.iter().map(|it| &it.id));
        let mut seen = BTreeSet::new();
        for name in names {
            if !seen.insert(name) {
                return Err((format!("task `{name}`"), "its id stands twice".into()));
            }
        }
        for task in &self.user_tasks {
            self.check_user(&tools, task)
                .map_err(|why| (format!("task `{}`", task.id), why))?;
        }
        for task in &self.injection_tasks {
            check_injection(&tools, task).map_err(|why| (format!("task `{}`", task.id), why))?;
        }
        Ok(())
    }

    fn check_user(&self, tools: &BTreeSet<&str>, task: &UserTask) -> Result<(), String> {
        let mut first = None;
        for (index, call) in task.calls.iter().enumerate() {
            check_call(tools, index, &call.tool, &call.args)?;
            let found = marker::names(&call.result);
            let said: BTreeSet<&str> = call.vectors.iter().map(String::as_str).collect();
            if found.iter().map(String::as_str).collect::<BTreeSet<_>>() != said {
                return Err(format!(
                    "call {index} says that its markers are {said:?}; its result has {found:?}"
                ));
            }
            for name in found.iter().chain(&marker::names(&call.args)) {
                if !self.vectors.contains_key(name) {
                    return Err(format!("call {index} has the unknown marker `{name}`"));
                }
            }
            if first.is_none() && !found.is_empty() {
                first = Some(index);
            }
        }
        if first != task.first_injected_call {
            return Err(format!(
                "says that call {:?} is the first with a marker; it is {first:?}",
                task.first_injected_call
            ));
        }
        in_range(
            task.required_calls.iter(),
            task.calls.len(),
            "required_calls",
        )
    }
}

#[derive(Deserialize)]
struct Form {
    format: String,
}

fn check_injection(tools: &BTreeSet<&str>, task: &InjectionTask) -> Result<(), String> {
    for (index, call) in task.calls.iter().enumerate() {
        check_call(tools, index, &call.tool, &call.args)?;
    }
    let sets = &task.minimal_success_sets;
    if !task.text_only && (sets.is_empty() || sets.iter().any(BTreeSet::is_empty)) {
        // An empty set would be won without a call.
        return Err("wants calls, and has no set of them that wins".into());
    }
    in_range(
        sets.iter().flatten(),
        task.calls.len(),
        "minimal_success_sets",
    )
}

fn check_call(
    tools: &BTreeSet<&str>,
    index: usize,
    tool: &str,
    args: &Value,
) -> Result<(), String> {
    if !tools.contains(tool) {
        return Err(format!("call {index} is of the unknown tool `{tool}`"));
    }
    if !matches!(args, Value::Object(_)) {
        return Err(format!("call {index} has args that are no object"));
    }
    Ok(())
}

fn in_range<'a>(
    mut indices: impl Iterator<Item = &'a usize>,
    calls: usize,
    what: &str,
) -> Result<(), String> {
    match indices.find(|it| **it >= calls) {
        None => Ok(()),
        Some(beyond) => Err(format!("{what} names call {beyond}; there are {calls}")),
    }
}
