//! Any bytes as an export, and as a tool's schema in both of OpenAI's forms.

#[path = "importer.rs"]
mod importer;

pub(crate) fn run(data: &[u8]) {
    importer::reads(data, |schema| {
        format!(r#"[{{"type":"function","function":{{"name":"t","parameters":{schema}}}}}]"#)
    });
    importer::reads(data, |schema| {
        format!(r#"[{{"type":"function","name":"t","parameters":{schema}}}]"#)
    });
}
