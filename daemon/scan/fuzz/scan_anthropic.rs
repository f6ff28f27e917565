//! Any bytes as an export, and as a tool's schema in Anthropic's form.

#[path = "importer.rs"]
mod importer;

pub(crate) fn run(data: &[u8]) {
    importer::reads(data, |schema| {
        format!(r#"[{{"name":"t","input_schema":{schema}}}]"#)
    });
}
