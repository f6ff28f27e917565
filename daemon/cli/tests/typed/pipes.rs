//! `custody run` with pipes, and the small requests.

use std::{
    io::{Read as _, Write as _},
    os::fd::AsRawFd as _,
    process::{Output, Stdio},
    time::Duration,
};

use custody_wire::{
    operator::{Answer, Request},
    supervise::End,
};
use nix::{
    libc,
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::service::{Connection, SESSION, Service, custody};

/// `custody run` on a service that starts the command with pipes and does `body`.
fn run(arguments: &[&str], input: &[u8], body: impl FnOnce(&mut Connection)) -> Output {
    let service = Service::new();
    let arguments = [&["run"], arguments].concat();
    let mut child = service
        .custody(&arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut connection = service.accept();
    let mut typed = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || typed.write_all(input).unwrap());
        // Read meanwhile: an output that nobody reads stops the command.
        let output = scope.spawn(|| child.wait_with_output().unwrap());
        body(&mut connection);
        output.join().unwrap()
    })
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn bytes_go_through_both_ways_and_the_code_is_the_commands() {
    // More than any pipe holds, and no text.
    let input: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let expected = input.clone();
    let output = run(&["--", "cat", "-"], &input, move |connection| {
        let (run, command, fds) = connection.hear_run();
        assert!(run.tty.is_none() && !run.workspace && fds.is_empty());
        assert_eq!(&command[..3], ["2", "cat", "-"]);
        let mut pipes = connection.started_with_pipes();
        let mut got = Vec::new();
        // The end of our input is the end of the command's.
        pipes.stdin.read_to_end(&mut got).unwrap();
        assert_eq!(got, expected);
        pipes.stdout.write_all(&got).unwrap();
        pipes.stderr.write_all(b"note\n").unwrap();
        drop(pipes);
        connection.ended(End::Exited { code: 7 });
    });
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, input);
    assert_eq!(stderr(&output), "note\n");
}

#[test]
fn what_was_written_before_the_end_is_not_lost() {
    for _ in 0..20 {
        let output = run(&["--", "x"], b"", |connection| {
            connection.hear_run();
            let mut pipes = connection.started_with_pipes();
            pipes.stdout.write_all(&[b'x'; 60_000]).unwrap();
            drop(pipes);
            connection.ended(End::Exited { code: 0 });
        });
        assert_eq!(output.stdout.len(), 60_000);
    }
}

#[test]
fn each_end_has_its_code_and_its_words() {
    let ends = [
        (End::Exited { code: 0 }, 0, ""),
        (End::Killed { signal: 9 }, 137, ""),
        (End::NotExecuted { errno: 2 }, 127, "`x` was not found"),
        (
            End::NotExecuted { errno: 13 },
            126,
            "`x` cannot be executed",
        ),
        (
            End::Stopped {
                why: "stopped by uid 0\u{1b}[2J".into(),
            },
            125,
            "stopped by uid 0\\u{1b}[2J",
        ),
    ];
    for (end, code, words) in ends {
        let output = run(&["--", "x"], b"", |connection| {
            connection.hear_run();
            drop(connection.started_with_pipes());
            connection.ended(end);
        });
        assert_eq!(output.status.code(), Some(code));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn what_is_weak_about_a_session_is_said_and_acts_on_no_terminal() {
    let output = run(&["--", "x"], b"", |connection| {
        connection.hear_run();
        let weak = vec!["ptrace: a test's\u{1b}[2J".into()];
        drop(connection.started_with_pipes_weak(weak));
        connection.ended(End::Exited { code: 0 });
    });
    assert_eq!(
        stderr(&output),
        "custody: profile dev: ptrace: a test's\\u{1b}[2J\n"
    );
}

#[test]
fn a_refusal_is_said_and_is_125() {
    let output = run(&["--", "x"], b"", |connection| {
        connection.hear_run();
        let why = "uid 1000 may not use policy `mail`\u{7}".into();
        connection.say(&Answer::Refused { why }, &[]);
    });
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(
        stderr(&output),
        "custody: uid 1000 may not use policy `mail`\\u{7}\n"
    );
}

#[test]
fn a_service_that_turns_away_at_once_is_still_heard() {
    let service = Service::new();
    let child = service
        .custody(&["status"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut connection = service.accept();
    let why = "too many connections".into();
    connection.say(&Answer::Refused { why }, &[]);
    drop(connection);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("too many connections"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn signals_are_passed_on_and_the_command_decides() {
    let service = Service::new();
    let child = service
        .custody(&["run", "--", "x"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut connection = service.accept();
    connection.hear_run();
    let pipes = connection.started_with_pipes();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGWINCH,
    ] {
        kill(pid, signal).unwrap();
        match connection.hear().0 {
            Request::Signal { signal: passed } => assert_eq!(passed, signal as i32),
            other @ (Request::Approve { .. }
            | Request::Enter { .. }
            | Request::List
            | Request::Login
            | Request::Page { .. }
            | Request::Pending { .. }
            | Request::Refuse { .. }
            | Request::Run(_)
            | Request::Show { .. }
            | Request::Revoke(_)
            | Request::Status
            | Request::Stop { .. }
            | Request::Unlock { .. }
            | Request::Tell { .. }) => {
                panic!("{other:?}")
            }
        }
    }
    drop(pipes);
    connection.ended(End::Killed { signal: 15 });
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
}

#[test]
fn a_reader_that_leaves_is_the_commands_sigpipe() {
    let service = Service::new();
    let mut child = service
        .custody(&["run", "--", "yes"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut connection = service.accept();
    connection.hear_run();
    let mut pipes = connection.started_with_pipes();
    drop(child.stdout.take());
    let error = loop {
        if let Err(error) = pipes.stdout.write_all(b"y\n") {
            break error;
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    drop(pipes);
    connection.ended(End::Killed { signal: 13 });
    assert_eq!(child.wait().unwrap().code(), Some(141));
}

#[test]
fn a_service_that_goes_away_is_said() {
    let output = run(&["--", "x"], b"", |connection| {
        connection.hear_run();
        connection.leave();
    });
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("the service went away"));
}

#[test]
fn the_request_says_what_was_typed_and_no_secret_is_in_it_unasked() {
    let service = Service::new();
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "run",
        "--policy",
        "mail",
        "--value",
        "customer=a=b",
        "--owned",
        "accounts=1,2",
        "--task",
        "pay",
        "--env",
        "HOME",
        "--env",
        "A=b",
        "--env",
        "API_TOKEN",
        "--workdir",
        folder.path().to_str().unwrap(),
        "--layers",
        "--",
        "sh",
        "-c",
        "exit 3",
    ];
    let child = service
        .custody(&arguments)
        .env("API_TOKEN", "fake-token-for-tests")
        .env("OTHER_TOKEN", "fake-token-for-tests-2")
        .env("HOME", "/h")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut connection = service.accept();
    let (run, command, fds) = connection.hear_run();
    assert_eq!(run.policy.unwrap().as_str(), "mail");
    assert_eq!(run.task.as_deref(), Some("pay"));
    assert_eq!(run.values.into_values().collect::<Vec<_>>(), ["a=b"]);
    assert_eq!(run.owned.into_values().collect::<Vec<_>>(), [["1", "2"]]);
    assert!(run.workspace);
    let link = format!("/proc/self/fd/{}", fds[0].as_raw_fd());
    assert_eq!(std::fs::read_link(link).unwrap(), folder.path());
    assert_eq!(&command[..4], ["3", "sh", "-c", "exit 3"]);
    for wanted in [
        "HOME=/h",
        "A=b",
        "LC_ALL=C",
        "API_TOKEN=fake-token-for-tests",
    ] {
        assert!(command.iter().any(|it| it == wanted), "{wanted}");
    }
    assert!(
        !command
            .iter()
            .any(|it| it.to_string_lossy().contains("OTHER"))
    );
    // What the command line shows to everyone: the name alone.
    let shown = std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
    assert!(!String::from_utf8_lossy(&shown).contains("fake-token"));
    drop(connection.started_with_pipes());
    connection.ended(End::Exited { code: 3 });
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("warning: the command can read `API_TOKEN`"));
    assert!(stderr(&output).contains("layer landlock: full"));
}

#[test]
fn a_wrong_workdir_is_said_before_anything_is_asked() {
    for (path, words) in [
        ("/nowhere", "No such file"),
        ("/etc/passwd", "Not a directory"),
    ] {
        let output = custody(&["run", "--workdir", path, "--", "x"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
        let said = stderr(&output);
        assert!(said.contains(path) && said.contains(words), "{said}");
    }
}

#[test]
fn a_workdir_behind_a_symlink_is_refused_and_its_own_path_said() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    std::fs::create_dir(real.join("below")).unwrap();
    for path in [link.clone(), link.join("below")] {
        let output = custody(&["run", "--workdir", path.to_str().unwrap(), "--", "x"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
        let said = stderr(&output);
        let own = path.canonicalize().unwrap();
        let own = own.to_str().unwrap();
        assert!(said.contains("symlink") && said.contains(own), "{said}");
    }
}

#[test]
fn ps_stop_and_status_say_what_the_service_says() {
    let service = Service::new();
    let (request, output) = service.answer_one(&["ps"], &Answer::Sessions(Vec::new()));
    assert!(matches!(request, Request::List));
    assert!(output.stdout.starts_with(b"SESSION"));

    let (request, output) = service.answer_one(&["stop", &SESSION.to_string()], &Answer::Done);
    assert!(matches!(request, Request::Stop { session } if session == SESSION));
    assert_eq!(output.status.code(), Some(0));

    let refused = Answer::Refused {
        why: "you have no session".into(),
    };
    let (_, output) = service.answer_one(&["stop", &SESSION.to_string()], &refused);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("you have no session"));

    let status = Answer::Status {
        version: "0.1.0".into(),
        policies: Vec::new(),
    };
    let (_, output) = service.answer_one(&["status"], &status);
    assert!(
        output
            .stdout
            .starts_with(b"custody 0.1.0 runs\nyou may use no policy")
    );
}

#[test]
fn killed_itself_it_leaves_a_connection_that_ends() {
    let service = Service::new();
    let mut child = service
        .custody(&["run", "--", "x"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut connection = service.accept();
    connection.hear_run();
    let _pipes = connection.started_with_pipes();
    std::thread::sleep(Duration::from_millis(50));
    child.kill().unwrap();
    assert!(connection.next().is_none());
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()),
        Some(libc::SIGKILL)
    );
}
