//! Reads what is stated, and holds every name in it against the exports.

use std::collections::{BTreeMap, BTreeSet};

use gate::{excerpt::excerpt, json::Value, policy::Risk};

use super::{
    Acts, Bound, Case, Evidence, Exposure, Mutability, Stated, StatedArgument, StatedAuthority,
    StatedRisk, Status, Unexposed, VERSION, fields::Fields,
};
use crate::{
    infer::Tier,
    input::{At, Fault, Tool, member},
    pointer,
    schema::{Argument, Schema},
};

/// The most tools, arguments, bounds and cases that are stated in one file.
pub const MEMBERS: usize = 2_000;

const EVIDENCE: [(&str, Evidence); 3] = [
    ("attested", Evidence::Attested),
    ("declared", Evidence::Declared),
    ("observed", Evidence::Observed),
];

/// Verb Authority, whose files of version 1 are read too, calls two of them otherwise.
const TIERS: [(&str, Tier); 8] = [
    ("code_exec", Tier::Known(Risk::Execute)),
    ("destructive", Tier::Known(Risk::Destructive)),
    ("execute", Tier::Known(Risk::Execute)),
    ("financial", Tier::Known(Risk::Financial)),
    ("read", Tier::Known(Risk::Read)),
    ("read_only", Tier::Known(Risk::Read)),
    ("unknown", Tier::Unknown),
    ("write", Tier::Known(Risk::Write)),
];

/// A tool that an export has, and what it takes.
pub(super) type Known<'a> = (&'a Tool, &'a Schema);

pub(super) fn tools(value: &Value, known: &[Known<'_>]) -> Result<BTreeMap<String, Stated>, At> {
    let top = Fields::of(value, "", &["attribution", "tools", "version"])?;
    if let Some(value) = top.get("attribution") {
        let at = top.at("attribution");
        let by = Fields::of(value, &at, &["name", "source"])?;
        by.text("name")?;
        by.text("source")?;
    }
    if *top.must("version")? != version() {
        return Err((top.at("version"), Fault::Version { known: VERSION }));
    }
    let at = top.at("tools");
    let mut left = Left(MEMBERS);
    let mut stated = BTreeMap::new();
    for (name, value) in member::object(top.must("tools")?, &at)? {
        let at = pointer::join(&at, name);
        left.spend(&at)?;
        let mut of_name = known.iter().filter(|(tool, _)| tool.name == *name);
        let schema = match (of_name.next(), of_name.next()) {
            (Some((_, schema)), None) => schema,
            (Some(_), Some(_)) => {
                let name = excerpt(name);
                return Err((at, Fault::SameName { name }));
            }
            (None, _) => return Err((at, nowhere(name, "tool"))),
        };
        stated.insert(name.clone(), tool(value, &at, schema, &mut left)?);
    }
    Ok(stated)
}

fn version() -> Value {
    Value::try_from(VERSION).unwrap_or(Value::Null)
}

fn tool(value: &Value, at: &str, schema: &Schema, left: &mut Left) -> Result<Stated, At> {
    let keys = ["arguments", "branches", "risk", "unexposed_arguments"];
    let fields = Fields::of(value, at, &keys)?;
    let acts = match (fields.get("risk"), fields.get("branches")) {
        (Some(_), Some(_)) => {
            let fault = Fault::Ambiguous {
                first: "`risk`".into(),
                second: "`branches`".into(),
            };
            return Err((at.to_owned(), fault));
        }
        (Some(value), None) => {
            let at = fields.at("risk");
            Acts::Risk(risk(&Fields::of(value, &at, &RISK)?)?)
        }
        (None, Some(value)) => branches(value, &fields.at("branches"), schema, left)?,
        (None, None) => Acts::NotStated,
    };
    Ok(Stated {
        acts,
        arguments: arguments(&fields, schema, left)?,
        unexposed: unexposed(&fields, schema, left)?,
    })
}

const RISK: [&str; 4] = ["effects", "evidence", "note", "tier"];

fn risk(fields: &Fields<'_>) -> Result<StatedRisk, At> {
    Ok(StatedRisk {
        tier: fields.word("tier", &TIERS)?,
        evidence: fields.word("evidence", &EVIDENCE)?,
        effects: fields.texts("effects")?,
        note: fields.text_if("note")?,
    })
}

/// Each value of the selector has exactly one case.
fn branches(value: &Value, at: &str, schema: &Schema, left: &mut Left) -> Result<Acts, At> {
    let fields = Fields::of(value, at, &["cases", "selector"])?;
    let selector = path(&fields.text("selector")?);
    let argument = find(schema, &selector)
        .ok_or_else(|| (fields.at("selector"), nowhere(&selector, "argument")))?;
    let choice = argument.choice.as_ref();
    let mut open: BTreeSet<&str> = choice
        .into_iter()
        .flat_map(|choice| &choice.0)
        .filter_map(|value| value.as_text())
        .collect();
    let here = fields.at("cases");
    let mut cases = Vec::new();
    for (index, value) in member::list(fields.must("cases")?, &here)?
        .iter()
        .enumerate()
    {
        let at = pointer::item(&here, index);
        left.spend(&at)?;
        let case = Fields::of(
            value,
            &at,
            &["arguments", "effects", "evidence", "note", "tier", "value"],
        )?;
        let value = case.text("value")?;
        if !open.remove(value.as_str()) {
            return Err((case.at("value"), nowhere(&value, "value of the selector")));
        }
        let arguments = case.texts("arguments")?;
        for name in &arguments {
            if find(schema, &path(name)).is_none() {
                return Err((case.at("arguments"), nowhere(name, "argument")));
            }
        }
        cases.push(Case {
            value,
            risk: risk(&case)?,
            arguments,
        });
    }
    if let Some(missing) = open.first() {
        let missing = excerpt(missing);
        return Err((here, Fault::NoCase { missing }));
    }
    Ok(Acts::Branches { selector, cases })
}

fn arguments(
    fields: &Fields<'_>,
    schema: &Schema,
    left: &mut Left,
) -> Result<BTreeMap<String, StatedArgument>, At> {
    let mut stated = BTreeMap::new();
    let Some(value) = fields.get("arguments") else {
        return Ok(stated);
    };
    let here = fields.at("arguments");
    for (name, value) in member::object(value, &here)? {
        let at = pointer::join(&here, name);
        left.spend(&at)?;
        let path = path(name);
        if find(schema, &path).is_none() {
            return Err((at, nowhere(name, "argument")));
        }
        let fields = Fields::of(value, &at, &["authority", "bounds", "evidence", "note"])?;
        let authority = fields.word(
            "authority",
            &[
                ("constrained", StatedAuthority::Constrained),
                ("free", StatedAuthority::Free),
                ("locked", StatedAuthority::Locked),
            ],
        )?;
        let argument = StatedArgument {
            authority,
            evidence: match fields.get("evidence") {
                None => None,
                Some(_) => Some(fields.word("evidence", &EVIDENCE)?),
            },
            bounds: bounds(&fields, left)?,
            note: fields.text_if("note")?,
        };
        // A name and its path are the same argument.
        if stated.insert(path, argument).is_some() {
            let name = excerpt(name);
            return Err((at, Fault::SameName { name }));
        }
    }
    Ok(stated)
}

fn bounds(fields: &Fields<'_>, left: &mut Left) -> Result<Vec<Bound>, At> {
    let Some(value) = fields.get("bounds") else {
        return Ok(Vec::new());
    };
    let here = fields.at("bounds");
    let mut bounds = Vec::new();
    for (index, value) in member::list(value, &here)?.iter().enumerate() {
        let at = pointer::item(&here, index);
        left.spend(&at)?;
        let keys = [
            "bounds_mutability",
            "enforcement",
            "operational_status",
            "source",
        ];
        let bound = Fields::of(value, &at, &keys)?;
        bounds.push(Bound {
            source: bound.text("source")?,
            bounds_mutability: bound.word(
                "bounds_mutability",
                &[
                    ("caller", Mutability::Caller),
                    ("immutable", Mutability::Immutable),
                    ("trusted_party", Mutability::TrustedParty),
                ],
            )?,
            operational_status: match bound.get("operational_status") {
                None => Status::NotStated,
                Some(_) => bound.word(
                    "operational_status",
                    &[
                        ("enforced", Status::Enforced),
                        ("not_stated", Status::NotStated),
                        ("specified", Status::Specified),
                    ],
                )?,
            },
            enforcement: bound.text_if("enforcement")?,
        });
    }
    Ok(bounds)
}

fn unexposed(
    fields: &Fields<'_>,
    schema: &Schema,
    left: &mut Left,
) -> Result<BTreeMap<String, Unexposed>, At> {
    let mut stated = BTreeMap::new();
    let Some(value) = fields.get("unexposed_arguments") else {
        return Ok(stated);
    };
    let here = fields.at("unexposed_arguments");
    for (name, value) in member::object(value, &here)? {
        let at = pointer::join(&here, name);
        left.spend(&at)?;
        if find(schema, &path(name)).is_some() {
            let name = excerpt(name);
            return Err((at, Fault::Exposed { name }));
        }
        let fields = Fields::of(value, &at, &["enforced_by", "evidence", "exposure", "note"])?;
        let unexposed = Unexposed {
            exposure: fields.word("exposure", &[("server_fixed", Exposure::ServerFixed)])?,
            enforced_by: fields.text("enforced_by")?,
            evidence: fields.word("evidence", &EVIDENCE)?,
            note: fields.text_if("note")?,
        };
        stated.insert(name.clone(), unexposed);
    }
    Ok(stated)
}

/// A path as it is, a name as the path of an argument of the tool.
fn path(name: &str) -> String {
    if name.starts_with('/') {
        name.to_owned()
    } else {
        pointer::join("", name)
    }
}

fn find<'a>(schema: &'a Schema, path: &str) -> Option<&'a Argument> {
    let by_path = |argument: &Argument| argument.path.as_str().cmp(path);
    let index = schema.arguments.binary_search_by(by_path).ok()?;
    schema.arguments.get(index)
}

fn nowhere(name: &str, what: &'static str) -> Fault {
    Fault::Nowhere {
        what,
        name: excerpt(name),
    }
}

/// What may still be stated.
struct Left(usize);

impl Left {
    fn spend(&mut self, at: &str) -> Result<(), At> {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err((at.to_owned(), Fault::Members)),
        }
    }
}
