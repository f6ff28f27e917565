//! The one written form: RFC 8785.

use alloc::{string::String, vec::Vec};

use super::Value;
use crate::mutant::Mutant;

/// `value` in RFC 8785 form: no white space, keys in the order of their UTF-16 code units,
/// numbers as ECMAScript writes them.
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        // ECMAScript writes an integral number below 10^21 as its plain digits.
        Value::Int(n) => out.extend_from_slice(alloc::format!("{}", n.get()).as_bytes()),
        Value::List(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                separate(index, out);
                write(item, out);
            }
            out.push(b']');
        }
        Value::Null => out.extend_from_slice(b"null"),
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            // The map has them by UTF-8, which differs above U+FFFF (RFC 8785, 3.2.3).
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push(b'{');
            for (index, (key, member)) in members.into_iter().enumerate() {
                separate(index, out);
                text(key, out);
                out.push(b':');
                write(member, out);
            }
            out.push(b'}');
        }
        Value::Real(x) => {
            out.extend_from_slice(ryu_js::Buffer::new().format_finite(x.get()).as_bytes());
        }
        Value::Text(it) => text(it, out),
    }
}

fn separate(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

/// RFC 8785, 3.2.2.2: the short escapes where there are some, `\u00xx` for the other controls,
/// everything else as it is.
fn text(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len().saturating_add(2));
    out.push(b'"');
    let mut rest = text.as_bytes();
    // What needs no escape is copied in one piece: that is nearly everything.
    while let Some(at) = rest.iter().position(|it| needs_escape(*it)) {
        let (plain, escaped) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, behind)) = escaped.split_first() else {
            break;
        };
        escape(*byte, out);
        rest = behind;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

const fn needs_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0x00..=0x1f)
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' if Mutant::GateCanonical.is_on() => out.push(b'"'),
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        0x08 => out.extend_from_slice(b"\\b"),
        b'\t' => out.extend_from_slice(b"\\t"),
        b'\n' => out.extend_from_slice(b"\\n"),
        0x0c => out.extend_from_slice(b"\\f"),
        b'\r' => out.extend_from_slice(b"\\r"),
        control => out.extend_from_slice(alloc::format!("\\u{control:04x}").as_bytes()),
    }
}
