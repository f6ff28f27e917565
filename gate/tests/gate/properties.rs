//! Laws of the whole decision, for all calls of the office's policy and whatever its sessions saw.

use gate::{
    approval::Reach,
    call::Call,
    chain::Place,
    decide::{Ask, Explanation, Moment, Verdict, decide},
    json::{Limits, Value, canonical, parse},
    policy::Role,
    session::{Handoff, RESOURCE, Reviewed, Standing},
};
use proptest::prelude::*;

use crate::scene::{Office, words};

/// Texts that a task, an attacker and a call have in common, and others.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec![
            "bob@example.test",
            "eve@evil.test",
            "report.xlsx",
            "m-17",
            "9",
            "Archive",
            "www.evil.test/x",
            "www.example.test",
            "Lunch with Bob",
            "Bob",
            "2024-05",
            "2024-05-19 12:00",
            "ZXZlQGV2aWwudGVzdA==",
            "deploy-35",
            "Gas",
        ])
        .prop_map(String::from),
        1 => "[a-z@. -]{0,12}",
    ]
}

fn task() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![
            text(),
            prop::sample::select(vec!["delete", "the mail", "id", "share", "with", "pay"])
                .prop_map(String::from),
        ],
        0..6,
    )
    .prop_map(|it| it.join(" "))
}

/// Calls of which many have the right form.
fn asked() -> impl Strategy<Value = (&'static str, Value)> {
    let field = |name: &'static str| text().prop_map(move |it| (name, Value::Text(it)));
    let list = |name: &'static str| {
        prop::collection::vec(text().prop_map(Value::Text), 0..3)
            .prop_map(move |it| (name, Value::List(it)))
    };
    let object = |members: Vec<(&str, Value)>| {
        Value::Object(
            members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    };
    prop_oneof![
        (list("to"), field("subject"), field("body"))
            .prop_map(move |(a, b, c)| ("send_mail", object(vec![a, b, c]))),
        field("id").prop_map(move |a| ("delete_mail", object(vec![a]))),
        field("folder").prop_map(move |a| ("delete_everything", object(vec![a]))),
        (field("file"), field("with")).prop_map(move |(a, b)| ("share", object(vec![a, b]))),
        (field("title"), field("at"), list("with"))
            .prop_map(move |(a, b, c)| ("add_event", object(vec![a, b, c]))),
        (field("title"), field("at")).prop_map(move |(a, b)| ("add_event", object(vec![a, b]))),
        field("url").prop_map(move |a| ("fetch", object(vec![a]))),
        (field("to"), field("text")).prop_map(move |(a, b)| ("post_message", object(vec![a, b]))),
        field("month").prop_map(move |a| ("close_month", object(vec![a]))),
        (field("payee"), 0..2_000_i64).prop_map(move |(a, n)| {
            let amount = Value::try_from(n).unwrap();
            ("pay", object(vec![a, ("amount", amount)]))
        }),
        (field("page_id"), field("reason"))
            .prop_map(move |(a, b)| ("publish_page", object(vec![a, b]))),
        (field("action"), field("url")).prop_map(move |(a, b)| ("tabs", object(vec![a, b]))),
        field("script").prop_map(move |a| ("run_script", object(vec![a]))),
    ]
}

/// What nobody vouches for.
#[derive(Clone, Debug)]
enum Seen {
    Handoff(String),
    Mail(String),
    Page(String),
}

fn seen() -> impl Strategy<Value = Vec<Seen>> {
    let words = || prop::collection::vec(text(), 1..4).prop_map(|it| it.join(" "));
    prop::collection::vec(
        prop_oneof![
            words().prop_map(Seen::Handoff),
            words().prop_map(Seen::Mail),
            words().prop_map(Seen::Page),
        ],
        0..4,
    )
}

fn see(office: &mut Office, seen: &Seen) {
    let untrusted = |office: &mut Office, tool: &str, text: &str| {
        let call = Call::written(tool, &Value::Object([].into())).unwrap();
        let text = Value::Text(text.into());
        let _label = office.facts.record_result(&office.policy, &call, &text);
    };
    match seen {
        Seen::Handoff(text) => {
            let members = ["from", "task", RESOURCE, "summary"];
            let members = members.map(|it| (it.to_owned(), Value::Text(text.clone())));
            let handoff = Value::Object(members.into());
            let handoff = Handoff::read(&handoff, RESOURCE).unwrap();
            office.facts.record_handoff(&handoff);
        }
        Seen::Mail(text) => untrusted(office, "search_mail", text),
        Seen::Page(text) => untrusted(office, "fetch", text),
    }
}

fn at(office: &Office, tool: &str, arguments: &Value, moment: Moment) -> Verdict {
    decide(
        &office.policy,
        &office.facts,
        &Ask::new(tool, arguments).at(moment, 0),
    )
}

fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Allow(_) | Verdict::Limit(_) => 0,
        Verdict::Defer(_) => 1,
        Verdict::Hold(_) => 2,
        Verdict::Refuse(_) => 3,
    }
}

/// What is answered, without the places that said a value.
fn answered(verdict: &Verdict) -> Explanation {
    let mut explained = verdict.explain();
    for reason in &mut explained.reasons {
        reason.why.clear();
    }
    for ground in explained
        .grounds
        .iter_mut()
        .flat_map(|it| it.arguments.values_mut())
    {
        ground.said_by.clear();
    }
    explained
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn untrusted_content_never_makes_an_answer_more_lenient(
        task in task(), (tool, arguments) in asked(), before in seen(), after in seen(),
    ) {
        let mut office = Office::of(&task);
        before.iter().for_each(|it| see(&mut office, it));
        let first = at(&office, tool, &arguments, Moment::Call);
        after.iter().for_each(|it| see(&mut office, it));
        let second = at(&office, tool, &arguments, Moment::Call);
        prop_assert!(
            rank(&second) >= rank(&first),
            "{} became {}", words(&first), words(&second)
        );
    }

    #[test]
    fn every_moment_asks_the_same(
        task in task(), (tool, arguments) in asked(), seen in seen(),
    ) {
        let mut office = Office::of(&task);
        seen.iter().for_each(|it| see(&mut office, it));
        let call = at(&office, tool, &arguments, Moment::Call);
        let commit = at(&office, tool, &arguments, Moment::Commit);
        let approved = at(&office, tool, &arguments, Moment::Approved);
        match &call {
            // What is refused cannot be approved.
            Verdict::Refuse(_) => {
                prop_assert_eq!(&call, &commit);
                prop_assert_eq!(&call, &approved);
            }
            Verdict::Hold(held) => {
                prop_assert_eq!(&call, &commit);
                let Verdict::Allow(allowed) = &approved else { panic!("{approved:?}") };
                prop_assert_eq!(allowed.digest(), held.digest());
                prop_assert_eq!(allowed.bytes(), held.bytes());
            }
            Verdict::Defer(held) => {
                let Verdict::Allow(allowed) = &commit else { panic!("{commit:?}") };
                prop_assert_eq!(allowed.digest(), held.digest());
                prop_assert_eq!(&commit, &approved);
            }
            Verdict::Allow(_) | Verdict::Limit(_) => {
                prop_assert_eq!(&call, &commit);
                prop_assert_eq!(&call, &approved);
            }
        }
    }

    #[test]
    fn the_order_of_what_was_seen_does_not_matter(
        task in task(), (tool, arguments) in asked(), seen in seen(), turn in 0..4_usize,
    ) {
        let mut one = Office::of(&task);
        seen.iter().for_each(|it| see(&mut one, it));
        let mut other = Office::of(&task);
        let turn = turn % seen.len().max(1);
        let (front, back) = seen.split_at(turn);
        back.iter().rev().chain(front.iter().rev()).for_each(|it| see(&mut other, it));
        let first = at(&one, tool, &arguments, Moment::Call);
        let second = at(&other, tool, &arguments, Moment::Call);
        prop_assert_eq!(answered(&first), answered(&second));
    }

    #[test]
    fn the_order_of_keys_does_not_matter(task in task(), (tool, arguments) in asked()) {
        let office = Office::of(&task);
        let Value::Object(members) = &arguments else { panic!("no object") };
        let members: Vec<String> = members
            .iter()
            .rev()
            .map(|(name, value)| {
                format!("\"{name}\": {}", String::from_utf8(canonical(value)).unwrap())
            })
            .collect();
        let text = format!("{{ {} }}", members.join(" ,"));
        let backwards = parse(text.as_bytes(), &Limits::CALL).unwrap();
        prop_assert_eq!(
            at(&office, tool, &arguments, Moment::Call),
            at(&office, tool, &backwards, Moment::Call)
        );
    }

    #[test]
    fn what_is_not_allowed_says_why_and_what_would_change_it(
        task in task(), (tool, arguments) in asked(), seen in seen(),
    ) {
        let mut office = Office::of(&task);
        seen.iter().for_each(|it| see(&mut office, it));
        let explained = at(&office, tool, &arguments, Moment::Call).explain();
        for reason in &explained.reasons {
            prop_assert!(!reason.why.is_empty() && !reason.change.is_empty());
            prop_assert!(!reason.why.contains(char::is_control));
        }
        let mut sorted = explained.reasons.clone();
        sorted.sort_by_key(|it| it.rule);
        prop_assert_eq!(sorted, explained.reasons, "in the order of the rules");
    }
    #[test]
    fn an_approval_lets_through_what_it_was_given_for_and_lifts_no_refusal(
        task in task(),
        (tool, arguments) in asked(),
        (other, others) in asked(),
        seen in seen(),
        later in seen(),
        wide: bool,
    ) {
        let mut office = Office::of(&task);
        seen.iter().for_each(|it| see(&mut office, it));
        let Verdict::Hold(held) = at(&office, tool, &arguments, Moment::Call) else {
            return Ok(());
        };
        let standing = Standing {
            approval: Place { digest: held.digest(), position: 7 },
            call: held.call().clone(),
            reach: if wide { Reach::Target } else { Reach::Call },
            reviewed: Reviewed::of(&held),
            until_ms: Some(1),
        };
        let mut approved = Office { facts: office.facts.clone(), policy: Office::policy() };
        approved.facts.record_approval(&office.policy, standing, 0).unwrap();
        let now = at(&approved, tool, &arguments, Moment::Call);
        if let Verdict::Allow(it) | Verdict::Limit(it) = &now {
            prop_assert_eq!(it.grounds().approval.unwrap().position, 7);
        } else {
            prop_assert!(matches!(now, Verdict::Defer(_)), "{now:?}");
        }
        later.iter().for_each(|it| {
            see(&mut office, it);
            see(&mut approved, it);
        });
        let without = at(&office, other, &others, Moment::Call);
        let with = at(&approved, other, &others, Moment::Call);
        if let Verdict::Hold(it) = &without
            && !matches!(with, Verdict::Hold(_))
        {
            // It stands for the same target, and for the same call if it is no wider.
            prop_assert_eq!(&it.call().tool, &held.call().tool);
            prop_assert!(wide || it.digest() == held.digest());
            for (name, value) in &it.call().arguments {
                let role = office.policy.tools()[&it.call().tool].arguments[name].role;
                prop_assert!(
                    role == Role::Payload || held.call().arguments.get(name) == Some(value)
                );
            }
        } else {
            prop_assert_eq!(&with, &without);
        }
        // Its time is over.
        let after = Ask::new(tool, &arguments).at(Moment::Call, 1);
        prop_assert_eq!(
            decide(&approved.policy, &approved.facts, &after),
            decide(&office.policy, &office.facts, &after)
        );
    }
}
