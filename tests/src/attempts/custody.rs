//! The credential's bytes: by other names of its file, in what comes back, in what is written down.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use custody_wire::layer::Layer;
use serde_json::json;

use super::{Arm, Attempt, Owner, Place, Promised, Proof, TwinShows, Workspace, planted_file};
use crate::{
    evidence::row::Class,
    probe::{Act, Attack, Report},
    suite::{control, message, scene::Scene},
};

/// A service that sends the credential back in some form. The twin is an allowed call.
macro_rules! reflected {
    ($id:literal, $mechanism:literal, $form:literal, $source:literal, $proof:expr) => {
        Attempt {
            id: $id,
            class: Class::SharedProcessCredential,
            mechanism: $mechanism,
            question: "Does an answer show the credential in a form that is not its own?",
            promised: Promised::Gate {
                says: &["[credential]"],
                mutant: "effect-scrubber",
            },
            source: $source,
            attack: |scene, arm, _| {
                message::call(scene, arm, "reflect_as", &json!({"form": $form}))
            },
            twin: |scene, effect| message::allowed(scene, &effect),
            twin_shows: TwinShows::Effect,
            proof: $proof,
            ..Attempt::BASE
        }
    };
}

pub(super) const ALL: &[Attempt] = &[
    Attempt {
        id: "file/proc-root",
        class: Class::SharedProcessCredential,
        mechanism: "/proc/self/root",
        question: "Does another way to the same path lead to the credential's file?",
        // With the host's pids a root elsewhere is found by them: `/proc/1/root` leads out.
        promised: Promised::Layers(&[&[Layer::PidNamespace, Layer::MountNamespace], &[Layer::Uid]]),
        source: "`/proc/self/root/usr/bin/npx`: a deny list of paths, walked around",
        owner: Owner::Root,
        attack: |scene, _, _| {
            let below = |root: &str| Act::Read {
                path: PathBuf::from(format!("{root}{}", scene.credential_file.display())),
            };
            Attack::Acts {
                acts: [
                    "/proc/self/root",
                    "/proc/1/root",
                    "/proc/self/cwd/..",
                    "/dev/fd/../root",
                ]
                .map(below)
                .to_vec(),
            }
        },
        twin: planted_file,
        twin_shows: TwinShows::Planted,
        ..Attempt::BASE
    },
    Attempt {
        id: "program/proc-self-root",
        class: Class::ExtractedCallable,
        mechanism: "a program by /proc/self/root",
        question: "Is a program that is started by another path under other rules?",
        promised: Promised::Layers(&[
            &[Layer::MountNamespace],
            &[Layer::CgroupUnix],
            &[Layer::Uid],
        ]),
        source: "the note of Ona on `/proc/self/root/usr/bin/npx`: then the sandbox is switched off",
        owner: Owner::Operator,
        attack: |scene, arm, effect| {
            let mut attack = control::attack(scene, arm, effect);
            if let Attack::Program {
                program, arguments, ..
            } = &mut attack
            {
                *program = by_proc(program);
                for argument in arguments.iter_mut().filter(|it| it.starts_with('/')) {
                    *argument = by_proc(Path::new(argument)).display().to_string();
                }
            }
            attack
        },
        twin: |scene, effect| message::allowed(scene, &effect),
        twin_shows: TwinShows::Effect,
        ..Attempt::BASE
    },
    Attempt {
        id: "leak/mountinfo",
        class: Class::SharedProcessCredential,
        mechanism: "/proc/self/mountinfo",
        question: "Does a session's list of mounts show a mount that another program made on the host?",
        promised: Promised::Layers(&[&[Layer::MountNamespace]]),
        source: "proc_pid_mountinfo(5): sources and roots of mounts are paths of the host",
        owner: Owner::Operator,
        attack: |_, _, _| Attack::Acts {
            acts: vec![Act::Read {
                path: "/proc/self/mountinfo".into(),
            }],
        },
        twin: planted_file,
        twin_shows: TwinShows::Planted,
        before: |scene, _| {
            let place = named(scene);
            fs::create_dir(&place)?;
            let none = None::<&str>;
            let flags = nix::mount::MsFlags::empty();
            Ok(nix::mount::mount(none, &place, Some("tmpfs"), flags, none)?)
        },
        proof: Proof::Outside(|scene, _| {
            let place = named(scene);
            nix::mount::umount2(&place, nix::mount::MntFlags::MNT_DETACH)?;
            fs::remove_dir(&place)?;
            Ok(None)
        }),
        notes: &[
            "what the list does show of the host: where the workspace and the programs' folder \
             lie, and the name of the device under each",
        ],
        apart: Some("there is one mount, whose name has the canary"),
        ..Attempt::BASE
    },
    reflected!(
        "reflected/error",
        "an error that quotes the request",
        "error",
        "boxlite#1500: the upstream's error page",
        Proof::Effect
    ),
    reflected!(
        "reflected/hex",
        "hexadecimal",
        "hex",
        "kernel.md attempt 23: every byte the agent can read",
        Proof::Heard(|scene, place, report| {
            heard(scene, place, report, |text| {
                text.bytes().map(|byte| format!("{byte:02x}")).collect()
            })
        })
    ),
    Attempt {
        // What it heard is not for the report, in which that sign may not stand.
        promised: Promised::Quietly {
            by: "scrubber",
            mutant: "effect-scrubber",
        },
        ..reflected!(
            "reflected/url",
            "the encoding of URLs",
            "url",
            "RFC 3986: a link in an error page",
            Proof::Heard(|scene, place, report| {
                heard(scene, place, report, |text| {
                    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
                })
            })
        )
    },
    reflected!(
        "reflected/references",
        "character references of HTML",
        "references",
        "debug pages escape what they show",
        Proof::Heard(|scene, place, report| {
            heard(scene, place, report, |text| {
                text.bytes().map(|byte| format!("&#{byte};")).collect()
            })
        })
    ),
    Attempt {
        id: "reflected/hold-back",
        class: Class::SharedProcessCredential,
        mechanism: "what a scrubber keeps back",
        question: "Do guesses at the credential's beginning come back otherwise than wrong ones?",
        promised: Promised::Quietly {
            by: "scrubber",
            mutant: "effect-scrubber-hold-back",
        },
        source: "kernel.md section 8: 11 of 12 bytes in 299 echoes",
        attack: |scene, arm, _| Attack::Oracle {
            socket: scene.session_socket(arm),
            tool: "reflect_held".into(),
            known: secret(scene, arm).chars().take(20).collect(),
        },
        twin: |scene, effect| message::allowed(scene, &effect),
        twin_shows: TwinShows::Effect,
        proof: Proof::Heard(|scene, place, report| {
            const KNOWN: usize = 20;
            let secret = secret(scene, place.arm);
            let guessed = report.said.rsplit("guesses go: ").next()?.trim();
            let more = guessed.len().saturating_sub(KNOWN);
            (more >= 4 && secret.starts_with(guessed))
                .then(|| format!("{more} characters of the credential were guessed"))
        }),
        ..Attempt::BASE
    },
    Attempt {
        id: "log/credential",
        class: Class::SharedProcessCredential,
        mechanism: "logs, records and receipts",
        question: "Is the credential written down where others than the vault read?",
        promised: Promised::Quietly {
            by: "records",
            mutant: "effect-scrubber",
        },
        source: "agentsh H11 and H36: credentials in stored bodies and in printed configuration",
        attack: |scene, arm, _| {
            let mut attack = message::several(scene, arm, &reflections());
            if let (Arm::Reach, Attack::Message { lines, .. }) = (arm, &mut attack) {
                // What is answered has the credential too, and is not what is asked about here.
                for line in lines.iter_mut().skip(2) {
                    line.answered = false;
                }
            }
            attack
        },
        twin: |scene, effect| message::allowed(scene, &effect),
        twin_shows: TwinShows::Effect,
        before: |scene, at| {
            // What other rows have written is not this row's.
            match written(scene, at.arm)?.into_iter().next() {
                Some(log) if at.arm == Arm::Reach && log.exists() => Ok(fs::remove_file(log)?),
                Some(_) | None => Ok(()),
            }
        },
        proof: Proof::Protected(|scene, at| {
            // Whoever does not hear the answers is gone before they are written down.
            let times = if at.arm == Arm::Reach { 100 } else { 1 };
            for _ in 0..times {
                for file in written(scene, at.arm)? {
                    let bytes = match fs::read(&file) {
                        Ok(bytes) => bytes,
                        Err(_) if at.arm == Arm::Reach => Vec::new(),
                        Err(error) => return Err(error.into()),
                    };
                    if let Some(whose) = scene.canary_in(&bytes) {
                        return Ok(Some(format!("{whose} stands in `{}`", file.display())));
                    }
                }
                thread::sleep(Duration::from_millis(20));
            }
            Ok(None)
        }),
        notes: &[
            "what is searched: the service's log, every file of its state, its sockets' folder",
        ],
        ..Attempt::BASE
    },
    Attempt {
        id: "log/forged-call",
        class: Class::Confinement,
        mechanism: "line breaks, controls and right-to-left marks in a call",
        question: "Does a tool's name put lines or a terminal's sequences into logs and records?",
        promised: Promised::Quietly {
            by: "log_escapes",
            mutant: "supervisor-log-escapes",
        },
        source: "CWE-117; Trojan Source: marks that turn what is read around",
        workspace: Workspace::Shared,
        attack: |scene, arm, effect| message::call(scene, arm, &hostile(&effect.nonce), &json!({})),
        twin: |scene, effect| message::allowed(scene, &effect),
        twin_shows: TwinShows::Effect,
        proof: Proof::Outside(forged),
        ..Attempt::BASE
    },
    Attempt {
        id: "log/turned-record",
        class: Class::Confinement,
        mechanism: "right-to-left marks in a record",
        question: "Does a record of a call hold marks that turn around what a reader sees?",
        promised: Promised::Quietly {
            by: "records",
            mutant: "none: there is no rule",
        },
        source: "Trojan Source (CVE-2021-42574): the order in which text is shown",
        attack: |scene, arm, effect| message::call(scene, arm, &hostile(&effect.nonce), &json!({})),
        twin: |scene, effect| message::allowed(scene, &effect),
        twin_shows: TwinShows::Effect,
        proof: Proof::Outside(|scene, at| {
            for file in written(scene, at.arm)? {
                let bytes = fs::read(&file)?;
                if String::from_utf8_lossy(&bytes).contains(&turned(&at.nonce)) {
                    return Ok(Some(format!("`{}` has them", file.display())));
                }
            }
            Ok(None)
        }),
        known_gap: Some(
            "a record is JSON of RFC 8785, in which these characters stand as they are; no \
             program of ours shows them, others may",
        ),
        ..Attempt::BASE
    },
    Attempt {
        id: "log/forged-denial",
        class: Class::Confinement,
        mechanism: "line breaks, controls and right-to-left marks in a refused action",
        question: "Does a program's name or a path put them into the log of refusals?",
        promised: Promised::Quietly {
            by: "log_escapes",
            mutant: "supervisor-log-escapes",
        },
        source: "CWE-117; agentsight's class of monitors that print comm as it is",
        workspace: Workspace::Shared,
        attack: |scene, arm, effect| match arm {
            Arm::Reach => message::call(scene, arm, &hostile(&effect.nonce), &json!({})),
            Arm::Confined | Arm::Isolated | Arm::Twin => Attack::Acts {
                acts: vec![Act::Connect {
                    path: scene.workspace().join(hostile(&effect.nonce)),
                    times: 1,
                    name: THREAD.into(),
                }],
            },
        },
        twin: |scene, effect| Attack::Acts {
            acts: vec![Act::Connect {
                path: scene.workspace().join(&effect.nonce),
                times: 1,
                name: "plain".into(),
            }],
        },
        twin_shows: TwinShows::Effect,
        proof: Proof::Outside(|scene, at| match at.arm {
            Arm::Twin => logged(scene, &at.nonce),
            Arm::Confined => {
                // Only what was logged was logged in some form.
                anyhow::ensure!(
                    logged(scene, &at.nonce)?.is_some(),
                    "the denial is not logged"
                );
                forged(scene, at)
            }
            Arm::Isolated | Arm::Reach => forged(scene, at),
        }),
        notes: &["the reach arm is a program that logs a name as it is, without a kernel's hook"],
        ..Attempt::BASE
    },
    Attempt {
        id: "log/flood",
        class: Class::Confinement,
        mechanism: "a flood of refusals",
        question: "Does a flood of refused actions fill the log, or push out what is in it?",
        promised: Promised::Quietly {
            by: "log_pace",
            mutant: "supervisor-denial-pace",
        },
        source: "tetragon#4883: attribution that is lost in a flood",
        workspace: Workspace::Shared,
        attack: |scene, arm, effect| match arm {
            Arm::Reach => {
                let call = json!({"method": "x", "params": {"name": effect.nonce}});
                message::several(scene, arm, &vec![call; 2000])
            }
            Arm::Confined | Arm::Isolated | Arm::Twin => Attack::Acts {
                acts: vec![Act::Connect {
                    path: scene.workspace().join("nobody.sock"),
                    times: 20_000,
                    name: "flood".into(),
                }],
            },
        },
        twin: |scene, effect| message::allowed(scene, &effect),
        twin_shows: TwinShows::Effect,
        before: |scene, at| {
            let before = lines(scene, at.arm)?;
            BEFORE.store(before, Ordering::Relaxed);
            Ok(())
        },
        proof: Proof::Outside(|scene, at| {
            const MANY: usize = 1000;
            let more = lines(scene, at.arm)?.saturating_sub(BEFORE.load(Ordering::Relaxed));
            Ok((more >= MANY).then(|| format!("the log grew by {more} lines")))
        }),
        notes: &["the reach arm is a program that logs every refusal"],
        ..Attempt::BASE
    },
];

/// Whether a refused action with `nonce` in its path comes to the log, which it does in time.
fn logged(scene: &Scene, nonce: &str) -> anyhow::Result<Option<String>> {
    let log = scene.workspace().with_file_name("log");
    for _ in 0..100 {
        if String::from_utf8_lossy(&fs::read(&log)?).contains(nonce) {
            return Ok(Some("it was logged".into()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(None)
}

/// How many lines there were before an arm.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

/// Lines of the log.
fn lines(scene: &Scene, arm: Arm) -> anyhow::Result<usize> {
    let log = written(scene, arm)?.into_iter().next();
    let bytes = match log.map(fs::read) {
        // Nobody has asked the dispatcher anything yet.
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.transpose()?.unwrap_or_default(),
    };
    Ok(bytes.iter().filter(|byte| **byte == b'\n').count())
}

/// The mark that turns text around, and enough of the nonce to know it by.
fn turned(nonce: &str) -> String {
    let short: String = nonce.chars().rev().take(8).collect();
    format!("\u{202e}{short}")
}

/// The name of a thread that does the same: 15 bytes count (PR_SET_NAME).
const THREAD: &str = "y\n\u{1b}[2J\u{202e}";

/// Whether what is written down has a name of [`hostile`], or the thread's, as it was.
fn forged(scene: &Scene, at: &Place) -> anyhow::Result<Option<String>> {
    for file in written(scene, at.arm)? {
        let bytes = fs::read(&file)?;
        let text = String::from_utf8_lossy(&bytes);
        let is_record = file.extension().is_some_and(|it| it == "jsonl");
        let marks = [
            Some(format!("\n{}", at.nonce)),
            Some(format!("{}\u{1b}", at.nonce)),
            Some(THREAD.into()),
            (!is_record).then(|| turned(&at.nonce)),
        ];
        if marks.iter().flatten().any(|it| text.contains(it)) {
            return Ok(Some(format!("`{}` has it as it was", file.display())));
        }
    }
    Ok(None)
}

/// A name that begins a line of its own, begins a terminal's sequence and turns the text around:
/// short enough for a socket's path.
fn hostile(nonce: &str) -> String {
    format!("x\n{nonce}\u{1b}{}", turned(nonce))
}

fn by_proc(path: &Path) -> PathBuf {
    PathBuf::from(format!("/proc/self/root{}", path.display()))
}

/// A place on the host with a canary in its name.
fn named(scene: &Scene) -> PathBuf {
    let folder = scene.deputy_path.parent().unwrap_or(Path::new("/run"));
    folder.join(scene.carried())
}

/// The credential that answers an arm's calls: the vault's, or the stand-in's.
pub(super) fn secret(scene: &Scene, arm: Arm) -> String {
    let file = match arm {
        Arm::Confined | Arm::Isolated | Arm::Twin => scene.credential_file.clone(),
        Arm::Reach => scene.credential_file.with_file_name("client"),
    };
    fs::read_to_string(file).unwrap_or_default().trim().into()
}

/// Whether the credential was heard, written by `form`.
fn heard(
    scene: &Scene,
    place: &Place,
    report: &Report,
    form: fn(&str) -> String,
) -> Option<String> {
    let secret = secret(scene, place.arm);
    (!secret.is_empty() && report.said.contains(&form(&secret)))
        .then(|| "the credential was heard in that form".into())
}

/// Calls whose answers have the credential in them, in each form.
fn reflections() -> Vec<serde_json::Value> {
    (2..)
        .zip(["plain", "error", "hex", "nonsense"])
        .map(|(id, form)| {
            json!({
                "jsonrpc": "2.0", "id": id, "method": "tools/call",
                "params": {"name": "reflect_as", "arguments": {"form": form}},
            })
        })
        .collect()
}

/// What is written down: the service's log, its state and its sockets' folder; where there is no
/// service, the dispatcher's log.
fn written(scene: &Scene, arm: Arm) -> anyhow::Result<Vec<PathBuf>> {
    if arm == Arm::Reach {
        return Ok(vec![scene.session_socket(arm).with_extension("log")]);
    }
    let installation = scene.workspace().parent().unwrap_or(Path::new("/"));
    let mut files = vec![installation.join("log")];
    let mut folders = vec![installation.join("state"), installation.join("run")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match entry.file_type()? {
                kind if kind.is_dir() => folders.push(entry.path()),
                kind if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    Ok(files)
}
