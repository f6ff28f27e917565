//! Our own programs, started inside the session over channels of the attacker's own.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    process::{Child, Command, Stdio},
};

use custody_wire::{
    Message, frame,
    launch::{Kind, Network, Plan, Role, Service},
    perform, permit,
};
use gate::id::{CredentialLabel, SessionId};

use super::{Effect, Report, network::PATIENCE};

pub(super) fn drive_connector(
    program: &Path,
    to: SocketAddr,
    effect: &Effect,
    report: &mut Report,
) -> Option<()> {
    let (ours, theirs) = report.step("socketpair", custody_sys::channel::pair_stream())?;
    let mut child = report.step("execve custody-effect", start(program, &theirs))?;
    drop(theirs);
    let mut channel = UnixStream::from(ours);
    report.step("setsockopt", channel.set_read_timeout(Some(PATIENCE)))?;
    let done = drive(&mut channel, to, effect, report);
    end(&mut child);
    done
}

fn drive(
    channel: &mut UnixStream,
    to: SocketAddr,
    effect: &Effect,
    report: &mut Report,
) -> Option<()> {
    let token = effect.token.clone().unwrap_or_default();
    let credential = report.step(
        "memfd_create",
        custody_sys::memfd::sealed(c"credential", token.as_bytes()),
    )?;
    let hello = perform::Request::Hello {
        session: SessionId(1),
        label: CredentialLabel::parse("mail").ok()?,
        placement: perform::Placement::Header {
            name: "authorization".into(),
            prefix: "Bearer ".into(),
        },
    };
    let hello = frame::frame(&hello).map_err(io::Error::other);
    let hello = report.step("frame", hello)?;
    report.step(
        "sendmsg",
        custody_sys::channel::send(channel.as_fd(), &hello, &[credential.as_fd()]),
    )?;
    match hear::<perform::Answer>(channel, report)? {
        perform::Answer::Ready => report.heard(b"the connector is ready\n"),
        other @ (perform::Answer::Done { .. }
        | perform::Answer::Failed { .. }
        | perform::Answer::Opened { .. }
        | perform::Answer::Streamed { .. }
        | perform::Answer::Streaming { .. }) => {
            report.words("hello", format!("{other:?}"));
            return None;
        }
    }
    let request = perform::Request::Http {
        number: 1,
        request: perform::Http {
            method: "POST".into(),
            tls: false,
            host: to.ip().to_string(),
            port: to.port(),
            addresses: vec![to],
            target: "/v1/messages".into(),
            headers: vec![("content-type".into(), "application/json".into())],
            body: effect.body().into_bytes(),
            timeout_ms: 2000,
            answer_cap: 4096,
        },
    };
    let sent = frame::write(channel, &request).map_err(io::Error::other);
    report.step("write", sent)?;
    match hear::<perform::Answer>(channel, report)? {
        perform::Answer::Done { status, body, .. } => {
            report.heard(&body);
            report.step(format!("status {status}"), Ok::<(), io::Error>(()))
        }
        perform::Answer::Failed { why, .. } => {
            report.words("the connector", why);
            None
        }
        perform::Answer::Opened { .. }
        | perform::Answer::Ready
        | perform::Answer::Streamed { .. }
        | perform::Answer::Streaming { .. } => None,
    }
}

pub(super) fn forge_plan(program: &Path, file: &Path, report: &mut Report) -> Option<()> {
    let (ours, theirs) = report.step("socketpair", custody_sys::channel::pair_seqpacket())?;
    let child = report.step("execve custody-launch", start(program, &theirs))?;
    drop(theirs);
    let plan = Plan {
        kind: Kind::Service(Service {
            program: "/bin/cat".into(),
            arguments: vec![file.display().to_string()],
            read: vec!["/".into()],
            write: Vec::new(),
            execute: Vec::new(),
            network: Network::Host,
        }),
        uid: 0,
        gid: 0,
        without: custody_wire::layer::Layer::ALL.to_vec(),
        fds: vec![Role::Stderr],
    };
    let (mut said, theirs) = report.step("pipe", io::pipe())?;
    let plan = frame::datagram(&plan).map_err(io::Error::other);
    let plan = report.step("frame", plan)?;
    report.step(
        "sendmsg",
        custody_sys::channel::send(&ours, &plan, &[theirs.as_fd()]),
    )?;
    drop(theirs);
    let mut bytes = vec![0; custody_wire::launch::Report::CAP];
    let answered = custody_sys::channel::recv(&ours, &mut bytes, 8);
    let (len, _fds) = report.step("recvmsg", answered)?;
    let answer = bytes.get(..len).unwrap_or_default();
    let answer = frame::parse::<custody_wire::launch::Report>(answer).map_err(io::Error::other);
    match report.step("the launcher answers", answer)? {
        custody_wire::launch::Report::Failed { step, errno, .. } => {
            report.step(step, Err::<(), _>(io::Error::from_raw_os_error(errno)))?;
        }
        custody_wire::launch::Report::Sealed { .. } => {
            let go = frame::datagram(&custody_wire::launch::Go).map_err(io::Error::other);
            let go = report.step("frame", go)?;
            report.step("sendmsg", custody_sys::channel::send(&ours, &go, &[]))?;
        }
    }
    let output = report.step("wait4", child.wait_with_output())?;
    report.heard(&output.stderr);
    let mut heard = Vec::new();
    report.step("read", io::Read::read_to_end(&mut said, &mut heard))?;
    report.heard(&heard);
    Some(())
}

pub(super) fn forge_permit(socket: &Path, effect: &Effect, report: &mut Report) -> Option<()> {
    let mut stream = report.step("connect", UnixStream::connect(socket))?;
    report.step("setsockopt", stream.set_read_timeout(Some(PATIENCE)))?;
    let messages = [
        permit::Request::Hello {
            permit_key: [7; 32],
        },
        permit::Request::Durable { position: u64::MAX },
        permit::Request::Perform {
            number: 1,
            permit: b"forged".to_vec(),
            call: effect.body().into_bytes(),
            approval: None,
        },
    ];
    for message in messages {
        let sent = frame::write(&mut stream, &message).map_err(io::Error::other);
        report.step("write", sent)?;
    }
    // Whoever reads lines there, not frames, says at this one what it makes of them.
    report.step("write", stream.write_all(b"\n"))?;
    let mut answer = vec![0; 4096];
    let read = report.step("recv", io::Read::read(&mut stream, &mut answer))?;
    report.heard(answer.get(..read).unwrap_or_default());
    if read == 0 {
        report.words("recv", "the other end closed the connection");
    }
    Some(())
}

pub(super) fn run(
    program: &Path,
    arguments: &[String],
    input: &str,
    report: &mut Report,
) -> Option<()> {
    let mut child = report.step(
        format!("execve {}", program.display()),
        Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn(),
    )?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that is gone already says why.
        drop(stdin.write_all(input.as_bytes()));
    }
    let output = report.step("wait4", child.wait_with_output())?;
    report.heard(&output.stdout);
    report.heard(&output.stderr);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rev().find(|line| !line.is_empty());
        let status = output.status.to_string();
        report.words("the program", last.unwrap_or(&status));
    }
    Some(())
}

/// Starts `program` with `channel` as descriptor 3.
fn start(program: &Path, channel: &OwnedFd) -> io::Result<Child> {
    // sh(1) puts the channel at 3: there is no unsafe code here to do it between fork and exec.
    let number = std::os::fd::AsRawFd::as_raw_fd(channel);
    nix::fcntl::fcntl(
        channel,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )?;
    Command::new("/bin/bash")
        .arg("-c")
        .arg(format!("exec 3<&{number} {number}<&-; exec \"$0\""))
        .arg(program)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

fn hear<M: Message>(channel: &mut UnixStream, report: &mut Report) -> Option<M> {
    let answer = frame::read::<M>(channel).map_err(io::Error::other);
    report.step("read", answer)
}

fn end(child: &mut Child) {
    // Gone already is as good.
    drop(child.kill());
    drop(child.wait());
    drop(io::stderr().flush());
}
