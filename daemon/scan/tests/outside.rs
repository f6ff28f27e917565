//! Exports and cases of others, held against what was written down of them beforehand.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::{collections::BTreeMap, fs, path::Path};

use custody_scan::{
    controls,
    infer::{self, Authority, Confidence, Scanned, Standing, Tier},
    input::{self, Export},
    report::{Names, Report},
    schema::{Kind, Unknown},
};
use gate::policy::Risk;
use serde::Deserialize;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/authority");

fn export(path: &str) -> Export {
    let path = Path::new(FOLDER).join(path);
    input::read(&[path]).unwrap().remove(0)
}

fn undeclared(_tool: &str) -> Tier {
    Tier::Unknown
}

fn conflicts(scanned: &[Scanned<'_>]) -> Vec<(String, String)> {
    let of = |tool: &Scanned<'_>| -> Vec<_> {
        let name = tool.tool.name.clone();
        tool.annotations
            .iter()
            .filter(|it| it.standing == Standing::Conflict)
            .map(|it| (name.clone(), it.hint.clone()))
            .collect()
    };
    scanned.iter().flat_map(of).collect()
}

/// Verdict and confidence of the arguments of a tool that has no nested ones.
fn verdicts(scanned: &[Scanned<'_>], tool: &str) -> BTreeMap<String, (Authority, Confidence)> {
    let tool = scanned.iter().find(|it| it.tool.name == tool).unwrap();
    tool.arguments()
        .map(|(argument, judged)| {
            let found = (judged.inferred.authority, judged.inferred.confidence);
            (argument.name.clone(), found)
        })
        .collect()
}

/// What Verb Authority's frozen case of Playwright's 23 tools expects of `browser_tabs`.
#[test]
fn browser_tabs_is_what_its_frozen_case_expects() {
    use Authority::Locked;
    use Confidence::{High, Uncertain};
    let export = export("outside/playwright-mcp-0.0.76/tools-list.json");
    assert_eq!(export.tools.len(), 23);
    let declare = |risk| {
        move |tool: &str| match tool {
            "browser_tabs" => risk,
            _ => Tier::Unknown,
        }
    };
    let expected = BTreeMap::from([
        ("action".to_owned(), (Locked, Uncertain)),
        ("index".to_owned(), (Locked, Uncertain)),
        ("url".to_owned(), (Locked, High)),
    ]);
    for (risk, conflict) in [
        (Tier::Unknown, None),
        (Tier::Known(Risk::Write), Some("destructiveHint")),
        (Tier::Known(Risk::Destructive), None),
    ] {
        let scanned = infer::scan(&export, &declare(risk)).unwrap();
        assert_eq!(verdicts(&scanned, "browser_tabs"), expected, "{risk}");
        let expected: Vec<_> = conflict
            .map(|hint| ("browser_tabs".to_owned(), hint.to_owned()))
            .into_iter()
            .collect();
        assert_eq!(conflicts(&scanned), expected, "{risk}");
    }
}

/// The financial tool of avp9-nexus: both arguments locked, whatever is declared of them; nothing else is taken.
#[test]
fn an_auction_bid_is_locked_and_closed() {
    let export = export("outside/verb-authority/avp9_nexus_financial_tool.json");
    let scanned = infer::scan(&export, &|_| Tier::Known(Risk::Financial)).unwrap();
    let found = verdicts(&scanned, "purchase_bid");
    assert_eq!(found.len(), 2);
    assert!(
        found
            .values()
            .all(|(authority, _)| *authority == Authority::Locked)
    );
    let tool = scanned.first().unwrap();
    assert_eq!(tool.schema.unknown, Unknown::Refused);
    assert_eq!(tool.risk.effective, Tier::Known(Risk::Financial));
    assert_eq!(tool.risk.inferred, Tier::Known(Risk::Financial));
}

/// What avp9-nexus declares of it, bound by bound, is shown beside and frees nothing.
#[test]
fn what_is_declared_of_the_bid_is_shown_beside_the_inference() {
    let exports = [export(
        "outside/verb-authority/avp9_nexus_financial_tool.json",
    )];
    let path = format!("{FOLDER}/outside/verb-authority/avp9_nexus_financial_controls.json");
    let stated = controls::read(Path::new(&path), &exports).unwrap();
    let report = Report::of(&exports, Some(&stated), Names::Shown).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    let tool = &report["documents"][0]["tools"][0];
    assert_eq!(tool["risk"]["effective"], "financial");
    assert_eq!(tool["risk"]["confirmation_needed"], true);
    let expected = fs::read(format!(
        "{FOLDER}/outside/verb-authority/avp9_nexus_expected.json"
    ));
    let expected: serde_json::Value = serde_json::from_slice(&expected.unwrap()).unwrap();
    for argument in tool["arguments"].as_array().unwrap() {
        assert_eq!(argument["authority"], "locked");
        let name = argument["path"].as_str().unwrap().trim_start_matches('/');
        let beside = &argument["controls"];
        assert_eq!(beside["standing"], "unverified");
        let expected = &expected["arguments"][name];
        assert_eq!(beside["authority"], expected["authority"], "{name}");
        assert_eq!(beside["evidence"], expected["evidence"], "{name}");
        let bounds = beside["bounds"].as_array().unwrap();
        for word in ["bounds_mutability", "operational_status"] {
            let found: Vec<_> = bounds.iter().map(|it| it[word].clone()).collect();
            let expected = expected[word].as_array().cloned().unwrap_or_default();
            assert_eq!(found, expected, "{name} {word}");
        }
    }
    let hidden = &tool["controls"]["unexposed_arguments"]["destination"];
    let expected = expected["unexposed_arguments"]["destination"].as_object();
    for (word, said) in expected.unwrap() {
        assert_eq!(hidden[word], *said, "{word}");
    }
}

/// Positions of a list are fields of a tuple: each locked, and the list is looked at.
#[test]
fn the_positions_of_a_tuple_are_locked_and_looked_at() {
    let export = export("ours/tuple.json");
    let scanned = infer::scan(&export, &undeclared).unwrap();
    let tool = scanned
        .iter()
        .find(|it| it.tool.name == "set_route")
        .unwrap();
    let paths: Vec<&str> = tool
        .arguments()
        .map(|(argument, _)| &*argument.path)
        .collect();
    assert_eq!(paths, ["/leg", "/leg/0", "/leg/1", "/leg/2"]);
    for (argument, judged) in tool.arguments() {
        assert_eq!(
            judged.inferred.authority,
            Authority::Locked,
            "{}",
            argument.path
        );
    }
    let (leg, _) = tool.arguments().next().unwrap();
    assert!(leg.obligations.iter().any(|it| it.kind == Kind::Tuple));
}

#[derive(Deserialize)]
struct Expected {
    may_be_free: BTreeMap<String, Vec<String>>,
    #[serde(rename = "added_after_the_first_run")]
    added: Added,
}

#[derive(Deserialize)]
struct Added {
    may_be_free: BTreeMap<String, Vec<String>>,
}

/// What is free in the exports that the scanner was not made with, by file.
fn unseen() -> Vec<(String, Vec<String>, Vec<String>)> {
    let expected = fs::read(format!("{FOLDER}/outside/unseen/expected.json")).unwrap();
    let mut expected: Expected = serde_json::from_slice(&expected).unwrap();
    for (file, added) in expected.added.may_be_free {
        expected.may_be_free.entry(file).or_default().extend(added);
    }
    let free = |file: &str| -> Vec<String> {
        let export = export(&format!("outside/unseen/{file}.json"));
        let scanned = infer::scan(&export, &undeclared).unwrap();
        let of = |tool: &Scanned<'_>| -> Vec<String> {
            let name = tool.tool.name.clone();
            tool.arguments()
                .filter(|(_, judged)| judged.inferred.authority != Authority::Locked)
                .map(|(argument, _)| format!("{name} {}", argument.path))
                .collect()
        };
        scanned.iter().flat_map(of).collect()
    };
    let all = expected.may_be_free.into_iter();
    all.map(|(file, listed)| (free(&file), file, listed))
        .map(|(free, file, listed)| (file, listed, free))
        .collect()
}

#[test]
fn nothing_is_wrongly_free_in_exports_never_seen_before() {
    let files = unseen();
    assert_eq!(files.len(), 14);
    for (file, listed, free) in files {
        let wrongly: Vec<_> = free.iter().filter(|it| !listed.contains(it)).collect();
        assert!(wrongly.is_empty(), "{file}: {wrongly:#?}");
    }
}

/// A scanner that locks everything would pass the test above.
#[test]
fn most_of_what_may_be_free_is_free() {
    let files = unseen();
    let listed: usize = files.iter().map(|(_, listed, _)| listed.len()).sum();
    let free: usize = files.iter().map(|(.., free)| free.len()).sum();
    assert!(free * 2 > listed, "{free} of {listed}");
}

/// A recorded tool: its schema, and what a person said that each argument is.
#[derive(Deserialize)]
struct Suite {
    tools: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Recorded {
    name: String,
    description: String,
    #[serde(rename = "inputSchema")]
    input: serde_json::Value,
    arg_roles: BTreeMap<String, String>,
}

/// The tools of recorded sessions were labelled by hand for the gate's replay, long before there was a scanner.
#[test]
fn no_target_of_the_recorded_tools_is_free() {
    let mut seen = 0_usize;
    for suite in ["banking", "slack", "travel", "workspace"] {
        let path = format!("{FOLDER}/../agentdojo/{suite}.json");
        let suite: Suite = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        for tool in suite.tools {
            let text = serde_json::json!([{
                "name": tool.name, "description": tool.description, "inputSchema": tool.input,
            }]);
            let export = input::parse("suite", text.to_string().as_bytes()).unwrap();
            let scanned = infer::scan(&export, &undeclared).unwrap();
            for (argument, judged) in scanned.first().unwrap().arguments() {
                let role = tool.arg_roles.get(&argument.name).map(String::as_str);
                if matches!(role, Some("sink" | "id")) && !argument.is_nested() {
                    seen += 1;
                    let authority = judged.inferred.authority;
                    assert_eq!(
                        authority,
                        Authority::Locked,
                        "{} {}",
                        tool.name,
                        argument.path
                    );
                }
            }
        }
    }
    assert!(seen > 40, "{seen} targets");
}
