//! Any bytes as an export, and as a tool's schema in MCP's form: a list, a page of a list, an answer.

#[path = "importer.rs"]
mod importer;

pub(crate) fn run(data: &[u8]) {
    importer::reads(data, |schema| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}}}"#
        )
    });
}
