//! Property B: what is delegated only narrows.

use std::collections::{BTreeMap, BTreeSet};

use gate::{
    call::Call,
    decide::{Ask, decide},
    id::{OwnedName, RoleName, ValueName},
    lineage::Key,
    policy::{Boundary, Policy},
    session::{Delegation, Facts, Opening, Scope, Taint},
};
use proptest::prelude::*;

use crate::scene::{compile, json, words};

const POLICY: &str = r#"
format = 1

[values.payee]
type = "string"
max_length = 34

[owned.accounts]
type = "string"
max_length = 34

[credentials.bank]
connector = "http"
floor = { origins = ["https://bank.example.test"], methods = ["POST"], paths = ["/v1/transfers"] }

[tools.transfer]
description = "Moves money."
credential = "bank"
risk = "financial"
roles = ["finance"]
total = { calls = 5, sums = { amount = 1000 } }
request = { method = "POST", url = "https://bank.example.test/v1/transfers", body = "{*}" }

[tools.transfer.arguments]
amount = { authority = "agent", role = "sink", type = "integer", min = 1, max = 1000 }
from = { authority = "owned", set = "accounts" }
to = { authority = "verified", value = "payee" }
"#;

fn policy() -> Policy {
    compile("bank", POLICY)
}

fn set(members: &[&str]) -> BTreeMap<OwnedName, Vec<String>> {
    let members = members.iter().map(|it| String::from(*it)).collect();
    [(OwnedName::parse("accounts").unwrap(), members)].into()
}

fn whole() -> Facts {
    let opening = Opening {
        owned: set(&["a-1", "a-2"]),
        roles: [RoleName::parse("finance").unwrap()].into(),
        values: [(ValueName::parse("payee").unwrap(), "p-1".into())].into(),
        ..Opening::default()
    };
    Facts::open(&policy(), opening).unwrap()
}

fn all() -> Delegation {
    Delegation {
        at_ms: 0,
        boundary: None,
        key: Key::new([1; 16]),
        owned: BTreeMap::new(),
        roles: None,
        scope: None,
        task: None,
        values: None,
        workspace: false,
    }
}

fn given(above: &Facts, change: impl FnOnce(&mut Delegation)) -> Result<Facts, String> {
    let mut part = all();
    change(&mut part);
    above
        .delegate(&policy(), part)
        .map_err(|error| error.to_string())
}

fn scope(text: &str) -> Scope {
    let bytes = gate::json::canonical(&json(text));
    gate::json::from_canonical(&bytes, &gate::json::Limits::CALL).unwrap()
}

fn call(from: &str, amount: i64) -> gate::json::Value {
    json(&format!(
        r#"{{"amount":{amount},"from":"{from}","to":"p-1"}}"#
    ))
}

fn answer(facts: &Facts, above: &[&Facts], from: &str, amount: i64) -> String {
    let arguments = call(from, amount);
    let ask = Ask::new("transfer", &arguments).below(above);
    words(&decide(&policy(), facts, &ask))
}

fn spend(facts: &mut Facts, amount: i64) {
    let made = Call::written("transfer", &call("a-1", amount)).unwrap();
    facts.record_call(&policy(), &made, 0, false);
}

#[test]
fn what_is_given_is_what_there_is_or_less() {
    let above = whole();
    let same = given(&above, |_| ()).unwrap();
    assert_eq!(answer(&same, &[&above], "a-2", 10), "allow");
    let less = given(&above, |it| it.owned = set(&["a-1"])).unwrap();
    assert_eq!(answer(&less, &[&above], "a-1", 10), "allow");
    assert_eq!(answer(&less, &[&above], "a-2", 10), "refuse owned_set");
    let none = given(&above, |it| it.values = Some(BTreeSet::new())).unwrap();
    assert_eq!(answer(&none, &[&above], "a-1", 10), "refuse trusted_value");
    let roleless = given(&above, |it| it.roles = Some(BTreeSet::new())).unwrap();
    assert_eq!(answer(&roleless, &[&above], "a-1", 10), "refuse role");
}

#[test]
fn what_there_is_not_cannot_be_given() {
    let above = whole();
    let stranger = given(&above, |it| it.owned = set(&["a-1", "a-9"])).unwrap_err();
    assert!(stranger.contains("a-9"), "{stranger}");
    // Not from one that was given less either, though the first had it.
    let less = given(&above, |it| it.owned = set(&["a-1"])).unwrap();
    assert!(given(&less, |it| it.owned = set(&["a-2"])).is_err());
    let other = ValueName::parse("amount").unwrap();
    let error = given(&above, |it| it.values = Some([other].into())).unwrap_err();
    assert!(error.contains("`amount`"), "{error}");
    // A role that the session has not is none that it could give.
    let admin = RoleName::parse("admin").unwrap();
    let none = given(&above, |it| it.roles = Some([admin].into())).unwrap();
    assert!(none.roles().is_empty());
    let near = given(&above, |it| it.boundary = Some(Boundary::User)).unwrap();
    assert!(given(&near, |it| it.boundary = Some(Boundary::Team)).is_err());
}

#[test]
fn what_tainted_the_one_has_tainted_the_other() {
    let opening = Opening {
        workspace: true,
        ..Opening::default()
    };
    let above = Facts::open(&policy(), opening).unwrap();
    let below = given(&above, |_| ()).unwrap();
    assert_eq!(below.taint(), &BTreeSet::from([Taint::Workspace]));
}

#[test]
fn a_limit_is_spent_once_however_many_sessions_spend_it() {
    let mut above = whole();
    let one = given(&above, |_| ()).unwrap();
    let other = given(&above, |_| ()).unwrap();
    spend(&mut above, 900);
    // Their own books are empty; that of the session above is not.
    for below in [&one, &other] {
        assert_eq!(answer(below, &[&above], "a-1", 100), "allow");
        assert_eq!(answer(below, &[&above], "a-1", 101), "refuse total");
    }
    // Nor does a scope that was narrowed above widen below.
    let narrow = scope(r#"{"tools":{"transfer":{"sums":{"amount":950}}}}"#);
    above.narrow(&policy(), narrow).unwrap();
    assert_eq!(answer(&one, &[&above], "a-1", 51), "refuse scope");
}

proptest! {
    /// However a session is divided, and each part again, all of them together do no more than the first
    /// may.
    #[test]
    fn parts_of_parts_do_no_more_than_the_whole(
        calls in prop::collection::vec((0_usize..3, 1_i64..=400), 1..12),
        limit in 1_i64..=1000,
    ) {
        let policy = policy();
        let mut whole = whole();
        let mut part = given(&whole, |it| {
            it.scope = Some(scope(&format!(
                r#"{{"tools":{{"transfer":{{"sums":{{"amount":{limit}}}}}}}}}"#
            )));
        }).unwrap();
        let mut parts_part = given(&part, |_| ()).unwrap();
        let (mut moved, mut by_parts) = (0, 0);
        for (who, amount) in calls {
            let arguments = call("a-1", amount);
            let ask = Ask::new("transfer", &arguments);
            let allowed = match who {
                0 => words(&decide(&policy, &whole, &ask)),
                1 => words(&decide(&policy, &part, &ask.below(&[&whole]))),
                _ => words(&decide(&policy, &parts_part, &ask.below(&[&part, &whole]))),
            };
            if allowed != "allow" {
                continue;
            }
            moved += amount;
            spend(&mut whole, amount);
            if who > 0 {
                by_parts += amount;
                spend(&mut part, amount);
            }
            if who > 1 {
                spend(&mut parts_part, amount);
            }
        }
        prop_assert!(moved <= 1000, "{moved}");
        prop_assert!(by_parts <= limit, "{by_parts} of {limit}");
    }
}
