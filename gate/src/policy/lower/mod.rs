//! From the shape of the file to what it says: names are looked up, texts are parsed.

mod argument;
mod request;

use alloc::collections::BTreeMap;

use super::{
    FORMAT, Kind, Problem, Rules,
    error::Fault,
    file::{CredentialTable, File, HintsTable, Session, ToolTable},
    rules::{Credential, Hints, Placement, Risk, SessionLimits, SessionRules, Tool},
};
use crate::{
    floor::Floor,
    id::{OwnedName, PolicyName, ValueName},
    origin::Origin,
};

pub(super) fn lower(name: &PolicyName, file: File) -> Result<Rules, Fault> {
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
            let tool =
                tool(table, &values, &owned).map_err(|it| it.under(&["tools", name.as_str()]))?;
            Ok((name, tool))
        })
        .collect::<Result<_, Fault>>()?;
    Ok(Rules {
        credentials,
        format: FORMAT,
        name: name.clone(),
        owned,
        session: session(file.session)?,
        tools,
        values,
    })
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
    })
}

fn tool(
    table: ToolTable,
    values: &BTreeMap<ValueName, Kind>,
    owned: &BTreeMap<OwnedName, Kind>,
) -> Result<Tool, Fault> {
    let arguments = table
        .arguments
        .into_iter()
        .map(|(name, table)| {
            let argument = argument::argument(table, values, owned)
                .map_err(|it| it.under(&["arguments", name.as_str()]))?;
            Ok((name, argument))
        })
        .collect::<Result<_, Fault>>()?;
    Ok(Tool {
        arguments,
        credential: table.credential,
        description: table.description,
        hints: hints(&table.hints, table.risk, table.idempotent),
        idempotent: table.idempotent,
        on_taint: table.on_taint,
        request: request::request(table.request).map_err(|it| it.under(&["request"]))?,
        result: table.result,
        risk: table.risk,
    })
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
