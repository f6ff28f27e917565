//! Leases in both chains: an opening has an end, and is what streamed.

use custody_ledger::verify::{Noted, Report, verify};
use gate::{
    chain::Place,
    digest::Digest,
    id::{SessionId, ToolName},
    lease::Lease,
    origin::Origin,
    policy::Label,
    record::{Bound, Decision, Effect, Ended, Opening, Outcome, Streamed, Verification},
};

use crate::support::{Ledger, allowed, bound, digest, intent, receipt};

fn check(ledger: &Ledger) -> Report {
    verify(ledger.path(), &Noted::default()).unwrap()
}

/// A decision that opens a lease.
fn opening(n: u64) -> Decision {
    let mut decision = allowed(n);
    if let Decision::Allowed { opens, .. } = &mut decision {
        *opens = Some(Opening {
            label: Label::Untrusted,
            lease: Lease {
                bytes: 1_000,
                ms: 1_000,
                origin: Origin::parse("https://logs.example.test").unwrap(),
            },
        });
    }
    decision
}

fn streamed(effect: Bound, intent: Option<Place>) -> Effect {
    Effect::Receipt {
        at: 1_700_000_000_002,
        effect,
        intent,
        outcome: Outcome::Streamed(Streamed {
            bytes: 4,
            ended: Ended::Whole,
            scrubbed: 0,
            sha256: Digest::ZERO,
            status: 200,
        }),
    }
}

#[test]
fn an_opening_is_named_until_something_says_what_came_of_it() {
    let ledger = Ledger::new();
    let mut decisions = ledger.decisions();
    let opened = [1, 2, 3].map(|n| decisions.append(&opening(n)).unwrap());
    drop(decisions);
    let report = check(&ledger);
    assert!(report.is_good(), "{report:?}");
    assert_eq!(report.in_doubt_count, 3);
    assert!(
        report
            .in_doubt
            .iter()
            .all(|it| it.why.contains("a lease was opened"))
    );
    assert_eq!(report.in_doubt[0].decision, opened[0].position);

    // One has its receipt, one an intent alone, and of one the gate says why there is none.
    let mut receipts = ledger.receipts();
    let first = receipts.append(&intent(bound(1, opened[0]))).unwrap();
    let _second = receipts.append(&intent(bound(2, opened[1]))).unwrap();
    let _receipt = receipts
        .append(&streamed(bound(1, opened[0]), Some(first)))
        .unwrap();
    drop(receipts);
    let failed = Decision::Failed {
        at: 1,
        call: digest(3),
        decision: opened[2],
        in_doubt: false,
        label: None,
        receipt: None,
        session: SessionId(7),
        tool: ToolName::parse("send").unwrap(),
        verification: Verification::UNSUPPORTED,
        why: "the vault is gone".into(),
    };
    let _place = ledger.decisions().append(&failed).unwrap();
    let report = check(&ledger);
    assert!(report.is_good(), "{report:?}");
    assert_eq!(report.in_doubt_count, 1);
    assert!(
        report.in_doubt[0]
            .why
            .contains("no receipt follows its intent")
    );
}

#[test]
fn what_streamed_rests_on_an_opening_and_what_was_released_whole_on_none() {
    for (decision, line) in [
        (allowed(1), streamed as fn(Bound, Option<Place>) -> Effect),
        (opening(1), receipt),
    ] {
        let ledger = Ledger::new();
        let place = ledger.decisions().append(&decision).unwrap();
        let _receipt = ledger
            .receipts()
            .append(&line(bound(1, place), None))
            .unwrap();
        let report = check(&ledger);
        assert!(!report.is_good());
        let bad = report.receipts.bad.unwrap().to_string();
        assert!(bad.contains("does not allow this effect"), "{bad}");
    }
}
