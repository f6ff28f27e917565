//! From what the scan says of a tool to a policy of the gate's, and the gate's decision on a call.

use std::{collections::BTreeMap, error::Error, fmt::Write as _};

use custody_scan::infer::Authority;
use gate::{
    decide::{Ask, Verdict, decide},
    id::{PolicyName, ValueName},
    policy::Policy,
    session::{Facts, Opening},
};

use super::case::{Call, Case, Param};

/// The tool as it stands, every locked argument verified against what the application says, in a session that is
/// tainted from its start.
const HEAD: &str = r#"
format = 1
name = "corpus"

[confirm]
risks = ["destructive", "execute", "financial"]

[credentials.service]
connector = "http"

[credentials.service.floor]
origins = ["https://service.test"]
methods = ["POST"]
paths = ["/{}"]
"#;

/// The policy that `authority` makes of the case's tool.
pub(crate) fn policy(
    case: &Case,
    authority: &BTreeMap<String, Authority>,
) -> Result<Policy, Box<dyn Error>> {
    let name = &case.tool.name;
    let risk = match &*case.expected.risk {
        "read_only" => "read",
        "code_exec" => "execute",
        other => other,
    };
    let mut text = HEAD.to_owned();
    let mut arguments = String::new();
    for param in &case.tool.params {
        let locked = "locked: what the scan does not name is";
        let authority = authority.get(&param.name).copied();
        let argument = &param.name;
        let kind = kind(param)?;
        match authority.unwrap_or(Authority::Locked) {
            Authority::Locked => {
                write!(text, "\n# {locked}\n[values.{argument}]\n{kind}")?;
                write!(
                    arguments,
                    "\n[tools.{name}.arguments.{argument}]\nauthority = \"verified\"\nvalue = {argument:?}\n"
                )?;
            }
            Authority::Bounded => write!(
                arguments,
                "\n[tools.{name}.arguments.{argument}]\nauthority = \"agent\"\nrole = \"typed\"\n{kind}"
            )?,
            Authority::Payload => write!(
                arguments,
                "\n[tools.{name}.arguments.{argument}]\nauthority = \"payload\"\n{kind}"
            )?,
        }
        if !param.required {
            arguments.push_str("optional = true\n");
        }
    }
    write!(
        text,
        "\n[tools.{name}]\ndescription = \"A tool of the corpus.\"\ncredential = \"service\"\nrisk = {risk:?}\n\
         on_taint = \"trusted_sinks\"\nresult = \"untrusted\"\n\
         request = {{ method = \"POST\", url = \"https://service.test/{name}\", body = \"{{*}}\" }}\n{arguments}"
    )?;
    Ok(Policy::compile(&PolicyName::parse("corpus")?, &text)?)
}

/// An argument's type and bounds, as a policy writes them.
fn kind(param: &Param) -> Result<String, Box<dyn Error>> {
    let mut text = match &*param.kind {
        // A policy knows no links: what a link may be, the floor says.
        "uri" => "type = \"string\"\n".to_owned(),
        "enum" => format!(
            "type = \"enum\"\none_of = {:?}\n",
            param.one_of.as_deref().unwrap_or_default()
        ),
        kind => format!("type = {kind:?}\n"),
    };
    if matches!(&*param.kind, "string" | "uri") {
        writeln!(text, "max_length = {}", param.max_len.unwrap_or(4_000))?;
    }
    if let Some(cap) = param.cap {
        writeln!(text, "max = {cap}")?;
    }
    Ok(text)
}

/// What the gate says to a call: `allow`, `confirm` or `block`.
pub(crate) fn decision(policy: &Policy, call: &Call) -> Result<&'static str, Box<dyn Error>> {
    let mut values = BTreeMap::new();
    for (name, value) in &call.trusted_args {
        let name = ValueName::parse(name)?;
        // A value that no argument asks for is none of the policy's.
        if policy.values().contains_key(&name) {
            let text = value.as_str().map(str::to_owned);
            values.insert(name, text.unwrap_or_else(|| value.to_string()));
        }
    }
    let opening = Opening {
        values,
        workspace: true,
        ..Opening::default()
    };
    let facts = Facts::open(policy, opening)?;
    let tool = policy.tools().keys().next().ok_or("no tool")?;
    let ask = Ask::new(tool.as_str(), &call.input);
    Ok(match decide(policy, &facts, &ask) {
        Verdict::Allow(_) | Verdict::Limit(_) => "allow",
        Verdict::Defer(_) | Verdict::Hold(_) => "confirm",
        Verdict::Refuse(_) => "block",
    })
}
