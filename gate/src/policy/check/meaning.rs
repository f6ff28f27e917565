//! What a policy says of a tool's meaning speaks of what it has.

use super::{description, range};
use crate::policy::{Kind, Problem, Rules, Tool, error::Fault};

/// A week: longer, and a word is no longer fresh.
const WINDOW_MAX: u32 = 7 * 24 * 60 * 60;

pub(super) fn meaning(policy: &Rules, tool: &Tool) -> Result<(), Fault> {
    let Some(rules) = &tool.meaning else {
        return Ok(());
    };
    description(&rules.effect).map_err(|it| it.at(&["effect"]))?;
    if rules.effect.trim().is_empty() || rules.effect.contains(char::is_control) {
        return Err(Problem::Missing {
            key: "effect",
            what: "say in a line what a call brings about",
        }
        .at(&["effect"]));
    }
    for (key, argument) in [
        ("resource", &rules.resource),
        ("tenant_argument", &rules.tenant_argument),
    ] {
        if let Some(argument) = argument
            && !tool.arguments.contains_key(argument)
        {
            return Err(Problem::UnknownArgument {
                argument: argument.clone(),
            }
            .at(&[key]));
        }
    }
    let text = |name| {
        tool.arguments.get(name).is_some_and(|it| match it.kind {
            Kind::Enum { .. } | Kind::String { .. } => true,
            Kind::Boolean
            | Kind::Email { .. }
            | Kind::Integer { .. }
            | Kind::List { .. }
            | Kind::Number { .. }
            | Kind::Object { .. } => false,
        })
    };
    if let Some(name) = &rules.tenant_argument
        && !text(name)
    {
        return Err(Problem::Bounds {
            why: "a tenant is named by a string or an enum",
        }
        .at(&["tenant_argument"]));
    }
    match (&rules.held_by, &rules.resource) {
        (Some(_), None) => {
            return Err(Problem::Missing {
                key: "resource",
                what: "name the argument whose value is to be of that set",
            }
            .at(&[]));
        }
        (Some(set), Some(_)) if !policy.owned.contains_key(set) => {
            return Err(Problem::UnknownOwned { set: set.clone() }.at(&["held_by"]));
        }
        (Some(_) | None, _) => {}
    }
    match rules.window_seconds {
        Some(seconds) => range(seconds, 1, WINDOW_MAX, &["window_seconds"]),
        None => Ok(()),
    }
}
