//! What is stated stands beside what is inferred: unverified, and held to names that are there.

use custody_scan::{
    controls::{self, Acts, StatedAuthority},
    infer::{Authority, Tier},
    input::{self, Export, Fault, InputError},
    report::{Names, Report},
};
use gate::policy::Risk;

fn exports() -> Vec<Export> {
    let text = r#"[{"name":"buy","inputSchema":{"type":"object","additionalProperties":false,"properties":{
        "mode":{"enum":["bid","look"]},"item":{"type":"integer"},"note":{"type":"string"}}}},
        {"name":"look","inputSchema":{"type":"object"}}]"#;
    vec![input::parse("a.json", text.as_bytes()).unwrap()]
}

fn parse(text: &str) -> Result<controls::Controls, InputError> {
    controls::parse("c.json", text.as_bytes(), &exports())
}

fn of(tool: &str) -> String {
    format!(r#"{{"version":1,"tools":{{"buy":{tool}}}}}"#)
}

#[test]
fn what_is_stated_changes_no_argument_and_says_so() {
    let exports = exports();
    let text = of(
        r#"{"risk":{"tier":"financial","evidence":"attested","effects":["moves money"]},
        "arguments":{"item":{"authority":"free"},"/note":{"authority":"locked","bounds":[{"source":"server",
        "bounds_mutability":"immutable","operational_status":"enforced","enforcement":"check"}]}},
        "unexposed_arguments":{"to":{"exposure":"server_fixed","enforced_by":"server","evidence":"declared"}}}"#,
    );
    let controls = parse(&text).unwrap();
    let with = Report::of(&exports, Some(&controls), Names::Shown).unwrap();
    let without = Report::of(&exports, None, Names::Shown).unwrap();
    let verdicts = |report: &Report| -> Vec<_> {
        let tools = report.documents.iter().flat_map(|it| &it.tools);
        tools
            .flat_map(|it| &it.arguments)
            .map(|it| (it.path.clone(), it.authority, it.confidence))
            .collect()
    };
    assert_eq!(verdicts(&with), verdicts(&without));
    let buy = &with.documents[0].tools[0];
    let beside: Vec<_> = buy
        .arguments
        .iter()
        .filter_map(|it| it.controls.as_ref())
        .map(|it| (it.standing, it.beside_inference))
        .collect();
    assert_eq!(
        beside,
        [("unverified", "looser"), ("unverified", "stricter")]
    );
    assert_eq!(buy.arguments[0].authority, Authority::Locked);
    // It bears on the risk, which has a place for a declaration, and only where the name agrees.
    assert_eq!(buy.risk.declared, Tier::Known(Risk::Financial));
    assert_eq!(buy.risk.effective, Tier::Known(Risk::Financial));
    assert_eq!(with.controls.as_ref().unwrap().standing, "unverified");
    for text in [with.json().unwrap(), with.markdown()] {
        assert!(text.contains("unverified"), "{text}");
    }
}

#[test]
fn each_value_of_a_selector_has_exactly_one_case() {
    let case = |value: &str| {
        format!(
            r#"{{"value":"{value}","tier":"read","evidence":"observed","arguments":["mode","item"]}}"#
        )
    };
    let branches = |cases: &[String]| {
        of(&format!(
            r#"{{"branches":{{"selector":"mode","cases":[{}]}}}}"#,
            cases.join(",")
        ))
    };
    let whole = parse(&branches(&[case("bid"), case("look")])).unwrap();
    assert!(matches!(&whole.tools["buy"].acts, Acts::Branches { cases, .. } if cases.len() == 2));
    for (cases, what) in [
        (vec![case("bid")], "`look`"),
        (vec![case("bid"), case("bid"), case("look")], "`bid`"),
        (vec![case("bid"), case("look"), case("sell")], "`sell`"),
    ] {
        let said = parse(&branches(&cases)).unwrap_err().to_string();
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn what_names_nothing_or_is_not_of_the_form_is_refused_with_its_place() {
    for (text, pointer) in [
        (r#"{"tools":{}}"#.to_owned(), ""),
        (r#"{"version":2,"tools":{}}"#.to_owned(), "/version"),
        (r#"{"version":1,"tools":{},"more":1}"#.to_owned(), "/more"),
        (
            r#"{"version":1,"tools":{"sell":{}}}"#.to_owned(),
            "/tools/sell",
        ),
        (of(r#"{"risks":{}}"#), "/tools/buy/risks"),
        (
            of(r#"{"risk":{"tier":"low","evidence":"declared"}}"#),
            "/tools/buy/risk/tier",
        ),
        (of(r#"{"risk":{"tier":"read"}}"#), "/tools/buy/risk"),
        (
            of(r#"{"risk":{"tier":"read","evidence":"declared"},"branches":{}}"#),
            "/tools/buy",
        ),
        (
            of(r#"{"arguments":{"price":{"authority":"free"}}}"#),
            "/tools/buy/arguments/price",
        ),
        (
            of(r#"{"arguments":{"item":{"authority":"open"}}}"#),
            "/tools/buy/arguments/item/authority",
        ),
        (
            of(r#"{"arguments":{"item":{"authority":"free"},"/item":{"authority":"free"}}}"#),
            "/tools/buy/arguments/item",
        ),
        (
            of(r#"{"arguments":{"item":{"authority":"free","bounds":[{"source":"x"}]}}}"#),
            "/tools/buy/arguments/item/bounds/0",
        ),
        (
            of(
                r#"{"unexposed_arguments":{"item":{"exposure":"server_fixed","enforced_by":"x","evidence":"declared"}}}"#,
            ),
            "/tools/buy/unexposed_arguments/item",
        ),
        (
            of(
                r#"{"branches":{"selector":"item","cases":[{"value":"1","tier":"read","evidence":"declared"}]}}"#,
            ),
            "/tools/buy/branches/cases/0/value",
        ),
        (r#"{"version":1,"version":1}"#.to_owned(), "/version"),
    ] {
        let error = parse(&text).unwrap_err();
        assert_eq!(error.pointer, pointer, "{text}: {error}");
        assert!(error.to_string().starts_with("`c.json`"), "{error}");
    }
    let many: Vec<String> = (0..3_000).map(|n| format!(r#""t{n}":{{}}"#)).collect();
    let tools: Vec<String> = (0..500)
        .map(|n| format!(r#"{{"name":"t{n}","inputSchema":{{}}}}"#))
        .collect();
    let exports: Vec<Export> = (0..6)
        .map(|file| {
            let text = format!("[{}]", tools.join(",")).replace("\"t", &format!("\"t{file}"));
            input::parse("a.json", text.as_bytes()).unwrap()
        })
        .collect();
    let text = format!(r#"{{"version":1,"tools":{{{}}}}}"#, many.join(","));
    let refused = controls::parse("c.json", text.as_bytes(), &exports).unwrap_err();
    assert!(
        matches!(refused.fault, Fault::Nowhere { .. } | Fault::Members),
        "{refused}"
    );
}

#[test]
fn a_tool_that_two_files_have_cannot_be_stated_by_its_name() {
    let twice = [exports(), exports()].concat();
    let text = of("{}");
    let error = controls::parse("c.json", text.as_bytes(), &twice).unwrap_err();
    assert!(matches!(error.fault, Fault::SameName { .. }), "{error}");
}

#[test]
fn a_file_that_others_wrote_is_read() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/authority/outside/verb-authority"
    );
    let tool = format!("{folder}/avp9_nexus_financial_tool.json");
    let exports = input::read(&[tool]).unwrap();
    let controls = format!("{folder}/avp9_nexus_financial_controls.json");
    let controls = controls::read(controls.as_ref(), &exports).unwrap();
    let stated = &controls.tools["purchase_bid"];
    assert_eq!(stated.tier(), Tier::Known(Risk::Financial));
    assert_eq!(stated.arguments["/bidWei"].bounds.len(), 4);
    assert_eq!(
        stated.arguments["/tokenId"].authority,
        StatedAuthority::Free
    );
    let report = Report::of(&exports, Some(&controls), Names::Shown).unwrap();
    let tool = &report.documents[0].tools[0];
    assert!(
        tool.arguments
            .iter()
            .all(|it| it.authority == Authority::Locked)
    );
    assert!(tool.risk.confirmation_needed);
    assert_eq!(tool.unknown_arguments, "refused");
}

#[test]
fn what_the_documentation_shows_is_read() {
    let page = include_str!("../../docs/scan.md");
    let (_, rest) = page.split_once("```json\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let tool = r#"{"name":"purchase_bid","inputSchema":{"type":"object","properties":{"bidWei":{"type":"string"}}}}"#;
    let exports = [input::parse("a.json", tool.as_bytes()).unwrap()];
    let controls = controls::parse("c.json", example.as_bytes(), &exports).unwrap();
    assert_eq!(controls.tools["purchase_bid"].unexposed.len(), 1);
}

#[test]
fn a_tool_is_to_be_looked_at_until_its_risk_is_stated_and_its_schema_closed() {
    for (schema, to_review) in [
        (r#"{"type":"object","additionalProperties":false}"#, false),
        (r#"{"type":"object"}"#, true),
    ] {
        let text = format!(r#"[{{"name":"buy","inputSchema":{schema}}}]"#);
        let exports = [input::parse("a.json", text.as_bytes()).unwrap()];
        let stated = of(r#"{"risk":{"tier":"financial","evidence":"declared"}}"#);
        let controls = controls::parse("c.json", stated.as_bytes(), &exports).unwrap();
        let looked = |controls| {
            let report = Report::of(&exports, controls, Names::Shown).unwrap();
            report.documents[0].tools[0].review_required
        };
        assert_eq!(looked(Some(&controls)), to_review, "{schema}");
        assert!(looked(None), "{schema}");
    }
}
