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
        let said = match Policy::compile(&PolicyName::parse(name).unwrap(), &toml) {
            Ok(_) => "it is taken".to_owned(),
            Err(error) => error.to_string(),
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
            Ok(policy) => prop_assert!(Policy::from_bytes(&policy.to_bytes()).is_ok()),
            Err(error) => {
                let said = error.to_string();
                prop_assert!(!said.contains(char::is_control), "{said:?}");
                prop_assert!((1..=toml.lines().count() + 1).contains(&error.line));
            }
        }
    }
}
