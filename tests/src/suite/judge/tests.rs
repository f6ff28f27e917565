use super::*;
use crate::{
    attempts,
    probe::{Failure, Step},
};

fn attempt(id: &str) -> &'static Attempt {
    attempts::all().into_iter().find(|a| a.id == id).unwrap()
}

fn refused(step: &str, name: &str) -> Seen {
    Seen {
        reached: None,
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
        noise: String::new(),
    }
}

fn reached() -> Seen {
    Seen {
        reached: Some("the witness saw it".into()),
        ..refused("x", "EPERM")
    }
}

fn said(words: &str) -> Seen {
    Seen {
        reached: None,
        report: Some(Report {
            said: words.into(),
            ..Report::default()
        }),
        noise: String::new(),
    }
}

fn arms() -> Arms {
    Arms {
        confined: refused("socket", "EPERM"),
        reach: reached(),
        twin: said("HTTP/1.1 200 OK"),
        only: vec![
            (&[Layer::Landlock], Ok(reached())),
            (&[Layer::CgroupInet], Ok(refused("connect", "EPERM"))),
            (&[Layer::Seccomp], Ok(refused("socket", "EPERM"))),
        ],
        all_but: Vec::new(),
    }
}

fn row(arms: &Arms) -> Row {
    judge(attempt("direct/tcp"), arms, "plant", &BTreeMap::new())
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
            only: Vec::new(),
            ..arms()
        },
        Arms {
            only: vec![(&[Layer::Seccomp], Ok(reached()))],
            ..arms()
        },
        Arms {
            only: vec![(&[Layer::Seccomp], Err("no launcher".into()))],
            ..arms()
        },
        Arms {
            confined: Seen {
                reached: None,
                report: None,
                noise: "no such file".into(),
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
        reached: None,
        report: None,
        noise: "killed".into(),
    };
    let row = row(&Arms {
        only: vec![(&[Layer::Seccomp], Ok(silent))],
        ..arms()
    });
    assert_eq!(row.legs[0].outcome, LegOutcome::NotRun);
    assert!(matches!(row.outcome, Outcome::Inconclusive { .. }));
}

#[test]
fn one_leg_is_named_with_what_follows_from_its_removal() {
    let all_but = vec![
        (Layer::Landlock, Ok(refused("socket", "EPERM"))),
        (Layer::Seccomp, Ok(reached())),
    ];
    let row = row(&Arms { all_but, ..arms() });
    assert_eq!(
        row.notes[1],
        "stands on one leg: seccomp; removed, it is reached: the witness saw it"
    );
}

#[test]
fn one_leg_that_no_plan_removes_is_named_too() {
    let row = row(&Arms {
        only: vec![(&[Layer::Fds], Ok(refused("send", "EPIPE")))],
        all_but: vec![(Layer::Fds, Err("no plan".into()))],
        ..arms()
    });
    assert_eq!(row.notes.len(), 2);
    assert!(
        row.notes[1].starts_with("stands on one leg: fds;"),
        "{:?}",
        row.notes
    );
}

#[test]
fn a_rule_of_the_gate_must_be_named_by_the_refusal() {
    let gate = |confined| {
        let arms = Arms {
            confined,
            twin: reached(),
            only: Vec::new(),
            ..arms()
        };
        judge(attempt("name/absent"), &arms, "plant", &BTreeMap::new()).outcome
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
