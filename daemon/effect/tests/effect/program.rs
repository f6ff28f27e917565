//! The program itself, as custodyd starts it: descriptor 3 and nothing else.

use std::{
    fs,
    io::Read as _,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, Command, Stdio},
};

use crate::server::{Server, answer};
use custody_sys::{channel, memfd};
use custody_wire::{
    frame,
    perform::{Answer, Http, Placement, Request, Resolve, Resolved},
    supervise::Serves,
};
use gate::id::{CredentialLabel, SessionId};

const SECRET: &str = "fake-token-for-tests";

/// The program with `channel` as descriptor 3, an empty environment and a pipe as stderr.
fn start(channel: OwnedFd, arguments: &[&str]) -> Child {
    start_with(channel, Stdio::null(), arguments)
}

/// Its descriptor 3 is `channel`, its descriptor 4 is `fourth`.
fn start_with(channel: OwnedFd, fourth: Stdio, arguments: &[&str]) -> Child {
    Command::new("/bin/sh")
        .args(["-c", "exec \"$0\" \"$@\" 3<&0 4<&1 0</dev/null 1>/dev/null"])
        .arg(env!("CARGO_BIN_EXE_custody-effect"))
        .args(arguments)
        .env_clear()
        .stdin(Stdio::from(channel))
        .stdout(fourth)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn end(mut child: Child) -> (bool, String) {
    let mut said = String::new();
    let _len = child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    (child.wait().unwrap().success(), said)
}

#[test]
fn the_worker_performs_and_shows_its_credential_nowhere() {
    let server = Server::start(|request| {
        let echo = request.field("authorization").unwrap().to_owned();
        answer("200 OK", &[], echo.as_bytes())
    });
    let (ours, theirs) = channel::pair_stream().unwrap();
    let child = start(theirs, &[]);
    let hello = Request::Hello {
        session: SessionId(7),
        label: CredentialLabel::parse("token").unwrap(),
        placement: Placement::Header {
            name: "authorization".into(),
            prefix: "Bearer ".into(),
        },
    };
    let secret = memfd::sealed(c"credential", SECRET.as_bytes()).unwrap();
    channel::send(&ours, &frame::frame(&hello).unwrap(), &[secret.as_fd()]).unwrap();
    drop(secret);
    let mut ours = UnixStream::from(ours);
    assert!(matches!(frame::read(&mut ours).unwrap(), Answer::Ready));
    let request = Http {
        method: "GET".into(),
        tls: false,
        host: "127.0.0.1".into(),
        port: server.address.port(),
        addresses: vec![server.address],
        target: "/".into(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout_ms: 5_000,
        answer_cap: 1_000,
    };
    frame::write(&mut ours, &Request::Http { number: 1, request }).unwrap();
    let answer = frame::read::<Answer>(&mut ours).unwrap();
    let Answer::Done { body, .. } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(body, b"Bearer [credential]");

    // The files of a process that is not dumpable are root's (proc(5)).
    if fs::read_dir(format!("/proc/{}/fd", child.id())).is_err() {
        println!("not attempted: needs root");
        drop(ours);
        assert!(end(child).0);
        return;
    }
    let proc = |name: &str| fs::read(format!("/proc/{}/{name}", child.id())).unwrap();
    for file in ["cmdline", "environ", "comm"] {
        let bytes = proc(file);
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("fake"), "{file}: {text}");
    }
    // Neither the memory file that it came in nor one of secret memory is open.
    for entry in fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap() {
        let leads = fs::read_link(entry.unwrap().path()).unwrap();
        let leads = leads.to_string_lossy();
        assert!(
            !leads.contains("memfd") && !leads.contains("secretmem"),
            "{leads}"
        );
    }

    drop(ours);
    let (success, said) = end(child);
    assert!(success && !said.contains("fake"), "{said}");
    assert!(said.contains("credential=token"), "{said}");
}

#[test]
fn the_resolver_resolves_and_holds_no_credential() {
    let (ours, theirs) = channel::pair_stream().unwrap();
    let (custodyd, word) = channel::pair_seqpacket().unwrap();
    let child = start_with(theirs, Stdio::from(word), &["--resolve"]);
    let mut ours = UnixStream::from(ours);
    let mut buffer = [0; 64];
    let (len, _fds) = channel::recv(&custodyd, &mut buffer, 0).unwrap();
    let Serves = frame::parse(&buffer[..len]).unwrap();
    let host = "localhost".to_owned();
    frame::write(&mut ours, &Resolve { number: 5, host }).unwrap();
    let resolved: Resolved = frame::read(&mut ours).unwrap();
    assert_eq!(resolved.number, 5);
    assert!(
        resolved
            .addresses
            .unwrap()
            .iter()
            .all(|it| it.is_loopback())
    );
    drop(ours);
    let (success, said) = end(child);
    assert!(success, "{said}");
}

#[test]
fn a_wrong_start_says_what_is_wrong() {
    let (_ours, theirs) = channel::pair_stream().unwrap();
    let (success, said) = end(start(theirs, &["--verbose"]));
    assert!(
        !success && said.contains("usage: custody-effect [--resolve | --check PROGRAM"),
        "{said}"
    );
    let without = Command::new(env!("CARGO_BIN_EXE_custody-effect"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(without.stderr).unwrap();
    assert!(!without.status.success(), "{said}");
    assert!(
        said.contains("started by custodyd") && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn the_program_is_closed_to_others_of_its_own_uid() {
    use std::os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    };

    if fs::metadata("/proc/self/environ").unwrap().uid() != 0 {
        println!("not attempted: needs root, to start it as somebody else");
        return;
    }
    let open = fs::Permissions::from_mode(0o755);
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), open.clone()).unwrap();
    let program = dir.path().join("custody-effect");
    // By another process: a program that some child of ours has open for writing is not executed
    // (execve(2), ETXTBSY).
    let mut copy = Command::new("/bin/cp");
    copy.arg(env!("CARGO_BIN_EXE_custody-effect")).arg(&program);
    assert!(copy.status().unwrap().success());
    fs::set_permissions(&program, open).unwrap();
    // Whose the files in /proc/PID are: root's if the process is not dumpable (proc(5)).
    let owner = |child: &Child| {
        let environ = format!("/proc/{}/environ", child.id());
        fs::metadata(environ).unwrap().uid()
    };
    let (ours, theirs) = channel::pair_stream().unwrap();
    let (_custodyd, word) = channel::pair_seqpacket().unwrap();
    let mut child = Command::new("/bin/sh")
        .args(["-c", "exec \"$0\" --resolve 3<&0 4<&1 0</dev/null 1>&2"])
        .arg(&program)
        .uid(65534)
        .gid(65534)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::from(word))
        .spawn()
        .unwrap();
    let mut ours = UnixStream::from(ours);
    let host = "localhost".to_owned();
    frame::write(&mut ours, &Resolve { number: 1, host }).unwrap();
    let _resolved: Resolved = frame::read(&mut ours).unwrap();
    assert_eq!(owner(&child), 0);
    drop(ours);
    assert!(child.wait().unwrap().success());
    // The twin: another program of that uid is open.
    let mut other = Command::new("/bin/sleep")
        .arg("60")
        .uid(65534)
        .gid(65534)
        .spawn()
        .unwrap();
    assert_eq!(owner(&other), 65534);
    other.kill().unwrap();
    let _status = other.wait().unwrap();
}
