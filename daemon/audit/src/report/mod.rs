//! The report: one value, and its three forms.
//!
//! | module | what |
//! |---|---|
//! | `page` | what a reader is shown, as headings, sentences and tables |
//! | `markdown`, `text` | such a page, written |

mod markdown;
mod page;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use custody_shown::inert;
use gate::{
    id::ArgumentName,
    json::{self, JsonError},
    policy::{OriginClass, Role},
};
use serde::Serialize;

use crate::{
    advice::{self, Advice},
    classes::{self, Classed},
    declared::Policies,
    labels::{self, Repeated, Unlabelled},
    load,
    source::Source,
    tally::Tally,
    traffic::Traffic,
};

/// The form of the report. A reader that knows another number refuses this one.
pub const VERSION: u32 = 1;

/// What a ledger's traffic says. The same records and policies always give the same report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`VERSION`].
    pub report_version: u32,
    /// What was read.
    pub read: Read,
    /// Policies of the traffic, and those that were given.
    pub policies: Vec<PolicySeen>,
    /// Each tool: how it stands with the write gate, and what its own traffic showed.
    pub tools: Vec<ToolSeen>,
    /// Fields that a policy vouches for, and whose values untrusted text had too.
    pub repeated_fields: Vec<Repeated>,
    /// Tools with results of which nobody said whose words they are.
    pub unlabelled_results: Vec<Unlabelled>,
    /// What reviewers were asked, and what became of it.
    pub review: Review,
    /// What could be looked at.
    pub advice: Vec<Advice>,
    /// Names of refused calls that no policy has, or that nobody looked up: the agent's own text.
    pub unknown_tools: BTreeMap<String, u64>,
    /// Calls of more such names than are listed.
    pub more_unknown_calls: u64,
}

/// What was read.
#[derive(Clone, Debug, Serialize)]
pub struct Read {
    /// From where.
    #[serde(flatten)]
    pub source: Source,
    /// Only from this time on, in milliseconds since 1970.
    pub since: Option<u64>,
    /// Records before that.
    pub before_since: u64,
    /// Records that say nothing that could be counted: something was withheld, or their form is not known here.
    pub not_counted: u64,
    /// What belongs to a call or a session whose beginning was not read.
    pub not_followed: u64,
    /// Values that untrusted text had too, of more fields than are listed.
    pub more_repeated: u64,
}

/// A policy.
#[derive(Clone, Debug, Serialize)]
pub struct PolicySeen {
    /// Its name.
    pub policy: String,
    /// The digest of the file that was given; none if it was not.
    pub given: Option<String>,
    /// Calls that were decided by exactly the policy that was given.
    pub decided_by_it: u64,
    /// Calls that were decided by other versions.
    pub decided_by_others: u64,
    /// How many other versions there were.
    pub other_versions: u64,
}

/// A tool.
#[derive(Clone, Debug, Serialize)]
pub struct ToolSeen {
    /// How it stands.
    #[serde(flatten)]
    pub classed: Classed,
    /// What was said of its calls.
    pub calls: load::Said,
    /// Calls that were put off to the end of their turn, and of those the ones whose turn never ended.
    pub deferred: u64,
    /// Turns that never ended.
    pub deferred_lapsed: u64,
    /// Calls of sessions that had seen untrusted content.
    pub tainted: u64,
    /// What had tainted them.
    pub tainted_by: BTreeMap<String, u64>,
    /// What its calls carried.
    pub arguments: BTreeMap<ArgumentName, Argument>,
    /// Results: trusted, untrusted, streams, failures.
    pub results: Results,
}

/// What came back.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Results {
    /// The operator vouches for them.
    pub trusted: u64,
    /// Anyone's words.
    pub untrusted: u64,
    /// Streams, of which nobody keeps the text.
    pub streams: u64,
    /// Failures.
    pub failures: u64,
}

/// An argument.
#[derive(Clone, Debug, Serialize)]
pub struct Argument {
    /// Calls that carried it.
    pub calls: u64,
    /// Who may author it.
    pub authority: BTreeSet<&'static str>,
    /// What it is to the effect.
    pub roles: BTreeSet<Role>,
    /// Where its values came from, in the calls in which that was asked.
    pub origins: BTreeMap<OriginClass, u64>,
    /// Values that something better vouched for and untrusted text had too.
    pub in_untrusted: u64,
}

/// What reviewers were asked.
#[derive(Clone, Debug, Serialize)]
pub struct Review {
    /// All together.
    pub all: load::Said,
    /// By rule: a call that several rules hold counts for each.
    pub rules: BTreeMap<String, load::Said>,
}

impl Report {
    /// What `tally` counted of `source`, beside what `policies` say now.
    pub fn new(source: Source, tally: &Tally, policies: &Policies) -> Self {
        let classed = classes::all(tally, policies);
        let repeated = labels::repeated(tally, policies);
        let unlabelled = labels::unlabelled(tally, policies);
        let advice = advice::all(tally, policies, &classed, &repeated, &unlabelled);
        let none = Traffic::default();
        let tools = classed.into_iter().map(|classed| {
            let traffic = tally
                .tools
                .iter()
                .find(|(key, _)| key.policy == classed.policy && key.tool == classed.tool);
            ToolSeen::new(classed, traffic.map_or(&none, |(_key, it)| it))
        });
        Self {
            report_version: VERSION,
            read: Read {
                source,
                since: tally.since,
                before_since: tally.before,
                not_counted: tally.unread,
                not_followed: tally.unfollowed,
                more_repeated: tally.sightings.more,
            },
            policies: seen(tally, policies),
            tools: tools.collect(),
            repeated_fields: repeated,
            unlabelled_results: unlabelled,
            review: Review {
                all: tally.all.said(),
                rules: tally
                    .rules
                    .iter()
                    .map(|(rule, load)| (rule.clone(), load.said()))
                    .collect(),
            },
            advice,
            unknown_tools: tally.unknown.clone(),
            more_unknown_calls: tally.more_unknown,
        }
    }

    /// As JSON with a line feed: the order of RFC 8785, and in ASCII, so that nothing in it acts on a terminal.
    ///
    /// # Errors
    /// When a text of it has no form; then the ledger would not have had it.
    pub fn json(&self) -> Result<String, JsonError> {
        let bytes = serde_json::to_vec(self).map_err(|error| JsonError::Shape {
            what: error.to_string(),
        })?;
        let value = json::parse(&bytes, &LIMITS)?;
        let mut text = inert::json(&String::from_utf8_lossy(&json::canonical(&value)));
        text.push('\n');
        Ok(text)
    }

    /// As Markdown. No text of an agent's is more than text in it.
    pub fn markdown(&self) -> String {
        markdown::write(&page::of(self))
    }

    /// As plain text for a terminal.
    pub fn text(&self) -> String {
        text::write(&page::of(self))
    }
}

/// How large a report may be: tools and their arguments are the policies' own.
const LIMITS: json::Limits = json::Limits {
    bytes: 256 << 20,
    depth: json::Limits::DEPTH_MAX,
    nodes: 20_000_000,
};

fn seen(tally: &Tally, policies: &Policies) -> Vec<PolicySeen> {
    let names: BTreeSet<&String> = tally.policies.keys().chain(policies.keys()).collect();
    let none = BTreeMap::new();
    names
        .into_iter()
        .map(|name| {
            let under = tally.policies.get(name).unwrap_or(&none);
            let given = policies.get(name).map(|it| it.policy().hash().to_string());
            let by_it = given.as_ref().and_then(|it| under.get(it)).copied();
            let others = || {
                under
                    .iter()
                    .filter(|(digest, _)| Some(*digest) != given.as_ref())
            };
            PolicySeen {
                policy: name.clone(),
                decided_by_it: by_it.unwrap_or_default(),
                decided_by_others: others().map(|(_digest, count)| *count).sum(),
                other_versions: others().fold(0, |sum, _one| sum + 1),
                given,
            }
        })
        .collect()
}

impl ToolSeen {
    fn new(classed: Classed, traffic: &Traffic) -> Self {
        Self {
            classed,
            calls: traffic.load.said(),
            deferred: traffic.deferred,
            deferred_lapsed: traffic.deferred_lapsed,
            tainted: traffic.tainted,
            tainted_by: traffic.taint.clone(),
            arguments: traffic
                .arguments
                .iter()
                .map(|(name, it)| {
                    let argument = Argument {
                        calls: it.calls,
                        authority: it.authority.clone(),
                        roles: it.roles.clone(),
                        origins: it.origins.clone(),
                        in_untrusted: it.in_untrusted,
                    };
                    (name.clone(), argument)
                })
                .collect(),
            results: Results {
                trusted: traffic.trusted,
                untrusted: traffic.untrusted,
                streams: traffic.streams,
                failures: traffic.failures,
            },
        }
    }
}
