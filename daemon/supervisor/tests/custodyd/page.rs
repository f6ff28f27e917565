//! The reviewers' page: started by custodyd where there is one, confined, started again when it ends.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

use serial_test::file_serial;

use crate::room::{Room, text};

/// A room with a page in it, and where that listens.
fn with_page() -> Option<(Room, String)> {
    let mut room = Room::empty()?;
    let address = free();
    room.configure(&format!("[page]\nlisten = '{address}'\n"));
    room.start();
    room.until("the page runs", || pages(&room).len() == 1);
    Some((room, address))
}

/// An address of the loopback that nobody listens at.
fn free() -> String {
    let probe = TcpListener::bind("127.0.0.1:0").unwrap();
    probe.local_addr().unwrap().to_string()
}

fn pages(room: &Room) -> Vec<i32> {
    room.pids("services", "review")
}

/// A request as it is, and the answer as it is.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    text(&answer)
}

fn get(address: &str, path: &str, cookie: &str) -> String {
    ask(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n"),
    )
}

/// The token of a link for whoever runs this test: root.
fn token(room: &Room, address: &str) -> String {
    let said = room.custody(&["review", "--web"]).output().unwrap();
    assert!(said.status.success(), "{}", text(&said.stderr));
    let url = text(&said.stdout);
    let token = url
        .trim()
        .strip_prefix(&format!("http://{address}/login/"))
        .unwrap_or_else(|| panic!("{url}"));
    token.to_owned()
}

/// The page's answer to a login.
fn log_in(address: &str, token: &str) -> String {
    let body = format!("token={token}");
    ask(
        address,
        &format!(
            "POST /login HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    )
}

/// The value of a header.
fn header(answer: &str, name: &str) -> String {
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("{name}: {answer}"))
        .trim()
        .to_owned()
}

/// A reviewer's place and cookie.
fn entered(room: &Room, address: &str) -> (String, String) {
    let answer = log_in(address, &token(room, address));
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    let cookie = header(&answer, "set-cookie");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    (header(&answer, "location"), cookie)
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_reviewer_enters_with_a_link_of_the_terminal_and_the_program_has_nothing_else() {
    let Some((room, address)) = with_page() else {
        return;
    };
    let link = token(&room, &address);
    let answer = log_in(&address, &link);
    let cookie = header(&answer, "set-cookie");
    let cookie = cookie.split(';').next().unwrap();
    let home = header(&answer, "location");
    let list = get(&address, &home, cookie);
    assert!(list.contains("Nothing waits."), "{list}");
    // The link works once, and the place is nobody's without its cookie.
    let again = log_in(&address, &link);
    assert!(again.contains("the link was used"), "{again}");
    let without = get(&address, &home, "");
    assert!(without.contains("not logged in"), "{without}");

    let [pid] = pages(&room)[..] else {
        panic!("{:?}", pages(&room))
    };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or_default().to_owned()
    };
    let own = "64205\t64205\t64205\t64205";
    assert_eq!((field("Uid:"), field("Gid:")), (own.into(), own.into()));
    assert_eq!(field("Groups:"), "");
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!(
        (field("NoNewPrivs:"), field("Seccomp:")),
        ("1".into(), "2".into())
    );
    for namespace in ["net", "ipc"] {
        let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{namespace}")).unwrap();
        assert_ne!(of(&pid.to_string()), of("self"), "{namespace}");
    }
    // /dev/null, the log, its listener and its channel, beside what its runtime polls with: no file, and no
    // other socket once the last browser's is closed.
    let open = || {
        let mut open: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
            .map(|target| {
                let target = target.display().to_string();
                target.split([':', '[']).next().unwrap().to_owned()
            })
            .filter(|kind| kind != "anon_inode")
            .collect();
        open.sort();
        open
    };
    let own = ["/dev/null", "pipe", "pipe", "socket", "socket"];
    room.until("nothing else is open", || open() == own);
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_page_that_ends_is_started_again_and_takes_nothing_with_it() {
    let Some((room, address)) = with_page() else {
        return;
    };
    let (mut session, _out) = room.sleeper();
    let (home, cookie) = entered(&room, &address);
    room.kill_service("review", "services");
    let list = get(&address, &home, &cookie);
    assert!(
        list.contains("Nothing waits."),
        "who was logged in still is: {list}"
    );
    assert!(session.try_wait().unwrap().is_none(), "{}", room.log());

    // With control every login is gone, and there is a page for the new one.
    let before = pages(&room);
    room.kill_service("control", "services");
    session.wait().unwrap();
    room.until("there is another page", || {
        let now = pages(&room);
        now.len() == 1 && now != before
    });
    room.until("the service answers", || {
        room.custody(&["status"]).output().unwrap().status.success()
    });
    let list = get(&address, &home, &cookie);
    assert!(list.contains("not logged in any longer"), "{list}");
    let (home, cookie) = entered(&room, &address);
    assert!(get(&address, &home, &cookie).contains("Nothing waits."));
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn without_a_page_none_runs_and_the_terminal_says_so() {
    let Some(room) = Room::new() else { return };
    let said = room.custody(&["review", "--web"]).output().unwrap();
    assert_eq!(said.status.code(), Some(125));
    let why = text(&said.stderr);
    assert!(why.contains("there is no page"), "{why}");
    assert_eq!(pages(&room), Vec::<i32>::new());
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_page_that_never_comes_up_keeps_no_operator_from_his_service() {
    let Some(mut room) = Room::empty() else {
        return;
    };
    room.configure(&format!("[page]\nlisten = '{}'\n", free()));
    let broken = room.copied_programs().join("custody-review");
    fs::copy("/bin/false", &broken).unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    room.start();
    // More often than any other service may fail.
    let begun = Instant::now();
    let ends = || room.log().matches("service=\"review\" how=").count();
    while ends() < 9 {
        assert!(begun.elapsed() < Duration::from_secs(90), "{}", room.log());
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(room.run(&["--", "/bin/true"]).status.code(), Some(0));
}

#[test]
#[cfg_attr(
    no_ebpf_object,
    ignore = "needs the eBPF object: cargo xtask build-ebpf"
)]
#[file_serial(custody)]
fn a_port_that_another_has_is_said_at_the_start() {
    let Some(room) = Room::empty() else { return };
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    room.configure(&format!("[page]\nlisten = '{address}'\n"));
    let why = room.refused(&[]);
    assert!(
        why.contains(&format!("cannot listen at {address}")) && why.contains("[page]"),
        "{why}"
    );
}
