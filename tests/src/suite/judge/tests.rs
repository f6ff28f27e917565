use super::*;
use crate::{
    attempts,
    evidence::row::Expected,
    probe::{Failure, Step},
};

fn attempt(id: &str) -> &'static Attempt {
    attempts::all().into_iter().find(|a| a.id == id).unwrap()
}

fn refused(step: &str, name: &str) -> Seen {
    Seen {
        report: Some(Report {
            steps: vec![Step {
                step: step.into(),
                failed: Some(Failure {
                    errno: 1,
                    name: name.into(),
                }),
            }],
            ..Report::default()
        }),
        ..Seen::default()
    }
}

fn reached() -> Seen {
    Seen {
        reached: Some("the witness saw it".into()),
        protected: true,
        ..refused("x", "EPERM")
    }
}

fn said(words: &str) -> Seen {
    Seen {
        report: Some(Report {
            said: words.into(),
            ..Report::default()
        }),
        ..Seen::default()
    }
}

fn arms() -> Arms {
    Arms {
        confined: refused("socket", "EPERM"),
        reach: reached(),
        twin: said("HTTP/1.1 200 OK"),
        isolated: vec![
            (Left::Nothing, Ok(reached())),
            only(Layer::Environment, Ok(reached())),
            only(Layer::CgroupInet, Ok(refused("connect", "EPERM"))),
            only(Layer::Seccomp, Ok(refused("socket", "EPERM"))),
        ],
    }
}

type Run = (Left, Result<Seen, String>);

fn only(layer: Layer, seen: Result<Seen, String>) -> Run {
    (Left::Only(vec![layer]), seen)
}

fn all_but(layer: Layer, seen: Result<Seen, String>) -> Run {
    (Left::AllBut(layer), seen)
}

fn and(runs: impl IntoIterator<Item = Run>) -> Vec<Run> {
    arms().isolated.into_iter().chain(runs).collect()
}

fn terms(expected: expected::Rows) -> Terms {
    Terms {
        kernel: "6.12.1".into(),
        profile: Profile::Standard,
        expected,
    }
}

fn row(arms: &Arms) -> Row {
    let terms = terms(expected::Rows::new());
    judge(attempt("direct/tcp"), arms, "plant", &terms)
}

fn expecting(outcome: &str, single_legs: &[&str]) -> Terms {
    let because = |leg: &&str| ((*leg).to_owned(), "by nature".to_owned());
    let expected = Expected {
        outcome: outcome.into(),
        layers: vec!["seccomp".into()],
        single_legs: single_legs.iter().map(because).collect(),
        ..Expected::default()
    };
    terms(expected::Rows::from([("direct/tcp".into(), expected)]))
}

#[test]
fn a_refusal_names_the_layer_that_its_own_run_showed() {
    let row = row(&arms());
    assert_eq!(
        row.outcome,
        Outcome::Refused {
            layer: "seccomp".into(),
            reason: "socket: EPERM".into()
        }
    );
    assert_eq!(row.notes.len(), 1, "the attempt's own: {:?}", row.notes);
}

#[test]
fn a_success_is_recorded_as_a_success_whatever_the_probe_says() {
    let confined = reached();
    let row = row(&Arms { confined, ..arms() });
    assert!(matches!(row.outcome, Outcome::Reached { .. }));
}

#[test]
fn without_a_control_or_a_leg_a_refusal_is_inconclusive() {
    let lacking = [
        Arms {
            reach: refused("connect", "ECONNREFUSED"),
            ..arms()
        },
        Arms {
            twin: refused("connect", "EPERM"),
            ..arms()
        },
        Arms {
            isolated: Vec::new(),
            ..arms()
        },
        Arms {
            isolated: vec![only(Layer::Seccomp, Ok(reached()))],
            ..arms()
        },
        Arms {
            isolated: vec![only(Layer::Seccomp, Err("no launcher".into()))],
            ..arms()
        },
        // Something else than a layer refuses in every run of that kind.
        Arms {
            isolated: and([(Left::Nothing, Ok(refused("socket", "ENOENT")))]),
            ..arms()
        },
        Arms {
            confined: Seen {
                noise: "no such file".into(),
                ..Seen::default()
            },
            ..arms()
        },
    ];
    for arms in lacking {
        let row = row(&arms);
        assert!(
            matches!(row.outcome, Outcome::Inconclusive { .. }),
            "{row:?}"
        );
    }
}

#[test]
fn a_probe_that_did_not_run_in_an_isolating_run_refused_nothing() {
    let silent = Seen {
        noise: "killed".into(),
        ..Seen::default()
    };
    let row = row(&Arms {
        isolated: vec![only(Layer::Seccomp, Ok(silent))],
        ..arms()
    });
    assert_eq!(row.legs[0].outcome, LegOutcome::NotRun);
    assert!(matches!(row.outcome, Outcome::Inconclusive { .. }));
}

#[test]
fn one_leg_is_named_with_what_follows_from_its_removal() {
    let isolated = and([
        all_but(Layer::Landlock, Ok(refused("socket", "EPERM"))),
        all_but(Layer::Seccomp, Ok(reached())),
    ]);
    let row = row(&Arms { isolated, ..arms() });
    assert_eq!(row.single_legs, ["seccomp"]);
    assert_eq!(
        row.notes[1],
        "stands on one leg: seccomp; removed, it is reached: the witness saw it"
    );
}

#[test]
fn one_leg_that_no_plan_removes_is_named_too() {
    let row = row(&Arms {
        isolated: vec![
            only(Layer::Fds, Ok(refused("send", "EPIPE"))),
            all_but(Layer::Fds, Err("no plan".into())),
        ],
        ..arms()
    });
    assert_eq!(row.single_legs, ["fds"]);
    assert!(
        row.notes[1].starts_with("stands on one leg: fds;"),
        "{:?}",
        row.notes
    );
}

#[test]
fn a_single_leg_that_is_not_listed_fails_its_row() {
    let isolated = and([all_but(Layer::Seccomp, Ok(reached()))]);
    let arms = Arms { isolated, ..arms() };
    let judged = |terms: &Terms| judge(attempt("direct/tcp"), &arms, "plant", terms);
    let unlisted = judged(&expecting("refused", &[]));
    assert!(!unlisted.as_expected);
    assert!(
        unlisted
            .notes
            .iter()
            .any(|note| note.contains("not listed")),
        "{:?}",
        unlisted.notes
    );
    assert!(judged(&expecting("refused", &["seccomp"])).as_expected);
}

/// An attempt like another, with a gap that is known.
fn gap() -> Attempt {
    let like = attempt("direct/tcp");
    Attempt {
        id: like.id,
        twin_shows: like.twin_shows,
        promised: Promised::Layers(&[&[Layer::Seccomp]]),
        known_gap: Some("the kernel has no hook there"),
        ..Attempt::BASE
    }
}

#[test]
fn a_known_gap_comes_as_expected_while_it_reaches_and_fails_when_it_closes() {
    let confined = reached();
    let open = Arms { confined, ..arms() };
    let terms = expecting("reached", &[]);
    let row = judge(&gap(), &open, "plant", &terms);
    assert!(row.as_expected);
    assert_eq!(
        row.known_gap.as_deref(),
        Some("the kernel has no hook there")
    );

    let closed = judge(&gap(), &arms(), "plant", &terms);
    assert!(matches!(closed.outcome, Outcome::Refused { .. }));
    assert!(!closed.as_expected);
    assert!(
        closed.notes.iter().any(|note| note.contains("known gap")),
        "{:?}",
        closed.notes
    );
}

#[test]
fn what_reaches_without_being_a_known_gap_never_comes_as_expected() {
    let confined = reached();
    let open = Arms { confined, ..arms() };
    let row = judge(
        attempt("direct/tcp"),
        &open,
        "plant",
        &expecting("reached", &[]),
    );
    assert!(!row.as_expected);
}

#[test]
fn a_gap_that_a_profile_closes_is_expected_to_be_refused_there() {
    let row = judge(&gap(), &arms(), "plant", &expecting("refused", &[]));
    assert!(row.as_expected);
    assert_eq!(row.known_gap, None);
}

#[test]
fn a_door_alone_is_no_protected_effect() {
    let door = Seen {
        reached: Some("it came past `socket`".into()),
        ..refused("connect", "EPERM")
    };
    let row = row(&Arms {
        confined: door,
        ..arms()
    });
    assert!(matches!(
        row.outcome,
        Outcome::Reached {
            protected: false,
            ..
        }
    ));
}

#[test]
fn a_rule_of_the_gate_must_be_named_by_the_refusal() {
    let gate = |confined| {
        let arms = Arms {
            confined,
            twin: reached(),
            isolated: Vec::new(),
            ..arms()
        };
        let terms = terms(expected::Rows::new());
        judge(attempt("name/absent"), &arms, "plant", &terms).outcome
    };
    assert!(matches!(
        gate(said("refused by rule `unknown_tool`: no such tool")),
        Outcome::Refused { layer, .. } if layer == "gate"
    ));
    assert!(matches!(
        gate(said("timeout")),
        Outcome::Inconclusive { .. }
    ));
}

#[test]
fn what_the_arm_itself_shows_comes_before_its_own_proof() {
    let own = |seen: Seen, is_protected| {
        let mut seen = seen;
        seen.found(Some("the owner ran it".into()), is_protected);
        seen
    };
    let found = own(said("done"), true);
    assert!(found.by_own_proof && found.protected);
    assert_eq!(found.reached.as_deref(), Some("the owner ran it"));
    let door = own(said("done"), false);
    assert!(door.by_own_proof && !door.protected);
    let direct = own(reached(), true);
    assert!(!direct.by_own_proof && direct.protected);
    assert_eq!(direct.reached.as_deref(), Some("the witness saw it"));
}

#[test]
fn only_what_its_own_proof_finds_lies_outside_the_zone() {
    let attempt = || Attempt {
        beyond: Some("what the owner runs later"),
        ..gap()
    };
    let judged = |confined: Seen, expected: &str| {
        let arms = Arms { confined, ..arms() };
        judge(&attempt(), &arms, "plant", &expecting(expected, &[]))
    };
    let mut by_own_proof = said("done");
    by_own_proof.found(Some("the owner ran it".into()), true);
    let outside = judged(by_own_proof, "reached");
    assert_eq!(outside.beyond.as_deref(), Some("what the owner runs later"));
    assert_eq!(judged(reached(), "reached").beyond, None);
    assert_eq!(judged(refused("socket", "EPERM"), "refused").beyond, None);
}

#[test]
fn a_promised_leg_that_reaches_alone_fails_its_row() {
    let promised = |legs| Attempt {
        promised: Promised::Layers(legs),
        known_gap: None,
        ..gap()
    };
    let judged = |legs| {
        judge(
            &promised(legs),
            &arms(),
            "plant",
            &expecting("refused", &[]),
        )
    };
    let idle = judged(&[&[Layer::Seccomp], &[Layer::Environment]]);
    assert!(!idle.as_expected);
    assert!(
        idle.notes
            .contains(&"`environment` is promised, and does not refuse alone".into()),
        "{:?}",
        idle.notes
    );
    // What was tried without being promised may reach.
    assert!(judged(&[&[Layer::Seccomp]]).as_expected);
}

#[test]
fn where_no_isolating_run_answers_as_the_whole_the_reason_has_both_answers() {
    let confined = refused("socket", "ENETUNREACH");
    let row = row(&Arms { confined, ..arms() });
    let Outcome::Refused { layer, reason } = &row.outcome else {
        panic!("{row:?}");
    };
    assert_eq!(layer, "cgroup_inet");
    assert!(
        reason.starts_with("socket: ENETUNREACH; no isolating run"),
        "{reason}"
    );
    assert!(
        reason.ends_with("refuses alone: connect: EPERM"),
        "{reason}"
    );
}

#[test]
fn a_promise_that_a_profile_does_without_is_listed_with_its_reason() {
    let isolated = vec![
        only(Layer::Seccomp, Ok(refused("socket", "EPERM"))),
        only(Layer::CgroupInet, Ok(reached())),
    ];
    let arms = Arms { isolated, ..arms() };
    let mut terms = expecting("refused", &[]);
    let attempt = Attempt {
        id: "direct/tcp",
        promised: Promised::Layers(&[&[Layer::Seccomp], &[Layer::CgroupInet]]),
        known_gap: None,
        ..gap()
    };
    let judged = |terms: &Terms| judge(&attempt, &arms, "plant", terms);
    assert!(!judged(&terms).as_expected);
    let idle = [("cgroup_inet".to_owned(), "it is permitted".to_owned())];
    if let Some(expected) = terms.expected.get_mut("direct/tcp") {
        expected.idle = idle.into();
    }
    let row = judged(&terms);
    assert!(row.as_expected, "{row:?}");
}

#[test]
fn what_a_profile_permits_is_a_gap_of_the_profile_with_its_reason_and_nothing_else_is() {
    let arms = Arms {
        confined: Seen {
            protected: false,
            ..reached()
        },
        ..arms()
    };
    let mut terms = expecting("reached", &[]);
    let judged = |terms: &Terms| judge(attempt("direct/tcp"), &arms, "plant", terms);
    assert!(!judged(&terms).as_expected, "nobody permits it");
    if let Some(expected) = terms.expected.get_mut("direct/tcp") {
        expected.permitted = Some("profile `dev` is for this".into());
    }
    let row = judged(&terms);
    assert!(row.as_expected, "{row:?}");
    assert_eq!(row.known_gap.as_deref(), Some("profile `dev` is for this"));
}

/// What a witness saw, with the nonce `name` made of one letter.
fn effects(letter: char) -> Effects {
    let nonce = nonce(letter);
    Effects::read(&format!(
        r#"{{"number":1,"unix_ms":0,"peer":"","who":"vault","method":"POST","target":"/","body":"{nonce}","effect":true,"status":200}}"#
    ))
    .unwrap()
}

fn nonce(letter: char) -> String {
    format!("nonce{}", letter.to_string().repeat(32))
}

#[test]
fn an_effect_that_comes_after_its_arm_was_judged_counts_in_whichever_arm() {
    let late = |seen: Seen| Seen {
        nonce: nonce('a'),
        ..seen
    };
    let mut confined = Arms {
        confined: late(refused("socket", "EPERM")),
        ..arms()
    };
    assert!(!confined.take(&effects('b')), "another's");
    assert!(confined.take(&effects('a')));
    assert!(matches!(
        row(&confined).outcome,
        Outcome::Reached {
            protected: true,
            ..
        }
    ));
    assert!(!confined.take(&effects('a')), "it is known by then");

    let mut isolated = arms();
    isolated.isolated = and([only(Layer::Landlock, Ok(late(refused("connect", "EPERM"))))]);
    let said = |arms: &Arms| row(arms).legs.last().unwrap().outcome;
    assert_eq!(said(&isolated), LegOutcome::Refused);
    assert!(isolated.take(&effects('a')));
    assert_eq!(said(&isolated), LegOutcome::Reached);

    let mut reach = Arms {
        reach: late(refused("connect", "EPERM")),
        ..arms()
    };
    assert!(matches!(row(&reach).outcome, Outcome::Inconclusive { .. }));
    assert!(reach.take(&effects('a')));
    assert!(matches!(row(&reach).outcome, Outcome::Refused { .. }));
}

#[test]
fn an_effect_is_more_than_the_door_that_the_attempts_own_proof_found() {
    let door = Seen {
        nonce: nonce('a'),
        reached: Some("it came past `socket`".into()),
        by_own_proof: true,
        ..refused("connect", "EPERM")
    };
    let mut arms = Arms {
        confined: door,
        ..arms()
    };
    assert!(arms.take(&effects('a')));
    assert!(arms.confined.protected && !arms.confined.by_own_proof);
}

#[test]
fn only_what_nothing_refused_is_waited_for() {
    assert!(!arms().is_open());
    let mut open = arms();
    open.isolated = and([only(Layer::Uid, Ok(said("")))]);
    assert!(open.is_open());
}

#[test]
fn an_arm_that_cannot_be_made_leaves_its_row_inconclusive_and_not_as_expected() {
    let row = not_made(
        attempt("direct/tcp"),
        "no such file".into(),
        &expecting("refused", &[]),
    );
    assert!(matches!(&row.outcome, Outcome::Inconclusive { why } if why == "no such file"));
    assert!(!row.as_expected);
}
