//! `$ref`: followed within the tool's own schema, never out of it.

use gate::json::Value;

use crate::pointer;

/// Where a reference leads.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Led<'a> {
    /// To a schema here, and its place below the root.
    Here(&'a Value, String),
    /// To nothing that is here: an anchor, or a pointer to nothing.
    Nowhere,
    /// Out of the file.
    Out,
}

/// Follows `reference` from the schema's root.
pub(super) fn follow<'a>(root: &'a Value, reference: &str) -> Led<'a> {
    let Some(fragment) = reference.strip_prefix('#') else {
        return Led::Out;
    };
    let Some(path) = decoded(fragment) else {
        return Led::Nowhere;
    };
    match pointer::follow(root, &path) {
        Some(found) => Led::Here(found, path),
        None => Led::Nowhere,
    }
}

/// The fragment of a URI without its percent escapes (RFC 6901, 6).
fn decoded(fragment: &str) -> Option<String> {
    if !fragment.contains('%') {
        return Some(fragment.to_owned());
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |it: Option<u8>| char::from(it?).to_digit(16);
            let (high, low) = (digit(rest.next())?, digit(rest.next())?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_followed_here_and_never_out() {
        let text = br##"{"$defs":{"a b":{"type":"string"}}}"##;
        let root = gate::json::parse(text, &gate::json::Limits::CALL).unwrap();
        assert!(matches!(follow(&root, "#/$defs/a%20b"), Led::Here(_, at) if at == "/$defs/a b"));
        assert!(matches!(follow(&root, "#"), Led::Here(..)));
        for nowhere in ["#a", "#/$defs/b", "#/%zz", "#/%f"] {
            assert_eq!(follow(&root, nowhere), Led::Nowhere, "{nowhere}");
        }
        for out in [
            "https://example.test/a.json",
            "a.json#/b",
            "",
            "file:///etc/passwd",
        ] {
            assert_eq!(follow(&root, out), Led::Out, "{out}");
        }
    }
}
