//! Any bytes as an export, and as a tool's schema in both of OpenAI's forms.

#[path = "laws.rs"]
mod laws;

pub(crate) fn run(data: &[u8]) {
    laws::importer(data, |schema| {
        format!(r#"[{{"type":"function","function":{{"name":"t","parameters":{schema}}}}}]"#)
    });
    laws::importer(data, |schema| {
        format!(r#"[{{"type":"function","name":"t","parameters":{schema}}}]"#)
    });
}
