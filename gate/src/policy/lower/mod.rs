//! From the shape of the file to what it says: names are looked up, texts are parsed.

mod argument;
mod request;
mod verify;

use alloc::{collections::BTreeMap, string::String};

use super::{
    Beside, Branch, Catalogue, Computed, Credential, FORMAT, Hints, Kind, OperatorText, Placement,
    Problem, ResultRules, Risk, Rules, Selector, SessionLimits, SessionRules, Tool, Total,
    WriteGate,
    error::Fault,
    file::{CatalogueTable, CredentialTable, File, HintsTable, SelectorTable, Session, ToolTable},
};
use crate::{
    floor::Floor,
    id::{CatalogueName, OwnedName, PolicyName, ValueName},
    json::Value,
    origin::Origin,
};
use argument::Known;
pub(super) use argument::{PATTERN_LENGTH, member_kind};

pub(super) fn lower(name: &PolicyName, file: File, beside: Beside<'_>) -> Result<Rules, Fault> {
    if let Some(found) = file.name.filter(|found| found != name) {
        return Err(Problem::Name { found }.at(&["name"]));
    }
    let values: BTreeMap<ValueName, Kind> = file
        .values
        .into_iter()
        .map(|(name, typed)| {
            let kind = argument::kind(typed).map_err(|it| it.under(&["values", name.as_str()]))?;
            Ok((name, kind))
        })
        .collect::<Result<_, Fault>>()?;
    let owned: BTreeMap<OwnedName, Kind> = file
        .owned
        .into_iter()
        .map(|(name, typed)| {
            let kind = argument::kind(typed).map_err(|it| it.under(&["owned", name.as_str()]))?;
            Ok((name, kind))
        })
        .collect::<Result<_, Fault>>()?;
    let catalogues: BTreeMap<CatalogueName, Catalogue> = file
        .catalogues
        .into_iter()
        .map(|(name, table)| {
            let catalogue =
                catalogue(table).map_err(|it| it.under(&["catalogues", name.as_str()]))?;
            Ok((name, catalogue))
        })
        .collect::<Result<_, Fault>>()?;
    let known = Known {
        catalogues: &catalogues,
        owned: &owned,
        values: &values,
    };
    let credentials = file
        .credentials
        .into_iter()
        .map(|(label, table)| {
            let credential =
                credential(table).map_err(|it| it.under(&["credentials", label.as_str()]))?;
            Ok((label, credential))
        })
        .collect::<Result<_, Fault>>()?;
    let tools = file
        .tools
        .into_iter()
        .map(|(name, table)| {
            let tool = tool(table, known).map_err(|it| it.under(&["tools", name.as_str()]))?;
            Ok((name, tool))
        })
        .collect::<Result<_, Fault>>()?;
    let operator = file
        .rules
        .map(|it| operator(it.cedar, beside))
        .transpose()
        .map_err(|it| it.under(&["rules", "cedar"]))?;
    Ok(Rules {
        confirm: file.confirm.into(),
        credentials,
        domains: file
            .own
            .domains
            .into_iter()
            .map(|it| it.to_ascii_lowercase())
            .collect(),
        format: FORMAT,
        handoff: file.handoff.resource,
        name: name.clone(),
        operator,
        owned,
        session: session(file.session)?,
        tools,
        write_gate: WriteGate {
            answer: file.write_gate.answer,
            classes: file.write_gate.classes,
            mode: file.write_gate.mode,
        },
        catalogues,
        values,
    })
}

fn operator(file: String, beside: Beside<'_>) -> Result<OperatorText, Fault> {
    // Before anything of that name is read.
    let problem = OperatorText::name_problem(&file);
    if let Some(problem) = problem {
        return Err(problem.at(&[]));
    }
    match beside(&file) {
        Ok(text) => Ok(OperatorText { file, text }),
        Err(why) => Err(Problem::RulesUnread { file, why }.at(&[])),
    }
}

fn catalogue(table: CatalogueTable) -> Result<Catalogue, Fault> {
    match (table.members, table.entries) {
        (Some(members), None) => {
            let mut entries = BTreeMap::new();
            for member in members {
                if entries.insert(member.clone(), member.clone()).is_some() {
                    return Err(Problem::Twice { what: member }.at(&["members"]));
                }
            }
            Ok(Catalogue(entries))
        }
        (None, Some(entries)) => Ok(Catalogue(entries)),
        (Some(_), Some(_)) | (None, None) => Err(Problem::Missing {
            key: "members",
            what: "write `members = [...]`, or `entries = { name = \"value\" }`, and not both",
        }
        .at(&[])),
    }
}

fn session(table: Session) -> Result<SessionRules, Fault> {
    if table.network != "sealed" {
        return Err(Problem::NotInThisVersion {
            word: table.network,
            instead: "\"sealed\"",
        }
        .at(&["session", "network"]));
    }
    Ok(SessionRules {
        boundary: table.boundary,
        provenance_bytes: u64::from(table.provenance_mb) * 1_000_000,
        hold_seconds: table.hold_seconds,
        turn_seconds: table.turn_seconds,
        limits: SessionLimits {
            memory_mb: table.limits.memory_mb,
            open_files: table.limits.open_files,
            processes: table.limits.processes,
        },
        profile: table.profile,
        read_only: table.mounts.read_only,
        workspace: table.workspace,
    })
}

fn credential(table: CredentialTable) -> Result<Credential, Fault> {
    let origins = table
        .floor
        .origins
        .iter()
        .map(|it| Origin::parse(it).map_err(|why| Problem::Origin(why).at(&["floor", "origins"])))
        .collect::<Result<_, _>>()?;
    Ok(Credential {
        connector: table.connector,
        floor: Floor {
            addresses: table.floor.addresses,
            methods: table.floor.methods,
            origins,
            paths: table.floor.paths,
        },
        placement: Placement {
            header: table.placement.header.to_ascii_lowercase(),
            prefix: table.placement.prefix,
        },
        tenants: table.tenants,
    })
}

fn tool(table: ToolTable, known: Known<'_>) -> Result<Tool, Fault> {
    let arguments = table
        .arguments
        .into_iter()
        .map(|(name, table)| {
            let argument = argument::argument(table, known)
                .map_err(|it| it.under(&["arguments", name.as_str()]))?;
            Ok((name, argument))
        })
        .collect::<Result<_, Fault>>()?;
    let sums = table
        .total
        .sums
        .into_iter()
        .map(|(name, most)| match most {
            Value::Int(n) => Ok((name, n.as_f64())),
            Value::Real(x) => Ok((name, x.get())),
            Value::Bool(_) | Value::List(_) | Value::Null | Value::Object(_) | Value::Text(_) => {
                Err(Problem::Bounds {
                    why: "a number is needed",
                }
                .at(&["total", "sums", name.as_str()]))
            }
        })
        .collect::<Result<_, Fault>>()?;
    Ok(Tool {
        arguments,
        asked_by: table
            .asked_by
            .into_iter()
            .map(|group| group.iter().map(|it| it.to_lowercase()).collect())
            .collect(),
        boundary: table.boundary,
        classes: table.action_classes,
        commit: table.commit,
        computed: Computed {
            bulk: table.computed.bulk,
            external: table.computed.external,
        },
        confirm: table.confirm,
        credential: table.credential,
        description: table.description,
        hints: hints(&table.hints, table.risk, table.idempotent),
        idempotency_key: table.idempotency_key,
        idempotent: table.idempotent,
        meaning: table.meaning,
        on_taint: table.on_taint,
        precondition: table
            .precondition
            .map(verify::precondition)
            .transpose()
            .map_err(|it| it.under(&["precondition"]))?,
        rate: table.rate,
        recipients: table.recipients,
        release: table.release,
        request: request::request(table.request).map_err(|it| it.under(&["request"]))?,
        result: ResultRules {
            fields: table.result.fields,
            handoff: table.result.handoff,
            label: table.result.label,
            records: table.result.records,
            redact: table.result.redact,
        },
        risk: table.risk,
        roles: table.roles,
        selector: table.selector.map(selector),
        total: Total {
            calls: table.total.calls,
            sums,
        },
        verify: table
            .verify
            .map(verify::verify)
            .transpose()
            .map_err(|it| it.under(&["verify"]))?,
    })
}

fn selector(table: SelectorTable) -> Selector {
    Selector {
        argument: table.argument,
        cases: table
            .cases
            .into_iter()
            .map(|(value, branch)| {
                let branch = Branch {
                    arguments: branch.arguments,
                    classes: branch.action_classes,
                    risk: branch.risk,
                };
                (value, branch)
            })
            .collect(),
    }
}

/// What the policy says, or what follows from risk and idempotence.
fn hints(table: &HintsTable, risk: Risk, idempotent: bool) -> Hints {
    let destructive = match risk {
        Risk::Destructive | Risk::Execute | Risk::Financial => true,
        Risk::Read | Risk::Write => false,
    };
    Hints {
        destructive: table.destructive.unwrap_or(destructive),
        idempotent: table.idempotent.unwrap_or(idempotent),
        read_only: table.read_only.unwrap_or(risk == Risk::Read),
    }
}
