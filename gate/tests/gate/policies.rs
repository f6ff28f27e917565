//! Every bad policy of `fixtures/policies/bad` is refused with the error beside it.

use std::{fs, path::PathBuf};

use gate::{id::PolicyName, policy::Policy};

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
