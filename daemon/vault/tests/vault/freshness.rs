//! Property F: an effect is sent only while what it rests on is so.

use std::sync::{Arc, Mutex};

use custody_wire::permit::Answer;
use gate::record::{Effect, Freshness, Outcome};

use crate::{
    harness::{Bench, SESSION, Wish, run},
    server::{Received, Step, answer},
};

/// A note with a version. Who changes it under a condition changes that version alone.
#[derive(Clone)]
struct Note(Arc<Mutex<(String, u32)>>);

impl Note {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(("old".into(), 1))))
    }

    /// Somebody else changes it.
    fn change(&self, text: &str) {
        let mut note = self.0.lock().unwrap();
        *note = (text.into(), note.1 + 1);
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().0.clone()
    }

    fn act(&self) -> impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static {
        let kept = Arc::clone(&self.0);
        move |request| {
            let mut note = kept.lock().unwrap();
            let etag = format!("\"{}\"", note.1);
            if request.head.starts_with("GET") {
                let said = serde_json::json!({ "text": note.0, "version": note.1 });
                return answer("200 OK", &[("etag", &etag)], said.to_string().as_bytes());
            }
            if request.field("if-match").is_some_and(|it| it != etag) {
                return answer("412 Precondition Failed", &[], b"{}");
            }
            let asked: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            *note = (asked["text"].as_str().unwrap().into(), note.1 + 1);
            answer("200 OK", &[], b"{}")
        }
    }
}

fn edit(bench: &Bench, tool: &str) -> Wish {
    bench.wish(tool, serde_json::json!({ "id": "n", "text": "new" }))
}

async fn read(bench: &mut Bench) {
    let wish = bench.wish("read", serde_json::json!({ "id": "n" }));
    assert!(matches!(bench.ask(&wish).await, Answer::Done { .. }));
}

/// That nothing was done, and why.
async fn stale(bench: &mut Bench, wish: &Wish) -> String {
    let answer = bench.ask(wish).await;
    let Answer::Failed { why, in_doubt, .. } = answer else {
        panic!("{answer:?}")
    };
    assert!(!in_doubt && why.starts_with("stale: "), "{why}");
    let (
        _place,
        Effect::Receipt {
            intent, outcome, ..
        },
    ) = bench.chain().pop().unwrap()
    else {
        panic!()
    };
    assert!(intent.is_some() && matches!(outcome, Outcome::Stale { .. }));
    why
}

async fn done(bench: &mut Bench, wish: &Wish) -> Freshness {
    let answer = bench.ask(wish).await;
    assert!(
        matches!(answer, Answer::Done { status: 200, .. }),
        "{answer:?}"
    );
    let Some(Outcome::Done { freshness, .. }) = bench.outcomes().pop() else {
        panic!()
    };
    freshness
}

#[test]
fn what_was_changed_since_the_session_read_it_is_not_overwritten() {
    for tool in ["edit", "edit_field"] {
        let note = Note::new();
        run(note.act(), async |mut bench| {
            read(&mut bench).await;
            let wish = edit(&bench, tool);
            assert_eq!(done(&mut bench, &wish).await, Freshness::Closed);
            assert_eq!(note.text(), "new");
            // It was changed by this very call: read it again.
            let wish = edit(&bench, tool);
            let why = stale(&mut bench, &wish).await;
            assert!(why.contains("412"), "{why}");
            read(&mut bench).await;
            note.change("theirs");
            let wish = edit(&bench, tool);
            let _why = stale(&mut bench, &wish).await;
            assert_eq!(note.text(), "theirs");
        });
    }
}

#[test]
fn what_the_session_has_not_read_it_does_not_change_and_another_sessions_look_is_not_its_own() {
    let note = Note::new();
    run(note.act(), async |mut bench| {
        bench.open(gate::id::SessionId(9));
        let other = bench.wish("read", serde_json::json!({ "id": "n" }));
        let other = other.with("session", "0000000000000009");
        assert!(matches!(bench.ask(&other).await, Answer::Done { .. }));
        let elsewhere = bench.wish("read", serde_json::json!({ "id": "m" }));
        assert!(matches!(bench.ask(&elsewhere).await, Answer::Done { .. }));
        let before = bench.server.received().len();
        let wish = edit(&bench, "edit");
        let why = stale(&mut bench, &wish).await;
        assert!(why.contains("call `read` first"), "{why}");
        assert_eq!(bench.server.received().len(), before, "nothing was sent");
        // Nor what it read before it was opened anew.
        read(&mut bench).await;
        bench.open(SESSION);
        let wish = edit(&bench, "edit");
        let _why = stale(&mut bench, &wish).await;
        assert_eq!(note.text(), "old");
    });
}

#[test]
fn a_version_that_the_call_says_is_sent_as_one_and_never_as_any() {
    let note = Note::new();
    run(note.act(), async |mut bench| {
        let told = |bench: &Bench, version: &str| {
            let arguments = serde_json::json!({ "id": "n", "text": "new", "version": version });
            bench.wish("edit_told", arguments)
        };
        for bad in ["", "a\"b", "a b", "\"1\", \"2\""] {
            let wish = told(&bench, bad);
            let before = bench.server.received().len();
            let why = stale(&mut bench, &wish).await;
            assert!(why.contains("version is none"), "{bad}: {why}");
            assert_eq!(bench.server.received().len(), before);
        }
        for other in ["*", "2", "W/1"] {
            let wish = told(&bench, other);
            let _why = stale(&mut bench, &wish).await;
        }
        assert_eq!(note.text(), "old");
        let wish = told(&bench, "1");
        assert_eq!(done(&mut bench, &wish).await, Freshness::Closed);
    });
}

#[test]
fn what_is_read_again_right_before_is_narrowed_and_says_by_how_much() {
    let note = Note::new();
    run(note.act(), async |mut bench| {
        let wish = edit(&bench, "edit_again");
        let freshness = done(&mut bench, &wish).await;
        let Freshness::Narrowed { ms } = freshness else {
            panic!("{freshness:?}")
        };
        println!("narrowed to {ms} ms");
        assert!(ms <= 1_000, "{ms}");
        let wish = edit(&bench, "edit_again");
        let why = stale(&mut bench, &wish).await;
        assert!(why.contains("`/text` is not what the call says"), "{why}");
        let posts = bench.server.received();
        let posts = posts.iter().filter(|it| it.head.starts_with("POST"));
        assert_eq!(posts.count(), 1);
    });
}

#[test]
fn what_cannot_be_read_again_is_not_done() {
    run(
        |request| {
            if request.head.starts_with("GET") {
                return vec![Step::Close];
            }
            answer("200 OK", &[], b"{}")
        },
        async |mut bench| {
            let wish = edit(&bench, "edit_again");
            let why = stale(&mut bench, &wish).await;
            assert!(why.contains("could not be read again"), "{why}");
        },
    );
}

#[test]
fn a_412_without_a_condition_is_an_answer_like_any_other() {
    run(
        |_request| answer("412 Precondition Failed", &[], b"{}"),
        async |mut bench| {
            let answer = bench.ask(&bench.send("hello")).await;
            assert!(
                matches!(answer, Answer::Done { status: 412, .. }),
                "{answer:?}"
            );
        },
    );
}
