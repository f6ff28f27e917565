//! What a rule may speak of, for each tool: a Cedar schema, made of the compiled policy.
//!
//! Each tool has a schema of its own, since the type of `context.args` is its arguments'. Names that a policy
//! has (tools, origins, classes, risks) are entities of a closed list, so that a misspelt one is an error
//! when the rules are loaded.

use gate::{
    id::ToolName,
    policy::{ActionClass, Boundary, Kind, OriginClass, Policy, Risk, Tool},
};

/// Asked of every call: who forbids it refuses.
pub(crate) const CALL: &str = "call";

/// Asked of a call that no person has approved: who forbids it holds.
pub(crate) const UNATTENDED: &str = "call_unattended";

/// What Cedar calls the kind of a question.
pub(crate) const ACTION: &str = "Action";

/// Who asked for the session: its id is the uid.
pub(crate) const CALLER: &str = "Caller";

/// A role of the session.
pub(crate) const ROLE: &str = "Role";

/// A tool of the policy.
pub(crate) const TOOL: &str = "Tool";

/// Where a value comes from.
pub(crate) const ORIGIN: &str = "Origin";

/// What a call does to the world.
pub(crate) const CLASS: &str = "Class";

/// What is at stake.
pub(crate) const RISK: &str = "Risk";

/// How far a subject's data reach.
pub(crate) const BOUNDARY: &str = "Boundary";

/// The schema of the calls of `tool`, in Cedar's own words.
pub(crate) fn of(policy: &Policy, tool: &Tool) -> String {
    let mut out = format!("entity {ROLE};\nentity {CALLER} in [{ROLE}];\n");
    let tools = policy.tools().keys().map(ToolName::as_str);
    closed(&mut out, TOOL, tools);
    closed(&mut out, ORIGIN, OriginClass::ALL.map(OriginClass::as_str));
    closed(&mut out, CLASS, ActionClass::ALL.map(ActionClass::as_str));
    closed(&mut out, RISK, Risk::ALL.map(Risk::as_str));
    closed(&mut out, BOUNDARY, Boundary::ALL.map(Boundary::as_str));
    out.push_str(&format!(
        "action \"{CALL}\", \"{UNATTENDED}\" appliesTo {{\n  principal: {CALLER},\n  resource: {TOOL},\n  \
         context: {{\n"
    ));
    let amounts = sums(tool);
    out.push_str(&format!(
        "    \"after\": {{ \"calls\": Long, \"day\": {{ \"calls\": Long, \"sums\": {{ {amounts}}} }}, \
         \"sums\": {{ {amounts}}} }},\n    \"args\": {{\n"
    ));
    for (name, argument) in &tool.arguments {
        // What not every call carries is looked for before it is looked at.
        let always = !argument.optional
            && tool
                .selector
                .as_ref()
                .is_none_or(|it| it.cases.values().all(|it| it.arguments.contains(name)));
        let count = match argument.kind {
            Kind::List { .. } => "\"count\": Long, ",
            Kind::Boolean
            | Kind::Email { .. }
            | Kind::Enum { .. }
            | Kind::Integer { .. }
            | Kind::Number { .. }
            | Kind::Object { .. }
            | Kind::String { .. } => "",
        };
        out.push_str(&format!(
            "      \"{name}\"{}: {{ {count}\"origin\": {ORIGIN}, \"value\": {} }},\n",
            if always { "" } else { "?" },
            kind(&argument.kind)
        ));
    }
    out.push_str(&format!(
        "    }},\n    \"call\": {{ \"branch\"?: String, \"classes\": Set<{CLASS}>, \"credential\": String, \
         \"risk\": {RISK} }},\n    \"history\": {{\n"
    ));
    for (name, tool) in policy.tools() {
        let sums = sums(tool);
        out.push_str(&format!(
            "      \"{name}\": {{ \"approved\": Long, \"calls\": Long, \"sums\": {{ {sums}}}, \"day\": {{ \
             \"calls\": Long, \"sums\": {{ {sums}}} }} }},\n"
        ));
    }
    out.push_str(&format!(
        "    }},\n    \"session\": {{ \"boundary\": {BOUNDARY}, \"handoff\": Bool, \"scoped\": Bool, \
         \"tainted\": Bool, \"tainted_by\": Set<{TOOL}>, \"workspace\": Bool }},\n  }},\n}};\n"
    ));
    out
}

/// The members of a record with a sum for each amount.
fn sums(tool: &Tool) -> String {
    let amounts = tool.arguments.iter().filter(|(_, it)| it.kind.is_amount());
    amounts
        .map(|(name, it)| format!("\"{name}\": {}, ", kind(&it.kind)))
        .collect()
}

fn closed<'a>(out: &mut String, name: &str, words: impl IntoIterator<Item = &'a str>) {
    let words: Vec<String> = words.into_iter().map(|it| format!("\"{it}\"")).collect();
    out.push_str(&format!("entity {name} enum [{}];\n", words.join(", ")));
}

/// The Cedar type of a value. A list is a set there: which items it has, not in which order.
fn kind(it: &Kind) -> String {
    match it {
        Kind::Boolean => "Bool".into(),
        Kind::Email { .. } | Kind::Enum { .. } | Kind::String { .. } => "String".into(),
        Kind::Integer { .. } => "Long".into(),
        Kind::Number { .. } => "decimal".into(),
        Kind::List { items, .. } => format!("Set<{}>", kind(items)),
        Kind::Object { members } => {
            let members: Vec<String> = members
                .iter()
                .map(|(name, it)| {
                    let optional = if it.optional { "?" } else { "" };
                    format!("\"{name}\"{optional}: {}", kind(&it.kind))
                })
                .collect();
            format!("{{ {} }}", members.join(", "))
        }
    }
}
