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

/// `bytes` as a schema in its RFC 8785 form: a text that ends the schema and goes on would be something else in each
/// form of an export.
pub(crate) fn schema(bytes: &[u8]) -> Option<String> {
    let schema = json::parse(bytes, &Limits::LINE).ok()?;
    let text = String::from_utf8(json::canonical(&schema)).expect("UTF-8");
    matches!(schema, Value::Object(_)).then_some(text)
}

/// `bytes` as the schema of an export's only tool.
pub(crate) fn tool(bytes: &[u8]) -> Option<Export> {
    let schema = schema(bytes)?;
    read(format!(r#"[{{"name":"t","inputSchema":{schema}}}]"#).as_bytes())
}
