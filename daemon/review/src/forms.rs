//! What a form says: `application/x-www-form-urlencoded` (URL Standard, section 5), read strictly.

/// The fields of a form, in their order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Form(Vec<(String, String)>);

impl Form {
    /// Reads a body. None where it is no such text: a percent that says no byte, bytes that are no UTF-8,
    /// a field without `=`, one that stands twice.
    pub fn read(body: &[u8]) -> Option<Self> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for pair in body.split(|byte| *byte == b'&').filter(|it| !it.is_empty()) {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            let (name, value) = pair.split_at_checked(at)?;
            let name = decode(name)?;
            let value = decode(value.get(1..)?)?;
            if fields.iter().any(|(other, _)| *other == name) {
                return None;
            }
            fields.push((name, value));
        }
        Some(Self(fields))
    }

    /// The field of that name; the empty text where there is none.
    pub fn field(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(it, _)| it == name);
        found.map_or("", |(_, value)| value)
    }
}

fn decode(text: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, behind) = rest.split_at_checked(2)?;
                let hexadecimal = digits.iter().all(u8::is_ascii_hexdigit);
                let digits = std::str::from_utf8(digits).ok().filter(|_| hexadecimal)?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = behind;
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_as_a_browser_writes_it() {
        let form = Form::read(b"why=not+now%2C+%C3%BC&scope=once&empty=").unwrap();
        assert_eq!(form.field("why"), "not now, ü");
        assert_eq!(form.field("scope"), "once");
        assert_eq!((form.field("empty"), form.field("none")), ("", ""));
    }

    #[test]
    fn what_no_browser_writes_is_none() {
        for bad in ["a", "a=%", "a=%4", "a=%+1", "a=%zz", "a=%ff", "a=1&a=2"] {
            assert_eq!(Form::read(bad.as_bytes()), None, "{bad}");
        }
    }
}
