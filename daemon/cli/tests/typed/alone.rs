//! What works on files alone opens no socket and starts no process: each command runs under a filter that kills
//! on either.

use std::{
    collections::BTreeMap,
    ffi::CString,
    fs,
    os::unix::{ffi::OsStrExt as _, process::ExitStatusExt as _},
    path::Path,
    process::{Command, ExitStatus},
};

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::ledger::ledger;

/// What is run under the filter: the program and its arguments, one a line.
const UNDER: &str = "CUSTODY_TEST_UNDER_FILTER";

/// The commands; `{}` is the file that they write.
const COMMANDS: [&[&str]; 11] = [
    &["policy", "init", "SCHEMAS/playwright-mcp.json"],
    &[
        "diff",
        "SCHEMAS/server-filesystem.json",
        "SCHEMAS/playwright-mcp.json",
        "--output",
        "{}",
    ],
    &["scan", "SCHEMAS/playwright-mcp.json", "--output", "{}"],
    &[
        "scan",
        "SCHEMAS/server-everything.json",
        "SCHEMAS/server-filesystem.json",
        "--format=json",
        "--output",
        "{}",
    ],
    &[
        "scan",
        "SCHEMAS/mcp-server-time.json",
        "--redact-names",
        "--output",
        "{}",
    ],
    &["scan", "SCHEMAS/none.json"],
    &["audit", "LEDGER", "--output", "{}"],
    &["audit", "LEDGER", "--format=json", "--output", "{}"],
    &["ledger", "verify", "LEDGER"],
    &["policy", "check", "POLICIES/demo.toml"],
    &["quickstart"],
];

#[test]
fn what_works_on_files_opens_no_socket_and_starts_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger();
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
    for (index, command) in COMMANDS.iter().enumerate() {
        let report = folder.path().join(index.to_string());
        let arguments = command.iter().map(|it| {
            it.replace("SCHEMAS", &format!("{fixtures}/mcp-schemas"))
                .replace("POLICIES", &format!("{fixtures}/policies"))
                .replace("LEDGER", ledger.folder.path().to_str().unwrap())
                .replace("{}", report.to_str().unwrap())
        });
        let status = under_filter(Path::new(env!("CARGO_BIN_EXE_custody")), arguments);
        let wanted = if command.contains(&"SCHEMAS/none.json") {
            125
        } else {
            0
        };
        let ended = (status.code(), status.signal());
        assert_eq!(ended, (Some(wanted), None), "{command:?}");
        if command.contains(&"{}") {
            assert!(fs::metadata(&report).unwrap().len() > 500, "{command:?}");
        }
    }
}

/// Otherwise the test above would show nothing.
#[test]
fn the_filter_kills_who_opens_a_socket_or_starts_a_process() {
    let custody = Path::new(env!("CARGO_BIN_EXE_custody"));
    let socket = under_filter(custody, ["ps".to_owned()].into_iter());
    assert_eq!(socket.signal(), Some(libc::SIGSYS), "{socket:?}");
    let shell = |script: &str| {
        let arguments = ["-c".to_owned(), script.to_owned()];
        under_filter(Path::new("/bin/sh"), arguments.into_iter())
    };
    assert_eq!(shell("exit 7").code(), Some(7));
    assert_eq!(shell("exec /bin/true").signal(), Some(libc::SIGSYS));
    assert_eq!(shell("/bin/true; exit 7").signal(), Some(libc::SIGSYS));
}

/// Runs `program` in a process of its own that has the filter: this test, started again.
fn under_filter(program: &Path, arguments: impl Iterator<Item = String>) -> ExitStatus {
    let mut line = vec![program.to_str().unwrap().to_owned()];
    line.extend(arguments);
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "alone::becomes_the_program_under_the_filter",
            "--nocapture",
        ])
        .env(UNDER, line.join("\n"))
        .output()
        .unwrap()
        .status
}

/// No test by itself: the process that [`under_filter`] starts becomes the program here.
#[test]
fn becomes_the_program_under_the_filter() {
    let Ok(line) = std::env::var(UNDER) else {
        return;
    };
    let line: Vec<CString> = line
        .split('\n')
        .map(|it| CString::new(it).unwrap())
        .collect();
    let program = line.first().unwrap();
    let environment = [CString::new(std::ffi::OsStr::new("LANG=C").as_bytes()).unwrap()];
    seccompiler::apply_filter(&filter(program)).unwrap();
    let failed = nix::unistd::execve(program, &line, &environment).unwrap_err();
    panic!("execve: {failed}");
}

/// Kills on every call that opens a socket or starts a process or a program. Once a program must be started: the
/// one whose name lies where `program` does, and an address of this process is none of the program that it becomes.
fn filter(program: &CString) -> BpfProgram {
    let always = Vec::new;
    let only = |argument, operator, value| {
        let length = SeccompCmpArgLen::Qword;
        let condition = SeccompCondition::new(argument, length, operator, value).unwrap();
        vec![SeccompRule::new(vec![condition]).unwrap()]
    };
    let named = u64::try_from(program.as_ptr().addr()).unwrap();
    let thread = u64::try_from(libc::CLONE_THREAD).unwrap();
    let rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::from([
        (libc::SYS_socket, always()),
        (libc::SYS_socketpair, always()),
        (libc::SYS_connect, always()),
        (libc::SYS_bind, always()),
        (libc::SYS_io_uring_setup, always()),
        (libc::SYS_fork, always()),
        (libc::SYS_vfork, always()),
        (libc::SYS_clone3, always()),
        (libc::SYS_clone, only(0, SeccompCmpOp::MaskedEq(thread), 0)),
        (libc::SYS_execve, only(0, SeccompCmpOp::Ne, named)),
        (libc::SYS_execveat, always()),
    ]);
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::KillProcess,
        TargetArch::x86_64,
    );
    filter.unwrap().try_into().unwrap()
}
