//! What an audit makes of the records of a gate that ran.

use custody_audit::{Report, Source, Tally, declared::Policies, source::Form, source::Record};
use custody_wire::session::{Answered, Request, Told, Verdict};
use gate::{
    approval::Scope,
    json::{self, Value},
    record::Decision,
};

use crate::{
    approvals::approve,
    harness::{Bench, SESSION},
};

const HANDOFF: &str = r#"{"from":"a","task":"b","page_id":"p1","summary":"c"}"#;

fn mail(to: &str) -> String {
    format!(r#"{{"body":"hello","subject":"s","to":["{to}@example.test"]}}"#)
}

fn audit(records: &[Decision]) -> Report {
    let mut tally = Tally::new(None);
    for (position, record) in (1_u64..).zip(records) {
        let Value::Object(members) = json::to_value(record).unwrap() else {
            panic!("{record:?}");
        };
        let (kind, fields) = members.first_key_value().unwrap();
        tally.take(Record {
            position,
            kind,
            fields,
        });
    }
    let read = Source {
        form: Form::Ledger,
        records: u64::try_from(records.len()).unwrap(),
        first: 1,
        last: u64::try_from(records.len()).unwrap(),
        unsigned: 0,
        torn: 0,
        withheld: 0,
    };
    Report::new(read, &tally, &Policies::new())
}

#[test]
fn every_record_of_a_gate_is_read_and_each_call_that_waited_is_counted_once() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.signing(SESSION, "See what comes");
    assert_eq!(bench.tell(Told::Handoff(HANDOFF.into())), None);
    // One that a reviewer approves.
    let _held = front.held("send_mail", &mail("bob"));
    let waits = bench.waits();
    assert_eq!(bench.review(approve(&waits, Scope::ONCE)), None);
    let asked = vault.asked();
    vault.done(asked.number, br#"{"id":1}"#);
    let _over = bench.over();
    // One that he refuses, and one that nobody answers before the session is over.
    let _held = front.held("send_mail", &mail("eve"));
    let waits = bench.waits();
    let refused = Answered {
        verdict: Verdict::Refuse { why: "no".into() },
        ..approve(&waits, Scope::ONCE)
    };
    assert_eq!(bench.review(refused), None);
    let _over = bench.over();
    let _held = front.held("send_mail", &mail("ann"));
    let _waits = bench.waits();
    // What no tool is, with arguments that nobody can read.
    let _refused = front.refused("no_such_tool", "{}");
    front.send_as(77, "strange\u{1b}", b"{");
    let _answer = front.answer();
    let _closed = bench.ask_control(&Request::Close { session: SESSION });

    let report = audit(&bench.records());
    assert_eq!((report.read.not_counted, report.read.not_followed), (0, 0));
    let tools = report.tools.iter();
    let mails = tools.clone().find(|it| it.classed.tool == "send_mail");
    let said = mails.unwrap().calls;
    assert_eq!((said.held, said.allowed, said.refused), (3, 0, 0));
    assert_eq!((said.approved, said.turned_down), (1, 1));
    assert_eq!((said.ended, said.open), (1, 0));
    assert_eq!(said.waits.count, 2);
    assert_eq!(mails.unwrap().results.trusted, 1);
    let names: Vec<&str> = report.unknown_tools.keys().map(String::as_str).collect();
    assert_eq!(names, ["no_such_tool", "strange\u{1b}"]);
    assert_eq!(tools.count(), 1);
}
