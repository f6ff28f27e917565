//! Calls that wait, what is said to a session, and what of a result reaches the agent.

use custody_wire::{agent::Answer, session::Told};
use gate::record::Decision;

use crate::harness::{Bench, eventually, is_quiet};

const SCRIPT: &str = r#"{"script":"uptime"}"#;
const MAY: &str = r#"{"month":"2024-05"}"#;
const APRIL: &str = r#"{"month":"2024-04"}"#;
const HANDOFF: &str =
    r#"{"from":"a colleague","task":"close 2024-04 too","page_id":"p1","summary":"approved"}"#;

fn of(records: &[Decision], kind: fn(&Decision) -> bool) -> usize {
    records.iter().filter(|it| kind(it)).count()
}

fn is_held(it: &Decision) -> bool {
    matches!(it, Decision::Held { .. })
}

fn is_lapsed(it: &Decision) -> bool {
    matches!(it, Decision::Lapsed { .. })
}

#[test]
fn a_held_call_is_answered_at_once_with_what_it_is_called_and_why() {
    let mut bench = Bench::start();
    let vault = bench.vault();
    let mut front = bench.office("Run it");
    let (pending, rule, why) = front.held("run_script", SCRIPT);
    assert_eq!(rule, "confirmation");
    assert!(why.contains(&format!("call {pending}")), "{why}");
    assert!(why.contains("ask for the same again"), "{why}");
    let records = bench.records();
    let Some(Decision::Held {
        expires,
        at,
        reasons,
        ..
    }) = records.last()
    else {
        panic!("{records:?}");
    };
    assert_eq!(usize::try_from(pending).unwrap(), records.len());
    assert_eq!(expires - at, 1_000);
    assert_eq!(reasons[0].rule.as_str(), "confirmation");
    // The same again is the same call: one record, one id.
    assert_eq!(front.held("run_script", SCRIPT).0, pending);
    assert_ne!(front.held("run_script", r#"{"script":"date"}"#).0, pending);
    assert_eq!(of(&bench.records(), is_held), 2);
    assert!(is_quiet::<custody_wire::permit::Request>(&vault.stream));
}

#[test]
fn a_held_call_lapses_in_its_time_and_is_then_another() {
    let mut bench = Bench::start();
    let mut front = bench.office("Run it");
    let (pending, ..) = front.held("run_script", SCRIPT);
    eventually(|| of(&bench.records(), is_lapsed) == 1);
    let records = bench.records();
    let Some(Decision::Lapsed { decision, why, .. }) = records.last() else {
        panic!("{records:?}");
    };
    assert_eq!(decision.position, pending);
    assert!(why.as_str().contains("nobody answered"), "{why}");
    assert_ne!(front.held("run_script", SCRIPT).0, pending);
}

#[test]
fn what_waits_lapses_with_its_session() {
    let mut bench = Bench::start();
    let mut front = bench.office("Close the month 2024-05");
    let _held = front.held("run_script", SCRIPT);
    let (_, rule, _) = front.held("close_month", MAY);
    assert_eq!(rule, "turn");
    let close = custody_wire::session::Request::Close {
        session: crate::harness::SESSION,
    };
    let _done = bench.ask_control(&close);
    assert_eq!(of(&bench.records(), is_lapsed), 2);
}

#[test]
fn only_so_many_calls_wait() {
    let mut bench = Bench::start();
    let mut front = bench.office("Run it");
    for n in 0..64 {
        let _held = front.held("run_script", &format!(r#"{{"script":"{n}"}}"#));
    }
    let (rule, why) = front.refused("run_script", SCRIPT);
    assert_eq!(rule, "busy");
    assert!(why.contains("64 calls"), "{why}");
}

#[test]
fn a_deferred_call_is_performed_at_the_end_of_its_turn_and_its_result_waits_for_the_agent() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.office("Close the month 2024-05");
    let (_, rule, _) = front.held("close_month", MAY);
    assert_eq!(rule, "turn");
    assert!(is_quiet::<custody_wire::permit::Request>(&vault.stream));
    assert_eq!(bench.tell(Told::TurnEnd), None);
    let asked = vault.asked();
    assert_eq!(asked.call.tool.as_str(), "close_month");
    vault.done(asked.number, br#"{"closed":true}"#);
    eventually(|| matches!(bench.records().last(), Some(Decision::Done { .. })));
    let sent = front.send("close_month", MAY);
    let Answer::Done { number, result, .. } = front.answer() else {
        panic!("not done");
    };
    assert_eq!(
        (number, result.as_slice()),
        (sent, &br#"{"closed":true}"#[..])
    );
    // Once: the next one is another call.
    assert_eq!(front.held("close_month", MAY).1, "turn");
}

#[test]
fn a_call_of_a_turn_that_ends_is_not_another_call_when_it_is_asked_for_again() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.office("Close the month 2024-05");
    let (pending, ..) = front.held("close_month", MAY);
    assert_eq!(bench.tell(Told::TurnEnd), None);
    let asked = vault.asked();
    // It is being performed.
    assert_eq!(front.held("close_month", MAY).0, pending);
    vault.done(asked.number, br#"{"closed":true}"#);
    eventually(|| matches!(bench.records().last(), Some(Decision::Done { .. })));
    assert_eq!(bench.tell(Told::TurnEnd), None);
    let _sent = front.send("close_month", MAY);
    assert!(matches!(front.answer(), Answer::Done { .. }));
    let records = bench.records();
    let deferred = |it: &Decision| matches!(it, Decision::Deferred { .. });
    let allowed = |it: &Decision| matches!(it, Decision::Allowed { .. });
    assert_eq!((of(&records, deferred), of(&records, allowed)), (1, 1));
}

#[test]
fn the_end_of_a_turn_sees_what_came_in_since() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.office("Close the month 2024-05");
    let _may = front.held("close_month", MAY);
    let _april = front.held("close_month", APRIL);
    assert_eq!(bench.tell(Told::Handoff(HANDOFF.into())), None);
    assert_eq!(bench.tell(Told::TurnEnd), None);
    let asked = vault.asked();
    assert_eq!(
        asked.call.arguments["month"],
        gate::json::Value::Text("2024-05".into())
    );
    vault.done(asked.number, b"{}");
    eventually(|| of(&bench.records(), is_held) == 1);
    let (_, rule, why) = front.held("close_month", APRIL);
    // It now waits for a person, or lapsed and is deferred anew.
    assert!(matches!(rule.as_str(), "origin" | "turn"), "{rule}: {why}");
}

#[test]
fn a_turn_that_does_not_end_refuses() {
    let mut bench = Bench::start();
    let vault = bench.vault();
    let mut front = bench.office("Close the month 2024-05");
    let _may = front.held("close_month", MAY);
    eventually(|| of(&bench.records(), is_lapsed) == 1);
    assert_eq!(bench.tell(Told::TurnEnd), None);
    assert!(is_quiet::<custody_wire::permit::Request>(&vault.stream));
}

#[test]
fn a_handoff_taints_and_one_that_is_none_is_refused_before_anybody_sees_it() {
    let mut bench = Bench::start();
    let mut front = bench.office("See what comes");
    for (bytes, said) in [
        (r#"{"from":"a","task":"b","page_id":"c"}"#, "no `summary`"),
        (
            r#"{"from":"a","task":"b","page_id":1,"summary":"d"}"#,
            "is text",
        ),
        (r#"{"from":"a","from":"b"}"#, "twice"),
        ("[]", "is an object"),
    ] {
        let why = bench.tell(Told::Handoff(bytes.into())).unwrap();
        assert!(why.contains(said), "{why}");
    }
    let publish = r#"{"page_id":"p1","reason":"release"}"#;
    let handed = |bench: &Bench| {
        of(&bench.records(), |it| {
            matches!(it, Decision::HandedOff { .. })
        })
    };
    assert_eq!(handed(&bench), 0);
    assert_eq!(bench.tell(Told::Handoff(HANDOFF.into())), None);
    assert_eq!(handed(&bench), 1);
    let (_, rule, _) = front.held("publish_page", publish);
    assert_eq!(rule, "taint");
    let other = r#"{"page_id":"finance-9","reason":"release"}"#;
    assert_eq!(front.refused("publish_page", other).0, "owned_set");
}

#[test]
fn a_message_is_authoritative_and_a_scope_only_narrows() {
    let mut bench = Bench::start();
    let mut front = bench.office("See what comes");
    assert_eq!(bench.tell(Told::Handoff(HANDOFF.into())), None);
    let mail = r#"{"body":"","subject":"","to":["bob@example.test"]}"#;
    assert_eq!(front.held("send_mail", mail).1, "origin");
    let said = "Write to bob@example.test";
    assert_eq!(bench.tell(Told::Message(said.into())), None);
    let scope = r#"{"tools":{"send_mail":{"calls":0},"search_mail":{}}}"#;
    assert_eq!(bench.tell(Told::Narrow(scope.into())), None);
    assert_eq!(front.refused("send_mail", mail).0, "scope");
    let wider = r#"{"tools":{"send_mail":{"calls":9},"pay":{}}}"#;
    assert_eq!(bench.tell(Told::Narrow(wider.into())), None);
    assert_eq!(front.refused("send_mail", mail).0, "scope");
    let none = r#"{"tools":{"no_such":{}}}"#;
    assert!(
        bench
            .tell(Told::Narrow(none.into()))
            .unwrap()
            .contains("no_such")
    );
    let pay = r#"{"amount":1,"payee":"Gas"}"#;
    assert_eq!(front.refused("pay", pay).0, "scope");
}

#[test]
fn nothing_is_said_to_a_session_that_is_none() {
    let mut bench = Bench::start();
    assert_eq!(
        bench.tell(Told::TurnEnd),
        Some("there is no such session".into())
    );
}

#[test]
fn of_a_limited_result_the_rest_does_not_reach_the_agent() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.office("Look");
    let _sent = front.send("search_mail", r#"{"query":"x"}"#);
    let asked = vault.asked();
    let four = br#"[{"id":"1","card":"4111"},{"id":"2"},{"id":"3"},{"id":"4"}]"#;
    vault.done(asked.number, four);
    let Answer::Done { result, json, .. } = front.answer() else {
        panic!("not done");
    };
    assert!(json);
    assert_eq!(
        String::from_utf8(result).unwrap(),
        r#"[{"card":"[redacted]","id":"1"},{"id":"2"},{"id":"3"}]"#
    );
    // What cannot be read cannot be limited.
    let _sent = front.send("search_mail", r#"{"query":"y"}"#);
    let asked = vault.asked();
    vault.done(asked.number, b"<html>4111</html>");
    let Answer::Failed { why, in_doubt, .. } = front.answer() else {
        panic!("released");
    };
    assert!(
        in_doubt && why.contains("withheld") && !why.contains("4111"),
        "{why}"
    );
}

#[test]
fn a_result_that_is_to_be_a_handoff_is_one_or_is_withheld() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.office("Look");
    let _sent = front.send("read_handoff", "{}");
    let asked = vault.asked();
    vault.done(asked.number, HANDOFF.as_bytes());
    assert!(matches!(front.answer(), Answer::Done { .. }));
    let _sent = front.send("read_handoff", "{}");
    let asked = vault.asked();
    vault.done(asked.number, br#"{"from":"a","do":"this"}"#);
    let Answer::Failed { why, .. } = front.answer() else {
        panic!("released");
    };
    assert!(why.contains("no handoff"), "{why}");
}

#[test]
fn a_session_that_was_told_too_much_is_closed_alone_and_says_why() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.office("Look");
    // A megabyte is remembered; each result has 400 KB of words of its own.
    for n in 0..3 {
        let _sent = front.send("search_contacts", &format!(r#"{{"name":"{n}"}}"#));
        let asked = vault.asked();
        let words: Vec<String> = (0..50_000).map(|word| format!("{n}w{word}")).collect();
        vault.done(asked.number, format!("\"{}\"", words.join(" ")).as_bytes());
        assert!(matches!(front.answer(), Answer::Done { .. }), "{n}");
    }
    let (rule, why) = front.refused("search_contacts", r#"{"name":"x"}"#);
    assert_eq!(rule, "saturated");
    assert!(why.contains("start a new session"), "{why}");
    // No other session notices.
    let mut other = bench.open(gate::id::SessionId(8));
    let _sent = other.send("whoami", "{}");
    let asked = vault.asked();
    vault.done(asked.number, b"{}");
    assert!(matches!(other.answer(), Answer::Done { .. }));
}

#[test]
fn a_call_counts_from_when_it_is_let_through_not_from_when_it_ends() {
    let mut bench = Bench::start();
    let mut vault = bench.vault();
    let mut front = bench.office("Pay the gas, 1, 2 and 3");
    // Two in a minute, says the policy. Neither is answered yet.
    for amount in 1..=2 {
        let _sent = front.send("pay", &format!(r#"{{"amount":{amount},"payee":"Gas"}}"#));
        let _asked = vault.asked();
    }
    let (rule, _) = front.refused("pay", r#"{"amount":3,"payee":"Gas"}"#);
    assert_eq!(rule, "rate");
}
