//! Everything that is counted, record by record.
//!
//! Memory is bounded whatever the ledger's length: by how many tools its policies have, and for the rest by the
//! constants at the end. What did not fit is counted as such, and said.

use std::collections::{BTreeMap, BTreeSet};

use gate::decide::Rule;

use crate::{
    event::{self, Asked, Brought, Event, Found, Said, Seen},
    labels::Sightings,
    load::Load,
    source::Record,
    traffic::Traffic,
};

/// A tool of a policy, by both names. Of a policy without a name known, its digest stands for it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ToolKey {
    /// The policy.
    pub policy: String,
    /// The tool.
    pub tool: String,
}

/// What was counted.
#[derive(Debug, Default)]
pub struct Tally {
    /// Only from this time on, by the host's clock.
    pub since: Option<u64>,
    /// Records that say nothing that could be counted: something was withheld, or their form is not known here.
    pub unread: u64,
    /// Records before `since`.
    pub before: u64,
    /// What belongs to a call or a session whose beginning was not read, or does not fit here.
    pub unfollowed: u64,
    /// By policy, how many calls were decided under which digest.
    pub policies: BTreeMap<String, BTreeMap<String, u64>>,
    /// By tool.
    pub tools: BTreeMap<ToolKey, Traffic>,
    /// Names of refused calls that nobody looked up in a policy: the agent's own text, each with how often.
    pub unknown: BTreeMap<String, u64>,
    /// Calls of more such names.
    pub more_unknown: u64,
    /// By rule: what it held, and what it refused.
    pub rules: BTreeMap<String, Load>,
    /// All together.
    pub all: Load,
    /// Where untrusted text had a value that a result's field vouches for.
    pub sightings: Sightings,
    names: BTreeMap<String, String>,
    sessions: BTreeMap<String, String>,
    holds: BTreeMap<u64, Hold>,
    deferred: BTreeMap<u64, ToolKey>,
    /// Approvals of which no allowed call was read yet, by their positions.
    approved: BTreeSet<u64>,
}

#[derive(Debug)]
struct Hold {
    tool: ToolKey,
    rules: BTreeSet<Rule>,
    at: u64,
    expires: u64,
}

/// How a held call ended.
#[derive(Clone, Copy)]
enum End {
    Approved,
    Ended,
    Expired,
    TurnedDown,
}

impl Tally {
    /// Counts from `since` on, if it is said.
    pub fn new(since: Option<u64>) -> Self {
        Self {
            since,
            ..Self::default()
        }
    }

    /// Counts a record.
    pub fn take(&mut self, record: Record<'_>) {
        match event::read(record) {
            Ok(None) => {}
            Ok(Some(seen)) => self.count(record.position, seen),
            Err(event::Unread) => self.unread = self.unread.saturating_add(1),
        }
    }

    fn count(&mut self, position: u64, seen: Seen) {
        let Seen { at, session, event } = seen;
        let session = session.unwrap_or_default();
        let early = self.since.is_some_and(|since| at < since);
        // What a policy is called, and whose a session is, is known from before.
        match &event {
            Event::Opened { policy, name } => self.opened(&session, policy, name),
            Event::Started => self.started(),
            Event::Closed => self.closed(&session),
            _ if early => {}
            Event::Answered { .. }
            | Event::Asked(_)
            | Event::Lapsed { .. }
            | Event::Result { .. } => {}
        }
        if early {
            self.before = self.before.saturating_add(1);
            return;
        }
        match event {
            Event::Answered { held, approved } => {
                let end = if approved {
                    End::Approved
                } else {
                    End::TurnedDown
                };
                if approved {
                    self.approval(position);
                }
                self.end(held, at, end);
            }
            Event::Asked(asked) => self.asked(position, at, &session, asked),
            Event::Lapsed { waited } => self.lapsed(waited, at),
            Event::Result { tool, says } => self.result(&session, tool, says),
            Event::Closed | Event::Opened { .. } | Event::Started => {}
        }
    }

    fn opened(&mut self, session: &str, policy: &str, name: &str) {
        if self.names.len() < NAMES_MAX || self.names.contains_key(policy) {
            let _before = self.names.insert(policy.into(), name.into());
        }
        self.under(session, policy);
    }

    /// The session is under the policy.
    fn under(&mut self, session: &str, policy: &str) {
        if self.sessions.len() < SESSIONS_MAX || self.sessions.contains_key(session) {
            let _before = self.sessions.insert(session.into(), policy.into());
        }
    }

    fn closed(&mut self, session: &str) {
        let _was = self.sessions.remove(session);
    }

    /// Nothing of an earlier run of the gate waits any more.
    fn started(&mut self) {
        for position in self.holds.keys().copied().collect::<Vec<_>>() {
            self.end(position, 0, End::Ended);
        }
        self.sessions.clear();
        self.approved.clear();
        self.deferred.clear();
    }

    fn key(&self, policy: &str, tool: String) -> ToolKey {
        let short = || format!("policy {}", policy.get(..12).unwrap_or(policy));
        ToolKey {
            policy: self.names.get(policy).cloned().unwrap_or_else(short),
            tool,
        }
    }

    fn asked(&mut self, position: u64, at: u64, session: &str, asked: Asked) {
        self.under(session, &asked.policy);
        let key = self.key(&asked.policy, asked.tool);
        if let Said::Refused {
            rule,
            tool: Found::Unknown,
        } = &asked.said
            && !self.tools.contains_key(&key)
        {
            plus(&mut self.rules.entry(rule.clone()).or_default().refused);
            plus(&mut self.all.refused);
            return self.unknown(key.tool);
        }
        // A session that was opened before anything here was read has a name of its policy's all the same.
        let under = self.policies.entry(key.policy.clone()).or_default();
        if under.len() < VERSIONS_MAX || under.contains_key(&asked.policy) {
            plus(under.entry(asked.policy).or_default());
        }
        if self.tools.len() >= TOOLS_MAX && !self.tools.contains_key(&key) {
            return plus(&mut self.unfollowed);
        }
        // The first call that rests on an approval is the one that was held, and was counted then.
        let was_held = match asked.said {
            Said::Allowed {
                approval: Some(approval),
            } => self.approved.remove(&approval),
            Said::Allowed { approval: None }
            | Said::Deferred
            | Said::Held { .. }
            | Said::Refused { .. } => false,
        };
        let traffic = self.tools.entry(key.clone()).or_default();
        if let Some(grounds) = &asked.grounds {
            traffic.ground(grounds);
            self.sightings.take(&key, grounds);
        }
        match asked.said {
            Said::Allowed { .. } if was_held => {}
            Said::Allowed { .. } => {
                plus(&mut traffic.load.allowed);
                plus(&mut self.all.allowed);
            }
            Said::Deferred => {
                plus(&mut traffic.deferred);
                if self.deferred.len() < HOLDS_MAX {
                    let _new = self.deferred.insert(position, key);
                }
            }
            Said::Held { expires, reasons } => {
                plus(&mut traffic.load.held);
                plus(&mut self.all.held);
                let rules: BTreeSet<Rule> = reasons.iter().map(|it| it.rule).collect();
                for rule in &rules {
                    plus(&mut self.rules.entry(rule.as_str().into()).or_default().held);
                }
                if self.holds.len() < HOLDS_MAX {
                    let hold = Hold {
                        tool: key,
                        rules,
                        at,
                        expires,
                    };
                    let _new = self.holds.insert(position, hold);
                }
            }
            Said::Refused { rule, tool: _ } => {
                plus(&mut traffic.load.refused);
                plus(&mut self.all.refused);
                plus(&mut self.rules.entry(rule).or_default().refused);
            }
        }
    }

    fn approval(&mut self, position: u64) {
        if self.approved.len() >= HOLDS_MAX {
            let _oldest = self.approved.pop_first();
        }
        let _new = self.approved.insert(position);
    }

    fn unknown(&mut self, tool: String) {
        if self.unknown.len() < UNKNOWN_MAX || self.unknown.contains_key(&tool) {
            plus(self.unknown.entry(tool).or_default());
        } else {
            plus(&mut self.more_unknown);
        }
    }

    fn lapsed(&mut self, waited: u64, at: u64) {
        if let Some(key) = self.deferred.remove(&waited) {
            plus(&mut self.tools.entry(key).or_default().deferred_lapsed);
            return;
        }
        let expired = self.holds.get(&waited).is_some_and(|it| at >= it.expires);
        self.end(waited, at, if expired { End::Expired } else { End::Ended });
    }

    fn end(&mut self, position: u64, at: u64, end: End) {
        let Some(hold) = self.holds.remove(&position) else {
            plus(&mut self.unfollowed);
            return;
        };
        let waited = at.saturating_sub(hold.at);
        let tool = &mut self.tools.entry(hold.tool).or_default().load;
        tool.end(end, waited);
        self.all.end(end, waited);
        for rule in hold.rules {
            self.rules
                .entry(rule.as_str().into())
                .or_default()
                .end(end, waited);
        }
    }

    fn result(&mut self, session: &str, tool: String, says: Brought) {
        let Some(policy) = self.sessions.get(session) else {
            plus(&mut self.unfollowed);
            return;
        };
        let key = self.key(policy, tool);
        if self.tools.len() >= TOOLS_MAX && !self.tools.contains_key(&key) {
            plus(&mut self.unfollowed);
            return;
        }
        let traffic = self.tools.entry(key).or_default();
        plus(match says {
            Brought::Failed => &mut traffic.failures,
            Brought::Stream => &mut traffic.streams,
            Brought::Trusted => &mut traffic.trusted,
            Brought::Untrusted => &mut traffic.untrusted,
        });
    }
}

impl Load {
    fn end(&mut self, end: End, waited: u64) {
        match end {
            End::Approved => {
                plus(&mut self.approved);
                self.waits.add(waited);
            }
            End::Ended => plus(&mut self.ended),
            End::Expired => plus(&mut self.expired),
            End::TurnedDown => {
                plus(&mut self.turned_down);
                self.waits.add(waited);
            }
        }
    }
}

pub(crate) fn plus(count: &mut u64) {
    *count = count.saturating_add(1);
}

/// How many names of policies are kept, by their digests.
const NAMES_MAX: usize = 10_000;

/// How many open sessions are followed.
const SESSIONS_MAX: usize = 100_000;

/// How many calls that wait are followed at once.
const HOLDS_MAX: usize = 100_000;

/// How many names that no policy has are kept: the agent chooses them.
const UNKNOWN_MAX: usize = 64;

/// How many tools are counted: as many as any host's policies have together.
const TOOLS_MAX: usize = 10_000;

/// How many versions of one policy are counted apart.
const VERSIONS_MAX: usize = 1_000;
