//! Declared, undeclared, not covered.

use custody_audit::classes::Standing;
use gate::policy::{ActionClass, OriginClass};

use crate::scene::{OFFICE, Scene, tool};

/// The office, one of whose tools says less.
fn with(from: &str, to: &str) -> String {
    let changed = OFFICE.replacen(from, to, 1);
    assert_ne!(changed, OFFICE, "{from}");
    changed
}

#[test]
fn a_tool_stands_as_its_policy_says_and_shows_its_own_traffic() {
    let mut scene = Scene::office("Delete the mail from Eve");
    scene.mail("m-17", "hello");
    let _held = scene.held("delete_mail", r#"{"id":"m-18"}"#);
    let report = scene.audit(&[("office", OFFICE)]);
    for (name, standing) in [
        ("delete_mail", Standing::Declared),
        ("send_mail", Standing::Declared),
        ("share", Standing::Declared),
        ("search_mail", Standing::NotCovered),
        ("publish_page", Standing::Undeclared),
    ] {
        assert_eq!(tool(&report, name).classed.standing, standing, "{name}");
    }
    let seen = tool(&report, "delete_mail");
    assert_eq!((seen.calls.decided, seen.tainted), (1, 1));
    assert_eq!(seen.classed.seen.get(&ActionClass::Deletion), Some(&1));
    let tainted: Vec<_> = seen.tainted_by.iter().collect();
    assert_eq!(tainted, [(&"a result of `search_mail`".to_owned(), &1)]);
    let (name, id) = seen.arguments.first_key_value().unwrap();
    assert_eq!((name.as_str(), id.calls), ("id", 1));
    assert_eq!(id.origins.get(&OriginClass::Unknown), Some(&1));
    assert_eq!(tool(&report, "search_mail").results.untrusted, 1);
    assert_eq!(report.policies[0].decided_by_it, 2);
}

/// What no class is said of is found, and what a narrower write gate leaves out.
#[test]
fn a_tool_without_classes_is_undeclared_and_one_whose_classes_are_not_gated_not_covered() {
    let undeclared = with("action_classes = [\"consequential\", \"deletion\"]\n", "");
    let undeclared = undeclared.replacen("release = \"asked\"\n", "", 1);
    let mut scene = Scene::office("x");
    let report = scene.audit(&[("office", &undeclared)]);
    let seen = tool(&report, "delete_mail");
    assert_eq!(seen.classed.standing, Standing::Undeclared);
    assert!(
        seen.classed.why[0].contains("says no action class"),
        "{:?}",
        seen.classed.why
    );

    let narrow = format!("{OFFICE}\n[write_gate]\nclasses = [\"financial\"]\n");
    let report = scene.audit(&[("office", &narrow)]);
    let seen = tool(&report, "delete_mail");
    assert_eq!(seen.classed.standing, Standing::NotCovered);
    assert_eq!(tool(&report, "pay").classed.standing, Standing::Declared);
}

/// The worst branch says how a tool with branches stands.
#[test]
fn of_branches_the_least_covered_counts() {
    let policy = "format = 1\n[credentials.c]\nconnector = \"http\"\n[credentials.c.floor]\n\
        origins = [\"https://a.test\"]\nmethods = [\"POST\"]\npaths = [\"/v1\"]\n\
        [tools.tabs]\ndescription = \"Tabs.\"\ncredential = \"c\"\nrisk = \"write\"\n\
        request = { method = \"POST\", url = \"https://a.test/v1\", body = \"{*}\" }\n\
        [tools.tabs.arguments]\naction = { authority = \"agent\", role = \"sink\", type = \"enum\", one_of = [\"open\", \"close\"] }\n\
        [tools.tabs.selector]\nargument = \"action\"\n\
        [tools.tabs.selector.cases.close]\nrisk = \"destructive\"\naction_classes = [\"deletion\"]\narguments = [\"action\"]\n\
        [tools.tabs.selector.cases.open]\nrisk = \"write\"\narguments = [\"action\"]\n";
    let mut scene = Scene::new("tabs", policy);
    let report = scene.audit(&[("tabs", policy)]);
    let seen = tool(&report, "tabs");
    assert_eq!(seen.classed.standing, Standing::Undeclared);
    assert!(
        seen.classed
            .why
            .iter()
            .any(|it| it.starts_with("`close`: deletion is gated"))
    );
    assert!(
        seen.classed
            .why
            .iter()
            .any(|it| it.starts_with("`open`: it has the risk `write`"))
    );
}

/// Without the policy the records alone are said, and that they are.
#[test]
fn of_a_policy_that_was_not_given_the_records_alone_are_said() {
    let mut scene = Scene::office("x");
    scene.mail("m-17", "hello");
    let report = scene.audit(&[]);
    let seen = tool(&report, "search_mail");
    assert!(!seen.classed.given);
    assert!(
        seen.classed.why[0].contains("was not given"),
        "{:?}",
        seen.classed.why
    );
    assert_eq!(
        (
            report.policies[0].given.as_ref(),
            report.policies[0].other_versions
        ),
        (None, 1)
    );
    assert!(report.advice.is_empty(), "{:?}", report.advice);
}
