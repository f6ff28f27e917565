//! Any bytes as an export, and as a tool's schema in Anthropic's form.

#[path = "laws.rs"]
mod laws;

pub(crate) fn run(data: &[u8]) {
    laws::importer(data, |schema| {
        format!(r#"[{{"name":"t","input_schema":{schema}}}]"#)
    });
}
