//! What a gate needs before it serves.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use custody_gatekeeper::GateError;
use custody_service::{folders::Folders, policies::PoliciesError};
use custody_sys::channel;

use crate::harness::{in_thread, places};

/// The error of a gate that does not start in these places.
fn refused(places: &Folders) -> GateError {
    let (_ours, theirs) = channel::pair_seqpacket().unwrap();
    in_thread(places, theirs).join().unwrap().unwrap_err()
}

#[test]
fn policies_that_others_may_write_are_not_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path());
    for (path, good) in [
        (places.policies.join("demo.policy"), 0o644),
        (places.policies.clone(), 0o755),
    ] {
        for mode in [good | 0o020, good | 0o002] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = refused(&places);
            assert!(
                matches!(error, GateError::Policies(PoliciesError::Untrusted { .. })),
                "{mode:o}: {error:?}"
            );
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(good)).unwrap();
    }
}

#[test]
fn a_policy_that_is_changed_renamed_or_behind_a_link_is_not_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path());
    let path = places.policies.join("demo.policy");
    let bytes = fs::read(&path).unwrap();
    let mut spaced = bytes.clone();
    spaced.push(b' ');
    for changed in [&b""[..], b"{}", &bytes[..bytes.len() - 1], &spaced] {
        fs::write(&path, changed).unwrap();
        let error = refused(&places);
        assert!(
            matches!(error, GateError::Policies(PoliciesError::Invalid { .. })),
            "{error:?}"
        );
    }
    fs::write(&path, &bytes).unwrap();
    let other = places.policies.join("other.policy");
    fs::copy(&path, &other).unwrap();
    assert!(matches!(
        refused(&places),
        GateError::Policies(PoliciesError::Name { .. })
    ));
    fs::remove_file(&other).unwrap();
    symlink(&path, &other).unwrap();
    assert!(matches!(
        refused(&places),
        GateError::Policies(PoliciesError::Read { .. })
    ));
}

#[test]
fn a_lost_key_or_a_chain_of_another_key_is_not_gone_on_with() {
    let mut bench = crate::harness::Bench::start();
    let _front = bench.open(crate::harness::SESSION);
    bench.end();
    let places = bench.places.clone();
    fs::remove_file(places.state.join("decisions.key")).unwrap();
    assert!(matches!(refused(&places), GateError::Key(_)));
    fs::remove_file(places.public.join("decisions.pub")).unwrap();
    // Wholly another key: the chain is still not its own.
    fs::remove_file(places.state.join("decisions.key")).unwrap();
    assert!(matches!(refused(&places), GateError::Chain(_)));
}

#[test]
fn two_gates_do_not_write_one_chain() {
    let bench = crate::harness::Bench::start();
    // It serves: the chain is open.
    assert!(bench.head().position > 0);
    assert!(matches!(refused(&bench.places), GateError::Chain(_)));
}
