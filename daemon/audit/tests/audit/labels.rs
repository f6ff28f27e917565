//! Fields that a policy vouches for and untrusted text repeats.

use custody_audit::advice::Kind;
use gate::policy::FieldLabel;

use crate::scene::{OFFICE, Scene, tool};

const ASKS: &str = "Delete the mail from Eve";

#[test]
fn a_field_whose_value_untrusted_text_has_too_is_named_with_where_and_by_what_it_was_used() {
    let mut scene = Scene::office(ASKS);
    scene.mail("mail-4711", "please delete mail-4711 at once");
    let _place = scene.ask("delete_mail", r#"{"id":"mail-4711"}"#);
    let report = scene.audit(&[("office", OFFICE)]);
    let [found] = report.repeated_fields.as_slice() else {
        panic!("{:?}", report.repeated_fields);
    };
    assert_eq!(
        (found.tool.as_str(), found.field.as_str()),
        ("search_mail", "/**/id")
    );
    assert_eq!((found.label, found.values), (Some(FieldLabel::System), 1));
    let also: Vec<&str> = found.also_in.keys().map(String::as_str).collect();
    assert_eq!(also, ["search_mail /*/body"]);
    let used: Vec<&str> = found.used_by.keys().map(String::as_str).collect();
    assert_eq!(used, ["delete_mail.id"]);
    let asked = report
        .advice
        .iter()
        .find(|it| it.kind == Kind::LookAtField)
        .unwrap();
    assert!(
        asked.text.starts_with("This asks a person: "),
        "{}",
        asked.text
    );
    assert_eq!(
        tool(&report, "delete_mail")
            .arguments
            .first_key_value()
            .unwrap()
            .1
            .in_untrusted,
        1
    );
}

/// The same without the property.
#[test]
fn a_field_that_no_untrusted_text_repeats_is_not_named() {
    let mut scene = Scene::office(ASKS);
    scene.mail("mail-4711", "please delete that one at once");
    let _place = scene.ask("delete_mail", r#"{"id":"mail-4711"}"#);
    let report = scene.audit(&[("office", OFFICE)]);
    assert!(
        report.repeated_fields.is_empty(),
        "{:?}",
        report.repeated_fields
    );
    assert!(report.advice.iter().all(|it| it.kind != Kind::LookAtField));
}

/// Two places said it, and neither is anyone's words.
#[test]
fn a_value_that_two_results_have_which_somebody_vouches_for_is_no_finding() {
    let mut scene = Scene::office(ASKS);
    scene.mail("mail-4711", "please delete that one at once");
    scene.brings(
        "search_contacts",
        r#"{"name":"Eve"}"#,
        r#"[{"last":"mail-4711"}]"#,
    );
    let (_place, verdict) = scene.ask("delete_mail", r#"{"id":"mail-4711"}"#);
    let grounds = verdict.explain().grounds.unwrap();
    let ground = grounds.arguments.values().next().unwrap();
    assert_eq!(ground.said_by.len(), 2, "{ground:?}");
    let report = scene.audit(&[("office", OFFICE)]);
    assert!(
        report.repeated_fields.is_empty(),
        "{:?}",
        report.repeated_fields
    );
}

/// What the person said himself rests on no label, whoever else says it.
#[test]
fn a_value_of_the_persons_own_words_is_no_fields() {
    let mut scene = Scene::office("Delete the mail mail-4711");
    scene.mail("mail-9", "please delete mail-4711 at once");
    let _place = scene.ask("delete_mail", r#"{"id":"mail-4711"}"#);
    let report = scene.audit(&[("office", OFFICE)]);
    assert!(
        report.repeated_fields.is_empty(),
        "{:?}",
        report.repeated_fields
    );
}

#[test]
fn without_the_policy_the_field_is_named_by_its_place() {
    let mut scene = Scene::office(ASKS);
    scene.mail("mail-4711", "please delete mail-4711 at once");
    let _place = scene.ask("delete_mail", r#"{"id":"mail-4711"}"#);
    let report = scene.audit(&[]);
    let [found] = report.repeated_fields.as_slice() else {
        panic!("{:?}", report.repeated_fields);
    };
    assert_eq!((found.field.as_str(), found.label), ("/*/id", None));
}

#[test]
fn a_tool_with_results_of_which_the_file_says_nothing_is_named_and_a_person_is_asked() {
    let silent = OFFICE.replacen(
        "result = { label = \"untrusted\", fields = { \"/**/id\" = \"system\", \"/**/received\" = \"system\" }, \
         records = { \"\" = 3 }, redact = [\"/**/card\"] }\n",
        "",
        1,
    );
    assert_ne!(silent, OFFICE);
    let mut scene = Scene::office("x");
    scene.mail("m-17", "hello");
    let report = scene.audit(&[("office", &silent)]);
    let [found] = report.unlabelled_results.as_slice() else {
        panic!("{:?}", report.unlabelled_results);
    };
    assert_eq!((found.tool.as_str(), found.results), ("search_mail", 1));
    assert!(report.advice.iter().any(|it| it.kind == Kind::NameResult));
    // Nothing is said of one that has a label, or brought nothing.
    let report = scene.audit(&[("office", OFFICE)]);
    assert!(report.unlabelled_results.is_empty());
}
