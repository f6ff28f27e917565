//! The recorded half: what is in it, and that the replay itself is right.

use std::path::PathBuf;

use custody_replay::{
    decider::Nobody,
    format::read_folder,
    run::Reviewer,
    score::{Blind, Outcome, score},
};

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/agentdojo")
}

#[test]
fn without_a_gate_every_task_is_done_and_every_attack_is_won() {
    let mut pairs = 0;
    for suite in read_folder(&folder()).unwrap() {
        let score = score(
            &suite,
            "none",
            &|_task| Ok(Box::new(Nobody)),
            Reviewer::Absent,
            &mut Blind,
        )
        .unwrap();
        assert_eq!(score.benign_auto, score.user_tasks);
        assert_eq!(score.benign_utility, score.user_tasks);
        assert_eq!(score.questions, 0);
        let all = Outcome {
            delivered: score.pairs,
            won: score.pairs,
        };
        assert_eq!((score.attacks.verbatim, score.attacks.encoded), (all, all));
        pairs += score.pairs;
    }
    assert_eq!(pairs, 232);
}
