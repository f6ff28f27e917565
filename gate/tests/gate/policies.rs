//! Every bad policy of `fixtures/policies/bad` is refused with the error beside it.

use std::{fs, path::PathBuf};

use gate::{id::PolicyName, policy::Policy};
use proptest::prelude::*;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/policies/bad")
}

#[test]
fn each_bad_policy_is_refused_with_line_key_and_what_to_do() {
    let mut wrong = Vec::new();
    let mut tried = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "toml") {
            continue;
        }
        tried += 1;
        let name = path.file_stem().unwrap().to_str().unwrap();
        let toml = fs::read_to_string(&path).unwrap();
        let policy = PolicyName::parse(name).unwrap();
        let faults = Policy::faults(&policy, &toml, &nothing);
        let said = match Policy::compile(&policy, &toml) {
            Ok(_) => "it is taken".to_owned(),
            Err(error) => {
                // One thing is wrong in each, and it is no reason for another; but where a table has another
                // name than the one that it is to go with, that one lacks it.
                let count = if name == "tool-name" { 2 } else { 1 };
                assert!(faults.contains(&error), "{name}: {faults:?}");
                assert_eq!(faults.len(), count, "{name}: {faults:?}");
                error.to_string()
            }
        };
        if std::env::var_os("BLESS").is_some() {
            fs::write(path.with_extension("txt"), format!("{said}\n")).unwrap();
        }
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap_or_default();
        assert!(!said.contains('\n'), "{name}: more than one line: {said}");
        if said != expected.trim_end() {
            wrong.push(format!("{name}\n  expected {expected}\n  said     {said}"));
        }
    }
    assert!(tried >= 60, "only {tried} policies were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn nothing(_: &str) -> Result<String, String> {
    Err("nothing beside the policy is read here".into())
}

/// Each with its place; what would be wrong only for another fault is not said.
#[test]
fn several_faults_are_said_at_once_and_none_that_follows_from_another() {
    let demo = include_str!("../../../fixtures/policies/demo.toml");
    let toml = [
        ("profile = \"standard\"", "profile = \"lax\""),
        ("risk = \"read\"", "risk = \"reed\""),
        ("on_taint = \"refuse\"", "on_taint = \"pass\""),
        ("max_length = 4000", "max_lenght = 4000"),
    ]
    .into_iter()
    .fold(demo.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    let name = PolicyName::parse("demo").unwrap();
    let faults = Policy::faults(&name, &toml, &nothing);
    let said: Vec<(&str, &str)> = faults
        .iter()
        .map(|it| (it.key.as_str(), toml.get(it.at.clone()).unwrap()))
        .collect();
    assert_eq!(
        said,
        [
            ("session.profile", "\"lax\""),
            ("tools.send_message.arguments.body.max_lenght", "max_lenght"),
            ("tools.read_note.risk", "\"reed\""),
            ("tools.publish_page.on_taint", "on_taint"),
        ]
    );
    // A value that is wrong is no reason to call every tool wrong that uses it.
    let toml = demo.replacen("type = \"email\"", "type = \"mail\"", 1);
    let faults = Policy::faults(&name, &toml, &nothing);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].key, "values.customer.type");
    // Nor a tool that another rests on.
    let rests = "\n[tools.edit]\nprecondition.last_read.tool = \"read_note\"\ndescription = \"x\"\n\
        credential = \"demo\"\nrisk = \"write\"\non_taint = \"refuse\"\n\
        request = { method = \"POST\", url = \"http://127.0.0.1:18080/v1/notes/{id}\" }\n\
        arguments.id = { authority = \"owned\", set = \"notes\" }\n";
    let toml = format!("{demo}{rests}");
    assert!(
        Policy::faults(&name, &toml, &nothing).is_empty(),
        "{:?}",
        Policy::faults(&name, &toml, &nothing)
    );
    let toml = toml.replacen("risk = \"read\"", "risk = \"reed\"", 1);
    let faults = Policy::faults(&name, &toml, &nothing);
    assert_eq!(faults.len(), 1, "{faults:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn no_text_breaks_the_compiler_and_every_error_is_one_line(
        from in any::<prop::sample::Index>(), bytes in 0..40_usize,
        new in "([a-z.\\[\\]{}=\"'#0-9 \n\t\u{e4}\u{1b}]{0,20}|[a-z]{1,9} = (1|\"x\"|\\{\\}|\\[\\]|nan|true)\n)",
    ) {
        let demo = include_str!("../../../fixtures/policies/demo.toml");
        let mut toml = demo.to_owned();
        let from = from.index(toml.len());
        let to = (from + bytes).min(toml.len());
        toml.replace_range(from..to, &new);
        match Policy::compile(&PolicyName::parse("demo").unwrap(), &toml) {
            Ok(policy) => {
                prop_assert!(Policy::from_bytes(&policy.to_bytes()).is_ok());
                prop_assert!(Policy::faults(policy.name(), &toml, &nothing).is_empty());
            }
            Err(error) => {
                let faults = Policy::faults(&error.policy, &toml, &nothing);
                prop_assert!(faults.contains(&error), "{faults:?}");
                prop_assert!(faults.iter().all(|it| toml.get(it.at.clone()).is_some()));
                let said = error.to_string();
                prop_assert!(!said.contains(char::is_control), "{said:?}");
                prop_assert!((1..=toml.lines().count() + 1).contains(&error.line));
            }
        }
    }
}
