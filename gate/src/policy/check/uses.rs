//! Which arguments the templates use.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{
    id::ArgumentName,
    policy::{Authority, OnTaint, Problem, Tool, error::Fault},
};

/// Every argument is used, and every use is of an argument; those of the path are always there,
/// and never a payload where only trusted values may choose the target.
pub(super) fn uses(tool: &Tool) -> Result<(), Fault> {
    let mut used: BTreeMap<&ArgumentName, Vec<&str>> = BTreeMap::new();
    let template = &tool.request;
    for text in &template.path {
        for name in text.arguments() {
            used.entry(name).or_insert_with(|| ["url"].into());
            let Some(argument) = tool.arguments.get(name) else {
                continue;
            };
            if argument.optional {
                return Err(Problem::OptionalInPath {
                    argument: name.clone(),
                }
                .at(&["arguments", name.as_str(), "optional"]));
            }
            let agents = argument.authority == Authority::Agent;
            if tool.on_taint == OnTaint::TrustedSinks && agents {
                return Err(Problem::PayloadInPath {
                    argument: name.clone(),
                }
                .at(&["request", "url"]));
            }
        }
    }
    for (_, text) in &template.query {
        for name in text.arguments() {
            used.entry(name).or_insert_with(|| ["url"].into());
        }
    }
    for (header, text) in &template.headers {
        for name in text.arguments() {
            used.entry(name)
                .or_insert_with(|| ["headers", header.as_str()].into());
        }
    }
    let texts = template.path.iter().map(|it| (it, "url"));
    let texts = texts.chain(template.query.iter().map(|(_, it)| (it, "url")));
    for (text, key) in texts.chain(template.headers.values().map(|it| (it, "headers"))) {
        let several = text.arguments().find(|name| {
            tool.arguments
                .get(*name)
                .is_some_and(|it| !it.kind.is_scalar())
        });
        if let Some(name) = several {
            return Err(Problem::NotScalar {
                argument: name.clone(),
            }
            .at(&["request", key]));
        }
    }
    if let Some(body) = &template.body {
        body.each_argument(&mut |name| {
            used.entry(name).or_insert_with(|| ["body"].into());
        });
    }
    for (name, key) in &used {
        if !tool.arguments.contains_key(*name) {
            return Err(Problem::UnknownArgument {
                argument: (*name).clone(),
            }
            .at(key)
            .under(&["request"]));
        }
    }
    let all = template.body.as_ref().is_some_and(|it| it.has_all());
    for name in tool.arguments.keys().filter(|_| !all) {
        if !used.contains_key(name) {
            return Err(Problem::UnusedArgument {
                argument: name.clone(),
            }
            .at(&["arguments", name.as_str()]));
        }
    }
    Ok(())
}
