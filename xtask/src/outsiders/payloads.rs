//! The payloads' manifest, and how one of them is run.

use std::{
    ffi::OsString,
    fmt, fs,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::{places, stage};

#[derive(Deserialize)]
struct Manifest {
    tests: Vec<Payload>,
}

/// One payload, as its authors describe it.
#[derive(Deserialize)]
pub(super) struct Payload {
    pub(super) name: String,
    file: String,
    language: String,
    timeout_sec: u64,
    expect: Expect,
}

#[derive(Deserialize)]
struct Expect {
    verdict: Option<String>,
    #[serde(default)]
    verdict_any: Vec<String>,
    stdout_contains: Option<String>,
    exit_code: Option<i32>,
}

/// How a run ended, in the manifest's words.
pub(super) struct Verdict {
    word: &'static str,
    code: Option<i32>,
    output: String,
    pub(super) last: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "{} ({code})", self.word),
            None => f.write_str(self.word),
        }
    }
}

/// The manifest of a checkout.
pub(super) fn read(folder: &Path) -> Result<Vec<Payload>> {
    let text = fs::read(folder.join("manifest.json")).context("the payloads' manifest")?;
    let manifest: Manifest = serde_json::from_slice(&text).context("the payloads' manifest")?;
    Ok(manifest.tests)
}

impl Payload {
    /// Whether it eats memory, disk, processes or time until someone stops it.
    pub(super) fn is_bomb(&self) -> bool {
        ["bomb", "exhaustion", "spin", "sigxcpu"]
            .iter()
            .any(|word| self.name.contains(word))
    }

    /// What is to be run: compiled outside where that is needed, always from the authors' bytes.
    pub(super) fn prepare(&self, fetched: &Path, folder: &Path) -> Result<Vec<OsString>> {
        // Newer entries carry a folder of the authors' own tree.
        let file = self.file.trim_start_matches("adversarial/");
        let source = fetched.join("payloads").join(file);
        if !source.is_file() {
            bail!("`{file}` is not in the repository");
        }
        let built = folder.join(&self.name);
        let compiled = |compiler: &str, arguments: &[&str]| -> Result<Vec<OsString>> {
            let Some(compiler) = places::on_path(compiler) else {
                bail!("there is no {compiler}");
            };
            let mut command = Command::new(compiler);
            command.args(arguments).arg("-o").arg(&built).arg(&source);
            stage::output(&mut command)?;
            Ok(vec![built.clone().into()])
        };
        let interpreted = |interpreter: &str| -> Result<Vec<OsString>> {
            if !Path::new(interpreter).exists() {
                bail!("there is no {interpreter}");
            }
            let shown = built.with_extension(source.extension().unwrap_or_default());
            fs::copy(&source, &shown).context("cannot copy the payload")?;
            Ok(vec![interpreter.into(), shown.into()])
        };
        match self.language.as_str() {
            "c" => compiled("cc", &["-O1", "-w", "-pthread"]),
            "cpp" => compiled("c++", &["-O1", "-w", "-pthread"]),
            "javascript" => interpreted("/usr/bin/node"),
            "python" => interpreted("/usr/bin/python3"),
            // With the C library alone: it may want crates that are not there.
            "rust" => compiled("rustc", &["--edition=2021", "-Awarnings"]),
            other => bail!("{other} is not run here"),
        }
    }

    /// Runs it and says how it ended.
    pub(super) fn run(&self, command: &mut Command, log: &Path) -> Result<Verdict> {
        let limit = Duration::from_secs(self.timeout_sec.clamp(1, 20));
        let mut output = String::new();
        let mut last = String::new();
        let ran = stage::run(command, limit, log, |line| {
            output.push_str(line);
            output.push('\n');
            if !line.trim().is_empty() {
                last = line.chars().take(160).collect();
            }
        });
        let (word, code) = match ran {
            Ok(status) => word_of(status),
            Err(error) if error.to_string().contains("took longer") => ("TLE", None),
            Err(error) => return Err(error),
        };
        Ok(Verdict {
            word,
            code,
            output,
            last,
        })
    }

    /// What its authors expect.
    pub(super) fn expected(&self) -> String {
        let mut expected = self.words().join(" or ");
        if let Some(text) = &self.expect.stdout_contains {
            expected.push_str(&format!(", with `{text}`"));
        }
        expected
    }

    /// Whether a run came as its authors expect of their own sandbox.
    pub(super) fn expects(&self, verdict: &Verdict) -> bool {
        self.words().contains(&verdict.word)
            && self
                .expect
                .exit_code
                .is_none_or(|code| verdict.code == Some(code))
            && self
                .expect
                .stdout_contains
                .as_ref()
                .is_none_or(|text| verdict.output.contains(text))
    }

    fn words(&self) -> Vec<&str> {
        self.expect
            .verdict
            .iter()
            .chain(&self.expect.verdict_any)
            .map(String::as_str)
            .collect()
    }
}

/// AC, RE and SIG, as judges of programs say it; a shell's 128 + N is a signal too.
fn word_of(status: ExitStatus) -> (&'static str, Option<i32>) {
    match (status.code(), status.signal()) {
        (Some(0), _) => ("AC", Some(0)),
        (Some(code), _) if code > 128 => ("SIG", Some(code - 128)),
        (Some(code), _) => ("RE", Some(code)),
        (None, signal) => ("SIG", signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(expect: &str) -> Payload {
        serde_json::from_str(&format!(
            r#"{{"name":"a","file":"c/a.c","language":"c","timeout_sec":1,"expect":{expect}}}"#
        ))
        .unwrap()
    }

    fn run(script: &str) -> Verdict {
        let folder = tempfile::tempdir().unwrap();
        payload("{}")
            .run(
                Command::new("sh").arg("-c").arg(script),
                &folder.path().join("log"),
            )
            .unwrap()
    }

    #[test]
    fn an_end_has_the_judges_word() {
        assert_eq!(run("exit 0").to_string(), "AC (0)");
        assert_eq!(run("exit 3").to_string(), "RE (3)");
        assert_eq!(run("kill -9 $$").to_string(), "SIG (9)");
        assert_eq!(run("exit 137").to_string(), "SIG (9)");
        assert_eq!(run("sleep 30").to_string(), "TLE");
    }

    #[test]
    fn words_code_and_output_are_all_expected() {
        let any = payload(r#"{"verdict_any":["RE","SIG"]}"#);
        assert!(any.expects(&run("exit 1")) && !any.expects(&run("exit 0")));
        let said = payload(r#"{"verdict":"AC","exit_code":0,"stdout_contains":"CONTAINED"}"#);
        assert!(said.expects(&run("echo CONTAINED")) && !said.expects(&run("echo ESCAPED")));
    }

    #[test]
    fn what_eats_the_host_is_known_by_its_name() {
        let mut bomb = payload("{}");
        bomb.name = "fork_bomb_c".into();
        assert!(bomb.is_bomb() && !payload("{}").is_bomb());
    }
}
