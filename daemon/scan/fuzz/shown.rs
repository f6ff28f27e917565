//! What is said to people and machines, whatever was read.

use custody_scan::report::Report;

/// An error is something that a terminal may show.
pub(crate) fn said(error: &str) {
    assert!(error.contains("fuzz"), "no file in `{error}`");
    assert!(!error.chars().any(char::is_control), "{error:?}");
}

/// A report is one JSON text of ASCII, and a page that a terminal may show.
pub(crate) fn written(report: &Report) {
    let json = report.json().expect("JSON");
    assert!(
        json.bytes()
            .all(|it| it == b'\n' || (b' '..=b'~').contains(&it)),
        "{json}"
    );
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    page(&report.markdown());
}

/// Lines without a control character, and nothing that changes a direction or takes no room.
pub(crate) fn page(page: &str) {
    let hidden = ['\u{200b}'..='\u{202e}', '\u{2060}'..='\u{2069}'];
    let odd = |it: char| {
        it != '\n' && (it.is_control() || hidden.iter().any(|range| range.contains(&it)))
    };
    assert!(!page.contains(odd), "{page:?}");
}
