//! Property D: what a call means, and on whose word. Everything here is bound to the byte; what is asked
//! is whether it is the right thing that it is bound to.

use std::collections::BTreeMap;

use gate::{
    call::Call,
    decide::{Ask, Moment, Verdict, decide},
    id::{OwnedName, TenantName},
    json::Value,
    meaning::{Aspect, MeaningError, Subject, Voucher},
    policy::Policy,
    request::render,
    session::{Facts, Opening},
};
use proptest::prelude::*;

use crate::scene::{compile, json, words};

const BANK: &str = r#"
format = 1

[owned.accounts]
type = "string"
max_length = 34

[credentials.bank]
connector = "http"
tenants = ["acme"]
floor = { origins = ["https://bank.example.test"], methods = ["POST"], paths = ["/v1/transfers"] }

[tools.transfer]
description = "Moves money."
credential = "bank"
risk = "financial"
on_taint = "origins"
request = { method = "POST", url = "https://bank.example.test/v1/transfers", body = "{*}" }

[tools.transfer.meaning]
effect = "money leaves the account"
resource = "from"
held_by = "accounts"
subject = true
tenant_argument = "org"
window_seconds = 900

[tools.transfer.arguments]
from = { authority = "agent", role = "identifier", type = "string", max_length = 34 }
to = { authority = "agent", role = "sink", type = "string", max_length = 34 }
amount = { authority = "agent", role = "sink", type = "integer", min = 1, max = 5000 }
org = { authority = "agent", role = "typed", type = "string", max_length = 64 }

[tools.close]
description = "Closes an account."
credential = "bank"
risk = "destructive"
on_taint = "origins"
request = { method = "POST", url = "https://bank.example.test/v1/transfers", body = "{*}" }

[tools.close.meaning]
effect = "the account is closed"
resource = "account"

[tools.close.arguments]
account = { authority = "agent", role = "identifier", type = "string", max_length = 34 }
"#;

const TASK: &str = "Pay 250 from DE-OWN-1 to DE-GAS-7, please.";

fn bank() -> Policy {
    compile("bank", BANK)
}

fn opening() -> Opening {
    let accounts = vec!["DE-OWN-1".into(), "DE-OWN-2".into()];
    Opening {
        at_ms: 1_000,
        owned: BTreeMap::from([(OwnedName::parse("accounts").unwrap(), accounts)]),
        subject: Some(Subject::parse("ada").unwrap()),
        task: Some(TASK.into()),
        tenant: Some(TenantName::parse("acme").unwrap()),
        ..Opening::default()
    }
}

fn session(change: impl FnOnce(&mut Opening)) -> Facts {
    let mut opening = opening();
    change(&mut opening);
    Facts::open(&bank(), opening).unwrap()
}

fn transfer(from: &str, org: &str) -> Value {
    json(&format!(
        r#"{{"amount":250,"from":"{from}","org":"{org}","to":"DE-GAS-7"}}"#
    ))
}

fn at(facts: &Facts, tool: &str, arguments: &Value, moment: Moment, now_ms: u64) -> Verdict {
    let ask = Ask::new(tool, arguments).at(moment, now_ms);
    decide(&bank(), facts, &ask)
}

fn asked(facts: &Facts, tool: &str, arguments: &Value) -> Verdict {
    at(facts, tool, arguments, Moment::Call, 2_000)
}

#[test]
fn a_call_that_is_bound_exactly_to_the_wrong_account_is_refused_for_what_it_means() {
    let facts = session(|_| ());
    let right = asked(&facts, "transfer", &transfer("DE-OWN-1", "acme"));
    let Verdict::Allow(allowed) = right else {
        panic!("{right:?}");
    };
    // Bound to the byte, both of them: that says nothing of whose account it is.
    let wrong = transfer("DE-OTHER-9", "acme");
    let refused = asked(&facts, "transfer", &wrong);
    assert_eq!(words(&refused), "refuse meaning");
    let explained = refused.explain();
    assert!(
        explained.reasons[0].why.contains("DE-OTHER-9"),
        "{explained:?}"
    );
    assert!(explained.reasons[0].change.contains("accounts"));
    // No person's approval makes it the subject's.
    let approved = at(&facts, "transfer", &wrong, Moment::Approved, 2_000);
    assert_eq!(words(&approved), "refuse meaning");
    assert_eq!(allowed.tool().as_str(), "transfer");
}

#[test]
fn each_aspect_names_who_vouches_for_it_and_none_is_the_agents() {
    let facts = session(|_| ());
    let Verdict::Allow(allowed) = asked(&facts, "transfer", &transfer("DE-OWN-1", "acme")) else {
        panic!("refused");
    };
    let said: Vec<(Aspect, Voucher)> = allowed
        .meaning()
        .aspects()
        .map(|(aspect, said)| (aspect, said.by))
        .collect();
    assert_eq!(
        said,
        [
            (Aspect::Effect, Voucher::Operator),
            (Aspect::Resource, Voucher::Application),
            (Aspect::Subject, Voucher::Application),
            (Aspect::System, Voucher::Operator),
            (Aspect::Tenant, Voucher::Application),
            (Aspect::Until, Voucher::Person),
        ]
    );
    let until = &allowed.meaning().said(Aspect::Until).unwrap().value;
    assert_eq!(*until, json("901000"));
    let system = &allowed.meaning().said(Aspect::System).unwrap().value;
    assert_eq!(*system, Value::Text("https://bank.example.test".into()));
}

#[test]
fn a_session_in_another_name_or_for_nobody_is_refused() {
    let call = transfer("DE-OWN-1", "acme");
    let globex = session(|it| it.tenant = Some(TenantName::parse("globex").unwrap()));
    for (facts, said) in [
        (globex, "in that of `globex`"),
        (session(|it| it.tenant = None), "in nobody's"),
        (session(|it| it.subject = None), "named none"),
    ] {
        let verdict = asked(&facts, "transfer", &call);
        assert_eq!(words(&verdict), "refuse meaning");
        let why = &verdict.explain().reasons[0].why;
        assert!(why.contains(said), "{why}");
    }
    // The agent's word for the tenant is held against the application's.
    let facts = session(|_| ());
    let verdict = asked(&facts, "transfer", &transfer("DE-OWN-1", "globex"));
    assert_eq!(words(&verdict), "refuse meaning");
}

#[test]
fn the_persons_word_is_acted_on_for_its_time_and_a_new_one_renews_it() {
    let mut facts = session(|_| ());
    let call = transfer("DE-OWN-1", "acme");
    let verdict = |facts: &Facts, now| words(&at(facts, "transfer", &call, Moment::Call, now));
    assert_eq!(verdict(&facts, 900_999), "allow");
    assert_eq!(verdict(&facts, 901_000), "refuse meaning");
    facts.record_message("Yes, do it.", 900_500);
    assert_eq!(verdict(&facts, 901_000), "allow");
    assert_eq!(verdict(&facts, 1_800_500), "refuse meaning");
    // A clock that a caller turned back shortens nothing and lengthens nothing.
    facts.record_message("And again.", 5);
    assert_eq!(verdict(&facts, 1_800_499), "allow");
}

#[test]
fn a_thing_that_only_the_agent_names_is_held_and_a_person_vouches_for_it() {
    let facts = session(|it| it.task = Some("Close account DE-OWN-2.".into()));
    let said = json(r#"{"account":"DE-OWN-2"}"#);
    let Verdict::Allow(allowed) = asked(&facts, "close", &said) else {
        panic!("refused");
    };
    let by = |allowed: &gate::decide::Allowed| allowed.meaning().said(Aspect::Resource).unwrap().by;
    assert_eq!(by(&allowed), Voucher::Person);
    // Not even tainted: it is the agent's own idea.
    let own = json(r#"{"account":"DE-OTHER-9"}"#);
    let held = asked(&facts, "close", &own);
    assert_eq!(words(&held), "hold meaning");
    let approved = at(&facts, "close", &own, Moment::Approved, 2_000);
    let Verdict::Allow(approved) = approved else {
        panic!("{approved:?}");
    };
    assert_eq!(by(&approved), Voucher::Reviewer);
}

#[test]
fn the_vault_holds_a_permits_meaning_against_its_own_policy_and_the_call() {
    let policy = bank();
    let facts = session(|_| ());
    let Verdict::Allow(allowed) = asked(&facts, "transfer", &transfer("DE-OWN-1", "acme")) else {
        panic!("refused");
    };
    let meaning = allowed.meaning();
    let call = allowed.call();
    let request = render(&policy, call).unwrap();
    assert_eq!(meaning.agrees(&policy, call, &request, 2_000), Ok(()));
    assert_eq!(
        meaning.agrees(&policy, call, &request, 901_000),
        Err(MeaningError::Over)
    );
    // A gate that means one account and sends another.
    let other = Call::written("transfer", &transfer("DE-OWN-2", "acme")).unwrap();
    let request = render(&policy, &other).unwrap();
    let aspect = Aspect::Resource;
    assert_eq!(
        meaning.agrees(&policy, &other, &request, 2_000),
        Err(MeaningError::Other { aspect })
    );
    // A gate that says nothing, or what it likes.
    let nothing = gate::meaning::Meaning::default();
    assert!(nothing.agrees(&policy, call, &request, 2_000).is_err());
    let made = |text: &str| {
        let meaning: gate::meaning::Meaning =
            gate::json::from_canonical(text.as_bytes(), &gate::json::Limits::LINE).unwrap();
        let request = render(&policy, call).unwrap();
        meaning.agrees(&policy, call, &request, 2_000)
    };
    let good = String::from_utf8(gate::json::to_canonical(meaning).unwrap()).unwrap();
    assert_eq!(made(&good), Ok(()));
    for (of, by) in [
        ("\"acme\"", "\"globex\""),
        ("money leaves", "nothing leaves"),
        (
            "https://bank.example.test",
            "https://bank.example.test:8443",
        ),
        ("DE-OWN-1", "DE-OWN-2"),
        (",\"until\":{\"by\":\"person\",\"value\":901000}", ""),
        (
            "\"subject\":{\"by\":\"application\",\"value\":\"ada\"},",
            "",
        ),
    ] {
        assert!(good.contains(of), "{good}");
        assert!(made(&good.replace(of, by)).is_err(), "{of} -> {by}");
    }
}

#[test]
fn a_policy_whose_meaning_names_what_it_has_not_is_none() {
    let name = gate::id::PolicyName::parse("bank").unwrap();
    for (of, by, said) in [
        ("resource = \"from\"", "resource = \"source\"", "source"),
        ("held_by = \"accounts\"", "held_by = \"pages\"", "pages"),
        ("resource = \"from\"\n", "", "resource"),
        ("window_seconds = 900", "window_seconds = 0", "must be 1 to"),
        (
            "effect = \"money leaves the account\"",
            "effect = \" \"",
            "effect",
        ),
        (
            "tenant_argument = \"org\"",
            "tenant_argument = \"amount\"",
            "string or an enum",
        ),
        ("subject = true", "subjects = true", "subjects"),
    ] {
        assert!(BANK.contains(of), "{of}");
        let text = BANK.replacen(of, by, 1);
        let error = Policy::compile(&name, &text).expect_err(by).to_string();
        assert!(error.contains(said), "{error}");
    }
}

proptest! {
    /// Nothing that the agent writes into a call changes who vouches for its meaning.
    #[test]
    fn whatever_account_the_agent_names_only_those_of_the_subject_are_moved_from(
        from in "[ -~]{1,34}",
    ) {
        let facts = session(|_| ());
        let arguments = Value::Object(BTreeMap::from([
            ("amount".to_owned(), json("250")),
            ("from".to_owned(), Value::Text(from.clone())),
            ("org".to_owned(), Value::Text("acme".into())),
            ("to".to_owned(), Value::Text("DE-GAS-7".into())),
        ]));
        let allowed = matches!(asked(&facts, "transfer", &arguments), Verdict::Allow(_));
        prop_assert_eq!(allowed, ["DE-OWN-1", "DE-OWN-2"].contains(&from.as_str()));
    }
}
