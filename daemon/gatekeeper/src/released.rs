//! What of a result reaches the agent.

use gate::{
    id::ToolName,
    json::{self, Limits, Value},
    policy::Policy,
    session::Handoff,
};

/// A result as it may reach the agent.
#[derive(Debug)]
pub(crate) struct Released {
    pub(crate) bytes: Vec<u8>,
    pub(crate) json: bool,
    pub(crate) value: Value,
}

/// Why a result is withheld.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Withheld {
    #[error("it is no handoff: {why}")]
    Handoff { why: String },
    #[error("the policy limits it, and it is no JSON")]
    NoJson,
}

/// What of a result reaches the agent. What the policy limits is read before it is let through.
pub(crate) fn released(
    policy: &Policy,
    tool: &ToolName,
    bytes: Vec<u8>,
) -> Result<Released, Withheld> {
    let parsed = json::parse(&bytes, &Limits::RESULT).ok();
    let rules = policy.tools().get(tool).map(|it| &it.result);
    if rules.is_some_and(|it| it.handoff) {
        let handoff = |why| Withheld::Handoff { why };
        let value = parsed
            .as_ref()
            .ok_or_else(|| handoff("it is no JSON".into()))?;
        Handoff::read(value, policy.handoff_resource())
            .map_err(|error| handoff(error.to_string()))?;
    }
    match (parsed, rules.filter(|it| !it.is_whole())) {
        (Some(mut value), Some(rules)) => {
            let taken = rules.limit(&mut value);
            tracing::info!(
                tool = %tool,
                records = taken.records,
                values = taken.values,
                "limited"
            );
            Ok(Released {
                bytes: json::canonical(&value),
                json: true,
                value,
            })
        }
        (None, Some(_)) => Err(Withheld::NoJson),
        (Some(value), None) => Ok(Released {
            bytes,
            json: true,
            value,
        }),
        (None, None) => Ok(Released {
            value: Value::Text(String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}")),
            bytes,
            json: false,
        }),
    }
}
