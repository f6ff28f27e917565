//! Verb Authority's public corpus: at least its own published figures, and nothing wrongly free.

#[path = "../examples/corpus/case.rs"]
mod case;
#[path = "../examples/corpus/figures.rs"]
mod figures;
#[path = "../examples/corpus/policy.rs"]
mod policy;

const CORPUS: &[u8] =
    include_bytes!("../../../fixtures/authority/outside/verb-authority/schema_corpus.json");

#[test]
fn the_corpus_is_met_at_least_as_often_as_its_authors_meet_it() {
    let figures = figures::of(CORPUS).unwrap();
    assert_eq!((figures.policies, figures.decisions), (34, 18));
    assert!(figures.policy_matches >= 26, "{figures:#?}");
    assert!(figures.decision_matches >= 12, "{figures:#?}");
}

#[test]
fn nothing_of_the_corpus_is_wrongly_free_or_allowed() {
    let figures = figures::of(CORPUS).unwrap();
    assert_eq!(figures.policies_wrongly_free, 0, "{figures:#?}");
    assert_eq!(figures.wrongly_allowed, 0, "{figures:#?}");
}

/// Four fields, each with a value that fits it: the policy of a scan binds all of them, so that only the tuple that the
/// application asked for passes.
#[test]
fn fields_that_fit_each_by_itself_do_not_authorise_the_tuple() {
    let cases = include_bytes!("../../../fixtures/authority/ours/tuple-cases.json");
    let figures = figures::of(cases).unwrap();
    assert_eq!((figures.policies, figures.decisions), (4, 4));
    assert!(figures.differ.is_empty(), "{figures:#?}");
}
