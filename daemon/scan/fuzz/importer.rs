//! One of the forms that exports have.

#[path = "laws.rs"]
mod laws;

use custody_scan::{infer::Authority, input::Export};

/// `bytes` as an export, and as the schema of a tool in the form that `around` makes of it.
pub(crate) fn reads(bytes: &[u8], around: impl Fn(&str) -> String) {
    if let Some(export) = laws::read(bytes) {
        laws::all(&export);
    }
    let Some(schema) = laws::schema(bytes) else {
        return;
    };
    let Some(export) = laws::read(around(&schema).as_bytes()) else {
        return;
    };
    laws::all(&export);
    // The same schema in MCP's form has the same verdicts.
    let plain = laws::tool(bytes).expect("read in one form");
    let verdicts = |export: &Export| -> Option<Vec<Authority>> {
        laws::authority(export).map(|all| all.into_values().collect())
    };
    assert_eq!(verdicts(&export), verdicts(&plain), "the form decides");
}
