//! What holds of every export that the scanner reads, whoever wrote it.

#[path = "shown.rs"]
pub(crate) mod shown;

use std::collections::BTreeMap;

use custody_scan::{
    infer::{self, Authority, Scanned, Tier},
    input::{self, Export},
    report::{Names, Report},
};
use gate::{
    json::{self, Limits, Value},
    policy::Risk,
};
use shown::{said, written};

/// Reads `bytes`: an error is one line that names the file, or what is read is scanned, twice alike.
pub(crate) fn read(bytes: &[u8]) -> Option<Export> {
    match input::parse("fuzz", bytes) {
        Ok(export) => Some(export),
        Err(error) => {
            said(&error.to_string());
            None
        }
    }
}

/// Who may author what, by tool and path. Nothing, where a schema is refused.
pub(crate) fn authority(export: &Export) -> Option<BTreeMap<(String, String), Authority>> {
    let scanned = match infer::scan(export, &|_| Tier::Unknown) {
        Ok(scanned) => scanned,
        Err(error) => {
            said(&error.to_string());
            return None;
        }
    };
    Some(scanned.iter().flat_map(of_tool).collect())
}

fn of_tool(scanned: &Scanned<'_>) -> impl Iterator<Item = ((String, String), Authority)> + use<> {
    let name = scanned.tool.name.clone();
    let all: Vec<_> = scanned
        .arguments()
        .map(|(argument, judged)| {
            let authority = judged.inferred.authority;
            assert!(
                authority != Authority::Bounded,
                "inference left something open"
            );
            if authority == Authority::Payload {
                assert!(argument.name.is_ascii(), "{:?} is free", argument.name);
                assert!(
                    argument.types.is_text(),
                    "{} is free and no text",
                    argument.path
                );
            }
            for tier in [
                Tier::Unknown,
                Tier::Known(Risk::Write),
                Tier::Known(Risk::Execute),
            ] {
                let under = judged.inferred.clone().under(tier, argument);
                assert_eq!(under.authority, authority, "a declaration freed something");
            }
            ((name.clone(), argument.path.clone()), authority)
        })
        .collect();
    all.into_iter()
}

/// Another tool beside it, words about it, hints: nothing of that frees an argument.
pub(crate) fn never_frees(before: &Export, change: impl FnOnce(&mut Export)) {
    let Some(old) = authority(before) else {
        return;
    };
    let mut after = before.clone();
    change(&mut after);
    let Some(new) = authority(&after) else {
        return;
    };
    for (place, authority) in old {
        if authority == Authority::Locked {
            assert_eq!(
                new.get(&place),
                Some(&Authority::Locked),
                "{place:?} was freed"
            );
        }
    }
}

/// Every law of one export.
pub(crate) fn all(export: &Export) {
    for names in [Names::Shown, Names::Redacted] {
        match Report::of(std::slice::from_ref(export), None, names) {
            Ok(report) => written(&report),
            Err(error) => said(&error.to_string()),
        }
    }
    assert_eq!(authority(export), authority(export));
    never_frees(export, |export| {
        for tool in &mut export.tools {
            tool.description = Some("Safe. Every argument is free text.".into());
            let hint = ("readOnlyHint".to_owned(), Value::Bool(true));
            tool.annotations = BTreeMap::from([hint]);
        }
    });
    never_frees(export, |export| {
        for tool in &mut export.tools {
            if let Value::Object(members) = &mut tool.input {
                let text = Value::Text("Free text, of any author.".into());
                members.insert("description".into(), text);
            }
        }
    });
}

/// `bytes` as an export, and as the schema of a tool in the form that `around` makes of it.
pub(crate) fn importer(bytes: &[u8], around: impl Fn(&str) -> String) {
    if let Some(export) = read(bytes) {
        all(&export);
    }
    // A text that ends the schema and goes on would be something else in each form.
    let Ok(schema @ Value::Object(_)) = json::parse(bytes, &Limits::LINE) else {
        return;
    };
    let schema = String::from_utf8(json::canonical(&schema)).expect("UTF-8");
    let Some(export) = read(around(&schema).as_bytes()) else {
        return;
    };
    all(&export);
    // The same schema in MCP's form has the same verdicts.
    let plain = format!(r#"[{{"name":"t","inputSchema":{schema}}}]"#);
    let plain = read(plain.as_bytes()).expect("read in one form");
    let verdicts = |export: &Export| -> Option<Vec<Authority>> {
        authority(export).map(|all| all.into_values().collect())
    };
    assert_eq!(verdicts(&export), verdicts(&plain), "the form decides");
}
