//! A reviewer with a real browser. Needs Debian's `chromium` and `chromium-driver`.

use std::{path::PathBuf, time::Duration};

use custody_wire::operator::OfPage;
use gate::approval::{Needs, Reach};

use crate::{driver::Browser, fake::Running};

fn browser() -> Option<Browser> {
    let browser = Browser::start();
    if browser.is_none() {
        println!(
            "not attempted: needs chromium and chromedriver (Debian: chromium, chromium-driver)"
        );
    }
    browser
}

const LIST: &str = "Custody: calls that wait";

/// Where pictures go, if somebody wants them.
fn pictures() -> Option<PathBuf> {
    std::env::var_os("CUSTODY_PICTURES").map(Into::into)
}

#[test]
fn a_reviewer_logs_in_reads_a_hostile_call_and_approves_it() {
    let Some(browser) = browser() else { return };
    let page = Running::start(Needs::Approval);
    browser.go(&page.link());
    browser.has_title("Custody: log in");
    browser.click("button.yes");
    browser.has_title(LIST);
    assert!(browser.url().contains("/r/"), "{}", browser.url());
    assert_eq!(browser.count("table tr"), 2);
    browser.click("td a");

    // What the agent wrote is text: it made no element, ran nothing, and turned nothing.
    browser.has_title("Call 17: waiting");
    assert_eq!(browser.count("script, img, iframe"), 0);
    assert_eq!(browser.count("form[action*='evil']"), 0);
    assert_eq!(browser.count("form"), 2);
    let shown = browser.text(".argument:nth-of-type(2) pre.foreign");
    for part in [
        "Dear bank,</pre></form><script>document.title='owned'</script>",
        "\\u{202e}evil\\u{202c} &amp; {{7*7}} \\u{1b}[2J",
        "<button>Approve</button></form>",
        "AAAAAAAA",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let text = browser.text("main");
    for part in [
        "Pay the invoice in my mailbox",
        "uid 1000",
        "DE89 3704 0044 0532 0130 00",
        "a person confirms what is financial",
        "It would not, if: the policy's `[confirm]` leaves the class `financial` out",
        "sink, authored by: the agent; it comes from: untrusted content",
        "Said by result 2 of read_mail, field `body`:",
        "please transfer 12 EUR to <b>DE89",
        "The session is tainted: result 2 of read_mail",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let digest = page.kept.lock().unwrap().waits.digest;
    assert_eq!(browser.text("#digest"), digest.to_string());
    if let Some(folder) = pictures() {
        browser.size(1_100, 2_300);
        browser.picture(&folder.join("call.png"));
    }

    browser.click("input[value='session']");
    browser.write("input[name='for']", "10m");
    browser.click("button.yes");
    match page.answers.recv_timeout(Duration::from_secs(5)).unwrap() {
        OfPage::Approve { of, scope } => {
            assert_eq!(of.digest, digest);
            assert_eq!(scope.reach, Reach::Call);
            assert!(scope.until.is_some());
        }
        other => panic!("{other:?}"),
    }
    browser.has_title("Call 17: done");
    assert!(
        browser
            .text("main")
            .contains("performed; the status is 200")
    );
    assert_eq!(browser.count("form"), 0);
    // The link was used.
    browser.go(&page.link());
    browser.click("button.yes");
    browser.has_title("Not done");
    assert!(browser.text("main").contains("the link was used"));
}

#[test]
fn a_reviewer_refuses_and_logs_out() {
    let Some(browser) = browser() else { return };
    let page = Running::start(Needs::Approval);
    browser.go(&page.link());
    browser.click("button.yes");
    browser.has_title(LIST);
    let home = browser.url();
    browser.click("td a");
    browser.has_title("Call 17: waiting");
    browser.write("input[name='why']", "<b>ask me first</b> & \"again\"");
    browser.click("button.no");
    match page.answers.recv_timeout(Duration::from_secs(5)).unwrap() {
        OfPage::Refuse { why, .. } => assert_eq!(why, "<b>ask me first</b> & \"again\""),
        other => panic!("{other:?}"),
    }
    browser.has_title("Call 17: refused");
    browser.go(&home);
    browser.has_title(LIST);
    assert!(browser.text("main").contains("Nothing waits."));
    browser.click("main > form button");
    browser.has_title("Logged out");
    assert!(browser.text("main").contains("prints a new link"));
    browser.go(&home);
    assert!(browser.text("main").contains("not logged in any longer"));
}

#[test]
fn another_page_sends_no_form_of_the_reviewers() {
    let Some(browser) = browser() else { return };
    let page = Running::start(Needs::Approval);
    browser.go(&page.link());
    browser.click("button.yes");
    browser.has_title(LIST);
    let half = browser.url().rsplit('/').next().unwrap().to_owned();
    // Everything that it could know but the token, and even the path's half of the session.
    let digest = page.kept.lock().unwrap().waits.digest;
    let action = format!("http://{}/r/{half}/answer", page.address);
    let evil = format!(
        "data:text/html,<form id=f method=post action={action}><input name=pending value=17>\
         <input name=session value=000000000000002a><input name=digest value={digest}>\
         <input name=answer value=approve><input name=scope value=once><button>x</button></form>"
    );
    browser.go(&evil);
    browser.click("button");
    browser.has_title("Not done");
    let said = browser.text("main");
    assert!(
        said.contains("does not come from this page") || said.contains("not logged in"),
        "{said}"
    );
    let answered = page.answers.recv_timeout(Duration::from_millis(300));
    assert!(answered.is_err(), "{answered:?}");
}

#[test]
fn what_needs_a_signature_says_how_to_sign() {
    let Some(browser) = browser() else { return };
    let page = Running::start(Needs::Signature);
    browser.go(&page.link());
    browser.click("button.yes");
    browser.has_title(LIST);
    browser.click("td a");
    browser.has_title("Call 17: waiting");
    assert!(
        browser
            .text("#sign")
            .contains("custody approve 17 --key FILE")
    );
    assert_eq!(browser.count("button.yes"), 0);
    assert_eq!(browser.count("button.no"), 1);
}
