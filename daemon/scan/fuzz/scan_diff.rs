//! Any two schemas of one tool, before and after: nothing that changes one is silent, and nothing that frees an
//! argument is less than an increase.

#[path = "laws.rs"]
mod laws;

use custody_scan::{
    diff::{Diff, Effect, Side},
    draft,
    infer::{self, Authority, Tier},
    input::Export,
};
use gate::{id::PolicyName, policy::Policy};

pub(crate) fn run(data: &[u8]) {
    let Some(at) = data.windows(2).position(|it| it == b"\n\n") else {
        return;
    };
    let (before, after) = data.split_at(at);
    let (Some(before), Some(after)) = (laws::tool(before), laws::tool(&after[2..])) else {
        return;
    };
    let side = |export| Side {
        export,
        controls: None,
    };
    let Ok(diff) = Diff::of(side(&before), side(&after)) else {
        return;
    };
    let same = Diff::of(side(&before), side(&before)).expect("it was read");
    assert!(same.changes.is_empty(), "{:?}", same.changes);
    let (Some(old), Some(new)) = (laws::authority(&before), laws::authority(&after)) else {
        return;
    };
    if before.tools[0].input != after.tools[0].input {
        assert!(!diff.changes.is_empty(), "a change is silent");
    }
    let freed = new.iter().any(|(place, authority)| {
        *authority == Authority::Payload && old.get(place) == Some(&Authority::Locked)
    });
    if freed {
        let increases = diff.count(Effect::AuthorityIncrease);
        assert!(increases > 0, "freed, and no increase: {:?}", diff.changes);
    }
    let json = diff.json(side(&before), side(&after)).expect("JSON");
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    laws::shown::page(&diff.text());
    laws::all(&after);
    drafted(&after);
}

/// A draft compiles as it stands, whatever it was made of.
fn drafted(export: &Export) {
    let Ok(scanned) = infer::scan(export, &|_| Tier::Unknown) else {
        return;
    };
    let draft = draft::of(export, &scanned);
    let name = PolicyName::parse("draft").expect("a name");
    if let Err(error) = Policy::compile(&name, &draft.text) {
        panic!("the draft does not compile: {error}\n{}", draft.text);
    }
}
