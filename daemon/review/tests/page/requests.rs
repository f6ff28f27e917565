//! Requests that no page of ours makes.

use std::time::Duration;

use custody_review::guard::{path_half, set_cookie, token};
use custody_wire::operator::{OfPage, Ticket};
use gate::approval::{Needs, Reach};

use crate::fake::{Running, TICKET, TOKEN};

/// A GET of `path` with `headers`.
fn get(page: &Running, path: &str, headers: &str) -> String {
    let host = page.address;
    page.raw(&format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n"
    ))
}

/// A form to `path` as a browser sends one of ours, but for what `change` changes.
fn post(page: &Running, path: &str, body: &str, change: impl Fn(String) -> String) -> String {
    let host = page.address;
    let len = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nSec-Fetch-Site: same-origin\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len}\r\n{}\r\n\r\n",
        cookie(TICKET)
    );
    page.raw(&(change(head) + body))
}

fn cookie(ticket: Ticket) -> String {
    let set = set_cookie(&ticket);
    format!("Cookie: {}", set.split(';').next().unwrap())
}

fn home() -> String {
    format!("/r/{}", path_half(&TICKET))
}

fn status(answer: &str) -> u16 {
    let line = answer.lines().next().unwrap_or_default();
    line.split(' ')
        .nth(1)
        .unwrap_or_default()
        .parse()
        .unwrap_or(0)
}

/// What the form of the call has in it.
fn form(page: &Running, rest: &str) -> String {
    let digest = page.kept.lock().unwrap().waits.digest;
    let token = token(&TICKET, &format!("17 {digest}"));
    format!("pending=17&session=000000000000002a&digest={digest}&token={token}&{rest}")
}

fn nobody_answered(page: &Running) {
    let answered = page.answers.recv_timeout(Duration::from_millis(100));
    assert!(answered.is_err(), "{answered:?}");
}

const YES: &str = "answer=approve&scope=once&for=";

#[test]
fn a_form_of_ours_is_answered_once() {
    let page = Running::start(Needs::Approval);
    let path = format!("{}/answer", home());
    let body = form(&page, "answer=approve&scope=target&for=10m");
    let answer = post(&page, &path, &body, |it| it);
    assert_eq!(status(&answer), 303, "{answer}");
    let to = format!("location: {}/call/000000000000002a/17", home());
    assert!(answer.contains(&to), "{answer}");
    match page.answers.recv_timeout(Duration::from_secs(1)).unwrap() {
        OfPage::Approve { of, scope } => {
            assert_eq!(of.digest, page.kept.lock().unwrap().waits.digest);
            assert_eq!(scope.reach, Reach::Target);
            assert!(scope.until.is_some());
        }
        other => panic!("{other:?}"),
    }
    // The other tab.
    let answer = post(&page, &path, &body, |it| it);
    assert_eq!(status(&answer), 403);
    assert!(answer.contains("answered by uid 1001"), "{answer}");
    nobody_answered(&page);
}

#[test]
fn a_request_for_another_host_gets_nothing() {
    let page = Running::start(Needs::Approval);
    let cookie = cookie(TICKET);
    for host in ["evil.example", "localhost", "127.0.0.1"] {
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {host}\r\n{cookie}\r\n\r\n",
            home()
        );
        let answer = page.raw(&request);
        assert_eq!(status(&answer), 403, "{answer}");
        assert!(!answer.contains("call 17"), "{answer}");
    }
    let body = form(&page, YES);
    let path = format!("{}/answer", home());
    let foreign = |it: String| it.replace(&format!("Host: {}", page.address), "Host: evil.example");
    assert_eq!(status(&post(&page, &path, &body, foreign)), 403);
    nobody_answered(&page);
}

#[test]
fn a_form_from_elsewhere_answers_nothing() {
    let page = Running::start(Needs::Approval);
    let path = format!("{}/answer", home());
    let body = form(&page, YES);
    let origin = format!("Origin: http://{}\r\n", page.address);
    for (what, instead) in [
        (&*origin, ""),
        (&*origin, "Origin: null\r\n"),
        (&*origin, "Origin: http://evil.example\r\n"),
        (&*origin, "Origin: http://127.0.0.1:1\r\n"),
        ("Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: same-site"),
        ("Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"),
    ] {
        let answer = post(&page, &path, &body, |it| it.replace(what, instead));
        assert_eq!(status(&answer), 403, "{instead}: {answer}");
    }
    nobody_answered(&page);
}

#[test]
fn one_half_of_a_session_is_none() {
    let page = Running::start(Needs::Approval);
    let cookie_of = |ticket| cookie(ticket) + "\r\n";
    assert_eq!(status(&get(&page, &home(), &cookie_of(TICKET))), 200);
    for (path, headers) in [
        (home(), String::new()),
        (home(), cookie_of(Ticket([1; 32]))),
        (
            format!("/r/{}", path_half(&Ticket([1; 32]))),
            cookie_of(TICKET),
        ),
        ("/r/".into(), cookie_of(TICKET)),
        ("/r".into(), cookie_of(TICKET)),
        ("/".into(), cookie_of(TICKET)),
    ] {
        let answer = get(&page, &path, &headers);
        assert!(matches!(status(&answer), 403 | 404), "{path}: {answer}");
        assert!(!answer.contains("call 17"), "{answer}");
    }
}

#[test]
fn a_form_that_is_stale_forged_or_of_another_session_answers_nothing() {
    let page = Running::start(Needs::Approval);
    let path = format!("{}/answer", home());
    let body = form(&page, YES);
    let digest = page.kept.lock().unwrap().waits.digest.to_string();
    let other = "0".repeat(64);
    let stranger = token(&Ticket([1; 32]), &format!("17 {digest}"));
    let good = token(&TICKET, &format!("17 {digest}"));
    for (bad, code) in [
        (body.replace(&digest, &other), 409),
        (body.replace(&good, &stranger), 403),
        (body.replace(&good, ""), 403),
        (body.replace("pending=17", "pending=18"), 403),
        (body.replace("answer=approve", "answer=maybe"), 400),
        (body.replace("scope=once", "scope=ever"), 400),
        (body.replace("for=", "for=1y"), 400),
        (format!("{body}&answer=approve"), 400),
        (format!("{body}&x={}", "y".repeat(9_000)), 400),
        (String::new(), 400),
    ] {
        let answer = post(&page, &path, &bad, |it| it);
        assert_eq!(status(&answer), code, "{answer}");
    }
    // The call changes behind a page that stands open.
    page.kept.lock().unwrap().waits = crate::fake::waits(Needs::Signature);
    {
        let mut kept = page.kept.lock().unwrap();
        kept.waits.call = br#"{"arguments":{"amount":13},"tool":"pay"}"#.to_vec();
        kept.waits.digest = gate::call::Call::digest_of(&kept.waits.call);
    }
    assert_eq!(status(&post(&page, &path, &body, |it| it)), 409);
    // And a control that lies of its digest is not shown at all.
    page.kept.lock().unwrap().waits.digest = gate::digest::Digest::ZERO;
    let call = format!("{}/call/000000000000002a/17", home());
    let answer = get(&page, &call, &(cookie(TICKET) + "\r\n"));
    assert_eq!(status(&answer), 502);
    assert!(answer.contains("it is not answered"), "{answer}");
    nobody_answered(&page);
}

#[test]
fn a_link_works_once_and_only_by_its_button() {
    let page = Running::start(Needs::Approval);
    let link = format!("/login/{}", "a1".repeat(32));
    for _ in 0..3 {
        // Whoever looks ahead uses nothing up.
        assert_eq!(status(&get(&page, &link, "")), 200);
    }
    assert_eq!(status(&get(&page, "/login/zz", "")), 404);
    let body = format!("token={}", "a1".repeat(32));
    let foreign = |it: String| it.replace("Origin: http://127", "Origin: http://128");
    assert_eq!(status(&post(&page, "/login", &body, foreign)), 403);
    let answer = post(&page, "/login", &body, |it| it);
    assert_eq!(status(&answer), 303);
    let set = answer
        .lines()
        .find(|it| it.starts_with("set-cookie: "))
        .unwrap();
    for part in [
        "__Host-custody-review=",
        "HttpOnly",
        "SameSite=Strict",
        "Secure",
        "Path=/",
    ] {
        assert!(set.contains(part), "{set}");
    }
    // Neither secret is whole in one place.
    let whole: String = TICKET.0.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(!answer.contains(&whole));
    assert_eq!(status(&post(&page, "/login", &body, |it| it)), 403, "once");
    let _used = TOKEN;
}

#[test]
fn every_answer_says_that_nothing_runs_nothing_loads_and_nobody_frames_it() {
    let page = Running::start(Needs::Approval);
    let call = format!("{}/call/000000000000002a/17", home());
    let cookie = cookie(TICKET) + "\r\n";
    for (path, headers) in [
        (home().as_str(), cookie.as_str()),
        (&call, &cookie),
        ("/style.css", ""),
        ("/nowhere", ""),
        ("/login/x", ""),
    ] {
        let answer = get(&page, path, headers);
        for header in [
            "content-security-policy: default-src 'none'; style-src 'self'; form-action 'self'",
            "x-frame-options: DENY",
            "cache-control: no-store",
            "x-content-type-options: nosniff",
            "referrer-policy: same-origin",
        ] {
            assert!(answer.contains(header), "{path} {header}: {answer}");
        }
        assert!(
            !answer.contains("script-src") && !answer.contains("<script"),
            "{path}"
        );
    }
    let answer = get(&page, &call, &cookie);
    assert!(
        !answer.contains("<img") && !answer.contains("evil.example\"><button"),
        "{answer}"
    );
    assert!(answer.contains("&lt;script&gt;"), "{answer}");
    for hidden in ['\u{202e}', '\u{1b}'] {
        assert!(!answer.contains(hidden));
    }
}

#[test]
fn what_is_to_be_signed_is_not_approved_here() {
    let page = Running::start(Needs::Signature);
    let call = format!("{}/call/000000000000002a/17", home());
    let answer = get(&page, &call, &(cookie(TICKET) + "\r\n"));
    assert!(answer.contains("custody approve 17 --key FILE"), "{answer}");
    assert!(!answer.contains("value=\"approve\""), "{answer}");
}

#[test]
fn whoever_says_nothing_or_too_much_keeps_nobody_waiting() {
    use std::{io::Write as _, net::TcpStream};

    let page = Running::start(Needs::Approval);
    let silent: Vec<_> = (0..40)
        .map(|_| TcpStream::connect(page.address).unwrap())
        .collect();
    let mut long = TcpStream::connect(page.address).unwrap();
    let _cut = long.write_all(format!("GET /{} HTTP/1.1\r\n", "x".repeat(1 << 20)).as_bytes());
    assert_eq!(
        status(&get(&page, &home(), &(cookie(TICKET) + "\r\n"))),
        200
    );
    drop(silent);
    for (method, code) in [
        ("PUT", 404),
        ("DELETE", 404),
        ("OPTIONS", 404),
        ("HEAD", 404),
    ] {
        let request = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\n{}\r\n\r\n",
            home(),
            page.address,
            cookie(TICKET)
        );
        assert_eq!(status(&page.raw(&request)), code, "{method}");
    }
}
