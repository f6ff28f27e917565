//! What each tool says that it does to the world, and whether the write gate hears it.

use std::collections::{BTreeMap, BTreeSet};

use gate::policy::{ActionClass, GateMode, OnTaint, Policy, Risk, Tool};
use serde::Serialize;

use crate::{
    declared::Policies,
    tally::{Tally, ToolKey},
    traffic::Traffic,
};

/// How a tool stands with the write gate: what after untrusted content can stop a call of it by what the call
/// does to the world.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It changes something, and says no action class: the write gate never hears of it.
    Undeclared,
    /// The write gate asks nothing of what it says, or it only reads.
    NotCovered,
    /// It says a class that the write gate gates.
    Declared,
}

impl Standing {
    /// In a word or two.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Undeclared => "undeclared",
            Self::NotCovered => "not covered",
            Self::Declared => "declared",
        }
    }
}

/// One tool of one policy.
#[derive(Clone, Debug, Serialize)]
pub struct Classed {
    /// The policy.
    pub policy: String,
    /// The tool.
    pub tool: String,
    /// How it stands.
    pub standing: Standing,
    /// Why, each a sentence.
    pub why: Vec<String>,
    /// Whether the policy that was given has it; what is said rests on the records alone otherwise.
    pub given: bool,
    /// Classes that the policy says, or computes of a call.
    pub declared: BTreeSet<ActionClass>,
    /// Of those, the ones that its write gate gates.
    pub gated: BTreeSet<ActionClass>,
    /// What a tainted session may do with it, in the policy's word.
    pub on_taint: Option<&'static str>,
    /// What was at stake, in the policy.
    pub risks: BTreeSet<Risk>,
    /// What its own calls did to the world, as the gate wrote it down, and how often.
    pub seen: BTreeMap<ActionClass, u64>,
}

/// Every tool of the policies that were given and of the traffic.
pub fn all(tally: &Tally, policies: &Policies) -> Vec<Classed> {
    let mut keys: BTreeSet<ToolKey> = tally.tools.keys().cloned().collect();
    for (policy, declared) in policies {
        keys.extend(declared.policy().tools().keys().map(|tool| ToolKey {
            policy: policy.clone(),
            tool: tool.as_str().into(),
        }));
    }
    let none = Traffic::default();
    keys.iter()
        .map(|key| {
            let traffic = tally.tools.get(key).unwrap_or(&none);
            let declared = policies.get(&key.policy);
            match declared.and_then(|it| Some((it.policy(), it.tool(&key.tool)?))) {
                Some((policy, tool)) => of(key, policy, tool, traffic),
                None => by_traffic(key, declared.is_some(), traffic),
            }
        })
        .collect()
}

/// A way in which a tool can be called.
struct Way<'a> {
    name: Option<&'a str>,
    declared: BTreeSet<ActionClass>,
    risk: Risk,
}

fn ways(tool: &Tool) -> Vec<Way<'_>> {
    let mut computed = BTreeSet::new();
    if !tool.computed.bulk.is_empty() {
        computed.insert(ActionClass::Bulk);
    }
    if !tool.computed.external.is_empty() {
        computed.insert(ActionClass::External);
    }
    let way = |name, classes: &BTreeSet<ActionClass>, risk| Way {
        name,
        declared: classes.union(&computed).copied().collect(),
        risk,
    };
    match &tool.selector {
        None => vec![way(None, &tool.classes, tool.risk)],
        Some(selector) => selector
            .cases
            .iter()
            .map(|(name, branch)| way(Some(name.as_str()), &branch.classes, branch.risk))
            .collect(),
    }
}

fn of(key: &ToolKey, policy: &Policy, tool: &Tool, traffic: &Traffic) -> Classed {
    let ways = ways(tool);
    let gate = &policy.write_gate().classes;
    let judged: Vec<(Standing, String)> = ways
        .iter()
        .map(|way| judge(way, gate, policy.write_gate().mode, tool.on_taint))
        .collect();
    let declared: BTreeSet<ActionClass> =
        ways.iter().flat_map(|it| &it.declared).copied().collect();
    Classed {
        policy: key.policy.clone(),
        tool: key.tool.clone(),
        standing: judged
            .iter()
            .map(|(standing, _why)| *standing)
            .min()
            .unwrap_or(Standing::Undeclared),
        why: judged.into_iter().map(|(_standing, why)| why).collect(),
        given: true,
        gated: declared.intersection(gate).copied().collect(),
        declared,
        on_taint: Some(tool.on_taint.as_str()),
        risks: ways.iter().map(|it| it.risk).collect(),
        seen: traffic.classes.clone(),
    }
}

fn judge(
    way: &Way<'_>,
    gate: &BTreeSet<ActionClass>,
    mode: GateMode,
    on_taint: OnTaint,
) -> (Standing, String) {
    let named = way.name.map_or_else(String::new, |it| format!("`{it}`: "));
    let after = after(on_taint);
    let gated: Vec<&str> = way
        .declared
        .intersection(gate)
        .map(|it| it.as_str())
        .collect();
    if !gated.is_empty() {
        let mode = match mode {
            GateMode::Selective => {
                "unless the origin of its values, or its `release`, lets it through"
            }
            GateMode::Uniform => "and nothing releases it",
        };
        let why = format!(
            "{named}{} is gated after untrusted content, {mode}",
            gated.join(", ")
        );
        return (Standing::Declared, why);
    }
    let says = way
        .declared
        .iter()
        .any(|it| *it != ActionClass::ValueCarrying);
    if says {
        let classes: Vec<&str> = way.declared.iter().map(|it| it.as_str()).collect();
        let why = format!(
            "{named}{} is in no class that `[write_gate] classes` lists; {after}",
            classes.join(", ")
        );
        return (Standing::NotCovered, why);
    }
    match way.risk {
        Risk::Read => {
            let why = format!(
                "{named}it reads, and the write gate asks nothing of what only reads; {after}"
            );
            (Standing::NotCovered, why)
        }
        Risk::Destructive | Risk::Execute | Risk::Financial | Risk::Write => {
            let why = format!(
                "{named}it has the risk `{}` and says no action class, so the write gate never hears of it; {after}",
                way.risk.as_str()
            );
            (Standing::Undeclared, why)
        }
    }
}

/// What else stands before a call after untrusted content.
const fn after(on_taint: OnTaint) -> &'static str {
    match on_taint {
        OnTaint::Hold => {
            "after untrusted content a person decides on each call (`on_taint = \"hold\"`)"
        }
        OnTaint::Origins => {
            "after untrusted content the origins of its values decide (`on_taint = \"origins\"`)"
        }
        OnTaint::Pass => "after untrusted content it is called as before (`on_taint = \"pass\"`)",
        OnTaint::Refuse => "after untrusted content it is not called (`on_taint = \"refuse\"`)",
        OnTaint::TrustedSinks => {
            "after untrusted content every sink is a trusted value (`on_taint = \"trusted_sinks\"`)"
        }
    }
}

/// Of a tool whose policy was not given, or that the policy as it is now has not.
fn by_traffic(key: &ToolKey, policy_given: bool, traffic: &Traffic) -> Classed {
    let changes = traffic.risks.keys().any(|it| *it != Risk::Read);
    let says = traffic
        .classes
        .keys()
        .any(|it| *it != ActionClass::ValueCarrying);
    let (standing, what) = match (says, changes) {
        (true, _) => (
            Standing::NotCovered,
            "its calls had action classes; whether a write gate gates them the records do not say",
        ),
        (false, true) => (
            Standing::Undeclared,
            "its calls change something and had no action class",
        ),
        (false, false) => (
            Standing::NotCovered,
            "its calls only read, as far as they were judged",
        ),
    };
    let whence = if policy_given {
        "the policy as it was given has no such tool"
    } else {
        "its policy was not given (--policy)"
    };
    Classed {
        policy: key.policy.clone(),
        tool: key.tool.clone(),
        standing,
        why: vec![format!("{what}; {whence}")],
        given: false,
        declared: BTreeSet::new(),
        gated: BTreeSet::new(),
        on_taint: None,
        risks: traffic.risks.keys().copied().collect(),
        seen: traffic.classes.clone(),
    }
}
