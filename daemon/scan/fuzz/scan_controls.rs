//! Any bytes as controls beside one export: refused in one line, or shown beside what is inferred and nothing else.

#[path = "shown.rs"]
mod shown;

use std::sync::LazyLock;

use custody_scan::{
    controls,
    input::{self, Export},
    report::{Names, Report},
};

/// Names that no report has of itself.
const EXPORT: &str = r#"[{"name":"zqxsend","inputSchema":{"type":"object","properties":{
    "zqxto":{"type":"string"},"body":{"type":"string"},"zqxact":{"enum":["zqxlist","zqxdelete"]},
    "zqxleg":{"type":"object","properties":{"zqxurl":{"type":"string"}}}},"additionalProperties":false}},
    {"name":"zqxread","inputSchema":{"type":"object"}}]"#;

static EXPORTS: LazyLock<Vec<Export>> = LazyLock::new(|| {
    let export = input::parse("fuzz", EXPORT.as_bytes());
    vec![export.expect("an export")]
});

pub(crate) fn run(data: &[u8]) {
    let stated = match controls::parse("fuzz", data, &EXPORTS) {
        Ok(stated) => stated,
        Err(error) => return shown::said(&error.to_string()),
    };
    let report = |controls, names| Report::of(&EXPORTS, controls, names).expect("a report");
    let beside = report(Some(&stated), Names::Shown);
    let alone = report(None, Names::Shown);
    let tools = |report: &Report| -> Vec<_> {
        let tools = report.documents.iter().flat_map(|it| &it.tools);
        let arguments = tools.flat_map(|it| &it.arguments);
        arguments
            .map(|it| (it.path.clone(), it.authority, it.reason))
            .collect()
    };
    assert_eq!(
        tools(&beside),
        tools(&alone),
        "a statement changed what is inferred"
    );
    shown::written(&beside);
    let redacted = report(Some(&stated), Names::Redacted);
    shown::written(&redacted);
    let json = redacted.json().expect("JSON");
    assert!(!json.contains("zqx"), "a name is left: {json}");
    assert!(!redacted.markdown().contains("zqx"), "a name is left");
}
