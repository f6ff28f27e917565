//! Clients that stall, flood or send rubbish, and their neighbours.

use std::{
    fs::File,
    io::Write as _,
    os::fd::{AsFd as _, AsRawFd as _},
    time::{Duration, Instant},
};

use custody_sys::path;
use custody_wire::{
    Message as _, frame,
    operator::{Answer, Request, Run},
    supervise::ControlOrder,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::{
    fuse::Unclosing,
    linger::{Attack, Peer},
    peers::{Client, Control, a_run, client_of, command, is_root},
};

fn is_served(control: &Control) {
    let asked = Instant::now();
    let answer = control.client().ask(&Request::Status, &[]);
    assert!(matches!(answer, Answer::Status { .. }), "{answer:?}");
    assert!(
        asked.elapsed() < Duration::from_secs(2),
        "a neighbour waits"
    );
}

#[test]
fn rubbish_ends_its_connection_alone() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let mut other = control.client();
    let huge = u32::MAX.to_le_bytes();
    let version = [3, 0, 0, 0, 9, Request::KIND, 0];
    let kind = [3, 0, 0, 0, frame::VERSION, 1, 0];
    let no_variant = [3, 0, 0, 0, frame::VERSION, Request::KIND, 99];
    for rubbish in [
        &huge[..],
        &version,
        &kind,
        &no_variant,
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut client = control.client();
        client.stream.write_all(rubbish).unwrap();
        assert!(client.hear().is_none(), "{rubbish:?}");
    }
    let answer = other.ask(&Request::List, &[]);
    assert!(matches!(answer, Answer::Sessions(_)));
}

/// A FUSE file system whose server never answers; unmounted when dropped.
struct Hung {
    place: tempfile::TempDir,
    server: Option<File>,
}

impl Hung {
    fn mount() -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let server = File::options().read(true).write(true).open("/dev/fuse");
        let server = server.ok()?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
            server.as_raw_fd()
        );
        let flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
        mount(
            Some("hung"),
            place.path(),
            Some("fuse"),
            flags,
            Some(options.as_str()),
        )
        .ok()?;
        Some(Self {
            place,
            server: Some(server),
        })
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        drop(self.server.take());
        umount2(self.place.path(), MntFlags::MNT_DETACH).unwrap();
    }
}

#[test]
fn a_workspace_on_a_file_system_that_hangs_keeps_nobody_waiting() {
    if !is_root() {
        return;
    }
    let Some(hung) = Hung::mount() else {
        eprintln!("not attempted: needs /dev/fuse and mount(2)");
        return;
    };
    let folder = path::folder(hung.place.path()).unwrap();
    let control = Control::start("");
    let mut client = control.client();
    let request = Request::Run(Run {
        workspace: true,
        ..a_run("mail")
    });
    client.send(&request, &[command().as_fd(), folder.as_fd()]);
    is_served(&control);
    let answer = client.hear().unwrap();
    let Answer::Refused { why } = answer else {
        panic!("{answer:?}");
    };
    assert!(why.contains("owned by root"), "{why}");
}

#[test]
fn a_file_that_cannot_be_closed_keeps_nobody_waiting() {
    if !is_root() {
        return;
    }
    // Before the mount, which a test that fails takes away first: until then it cannot end.
    let control =
        Control::start_where_everyone_sends("[[access]]\nuids = [4001]\npolicies = ['mail']\n");
    let Some(unclosing) = Unclosing::mount() else {
        eprintln!("not attempted: needs /dev/fuse and mount(2)");
        return;
    };
    let run = Request::Run(a_run("mail"));
    // From whoever may not run this, and where none belongs: never taken.
    let stranger = unclosing.giver(4002, &control.socket(), &run, 1);
    let stranger = stranger.heard("may not use policy");
    let lister = unclosing.giver(4002, &control.socket(), &Request::List, 1);
    let lister = lister.heard("");
    is_served(&control);
    assert_eq!(unclosing.closings(), 0, "a stranger's descriptor was taken");

    // From one who may it is taken, looked at, and closed by a thread that waits; so are those
    // of a message that is too long.
    let his = unclosing.giver(4001, &control.socket(), &run, 1);
    let his = his.heard("memory file is not taken");
    let many = unclosing.giver(4001, &control.socket(), &run, 40);
    let end = Instant::now() + Duration::from_secs(20);
    while unclosing.closings() < 2 {
        assert!(Instant::now() < end, "{} closings", unclosing.closings());
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..20 {
        is_served(&control);
    }
    drop((unclosing, stranger, lister, his, many));
}

#[test]
fn descriptors_that_nobody_asked_for_are_closed() {
    if !is_root() {
        return;
    }
    let control = Control::start_where_everyone_sends("");
    let before = open_files(&control);
    for _ in 0..20 {
        let mut client = control.client();
        let fds: Vec<_> = (0..8).map(|_| command()).collect();
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        // Where none is asked for the kernel throws them away.
        client.send_with(&Request::List, &fds);
        assert!(matches!(client.hear(), Some(Answer::Sessions(_))));
        let mut client = control.client();
        let why = client.refused(&Request::Run(a_run("mail")), &fds);
        assert!(why.contains("8 descriptors came"), "{why}");
        // More than one message of ours ever has.
        let many = [fds.as_slice(); 6].concat();
        client.send(&Request::Run(a_run("mail")), &many);
        assert!(client.hear().is_none());
    }
    std::thread::sleep(Duration::from_millis(200));
    let after = open_files(&control);
    assert!(after <= before + 2, "{before} files were open, now {after}");
}

fn open_files(control: &Control) -> usize {
    is_served(control);
    std::thread::sleep(Duration::from_millis(100));
    let folder = format!("/proc/{}/fd", control.child.id());
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_request_that_never_ends_is_given_up() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let mut slow = control.client();
    slow.stream.write_all(&[200, 0, 0]).unwrap();
    is_served(&control);
    let asked = Instant::now();
    assert!(slow.hear().is_none());
    let waited = asked.elapsed();
    // Given up, and not only our own patience of fifteen.
    let patience = Duration::from_secs(5)..Duration::from_secs(14);
    assert!(patience.contains(&waited), "{waited:?}");
}

#[test]
fn a_request_in_small_pieces_is_one_request() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let mut client = control.client();
    for byte in frame::frame(&Request::Status).unwrap() {
        client.stream.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(matches!(client.hear(), Some(Answer::Status { .. })));
}

#[test]
fn a_stranger_cannot_make_control_keep_a_long_request() {
    if !is_root() {
        return;
    }
    let control = Control::start(OPERATOR);
    let long = |name: &str| {
        let task = Some("x".repeat(64 << 10));
        Request::Run(Run {
            task,
            ..a_run(name)
        })
    };
    let mut stranger = client_of(4002, &control.socket());
    let begun = frame::frame(&long("mail")).unwrap();
    // Its length alone: nothing more is waited for.
    stranger.stream.write_all(&begun[..4]).unwrap();
    let asked = Instant::now();
    assert!(stranger.hear().is_none());
    assert!(asked.elapsed() < Duration::from_secs(5));
    let mut his = client_of(4001, &control.socket());
    let why = his.refused(&long("other"), &[command().as_fd()]);
    assert!(why.contains("may not use policy `other`"), "{why}");
}

#[test]
fn one_user_cannot_take_all_places() {
    if !is_root() {
        return;
    }
    let control = Control::start("[[access]]\nuids = [4001]\npolicies = ['mail']\n");
    let mut greedy: Vec<Client> = (0..64)
        .map(|_| client_of(4001, &control.socket()))
        .collect();
    for client in &mut greedy {
        client.ask(&Request::Status, &[]);
    }
    let mut late = client_of(4001, &control.socket());
    match late.hear() {
        Some(Answer::Refused { why }) => assert!(why.contains("at most 64"), "{why}"),
        other => panic!("{other:?}"),
    }
    let mut other = client_of(4002, &control.socket());
    assert!(matches!(
        other.ask(&Request::Status, &[]),
        Answer::Status { .. }
    ));
}

#[test]
fn a_flood_of_requests_that_nobody_reads_disturbs_nobody() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let flood = control.client();
    flood.stream.set_nonblocking(true).unwrap();
    let status = frame::frame(&Request::Status).unwrap();
    let flooded = std::thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            if (&flood.stream).write(&status).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        flood
    });
    for _ in 0..20 {
        is_served(&control);
    }
    drop(flooded.join().unwrap());
}

#[test]
fn a_flood_of_signals_reaches_custodyd_at_a_humans_pace() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let mut client = control.client();
    client.send(&Request::Run(a_run("mail")), &[command().as_fd()]);
    let session = control.orders.start().0.session;
    control.orders.started(session);
    client.hear().unwrap();
    let signal = frame::frame(&Request::Signal { signal: 10 }).unwrap();
    let mut flood = Vec::new();
    for _ in 0..2_000 {
        flood.extend_from_slice(&signal);
    }
    client.stream.write_all(&flood).unwrap();
    let until = Instant::now() + Duration::from_millis(500);
    let mut orders = 0;
    while Instant::now() < until {
        if let Some((order, _)) = control.orders.within(Duration::from_millis(50)) {
            assert!(matches!(order, ControlOrder::Signal { .. }), "{order:?}");
            orders += 1;
        }
    }
    assert!(
        (1..=60).contains(&orders),
        "{orders} orders in half a second"
    );
    is_served(&control);
}

/// How many threads of control wait in read(2), close(2) or recvmsg(2): its sockets do not block, so
/// they wait for what a client sent to be closed (proc_pid_syscall(5)).
fn hanging(control: &Control) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", control.child.id())).unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("syscall")).ok())
        .filter(|call| ["0 ", "3 ", "47 "].iter().any(|it| call.starts_with(it)))
        .count()
}

fn comes_to_hang(control: &Control, count: usize) {
    let end = Instant::now() + Duration::from_secs(20);
    while hanging(control) < count {
        assert!(
            Instant::now() < end,
            "{} of {count} closings hang",
            hanging(control)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

const OPERATOR: &str = "[[access]]\nuids = [4001]\npolicies = ['mail']\n";

#[test]
fn what_a_client_sent_and_cannot_be_closed_keeps_nobody_waiting() {
    if !is_root() {
        return;
    }
    let control = Control::start_where_everyone_sends(OPERATOR);
    let mut peer = Peer::listen();
    // Of an agent's uid, which is turned away, of a stranger, and of one who may do something.
    let attacks = [
        (1_900_000_001, Attack::Gone, 1),
        (4002, Attack::Beside, 1),
        (4002, Attack::Gone, 1),
        (4002, Attack::Unread, 1),
        (4001, Attack::Asked, 1),
        (4001, Attack::Beside, 1),
        (4001, Attack::Gone, 1),
        (4001, Attack::Unread, 1),
    ];
    let sent = peer.attack(&control, &attacks);
    assert_eq!(sent, [true; 8]);
    comes_to_hang(&control, 8);
    for _ in 0..20 {
        is_served(&control);
    }
    for uid in [4001, 4002] {
        let answer = client_of(uid, &control.socket()).ask(&Request::List, &[]);
        assert!(matches!(answer, Answer::Sessions(_)), "{answer:?}");
    }
    assert_eq!(hanging(&control), 8);
}

#[test]
fn a_connection_that_is_not_closed_yet_has_its_place_still() {
    if !is_root() {
        return;
    }
    let control = Control::start_where_everyone_sends(OPERATOR);
    let mut peer = Peer::listen();
    // Those beyond 64 are turned away and take one thread, however many they are.
    peer.attack(&control, &[(4001, Attack::Gone, 100)]);
    comes_to_hang(&control, 65);
    let mut late = client_of(4001, &control.socket());
    match late.hear() {
        Some(Answer::Refused { why }) => assert!(why.contains("at most 64"), "{why}"),
        other => panic!("{other:?}"),
    }
    is_served(&control);
    let mut other = client_of(4002, &control.socket());
    let answer = other.ask(&Request::List, &[]);
    assert!(matches!(answer, Answer::Sessions(_)), "{answer:?}");
    assert_eq!(
        hanging(&control),
        65,
        "one thread for all who are turned away"
    );

    // The connections end, and he has his places again.
    drop(peer);
    let end = Instant::now() + Duration::from_secs(20);
    while hanging(&control) > 0 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
    let answer = client_of(4001, &control.socket()).ask(&Request::List, &[]);
    assert!(matches!(answer, Answer::Sessions(_)), "{answer:?}");
}

#[test]
fn where_the_kernel_can_refuse_descriptors_nobody_sends_one_before_he_is_asked() {
    if !is_root() {
        return;
    }
    let control = Control::start(OPERATOR);
    let (probe, _other) = custody_sys::channel::pair_stream().unwrap();
    let refused = custody_sys::channel::Rights::Refused;
    if !custody_sys::channel::set_rights(&probe, refused).unwrap() {
        eprintln!("not attempted: needs SO_PASSRIGHTS (Linux 6.16)");
        return;
    }
    let mut peer = Peer::listen();
    let attacks = [Attack::Beside, Attack::Gone, Attack::Unread]
        .into_iter()
        .flat_map(|how| [(4001, how, 2), (4002, how, 2)]);
    let sent = peer.attack(&control, &attacks.collect::<Vec<_>>());
    assert_eq!(sent, [false; 6]);
    is_served(&control);
    assert_eq!(hanging(&control), 0);
    // Asked for it he may, and it hangs him alone.
    assert_eq!(peer.attack(&control, &[(4001, Attack::Asked, 1)]), [true]);
    comes_to_hang(&control, 1);
    is_served(&control);
}

#[test]
fn a_closing_that_hangs_does_not_keep_control_from_ending() {
    if !is_root() {
        return;
    }
    let mut control = Control::start_where_everyone_sends(OPERATOR);
    let mut peer = Peer::listen();
    let attacks = [(4001, Attack::Gone, 2), (4002, Attack::Beside, 2)];
    peer.attack(&control, &attacks);
    comes_to_hang(&control, 4);
    let (spare, _) = custody_sys::channel::pair_seqpacket().unwrap();
    drop(std::mem::replace(&mut control.orders.0, spare));
    let end = Instant::now() + Duration::from_secs(10);
    while control.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}
