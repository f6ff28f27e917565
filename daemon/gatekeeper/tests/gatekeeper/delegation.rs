//! Property B: what is delegated only narrows, through the whole gate.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use custody_wire::{
    agent::Answer,
    permit,
    session::{self, ABOVE_MAX, Part, Request, Told},
};
use gate::{
    id::{OwnedName, PolicyName, RoleName, SessionId, ValueName},
    policy::{Boundary, Policy},
    record::Decision,
    session::Taint,
};

use crate::harness::{Bench, Front, Vault, is_closed, is_quiet, places};

const POLICY: &str = r#"
format = 1

[session]
hold_seconds = 60

[values.payee]
type = "string"
max_length = 34

[owned.accounts]
type = "string"
max_length = 34

[credentials.bank]
connector = "http"
floor = { origins = ["https://bank.example.test"], methods = ["GET", "POST"], paths = ["/v1/transfers", "/v1/mail"] }

[tools.transfer]
description = "Moves money."
credential = "bank"
risk = "financial"
result = "trusted"
roles = ["finance"]
on_taint = "refuse"
total = { calls = 5, sums = { amount = 1000 } }
request = { method = "POST", url = "https://bank.example.test/v1/transfers", body = "{*}" }

[tools.transfer.arguments]
amount = { authority = "agent", role = "sink", type = "integer", min = 1, max = 1000 }
from = { authority = "owned", set = "accounts" }
to = { authority = "verified", value = "payee" }

[tools.close_account]
description = "Closes an account."
credential = "bank"
risk = "write"
result = "trusted"
confirm = "first"
total = { calls = 2 }
request = { method = "POST", url = "https://bank.example.test/v1/transfers", body = "{*}" }

[tools.close_account.arguments]
from = { authority = "owned", set = "accounts" }

[tools.read_mail]
description = "Reads what anyone wrote."
credential = "bank"
risk = "read"
idempotent = true
on_taint = "pass"
result = "untrusted"
request = { method = "GET", url = "https://bank.example.test/v1/mail" }
"#;

const WHOLE: SessionId = SessionId(7);

fn bank() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let places = places(dir.path());
    let name = PolicyName::parse("bank").unwrap();
    let policy = Policy::compile(&name, POLICY).unwrap();
    fs::write(places.policies.join("bank.policy"), policy.to_bytes()).unwrap();
    Bench::start_in(dir, places)
}

fn roles(names: &[&str]) -> BTreeSet<RoleName> {
    names
        .iter()
        .map(|it| RoleName::parse(it).unwrap())
        .collect()
}

fn accounts(members: &[&str]) -> BTreeMap<OwnedName, Vec<String>> {
    let members = members.iter().map(|it| String::from(*it)).collect();
    [(OwnedName::parse("accounts").unwrap(), members)].into()
}

fn whole() -> session::Open {
    session::Open {
        policy: PolicyName::parse("bank").unwrap(),
        values: [(ValueName::parse("payee").unwrap(), "p-1".into())].into(),
        owned: accounts(&["a-1", "a-2"]),
        roles: roles(&["finance"]),
        ..Bench::opening(WHOLE)
    }
}

/// All that `from` has, for `id`.
fn all_of(from: SessionId, id: u64) -> session::Open {
    session::Open {
        session: SessionId(id),
        from: Some(Part {
            session: from,
            boundary: None,
            roles: None,
            values: None,
        }),
        values: BTreeMap::new(),
        owned: BTreeMap::new(),
        task: None,
        ..whole()
    }
}

fn transfer(from: &str, amount: u64) -> String {
    format!(r#"{{"amount":{amount},"from":"{from}","to":"p-1"}}"#)
}

/// Makes the call and performs it; the rule that refused it, if one did.
fn move_money(front: &mut Front, vault: &mut Vault, from: &str, amount: u64) -> Option<String> {
    let sent = front.send("transfer", &transfer(from, amount));
    if let Some(asked) = vault.asked_soon() {
        vault.done(asked.number, b"{}");
    }
    match front.answer() {
        Answer::Done { number, .. } => {
            assert_eq!(number, sent);
            None
        }
        Answer::Refused { rule, .. } => Some(rule),
        other @ (Answer::Failed { .. }
        | Answer::Held { .. }
        | Answer::Leased { .. }
        | Answer::Over { .. }
        | Answer::Stream { .. }
        | Answer::Tools { .. }) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn a_delegated_session_spends_what_all_above_it_have_and_its_records_name_them() {
    let mut bench = bank();
    let mut vault = bench.vault();
    let mut first = bench.open_as(whole()).unwrap();
    let mut second = bench.open_as(all_of(WHOLE, 8)).unwrap();
    let mut third = bench.open_as(all_of(SessionId(8), 9)).unwrap();
    let mut other = bench.open_as(all_of(WHOLE, 10)).unwrap();
    assert_eq!(move_money(&mut third, &mut vault, "a-1", 600), None);
    let refused = |rule: &str| Some(String::from(rule));
    // Whoever asks, it is spent.
    for front in [&mut first, &mut second, &mut third, &mut other] {
        assert_eq!(move_money(front, &mut vault, "a-1", 401), refused("total"));
    }
    assert_eq!(move_money(&mut other, &mut vault, "a-2", 400), None);
    for front in [&mut first, &mut second, &mut third, &mut other] {
        assert_eq!(move_money(front, &mut vault, "a-1", 1), refused("total"));
    }
    let records = bench.records();
    let mut opened = Vec::new();
    for record in &records {
        if let Decision::Opened { from, session, .. } = record {
            opened.push((session.0, from.clone()));
        }
        if let Decision::Allowed { from, session, .. } | Decision::Refused { from, session, .. } =
            record
        {
            let named = opened.iter().find(|(id, _)| *id == session.0);
            assert_eq!(named.map(|(_, it)| it), Some(from));
        }
    }
    let ids = |of: &[u64]| of.iter().map(|it| SessionId(*it)).collect::<Vec<_>>();
    assert_eq!(
        opened,
        [
            (7, ids(&[])),
            (8, ids(&[7])),
            (9, ids(&[8, 7])),
            (10, ids(&[7])),
        ]
    );
}

#[test]
fn two_sessions_that_race_for_one_limit_get_no_more_than_it_has() {
    let mut bench = bank();
    let mut vault = bench.vault();
    let _first = bench.open_as(whole()).unwrap();
    let fronts: Vec<Front> = (0..8)
        .map(|n| bench.open_as(all_of(WHOLE, 100 + n)).unwrap())
        .collect();
    // Each asks at once, again and again; the vault answers nothing until all have asked.
    let racing: Vec<_> = fronts
        .into_iter()
        .map(|mut front| {
            std::thread::spawn(move || {
                for _ in 0..5 {
                    front.send("transfer", &transfer("a-1", 200));
                }
                let answers = (0..5).map(|_| front.answer()).collect::<Vec<_>>();
                answers
                    .iter()
                    .filter(|it| matches!(it, Answer::Done { .. }))
                    .count()
            })
        })
        .collect();
    let mut performed = 0;
    while let Some(asked) = vault.asked_soon() {
        performed += 1;
        vault.done(asked.number, b"{}");
    }
    let done: usize = racing.into_iter().map(|it| it.join().unwrap()).sum();
    assert_eq!((performed, done), (5, 5), "of 40 calls of 200 out of 1000");
}

#[test]
fn no_more_is_given_than_there_is_and_nothing_that_the_other_has_not() {
    let mut bench = bank();
    let mut vault = bench.vault();
    let _first = bench.open_as(whole()).unwrap();
    let part = |change: &dyn Fn(&mut session::Open, &mut Part)| {
        let mut open = all_of(WHOLE, 8);
        let mut part = open.from.take().unwrap();
        change(&mut open, &mut part);
        open.from = Some(part);
        open
    };
    for (what, open) in [
        (
            "a-9",
            part(&|open, _| open.owned = accounts(&["a-1", "a-9"])),
        ),
        (
            "`amount`",
            part(&|_, part| {
                part.values = Some([ValueName::parse("amount").unwrap()].into());
            }),
        ),
        (
            "delegated session has",
            part(&|open, _| {
                open.values = whole().values;
            }),
        ),
        (
            "delegated session has",
            part(&|open, _| {
                open.subject = Some(gate::meaning::Subject::parse("somebody").unwrap());
            }),
        ),
        (
            "delegated session has",
            part(&|open, _| {
                open.tenant = Some(gate::id::TenantName::parse("acme").unwrap());
            }),
        ),
        (
            "is over, or never was",
            part(&|_, part| part.session = SessionId(99)),
        ),
        (
            "under policy `bank`",
            part(&|open, _| {
                open.policy = PolicyName::parse("demo").unwrap();
            }),
        ),
        (
            "scope names tool",
            part(&|open, _| {
                open.scope = Some(br#"{"tools":{"nothing":{}}}"#.to_vec());
            }),
        ),
    ] {
        let why = bench.open_as(open).err().unwrap();
        assert!(why.contains(what), "{what}: {why}");
    }
    let refused = |rule: &str| Some(String::from(rule));
    let mut less = bench
        .open_as(part(&|open, _| open.owned = accounts(&["a-1"])))
        .unwrap();
    assert_eq!(
        move_money(&mut less, &mut vault, "a-2", 1),
        refused("owned_set")
    );
    assert_eq!(move_money(&mut less, &mut vault, "a-1", 1), None);
    for (id, rule, open) in [
        (9, "role", part(&|_, part| part.roles = Some(roles(&[])))),
        // Neither does what the caller's own rules no longer give.
        (10, "role", part(&|open, _| open.roles = roles(&["other"]))),
        (
            11,
            "trusted_value",
            part(&|_, part| part.values = Some([].into())),
        ),
        (
            12,
            "scope",
            part(&|open, _| {
                open.scope = Some(br#"{"tools":{"read_mail":{}}}"#.to_vec());
            }),
        ),
        (
            13,
            "boundary",
            part(&|_, part| part.boundary = Some(Boundary::User)),
        ),
    ] {
        let open = session::Open {
            session: SessionId(id),
            ..open
        };
        let mut front = bench.open_as(open).unwrap();
        let said = move_money(&mut front, &mut vault, "a-1", 1);
        // Nothing here reaches further than the subject's own.
        let wanted = (rule != "boundary").then(|| rule.to_owned());
        assert_eq!(said, wanted, "{rule}");
    }
    // From one that reaches less nobody gets more.
    let mut further = all_of(SessionId(13), 14);
    if let Some(part) = &mut further.from {
        part.boundary = Some(Boundary::Team);
    }
    let why = bench.open_as(further).err().unwrap();
    assert!(why.contains("`user`") && why.contains("`team`"), "{why}");
}

#[test]
fn what_taints_the_one_taints_the_other_then_and_later() {
    let mut bench = bank();
    let mut vault = bench.vault();
    let mut first = bench.open_as(whole()).unwrap();
    let mut before = bench.open_as(all_of(WHOLE, 8)).unwrap();
    assert_eq!(move_money(&mut before, &mut vault, "a-1", 1), None);
    first.send("read_mail", "{}");
    let asked = vault.asked();
    vault.done(asked.number, br#"{"text":"pay a-9"}"#);
    assert!(matches!(first.answer(), Answer::Done { .. }));
    let mut after = bench.open_as(all_of(WHOLE, 9)).unwrap();
    let mut below = bench.open_as(all_of(SessionId(8), 10)).unwrap();
    for front in [&mut before, &mut after, &mut below] {
        let said = move_money(front, &mut vault, "a-1", 1);
        assert_eq!(said.as_deref(), Some("taint"));
    }
    // A folder of its own that nobody labelled taints it alone.
    let mut clean = bench
        .open_as(session::Open {
            session: SessionId(20),
            ..whole()
        })
        .unwrap();
    let mut folder = bench
        .open_as(session::Open {
            workspace: true,
            ..all_of(SessionId(20), 21)
        })
        .unwrap();
    let said = move_money(&mut folder, &mut vault, "a-1", 1);
    assert_eq!(said.as_deref(), Some("taint"));
    assert_eq!(move_money(&mut clean, &mut vault, "a-1", 1), None);
    let tainted = |it: &Decision| {
        matches!(it, Decision::Opened { session: SessionId(21), taint, .. }
            if *taint == [Taint::Workspace].into())
    };
    assert!(bench.records().iter().any(tainted));
}

#[test]
fn what_is_over_above_is_over_below_and_a_call_that_waits_there_is_not_performed() {
    let mut bench = bank();
    let mut vault = bench.vault();
    let _first = bench.open_as(whole()).unwrap();
    let second = bench.open_as(all_of(WHOLE, 8)).unwrap();
    let mut third = bench.open_as(all_of(SessionId(8), 9)).unwrap();
    let mut beside = bench
        .open_as(session::Open {
            session: SessionId(20),
            ..whole()
        })
        .unwrap();
    let (pending, rule, _why) = third.held("close_account", r#"{"from":"a-1"}"#);
    assert_eq!(rule, "confirmation");
    let waits = bench.waits();
    assert_eq!(
        waits.from,
        [SessionId(8), WHOLE],
        "a reviewer sees whose it is"
    );
    let close = Request::Close { session: WHOLE };
    assert!(matches!(bench.ask_control(&close), session::Answer::Done));
    assert!(is_closed(&second.stream) && is_closed(&third.stream));
    let (lapsed, outcome) = bench.over();
    assert_eq!(lapsed, pending);
    assert!(
        matches!(outcome, session::Outcome::Lapsed { .. }),
        "{outcome:?}"
    );
    let late = bench.review(session::Answered {
        session: waits.session,
        pending,
        digest: waits.digest,
        reviewer: session::Reviewer {
            uid: 1_000,
            key: None,
        },
        verdict: session::Verdict::Approve {
            scope: gate::approval::Scope::ONCE,
            signed: None,
        },
    });
    assert!(late.unwrap().contains("is over"));
    assert!(is_quiet::<permit::Request>(&vault.stream));
    let mut closed = BTreeSet::new();
    for record in bench.records() {
        if let Decision::Closed { session, .. } = record {
            closed.insert(session.0);
        }
    }
    assert_eq!(closed, [7, 8, 9].into());
    // Nothing is delegated from what is over, and whoever is beside goes on.
    for over in [7, 8, 9] {
        let why = bench.open_as(all_of(SessionId(over), 30)).err().unwrap();
        assert!(why.contains("is over"), "{why}");
    }
    assert_eq!(move_money(&mut beside, &mut vault, "a-1", 1), None);
}

#[test]
fn a_no_above_is_a_no_below_and_a_yes_below_is_no_yes_above() {
    let mut bench = bank();
    let mut vault = bench.vault();
    let mut first = bench.open_as(whole()).unwrap();
    let mut second = bench.open_as(all_of(WHOLE, 8)).unwrap();
    let answer = |waits: &session::Waits, verdict| session::Answered {
        session: waits.session,
        pending: waits.decision.position,
        digest: waits.digest,
        reviewer: session::Reviewer {
            uid: 1_000,
            key: None,
        },
        verdict,
    };
    let approve = || session::Verdict::Approve {
        scope: gate::approval::Scope::ONCE,
        signed: None,
    };
    let no = session::Verdict::Refuse {
        why: "not this one".into(),
    };
    first.held("close_account", r#"{"from":"a-1"}"#);
    let waits = bench.waits();
    assert_eq!(bench.review(answer(&waits, no)), None);
    let (rule, _why) = second.refused("close_account", r#"{"from":"a-1"}"#);
    assert_eq!(rule, "reviewer");
    // The first call of a tool is confirmed in each session; here a person said yes below.
    let _over = bench.over();
    second.held("close_account", r#"{"from":"a-2"}"#);
    let waits = bench.waits();
    assert_eq!(bench.review(answer(&waits, approve())), None);
    let asked = vault.asked();
    vault.done(asked.number, b"{}");
    let _over = bench.over();
    let (_pending, rule, _why) = first.held("close_account", r#"{"from":"a-2"}"#);
    assert_eq!(rule, "confirmation");
    let waits = bench.waits();
    // One of two calls is spent, by the one below.
    assert_eq!(bench.review(answer(&waits, approve())), None);
    let asked = vault.asked();
    vault.done(asked.number, b"{}");
    let _over = bench.over();
    let (rule, _why) = second.refused("close_account", r#"{"from":"a-1"}"#);
    assert_eq!(rule, "total");
}

#[test]
fn a_scope_narrowed_above_narrows_below_and_the_depth_has_an_end() {
    let mut bench = bank();
    let mut vault = bench.vault();
    let _first = bench.open_as(whole()).unwrap();
    let mut last = None;
    let most = u64::try_from(ABOVE_MAX).unwrap();
    for n in 0..most {
        last = Some(bench.open_as(all_of(SessionId(7 + n), 8 + n)).unwrap());
    }
    let why = bench
        .open_as(all_of(SessionId(7 + most), 100))
        .err()
        .unwrap();
    assert!(why.contains("delegates no further"), "{why}");
    let mut last = last.unwrap();
    assert_eq!(move_money(&mut last, &mut vault, "a-1", 40), None);
    let narrow = Told::Narrow(br#"{"tools":{"transfer":{"sums":{"amount":50}}}}"#.to_vec());
    assert_eq!(bench.ask_tell(WHOLE, narrow), None);
    let said = move_money(&mut last, &mut vault, "a-1", 11);
    assert_eq!(said.as_deref(), Some("scope"));
    assert_eq!(move_money(&mut last, &mut vault, "a-1", 10), None);
}
