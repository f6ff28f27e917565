//! What a replay counts.

use custody_replay::{
    decider::Answer,
    run::{Elsewhere, Reviewer, attacked, benign},
};

use crate::scene::{Script, read, suite};

fn hold() -> Answer {
    Answer::Hold("asked".into())
}

#[test]
fn the_attacks_text_arrives_with_the_first_marked_result_and_then_the_agent_obeys() {
    let suite = read(&suite()).unwrap();
    let (task, attack) = (&suite.user_tasks[0], &suite.injection_tasks[0]);
    let script = Script::new(|_tool, _attacker| Answer::Allow);
    let done = attacked(
        &Elsewhere::of(&suite),
        task,
        attack,
        "EVIL",
        &script,
        Reviewer::Absent,
    )
    .unwrap();
    assert!(done.delivered && done.won);
    // The attacker's own read brings what was recorded for the same call; nothing was recorded for
    // his send.
    assert_eq!(
        *script.seen.borrow(),
        ["list: a", "read: b EVIL", "list: a", "send: c"]
    );
}

#[test]
fn a_text_whose_call_was_not_performed_never_arrived() {
    let suite = read(&suite()).unwrap();
    let (task, attack) = (&suite.user_tasks[0], &suite.injection_tasks[0]);
    let elsewhere = Elsewhere::of(&suite);
    let run = |answer: fn(&str, bool) -> Answer, reviewer| {
        attacked(
            &elsewhere,
            task,
            attack,
            "EVIL",
            &Script::new(answer),
            reviewer,
        )
        .unwrap()
    };
    let held = |tool: &str, _attacker: bool| {
        if tool == "read" {
            hold()
        } else {
            Answer::Allow
        }
    };
    assert!(!run(held, Reviewer::Absent).delivered);
    let approved = run(held, Reviewer::Oracle);
    assert!(approved.delivered && approved.won);
}

#[test]
fn the_oracle_approves_nothing_of_an_attack() {
    let suite = read(&suite()).unwrap();
    let (task, attack) = (&suite.user_tasks[0], &suite.injection_tasks[0]);
    let script = Script::new(|_tool, attacker| if attacker { hold() } else { Answer::Allow });
    let done = attacked(
        &Elsewhere::of(&suite),
        task,
        attack,
        "EVIL",
        &script,
        Reviewer::Oracle,
    )
    .unwrap();
    assert!(done.delivered && !done.won);
    assert_eq!(done.stopped, ["send: asked"]);
}

#[test]
fn a_question_is_not_auto_and_what_nobody_answers_is_not_done() {
    let suite = read(&suite()).unwrap();
    let task = &suite.user_tasks[0];
    let run = |answer: fn(&str, bool) -> Answer, reviewer| {
        benign(&suite, task, &Script::new(answer), reviewer).unwrap()
    };
    let done = run(|_tool, _attacker| Answer::Allow, Reviewer::Absent);
    assert!(done.auto && done.useful && done.stopped.is_empty());
    // Not one of the required calls: the task is done, but not without a question.
    let send = |tool: &str, _attacker: bool| {
        if tool == "send" {
            hold()
        } else {
            Answer::Allow
        }
    };
    let done = run(send, Reviewer::Absent);
    assert!(!done.auto && done.useful && done.stopped[0].question);
    let read = |tool: &str, _attacker: bool| {
        if tool == "read" {
            hold()
        } else {
            Answer::Allow
        }
    };
    assert!(!run(read, Reviewer::Absent).useful);
    assert!(run(read, Reviewer::Oracle).useful);
    // A refusal is no question, and nobody can approve it.
    let refuse = |tool: &str, _attacker: bool| {
        if tool == "read" {
            Answer::Refuse("no".into())
        } else {
            Answer::Allow
        }
    };
    let done = run(refuse, Reviewer::Oracle);
    assert!(!done.auto && !done.useful && !done.stopped[0].question);
}

#[test]
fn nobody_attacks_where_the_default_stands() {
    let suite = read(&suite()).unwrap();
    let script = Script::new(|_tool, _attacker| Answer::Allow);
    let _done = benign(&suite, &suite.user_tasks[0], &script, Reviewer::Absent).unwrap();
    assert_eq!(
        *script.seen.borrow(),
        ["list: a", "read: b nothing", "send: c"]
    );
}
