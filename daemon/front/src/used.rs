//! The ids of a connection's calls: one id, one call. An answer to an earlier call is never taken for
//! the answer to another.

use std::collections::{HashMap, VecDeque};

use gate::digest::Digest;

/// The ids that are remembered of one connection; the oldest is forgotten first. A client numbers its
/// calls, and has no more than a few on their way.
pub const USED_MAX: usize = 4_096;

/// Ids that were used, each with what was called.
#[derive(Debug, Default)]
pub struct Used {
    calls: HashMap<String, Digest>,
    order: VecDeque<String>,
}

impl Used {
    /// Whether `id` may stand for this call: it is new, or it stood for the same call. Whatever it is,
    /// the call is decided on anew.
    pub fn admits(&mut self, id: &serde_json::Value, call: Digest) -> bool {
        // A number and a string are two ids (JSON-RPC 2.0, section 4): the string has its quotes.
        let id = id.to_string();
        if let Some(before) = self.calls.get(&id) {
            return *before == call;
        }
        if self.order.len() >= USED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.calls.remove(&oldest);
        }
        self.order.push_back(id.clone());
        self.calls.insert(id, call);
        true
    }
}

#[cfg(test)]
mod tests {
    use gate::digest::Domain;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_stands_for_one_call_and_a_number_is_no_text() {
        let (one, two) = (
            Digest::of(Domain::Call, b"1"),
            Digest::of(Domain::Call, b"2"),
        );
        let mut used = Used::default();
        assert!(used.admits(&json!(1), one));
        assert!(used.admits(&json!(1), one));
        assert!(!used.admits(&json!(1), two));
        assert!(used.admits(&json!("1"), two));
        for id in 0..USED_MAX {
            let _admitted = used.admits(&json!(format!("x{id}")), one);
        }
        assert_eq!(used.calls.len(), USED_MAX);
        assert_eq!(used.order.len(), USED_MAX);
    }
}
