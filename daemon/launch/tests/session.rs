//! What an agent finds inside a real session.

#[cfg(test)]
mod support;

use custody_wire::{
    launch::Outcome,
    layer::{Layer, Status},
};
use support::{Start, can_run};

#[test]
fn every_layer_is_full_or_not_needed() {
    if !can_run() {
        return;
    }
    let session = Start::sh("true").prepare().unwrap();
    // custodyd attaches these, and reports them.
    let others = [Layer::CgroupInet, Layer::CgroupUnix];
    for layer in Layer::ALL.into_iter().filter(|one| !others.contains(one)) {
        let wanted = if layer == Layer::IdMap {
            Status::NotNeeded
        } else {
            Status::Full
        };
        assert_eq!(session.status_of(layer), &wanted, "{layer:?}");
    }
    assert!(
        session
            .layers
            .iter()
            .all(|report| !others.contains(&report.layer))
    );
}

#[test]
fn the_command_ends_and_its_status_comes_back() {
    if !can_run() {
        return;
    }
    let ended = Start::sh("echo out; echo err >&2; exit 7").run();
    assert_eq!(
        ended.outcome,
        Some(Outcome::Exited { code: 7 }),
        "{ended:?}"
    );
    assert_eq!(
        (ended.stdout.as_str(), ended.stderr.as_str()),
        ("out\n", "err\n")
    );
}
