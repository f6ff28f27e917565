//! Every end of a call has its line: what the front is answered stands in the chain before it is.

use custody_wire::{agent::Answer, permit};
use gate::{
    digest::{Digest, Domain},
    record::Decision,
};

use crate::harness::{Bench, Front, SESSION, Vault, message};

/// How a call is made to end.
enum End {
    /// By what the front sends: a tool and its arguments.
    Asked(&'static str, &'static str),
    /// By what the vault answers.
    Vault(fn(u64) -> permit::Answer),
    /// The vault goes away while it performs.
    VaultGone,
    /// There is no vault.
    NoVault,
    /// A number is used again.
    Replayed,
}

fn failed(number: u64, in_doubt: bool) -> permit::Answer {
    permit::Answer::Failed {
        number,
        receipt: Digest::of(Domain::Line, b"r"),
        verification: gate::record::Verification::UNSUPPORTED,
        why: "the server hung up".into(),
        in_doubt,
    }
}

/// The ends, what the front is told, and which record says it.
const ENDS: [(&str, End, &str, &str); 10] = [
    (
        "a tool that is none",
        End::Asked("no_such_tool", "{}"),
        "refused",
        "refused",
    ),
    (
        "arguments that are not of the form",
        End::Asked("read_note", "{ }"),
        "refused",
        "refused",
    ),
    (
        "arguments with a key twice",
        End::Asked("read_note", "{\"id\":1,\"id\":2}"),
        "refused",
        "refused",
    ),
    (
        "an argument too many",
        End::Asked("whoami", "{\"x\":1}"),
        "refused",
        "refused",
    ),
    (
        "a number that was used",
        End::Replayed,
        "refused",
        "refused",
    ),
    ("no vault", End::NoVault, "failed", "refused"),
    (
        "an effect that failed",
        End::Vault(|number| failed(number, false)),
        "failed",
        "failed",
    ),
    (
        "an effect in doubt",
        End::Vault(|number| failed(number, true)),
        "in doubt",
        "failed in doubt",
    ),
    (
        "a permit that the vault refused",
        End::Vault(|number| permit::Answer::Refused {
            number,
            why: "the permit expired".into(),
        }),
        "failed",
        "failed",
    ),
    (
        "a vault that went away",
        End::VaultGone,
        "in doubt",
        "failed in doubt",
    ),
];

#[test]
fn every_answer_to_the_front_has_its_record() {
    for (what, end, told, recorded) in ENDS {
        let mut bench = Bench::start();
        let mut vault = match end {
            End::NoVault => None,
            End::Asked(..) | End::Replayed | End::Vault(_) | End::VaultGone => Some(bench.vault()),
        };
        let mut front = bench.open(SESSION);
        if matches!(end, End::Replayed) {
            let number = front.send("no_such_tool", "{}");
            let _first = front.answer();
            front.send_as(number, "no_such_tool", b"{}");
        }
        let before = if matches!(end, End::Replayed) {
            None
        } else {
            Some(bench.records().len())
        };
        make(&end, &mut front, &mut vault);
        let answer = front.answer();
        assert_eq!(said(&answer), told, "{what}: {answer:?}");
        let records = bench.records();
        let last = records.last().unwrap();
        assert_eq!(wrote(last), recorded, "{what}: {last:?}");
        if let Some(before) = before {
            assert!(records.len() > before, "{what}: {records:?}");
        } else {
            // The call, and the one that repeated its number.
            let refused = records.iter().filter(|it| wrote(it) == "refused").count();
            assert_eq!(refused, 2, "{what}");
        }
    }
}

fn make(end: &End, front: &mut Front, vault: &mut Option<Vault>) {
    match end {
        End::Asked(tool, arguments) => {
            let _number = front.send(tool, arguments);
        }
        End::Vault(answer) => {
            let _number = front.send("send_message", &message("hello"));
            let vault = vault.as_mut().unwrap();
            let asked = vault.asked();
            vault.say(&answer(asked.number));
        }
        End::VaultGone => {
            let _number = front.send("send_message", &message("hello"));
            let mut there = vault.take().unwrap();
            let _asked = there.asked();
            drop(there);
        }
        End::NoVault => {
            let _number = front.send("send_message", &message("hello"));
        }
        End::Replayed => {}
    }
}

fn said(answer: &Answer) -> &'static str {
    match answer {
        Answer::Failed { in_doubt: true, .. } => "in doubt",
        Answer::Failed { .. } => "failed",
        Answer::Refused { .. } => "refused",
        Answer::Done { .. }
        | Answer::Held { .. }
        | Answer::Leased { .. }
        | Answer::Over { .. }
        | Answer::Stream { .. }
        | Answer::Tools { .. } => "another",
    }
}

fn wrote(record: &Decision) -> &'static str {
    if let Decision::Failed { in_doubt, .. } = record {
        return if *in_doubt {
            "failed in doubt"
        } else {
            "failed"
        };
    }
    if matches!(record, Decision::Refused { .. }) {
        "refused"
    } else {
        "another"
    }
}
