//! A selector's branches: each value of its argument has one, and each says every argument it takes.

use crate::policy::{Argument, Authority, Kind, Problem, Tool, error::Fault};

pub(super) fn selector(tool: &Tool) -> Result<(), Fault> {
    let Some(selector) = &tool.selector else {
        return Ok(());
    };
    let name = &selector.argument;
    let Some(Argument {
        authority: Authority::Agent,
        kind: Kind::Enum { one_of: values },
        optional: false,
        ..
    }) = tool.arguments.get(name)
    else {
        return Err(Problem::Selector.at(&["selector", "argument"]));
    };
    if let Some(value) = values.iter().find(|it| !selector.cases.contains_key(*it)) {
        return Err(Problem::SelectorMissing {
            value: value.clone(),
        }
        .at(&["selector", "cases"]));
    }
    for (value, branch) in &selector.cases {
        let key = ["selector", "cases", value.as_str()];
        if !values.contains(value) {
            return Err(Problem::SelectorUnknown {
                value: value.clone(),
            }
            .at(&key));
        }
        let key = ["selector", "cases", value.as_str(), "arguments"];
        if let Some(argument) = branch
            .arguments
            .iter()
            .find(|it| !tool.arguments.contains_key(*it))
        {
            return Err(Problem::UnknownArgument {
                argument: argument.clone(),
            }
            .at(&key));
        }
        // The request's path has no meaning without what stands in it.
        let path = tool.request.path.iter().flat_map(|it| it.arguments());
        if let Some(argument) = path
            .chain([name])
            .find(|it| !branch.arguments.contains(*it))
        {
            return Err(Problem::BranchWithout {
                argument: argument.clone(),
            }
            .at(&key));
        }
    }
    let unused = tool.arguments.keys().find(|name| {
        !selector
            .cases
            .values()
            .any(|it| it.arguments.contains(*name))
    });
    match unused {
        Some(argument) => Err(Problem::BranchNone {
            argument: argument.clone(),
        }
        .at(&["arguments", argument.as_str()])),
        None => Ok(()),
    }
}
