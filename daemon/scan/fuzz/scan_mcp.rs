//! Any bytes as an export, and as a tool's schema in MCP's form: a list, a page of a list, an answer.

#[path = "laws.rs"]
mod laws;

pub(crate) fn run(data: &[u8]) {
    laws::importer(data, |schema| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}}}"#
        )
    });
}
