//! `unsafe` only where it is at home, and each module that has it says why.

use proc_macro2::{TokenStream, TokenTree};

use super::{Finding, Source};

/// custody-sys wraps the kernel; in agent-ebpf each helper of the kernel is a raw call.
const HOMES: &[&str] = &["daemon/sys/src/", "agent-ebpf/src/"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.path.ends_with(".rs") {
        return Vec::new();
    }
    let tokens: TokenStream = match source.text.parse() {
        Ok(tokens) => tokens,
        Err(error) => return vec![Finding::new(&source.path, format!("is not Rust: {error}"))],
    };
    let Some(line) = first_unsafe(tokens) else {
        return Vec::new();
    };
    let place = format!("{}:{line}", source.path);
    if !HOMES.iter().any(|home| source.path.starts_with(home)) {
        return vec![Finding::new(
            place,
            "`unsafe` belongs in daemon/sys, behind a safe function",
        )];
    }
    let mut findings = Vec::new();
    if !source.text.contains("// UNSAFETY: ") {
        findings.push(Finding::new(
            place,
            "needs a line `// UNSAFETY: ` that says why",
        ));
    }
    findings
}

/// The line of the first `unsafe`, also inside macros, where no syntax tree shows it; not in
/// comments or text.
fn first_unsafe(tokens: TokenStream) -> Option<usize> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Group(group) => first_unsafe(group.stream()),
        TokenTree::Ident(ident) => (ident == "unsafe").then(|| ident.span().start().line),
        TokenTree::Punct(_) | TokenTree::Literal(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<Finding> {
        check(&Source {
            path: path.into(),
            text: text.into(),
        })
    }

    #[test]
    fn unsafe_away_from_home_is_found_even_in_a_macro() {
        let text = "// unsafe\nconst A: &str = \"unsafe\";\n";
        assert_eq!(findings("gate/src/lib.rs", text), []);
        let text = "fn f() {\n    g!({ unsafe { h() } });\n}\n";
        assert_eq!(
            findings("gate/src/lib.rs", text)[0].place,
            "gate/src/lib.rs:2"
        );
    }

    #[test]
    fn unsafe_at_home_says_why() {
        let text = "fn f() { unsafe { h() } }\n";
        assert_eq!(findings("daemon/sys/src/bpf.rs", text).len(), 1);
        let text = "// UNSAFETY: bpf(2) has no wrapper.\nfn f() { unsafe { h() } }\n";
        assert_eq!(findings("daemon/sys/src/bpf.rs", text), []);
    }
}
