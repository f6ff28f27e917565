//! JSON pointers (RFC 6901), written and followed.

use std::borrow::Cow;

use gate::json::Value;

/// `base` and one step more.
pub(crate) fn join(base: &str, step: &str) -> String {
    let mut pointer =
        String::with_capacity(base.len().saturating_add(step.len()).saturating_add(1));
    pointer.push_str(base);
    pointer.push('/');
    if step.contains(['~', '/']) {
        pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
    } else {
        pointer.push_str(step);
    }
    pointer
}

/// `base` and the index of an item.
pub(crate) fn item(base: &str, index: usize) -> String {
    format!("{base}/{index}")
}

/// What `pointer` names in `root`; none if nothing is there.
pub(crate) fn follow<'a>(root: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.is_empty() {
        return Some(root);
    }
    let mut found = root;
    for step in pointer.strip_prefix('/')?.split('/') {
        found = match found {
            Value::Object(members) => members.get(unescaped(step).as_ref())?,
            Value::List(items) => items.get(index(step)?)?,
            Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => {
                return None;
            }
        };
    }
    Some(found)
}

fn unescaped(step: &str) -> Cow<'_, str> {
    if step.contains('~') {
        Cow::Owned(step.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(step)
    }
}

/// No sign and no leading zero (RFC 6901, 4).
fn index(step: &str) -> Option<usize> {
    let plain = step == "0" || (!step.starts_with('0') && step.bytes().all(|b| b.is_ascii_digit()));
    plain.then(|| step.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_leads_where_it_was_made() {
        let root = gate::json::parse(br#"{"a/b~":[1,{"":2}]}"#, &gate::json::Limits::CALL).unwrap();
        let made = join(&item(&join("", "a/b~"), 1), "");
        assert_eq!(made, "/a~1b~0/1/");
        assert_eq!(follow(&root, &made), Some(&Value::try_from(2_i64).unwrap()));
        for nowhere in ["/a", "/a~1b~0/2", "/a~1b~0/01", "/a~1b~0/0/x", "x"] {
            assert_eq!(follow(&root, nowhere), None, "{nowhere}");
        }
    }
}
