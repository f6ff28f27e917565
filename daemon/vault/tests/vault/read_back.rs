//! Property G: what a server answers is not what it did. A server that lies, forgets, is late.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use custody_wire::permit::Answer;
use gate::record::{Finding, Outcome, Verification};

use crate::{
    harness::{Bench, run, yes},
    server::{Received, Step, answer},
};

/// What a server with notes does with a POST and with a GET.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Keeps {
    /// What it is told.
    #[default]
    All,
    /// What it is told, and shows it at the third look.
    Late,
    /// Nothing: it answers 200 all the same.
    Nothing,
    /// Something else than it is told.
    Other,
    /// What it is told, and answers nothing.
    Silently,
}

fn notes(keeps: Keeps) -> impl Fn(&Received) -> Vec<Step> + Send + Sync {
    let kept: Mutex<BTreeMap<String, serde_json::Value>> = Mutex::default();
    let looks = AtomicUsize::new(0);
    move |request| {
        let json = [("content-type", "application/json")];
        let target = request.head.split(' ').nth(1).unwrap();
        let mut kept = kept.lock().unwrap();
        if request.head.starts_with("POST") {
            let mut note: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            let id = match note.get("reference") {
                Some(reference) => reference.as_str().unwrap().to_owned(),
                None => format!("n{}", kept.len()),
            };
            note["state"] = "kept".into();
            if keeps == Keeps::Other {
                note["text"] = "something else".into();
                note["amount"] = 1_000_000.into();
            }
            if keeps != Keeps::Nothing {
                kept.insert(id.clone(), note);
            }
            if keeps == Keeps::Silently {
                return vec![Step::Close];
            }
            let said = serde_json::json!({ "id": id, "state": "kept" });
            return answer("200 OK", &json, said.to_string().as_bytes());
        }
        let look = looks.fetch_add(1, Ordering::SeqCst);
        let id = target.rsplit('/').next().unwrap();
        match kept.get(id) {
            Some(_) if keeps == Keeps::Late && look < 2 => answer("404 Not Found", &json, b"{}"),
            Some(note) => answer("200 OK", &json, note.to_string().as_bytes()),
            None => answer(
                "404 Not Found",
                &json,
                b"{\"error\":\"SECRET-WORDS-OF-THE-SERVER\"}",
            ),
        }
    }
}

fn note(bench: &Bench) -> crate::harness::Wish {
    bench.wish("note", serde_json::json!({ "text": "hello" }))
}

fn pay(bench: &Bench, reference: &str) -> crate::harness::Wish {
    let arguments = serde_json::json!({ "amount": 5, "reference": reference });
    bench.wish("pay", arguments)
}

/// What came of it, and that the receipt says the same.
fn found(bench: &Bench, answer: Answer) -> Verification {
    let Answer::Done { verification, .. } = answer else {
        panic!("{answer:?}")
    };
    let Some(Outcome::Done {
        verification: written,
        ..
    }) = bench.outcomes().pop()
    else {
        panic!()
    };
    assert_eq!(written, verification);
    assert!(!verification.why().contains("SECRET"), "{verification:?}");
    verification
}

#[test]
fn an_effect_that_reading_back_shows_is_verified_by_the_servers_own_number() {
    run(notes(Keeps::All), async |mut bench| {
        let answer = bench.ask(&note(&bench)).await;
        let verification = found(&bench, answer);
        assert_eq!(verification.finding, Finding::Verified);
        assert_eq!((verification.reads, verification.why), (1, None));
        let read = bench.server.received().pop().unwrap();
        assert!(read.head.starts_with("GET /v1/notes/n0 "), "{}", read.head);
        assert!(read.field("authorization").is_some());
    });
}

#[test]
fn a_200_is_not_verification_a_server_that_did_nothing_is_mismatched() {
    run(notes(Keeps::Nothing), async |mut bench| {
        let answer = bench.ask(&note(&bench)).await;
        let verification = found(&bench, answer);
        assert_eq!(verification.finding, Finding::Mismatched);
        assert_eq!(verification.reads, 3, "as often as the policy says");
        assert!(verification.why().contains("404"), "{verification:?}");
    });
}

#[test]
fn something_else_than_the_call_says_is_mismatched_and_names_the_place_alone() {
    run(notes(Keeps::Other), async |mut bench| {
        let answer = bench.ask(&note(&bench)).await;
        let verification = found(&bench, answer);
        assert_eq!(verification.finding, Finding::Mismatched);
        assert_eq!(verification.why(), "`/text` is not what the call says");
    });
}

#[test]
fn what_shows_late_is_verified_at_the_read_that_shows_it() {
    run(notes(Keeps::Late), async |mut bench| {
        let answer = bench.ask(&note(&bench)).await;
        let verification = found(&bench, answer);
        assert_eq!(verification.finding, Finding::Verified);
        assert_eq!(verification.reads, 3);
    });
}

#[test]
fn a_target_that_shows_nothing_is_unobservable_and_one_that_makes_no_sense_fails_the_verifier() {
    for (status, body, finding) in [
        ("403 Forbidden", "{}", Finding::Unobservable),
        ("503 Service Unavailable", "{}", Finding::Unobservable),
        ("302 Found", "", Finding::Unobservable),
        ("410 Gone", "{}", Finding::Mismatched),
        ("200 OK", "<html>", Finding::VerifierFailure),
        ("200 OK", "[]", Finding::Mismatched),
        ("200 OK", "{\"text\":null}", Finding::Mismatched),
    ] {
        let act = move |request: &Received| {
            if request.head.starts_with("POST") {
                answer("201 Created", &[], b"{\"id\":\"n1\"}")
            } else {
                answer(status, &[], body.as_bytes())
            }
        };
        run(act, async |mut bench| {
            let answer = bench.ask(&note(&bench)).await;
            assert_eq!(found(&bench, answer).finding, finding, "{status} {body}");
        });
    }
}

#[test]
fn the_policys_program_says_what_it_finds_and_none_of_its_words_go_further() {
    for (text, finding, reads) in [
        ("there", Finding::Verified, 1),
        ("gone", Finding::Mismatched, 2),
        ("blind", Finding::Unobservable, 2),
        ("odd", Finding::VerifierFailure, 1),
        ("hang", Finding::VerifierFailure, 1),
    ] {
        run(notes(Keeps::All), async |mut bench| {
            let wish = bench.wish("filed", serde_json::json!({ "text": text }));
            let answer = bench.ask(&wish).await;
            let verification = found(&bench, answer);
            assert_eq!(
                (verification.finding, verification.reads),
                (finding, reads),
                "{text}"
            );
            // The server is asked for nothing, and each run is ended.
            assert_eq!(bench.server.received().len(), 1);
            let again = bench.wish("filed", serde_json::json!({ "text": "there" }));
            let locked = matches!(bench.ask(&again).await, Answer::Refused { .. });
            assert_eq!(locked, finding == Finding::Mismatched, "{text}");
        });
    }
}

#[test]
fn a_program_that_cannot_be_started_fails_the_verifier_and_the_effect_stands() {
    run(notes(Keeps::All), async |mut bench| {
        // A worker is there before custodyd starts nothing more.
        let first = bench.wish("filed", serde_json::json!({ "text": "there" }));
        assert!(matches!(bench.ask(&first).await, Answer::Done { .. }));
        bench.seen.lock().unwrap().refuse = Some("every uid is in use".into());
        let wish = bench.wish("filed", serde_json::json!({ "text": "there" }));
        let answer = bench.ask(&wish).await;
        let verification = found(&bench, answer);
        assert_eq!(verification.finding, Finding::VerifierFailure);
        assert!(!verification.why().contains("uid"), "{verification:?}");
    });
}

#[test]
fn an_answer_without_the_value_that_it_is_read_back_by_fails_the_verifier_and_reads_nothing() {
    for body in [
        "{}",
        "<html>",
        "{\"id\":7}",
        "{\"id\":\"123456789012345678901\"}",
    ] {
        run(
            move |_request| answer("200 OK", &[], body.as_bytes()),
            async |mut bench| {
                let answer = bench.ask(&note(&bench)).await;
                let verification = found(&bench, answer);
                assert_eq!(verification.finding, Finding::VerifierFailure, "{body}");
                assert_eq!((verification.reads, bench.server.received().len()), (0, 1));
            },
        );
    }
}

#[test]
fn a_number_that_would_lead_the_read_elsewhere_is_not_read() {
    for id in ["../secret", "a/b", "..", "x%2fy"] {
        run(
            move |_request| {
                let said = serde_json::json!({ "id": id });
                answer("200 OK", &[], said.to_string().as_bytes())
            },
            async |mut bench| {
                let answer = bench.ask(&note(&bench)).await;
                assert_eq!(found(&bench, answer).finding, Finding::VerifierFailure);
                assert_eq!(bench.server.received().len(), 1, "{id}");
            },
        );
    }
}

#[test]
fn a_tool_without_a_verifier_says_unsupported_and_a_servers_error_is_not_read_back() {
    run(yes, async |mut bench| {
        let answer = bench.ask(&bench.send("hello")).await;
        assert_eq!(found(&bench, answer).finding, Finding::Unsupported);
    });
    run(
        |_request| answer("500 Internal Server Error", &[], b"{}"),
        async |mut bench| {
            let answer = bench.ask(&note(&bench)).await;
            assert_eq!(found(&bench, answer).finding, Finding::Unsupported);
            assert_eq!(bench.server.received().len(), 1);
        },
    );
}

#[test]
fn an_effect_whose_answer_is_lost_is_found_by_reading_back() {
    run(notes(Keeps::Silently), async |mut bench| {
        let answer = bench.ask(&pay(&bench, "r1")).await;
        let Answer::Failed {
            in_doubt,
            verification,
            ..
        } = answer
        else {
            panic!("{answer:?}")
        };
        // Whoever does not know the finding still looks before he repeats it.
        assert!(in_doubt);
        assert_eq!(verification.finding, Finding::Verified);
        assert!(matches!(bench.outcomes()[..], [Outcome::Found { .. }]));
    });
}

#[test]
fn an_effect_whose_answer_is_lost_and_that_is_not_there_stays_in_doubt() {
    run(
        |request| {
            if request.head.starts_with("POST") {
                vec![Step::Close]
            } else {
                answer("404 Not Found", &[], b"{}")
            }
        },
        async |mut bench| {
            let answer = bench.ask(&pay(&bench, "r1")).await;
            let Answer::Failed { in_doubt, .. } = answer else {
                panic!("{answer:?}")
            };
            assert!(in_doubt, "it may still be on its way");
            let [Outcome::InDoubt { verification, .. }] = &bench.outcomes()[..] else {
                panic!()
            };
            assert_eq!(verification.finding, Finding::Mismatched);
        },
    );
}

#[test]
fn a_tool_whose_effect_is_not_there_is_locked_for_every_session_of_its_policy() {
    run(notes(Keeps::Nothing), async |mut bench| {
        bench.open(gate::id::SessionId(9));
        let answer = bench.ask(&pay(&bench, "r1")).await;
        assert_eq!(found(&bench, answer).finding, Finding::Mismatched);
        let posts = bench.server.received().len();
        let again = pay(&bench, "r2");
        for session in ["0000000000000007", "0000000000000009"] {
            let mut again = again.with("session", session);
            again.permit["nonce"] = pay(&bench, "x").permit["nonce"].clone();
            let why = bench.refused(&again).await;
            assert!(
                why.contains("`pay` is locked") && why.contains("custody unlock pay"),
                "{why}"
            );
        }
        assert_eq!(bench.server.received().len(), posts);
        // Another tool is not.
        let answer = bench.ask(&note(&bench)).await;
        assert!(matches!(answer, Answer::Done { .. }));
    });
}

#[test]
fn a_session_that_ends_while_it_is_read_back_leaves_the_effect_done() {
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    run(
        move |request| {
            if request.head.starts_with("POST") {
                return answer("200 OK", &[], b"{\"id\":\"n1\"}");
            }
            counted.fetch_add(1, Ordering::SeqCst);
            vec![Step::Wait(Duration::from_secs(60))]
        },
        async |mut bench| {
            let wish = note(&bench);
            let signed = wish.signed(&bench.gate.key);
            let durable = custody_wire::permit::Request::Durable { position: 1 };
            bench.gate.say(&durable).await;
            bench.gate.perform(signed, wish.call).await;
            bench.until(|_| reads.load(Ordering::SeqCst) == 1).await;
            let ended = custody_wire::supervise::VaultNotice::Ended {
                session: crate::harness::SESSION,
            };
            bench.notice(&ended, &[]);
            let answer = bench.gate.answer().await;
            assert_eq!(found(&bench, answer).finding, Finding::Unobservable);
        },
    );
}
