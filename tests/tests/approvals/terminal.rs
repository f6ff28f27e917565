//! `custody review` on a terminal: what waits, one after the other.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use custody_sys::pty;
use custody_tests::{
    ground::{self, rule},
    suite::scene::nonce,
};

use crate::desk::Desk;

/// What the reviewer is asked.
const QUESTION: &str = "next or quit: ";

/// What a terminal shows, as it comes.
struct Screen {
    keys: File,
    shown: mpsc::Receiver<Vec<u8>>,
    text: String,
}

impl Screen {
    fn of(master: &std::os::fd::OwnedFd) -> Self {
        let mut from = File::from(master.try_clone().unwrap());
        let (tell, shown) = mpsc::channel();
        drop(thread::spawn(move || {
            let mut buffer = [0; 4_096];
            // EIO when the last holder of the other side is gone (pty(7)).
            while let Ok(len @ 1..) = from.read(&mut buffer) {
                if tell.send(buffer[..len].to_vec()).is_err() {
                    return;
                }
            }
        }));
        Self {
            keys: File::from(master.try_clone().unwrap()),
            shown,
            text: String::new(),
        }
    }

    /// Waits for the question, and what was shown before it.
    fn asked(&mut self) -> String {
        let begun = Instant::now();
        while !self.text.contains(QUESTION) {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", self.text);
            if let Ok(more) = self.shown.recv_timeout(Duration::from_millis(200)) {
                self.text.push_str(&String::from_utf8(more).unwrap());
            }
        }
        let (before, rest) = self.text.split_once(QUESTION).unwrap();
        let before = before.to_owned();
        self.text = rest.to_owned();
        before
    }

    fn type_in(&mut self, line: &str) {
        self.keys.write_all(line.as_bytes()).unwrap();
        self.keys.write_all(b"\n").unwrap();
    }
}

#[test]
#[serial_test::file_serial(custody)]
fn a_reviewer_walks_through_what_waits_and_only_a_whole_word_after_the_question_is_a_yes() {
    if !ground::can_run() {
        return;
    }
    let desk = Desk::set(600, |_| String::new());
    let mut agent = desk.agent();
    let [first, second, third] = [nonce(), nonce(), nonce()].map(Result::unwrap);
    let held: Vec<u64> = [&first, &second, &third]
        .map(|nonce| desk.held(&mut agent, nonce))
        .into();

    let terminal = pty::open(Path::new("/dev/pts")).unwrap();
    pty::resize(&terminal.slave, 50, 120).unwrap();
    let mut screen = Screen::of(&terminal.master);
    // Typed before anything was shown: it answers nothing.
    screen.type_in("approve");
    let mut command = desk.ground.host.cli();
    command
        .arg("review")
        .stdin(terminal.slave.try_clone().unwrap())
        .stdout(terminal.slave.try_clone().unwrap())
        .stderr(terminal.slave.try_clone().unwrap());
    pty::control_stdin(&mut command);
    let mut child = command.spawn().unwrap();
    drop(command);
    drop(terminal.slave);

    let shown = screen.asked();
    assert!(
        shown.contains("1 of 3") && shown.contains(&first),
        "{shown}"
    );
    screen.type_in("y");
    let told = screen.asked();
    assert!(told.contains("say `approve` (once)"), "{told}");
    assert_eq!(desk.sheet(held[0])["state"], "waiting");
    screen.type_in("approve");
    let shown = screen.asked();
    assert!(shown.contains("performed; the status is 201"), "{shown}");
    assert!(
        shown.contains("2 of 3") && shown.contains(&second),
        "{shown}"
    );
    assert_eq!(desk.effects(&first), 1);
    screen.type_in("refuse not today");
    let shown = screen.asked();
    assert!(
        shown.contains("refused") && shown.contains(&third),
        "{shown}"
    );
    screen.type_in("quit");
    assert!(child.wait().unwrap().success());

    let answer = agent
        .call("send_message", &ground::message(&second))
        .unwrap();
    assert_eq!(rule(&answer), Some("reviewer"), "{answer}");
    assert!(answer.to_string().contains("not today"), "{answer}");
    assert_eq!(desk.sheet(held[2])["state"], "waiting");
    assert_eq!([&second, &third].map(|nonce| desk.effects(nonce)), [0, 0]);
}
