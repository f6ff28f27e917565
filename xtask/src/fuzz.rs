//! `fuzz`: the parsers, the way of a line and the index under libFuzzer, with the compiler that is installed.
//!
//! Coverage is LLVM's own pass, which stable rustc takes through `-C`; only sanitizers need a
//! nightly one, and gate, front and scan have no `unsafe` for them to look at. The program is written into the
//! target folder, so that nothing of it is in the workspace. libFuzzer is C++: `g++` builds it.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail};

use crate::{places::Places, say, stage};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which target; all of them, if none is named
    #[arg(value_enum)]
    target: Vec<Target>,
    /// How long each runs
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Write what reaches something new into `fixtures/fuzz`
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Target {
    /// A call's bytes: one value, one written form, one decision
    CallParsing,
    /// What another session passes on: four texts, none of them known
    Handoff,
    /// A line of the agent's: the front, the gate and what is sent have one meaning of it
    OneMeaning,
    /// A policy's text, and a compiled policy
    PolicyParsing,
    /// A tool's schema in Anthropic's form: what is locked stays locked
    ScanAnthropic,
    /// Declarations beside an export: refused, or shown and nothing else
    ScanControls,
    /// Two schemas of a tool: no change is silent; and the draft of a policy compiles
    ScanDiff,
    /// A tool's schema in MCP's form
    ScanMcp,
    /// A tool's schema in both of OpenAI's forms
    ScanOpenai,
    /// Records and a value: nothing untrusted lifts it
    ValueOrigin,
}

impl Target {
    const ALL: [Self; 10] = [
        Self::CallParsing,
        Self::Handoff,
        Self::OneMeaning,
        Self::PolicyParsing,
        Self::ScanAnthropic,
        Self::ScanControls,
        Self::ScanDiff,
        Self::ScanMcp,
        Self::ScanOpenai,
        Self::ValueOrigin,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::CallParsing => "call_parsing",
            Self::Handoff => "handoff",
            Self::OneMeaning => "one_meaning",
            Self::PolicyParsing => "policy_parsing",
            Self::ScanAnthropic => "scan_anthropic",
            Self::ScanControls => "scan_controls",
            Self::ScanDiff => "scan_diff",
            Self::ScanMcp => "scan_mcp",
            Self::ScanOpenai => "scan_openai",
            Self::ValueOrigin => "value_origin",
        }
    }

    /// Whose it is: the target is in its folder `fuzz`.
    const fn package(self) -> &'static str {
        match self {
            Self::OneMeaning => "daemon/front",
            Self::ScanAnthropic
            | Self::ScanControls
            | Self::ScanDiff
            | Self::ScanMcp
            | Self::ScanOpenai => "daemon/scan",
            Self::CallParsing | Self::Handoff | Self::PolicyParsing | Self::ValueOrigin => "gate",
        }
    }
}

/// What cargo-fuzz passes too, but for the sanitizer.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions=yes -Ccodegen-units=1";

/// With a target named, build scripts and macros are built without the flags.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Longer inputs find nothing that shorter ones do not, more slowly.
const INPUT_MAX: usize = 4096;

/// How many inputs of a target are kept.
const KEPT_MAX: usize = 400;

pub(crate) fn run(places: &Places, args: &Args) -> Result<()> {
    let folder = places.target.join("fuzz");
    write(places, &folder)?;
    say::step(format_args!("building the fuzz targets"));
    stage::must(
        places
            .cargo()
            .args(["build", "--quiet", "--release", "--target", TRIPLE])
            .arg("--manifest-path")
            .arg(folder.join("Cargo.toml"))
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .env("RUSTFLAGS", FLAGS),
    )?;
    let targets = if args.target.is_empty() {
        &Target::ALL[..]
    } else {
        &args.target
    };
    for target in targets {
        one(places, &folder, *target, args)?;
    }
    Ok(())
}

fn one(places: &Places, folder: &Path, target: Target, args: &Args) -> Result<()> {
    let name = target.name();
    let kept = places.root.join(format!("fixtures/fuzz/{name}.jsonl"));
    let corpus = folder.join("corpus").join(name);
    unpack(&kept, &corpus)?;
    say::step(format_args!("{name}, {} s", args.seconds));
    let program = folder.join(format!("target/{TRIPLE}/release/{name}"));
    let log = folder.join(format!("{name}.log"));
    let mut last = String::new();
    let status = stage::run(
        std::process::Command::new(&program)
            .arg(&corpus)
            .arg(format!("-max_total_time={}", args.seconds))
            .arg(format!("-max_len={INPUT_MAX}"))
            .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
            .arg(format!("-artifact_prefix={}/{name}-", folder.display())),
        Duration::from_secs(args.seconds.saturating_add(600)),
        &log,
        |line| {
            if line.contains("cov:") || line.starts_with("Done") {
                line.clone_into(&mut last);
            }
        },
    )?;
    say::line(format_args!("{last}"));
    if !status.success() {
        bail!(
            "{name} failed: {status}; what it was given is in `{}`, the reason in `{}`",
            folder.display(),
            log.display()
        );
    }
    if args.keep {
        let least = folder.join("least").join(name);
        empty(&least)?;
        stage::must(
            std::process::Command::new(&program)
                .args(["-merge=1", "-verbosity=0"])
                .args([&least, &corpus]),
        )?;
        pack(&least, &kept)?;
    }
    Ok(())
}

/// The workspace of the targets, as `tidy`'s program without std is: of files of ours alone.
fn write(places: &Places, folder: &Path) -> Result<()> {
    let mut manifest = format!(
        "[package]\nname = \"fuzz\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\ngate = {{ path = {:?} }}\ncustody-front = {{ path = {:?} }}\n\
         custody-scan = {{ path = {:?} }}\nserde_json = \"1\"\nlibfuzzer-sys = \"=0.4.13\"\n\n\
         [profile.release]\noverflow-checks = true\n",
        places.root.join("gate"),
        places.root.join("daemon/front"),
        places.root.join("daemon/scan")
    );
    let source = folder.join("src");
    fs::create_dir_all(&source).context("cannot make the fuzz targets' folder")?;
    for target in Target::ALL {
        let name = target.name();
        manifest.push_str(&format!(
            "\n[[bin]]\nname = \"{name}\"\npath = \"src/{name}.rs\"\n"
        ));
        let package = places.root.join(target.package());
        let target = package.join(format!("fuzz/{name}.rs"));
        let program = format!(
            "#![no_main]\n\n#[path = {target:?}]\nmod target;\n\n\
             libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));\n"
        );
        put(&source.join(format!("{name}.rs")), &program)?;
    }
    put(&folder.join("Cargo.toml"), &manifest)?;
    let lock = folder.join("Cargo.lock");
    if !lock.exists() {
        fs::copy(places.root.join("Cargo.lock"), &lock).context("cannot copy Cargo.lock")?;
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
}

fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot empty `{}`", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))
}

/// Each line of a kept corpus is a JSON text of hexadecimal digits; libFuzzer wants a file each.
fn unpack(kept: &Path, corpus: &Path) -> Result<()> {
    fs::create_dir_all(corpus).with_context(|| format!("cannot make `{}`", corpus.display()))?;
    let text =
        fs::read_to_string(kept).with_context(|| format!("cannot read `{}`", kept.display()))?;
    for (number, line) in text.lines().enumerate() {
        let input = hex::decode(line.trim_matches('"'))
            .map_err(|error| anyhow!("`{}`, line {}: {error}", kept.display(), number + 1))?;
        let path = corpus.join(format!("kept-{number}"));
        fs::write(&path, input).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}

/// What was kept stays; the shortest of the rest fill up.
fn pack(least: &Path, kept: &Path) -> Result<()> {
    let mut lines: Vec<String> = fs::read_to_string(kept)
        .with_context(|| format!("cannot read `{}`", kept.display()))?
        .lines()
        .map(str::to_owned)
        .collect();
    let mut inputs = Vec::new();
    for entry in fs::read_dir(least).context("cannot list what was merged")? {
        inputs.push(fs::read(entry?.path()).context("cannot read what was merged")?);
    }
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    for input in inputs {
        let line = format!("\"{}\"", hex::encode(input));
        if lines.len() < KEPT_MAX && !lines.contains(&line) {
            lines.push(line);
        }
    }
    let text = lines.join("\n") + "\n";
    fs::write(kept, text).with_context(|| format!("cannot write `{}`", kept.display()))?;
    say::line(format_args!("{} in `{}`", lines.len(), kept.display()));
    Ok(())
}
