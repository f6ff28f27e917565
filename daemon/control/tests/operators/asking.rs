//! What is refused, to whom, and that nothing is begun then.

use std::{
    fs::File,
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};

use custody_sys::{memfd, path};
use custody_wire::{
    operator::{Answer, Request, Run},
    session,
};
use gate::id::SessionId;

use crate::peers::{Control, a_run, client_of, command, is_root, set_mode, values};

const RULES: &str = "[[access]]\nuids = [4001]\npolicies = ['mail']\nvalues = ['customer']\n";

fn run(request: Run) -> Request {
    Request::Run(request)
}

fn nothing_was_begun(control: &Control) {
    assert!(control.orders.within(Duration::from_millis(100)).is_none());
    assert!(control.opened.try_recv().is_err(), "the gate was asked");
}

#[test]
fn a_rule_gives_its_policies_and_values_and_nobody_else_anything() {
    if !is_root() {
        return;
    }
    let control = Control::start(RULES);
    let command = command();
    let mut stranger = client_of(4002, &control.socket());
    let why = stranger.refused(&run(a_run("mail")), &[command.as_fd()]);
    assert!(why.contains("uid 4002 may not use policy `mail`"), "{why}");

    let mut his = client_of(4001, &control.socket());
    let why = his.refused(&run(a_run("other")), &[command.as_fd()]);
    assert!(why.contains("may not use policy `other`"), "{why}");
    let request = Run {
        values: values(&["amount", "customer"]),
        ..a_run("mail")
    };
    let why = his.refused(&run(request), &[command.as_fd()]);
    assert!(why.contains("not set `amount`, `customer`"), "{why}");
    nothing_was_begun(&control);

    let request = Run {
        values: values(&["customer"]),
        ..a_run("mail")
    };
    his.send(&run(request), &[command.as_fd()]);
    let (start, fds) = control.orders.start();
    assert_eq!(start.caller_uid, 4001);
    // custodyd reads who it is from the connection itself.
    assert_eq!(custody_sys::peer::credentials(&fds[0]).unwrap().uid, 4001);
}

#[test]
fn the_doctor_is_for_whoever_some_rule_admits_and_runs_its_own_command_one_at_a_time() {
    if !is_root() {
        return;
    }
    let control = Control::start(RULES);
    let other = command();
    let doctor = || run(a_run(custody_wire::doctor::POLICY));
    let mut stranger = client_of(4002, &control.socket());
    let why = stranger.refused(&doctor(), &[other.as_fd()]);
    assert!(why.contains("uid 4002 may not use policy"), "{why}");
    nothing_was_begun(&control);

    let mut his = client_of(4001, &control.socket());
    his.send(&doctor(), &[other.as_fd()]);
    let (_start, fds) = control.orders.start();
    let bytes = memfd::read(&fds[1], 4096).unwrap();
    assert_eq!(bytes, custody_wire::doctor::command());
    assert_eq!(fds.len(), 2);
    let mut again = client_of(4001, &control.socket());
    let why = again.refused(&doctor(), &[]);
    assert!(why.contains("wait for it"), "{why}");
}

#[test]
fn without_a_rule_root_alone_may() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let command = command();
    let mut other = client_of(4001, &control.socket());
    other.refused(&run(a_run("mail")), &[command.as_fd()]);
    match other.ask(&Request::Status, &[]) {
        Answer::Status { policies, .. } => assert!(policies.is_empty(), "{policies:?}"),
        other => panic!("{other:?}"),
    }
    nothing_was_begun(&control);
    let mut root = control.client();
    match root.ask(&Request::Status, &[]) {
        Answer::Status { policies, .. } => assert_eq!(policies.len(), 2),
        other => panic!("{other:?}"),
    }
    root.send(&run(a_run("mail")), &[command.as_fd()]);
    control.orders.start();
}

#[test]
fn a_sessions_uid_is_turned_away_before_it_asks() {
    if !is_root() {
        return;
    }
    let control = Control::start("[[access]]\nuids = [1900000001]\npolicies = ['mail']\n");
    let mut agent = client_of(1_900_000_001, &control.socket());
    match agent.hear() {
        Some(Answer::Refused { why }) => assert!(why.contains("reserved"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(agent.hear().is_none());
}

#[test]
fn the_only_policy_is_taken_and_of_several_one_must_be_named() {
    if !is_root() {
        return;
    }
    let control = Control::start(RULES);
    let command = command();
    let unnamed = || Run {
        policy: None,
        ..a_run("mail")
    };
    let why = control
        .client()
        .refused(&run(unnamed()), &[command.as_fd()]);
    assert!(why.contains("`mail`, `other`"), "{why}");
    let why = control
        .client()
        .refused(&run(a_run("none")), &[command.as_fd()]);
    assert!(why.contains("no policy `none`"), "{why}");
    nothing_was_begun(&control);
    let mut his = client_of(4001, &control.socket());
    his.send(&run(unnamed()), &[command.as_fd()]);
    assert_eq!(control.orders.start().0.policy.as_str(), "mail");
}

#[test]
fn a_command_that_could_still_change_or_is_none_is_refused() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let mut client = control.client();
    let file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut &file, b"1\0true\0").unwrap();
    let why = client.refused(&run(a_run("mail")), &[file.as_fd()]);
    assert!(why.contains("memory file is not taken"), "{why}");

    let unsealed =
        nix::sys::memfd::memfd_create(c"command", nix::sys::memfd::MFdFlags::MFD_ALLOW_SEALING)
            .unwrap();
    std::io::Write::write_all(&mut File::from(unsealed.try_clone().unwrap()), b"1\0true\0")
        .unwrap();
    let why = client.refused(&run(a_run("mail")), &[unsealed.as_fd()]);
    assert!(why.contains("not sealed"), "{why}");

    let malformed = memfd::sealed(c"command", b"/bin/true").unwrap();
    let why = client.refused(&run(a_run("mail")), &[malformed.as_fd()]);
    assert!(why.contains("malformed"), "{why}");

    let why = client.refused(&run(a_run("mail")), &[]);
    assert!(why.contains("0 descriptors"), "{why}");
    let command = command();
    let why = client.refused(&run(a_run("mail")), &[command.as_fd(), command.as_fd()]);
    assert!(why.contains("2 descriptors"), "{why}");
    nothing_was_begun(&control);
}

fn folder(path: &std::path::Path) -> OwnedFd {
    path::folder(path).unwrap()
}

#[test]
fn a_workspace_is_a_folder_of_the_callers_own() {
    if !is_root() {
        return;
    }
    let control = Control::start(RULES);
    let command = command();
    let request = || {
        run(Run {
            workspace: true,
            ..a_run("mail")
        })
    };
    let place = tempfile::tempdir().unwrap();
    set_mode(place.path(), 0o755);
    let make = |name: &str, owner: u32| {
        let path = place.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
        path
    };
    let his = make("his", 4001);
    let hers = make("hers", 4002);
    let roots = make("roots", 0);
    let deleted = make("deleted", 4001);
    let named_deleted = make("x (deleted)", 4001);
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::chown(&file, Some(4001), None).unwrap();
    let gone = folder(&deleted);
    std::fs::remove_dir(&deleted).unwrap();

    let mut client = client_of(4001, &control.socket());
    for (fd, part) in [
        (folder(&hers), "owned by uid 4002, not by you (uid 4001)"),
        (folder(&roots), "owned by root"),
        (folder("/".as_ref()), "system folder"),
        (folder("/etc".as_ref()), "system folder"),
        (folder("/proc/1".as_ref()), "system folder"),
        (gone, "was removed"),
        (folder(&named_deleted), "(deleted)"),
        (File::open(&file).unwrap().into(), "not a folder"),
        (File::open("/dev/null").unwrap().into(), "not a folder"),
    ] {
        let why = client.refused(&request(), &[command.as_fd(), fd.as_fd()]);
        assert!(why.contains(part), "{why}");
    }
    // Root may give another's folder away, and its own not.
    let why = control
        .client()
        .refused(&request(), &[command.as_fd(), folder(&roots).as_fd()]);
    assert!(why.contains("owned by root"), "{why}");
    nothing_was_begun(&control);

    client.send(&request(), &[command.as_fd(), folder(&his).as_fd()]);
    let (start, fds) = control.orders.start();
    assert_eq!(start.workspace.as_deref(), his.to_str());
    assert_eq!(fds.len(), 3);
}

#[test]
fn the_path_is_the_descriptors_and_not_the_links_that_led_to_it() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let command = command();
    let place = tempfile::tempdir().unwrap();
    let real = place.path().join("real");
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::chown(&real, Some(4001), None).unwrap();
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let mut client = control.client();
    let request = run(Run {
        workspace: true,
        ..a_run("mail")
    });
    client.send(
        &request,
        &[command.as_fd(), File::open(&link).unwrap().as_fd()],
    );
    let (start, _) = control.orders.start();
    assert_eq!(start.workspace.as_deref(), real.to_str());
}

#[test]
fn what_the_gate_refuses_is_not_started() {
    if !is_root() {
        return;
    }
    let control = Control::start("");
    let command = command();
    let request = Run {
        subject: None,
        task: Some("refuse me".into()),
        tenant: None,
        ..a_run("mail")
    };
    let why = control.client().refused(&run(request), &[command.as_fd()]);
    assert_eq!(why, "value `customer` is unknown");
    assert!(control.orders.within(Duration::from_millis(100)).is_none());
}

#[test]
fn another_users_session_is_not_seen_and_not_stopped() {
    if !is_root() {
        return;
    }
    let control = Control::start("[[access]]\nuids = [4001, 4002]\npolicies = ['mail']\n");
    let command = command();
    let mut his = client_of(4001, &control.socket());
    his.send(&run(a_run("mail")), &[command.as_fd()]);
    let session = control.orders.start().0.session;
    control.orders.started(session);
    assert!(matches!(his.hear(), Some(Answer::Started { .. })));

    let mut hers = client_of(4002, &control.socket());
    match hers.ask(&Request::List, &[]) {
        Answer::Sessions(sessions) => assert!(sessions.is_empty()),
        other => panic!("{other:?}"),
    }
    let foreign = hers.refused(&Request::Stop { session }, &[]);
    let none = SessionId(session.0 ^ 1);
    let unknown = hers.refused(&Request::Stop { session: none }, &[]);
    // She cannot tell whether it exists.
    assert_eq!(
        foreign.replace(&session.to_string(), "ID"),
        unknown.replace(&none.to_string(), "ID")
    );
    assert!(control.orders.within(Duration::from_millis(100)).is_none());

    for mut allowed in [client_of(4001, &control.socket()), control.client()] {
        match allowed.ask(&Request::List, &[]) {
            Answer::Sessions(sessions) => {
                assert_eq!(sessions.len(), 1);
                assert_eq!(sessions[0].session, session);
                assert_eq!(sessions[0].caller_uid, 4001);
                assert_eq!(sessions[0].uid, 1_900_000_007);
                assert_eq!(sessions[0].profile.as_str(), "dev");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_an_application_says_reaches_its_own_session_alone_with_its_roles() {
    if !is_root() {
        return;
    }
    let rules = "[[access]]\nuids = [4001, 4002]\npolicies = ['mail']\nroles = ['support']\n";
    let control = Control::start(rules);
    let command = command();
    let mut his = client_of(4001, &control.socket());
    let request = Run {
        scope: Some(br#"{"tools":{}}"#.into()),
        ..a_run("mail")
    };
    his.send(&run(request), &[command.as_fd()]);
    let session = control.orders.start().0.session;
    let session::Request::Open(open) = control.asked() else {
        panic!("not opened");
    };
    assert_eq!(
        open.roles.iter().map(|it| it.as_str()).collect::<Vec<_>>(),
        ["support"]
    );
    assert_eq!(open.scope.as_deref(), Some(&br#"{"tools":{}}"#[..]));
    control.orders.started(session);
    assert!(matches!(his.hear(), Some(Answer::Started { .. })));

    let told = session::Told::Message("delete it".into());
    let tell = Request::Tell {
        session,
        told: told.clone(),
    };
    let mut hers = client_of(4002, &control.socket());
    let why = hers.refused(&tell, &[]);
    assert!(why.contains("you have no session"), "{why}");
    let mut again = client_of(4001, &control.socket());
    assert!(matches!(again.ask(&tell, &[]), Answer::Done));
    match control.asked() {
        session::Request::Tell {
            session: to,
            told: said,
        } => {
            assert_eq!((to, said), (session, told));
        }
        other => panic!("{other:?}"),
    }
}
