//! The request's template.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use crate::{
    floor,
    json::Value,
    origin::Origin,
    policy::{Problem, error::Fault, file::RequestTable},
    request::Template,
    template::{Body, Text},
};

pub(super) fn request(table: RequestTable) -> Result<Template, Fault> {
    let url = url(&table.url).map_err(|problem| problem.at(&["url"]))?;
    let mut headers = BTreeMap::new();
    for (name, text) in table.headers {
        let lower = name.to_ascii_lowercase();
        let text = Text::parse(&text)
            .map_err(|why| Problem::Template(why).at(&["headers", name.as_str()]))?;
        if headers.insert(lower.clone(), text).is_some() {
            return Err(Problem::Twice { what: lower }.at(&["headers", name.as_str()]));
        }
    }
    if table.body.as_ref().is_some_and(has_date) {
        return Err(Problem::Date.at(&["body"]));
    }
    let body = table
        .body
        .map(Body::parse)
        .transpose()
        .map_err(|why| Problem::Template(why).at(&["body"]))?;
    Ok(Template {
        answer_max_bytes: table.answer_max_bytes,
        body,
        headers,
        method: table.method,
        origin: url.origin,
        path: url.path,
        query: url.query,
        stream: table.stream,
        timeout_ms: table.timeout_ms,
    })
}

/// Whether a TOML date is in `body`: the `toml` crate hands it over as a table with this key.
pub(super) fn has_date(body: &Value) -> bool {
    match body {
        Value::List(items) => items.iter().any(has_date),
        Value::Object(members) => members
            .iter()
            .any(|(key, member)| key == "$__toml_private_datetime" || has_date(member)),
        Value::Bool(_) | Value::Int(_) | Value::Null | Value::Real(_) | Value::Text(_) => false,
    }
}

struct Url {
    origin: Origin,
    path: Vec<Text>,
    query: Vec<(String, Text)>,
}

fn url(text: &str) -> Result<Url, Problem> {
    let not_one = || Problem::Url { text: text.into() };
    let (scheme, rest) = text.split_once("://").ok_or_else(not_one)?;
    // `{` and `}` cannot be in a path's way here: an argument's name has no `/` and no `?`.
    let (host, path_and_query) = match rest.split_once('/') {
        Some((host, behind)) => (host, behind),
        None => return Err(not_one()),
    };
    if scheme.contains('{') || host.contains('{') {
        return Err(Problem::HostArgument { text: text.into() });
    }
    let origin = Origin::parse(&alloc::format!("{scheme}://{host}")).map_err(Problem::Origin)?;
    let (path, query) = match path_and_query.split_once('?') {
        None => (path_and_query, None),
        Some((path, query)) => (path, Some(query)),
    };
    let path = floor::segments(&alloc::format!("/{path}"))
        .map_err(Problem::Path)?
        .map(|segment| Text::parse(segment).map_err(Problem::Template))
        .collect::<Result<_, _>>()?;
    let query = match query {
        None => Vec::new(),
        Some(query) => query
            .split('&')
            .map(|pair| {
                let (name, value) = pair
                    .split_once('=')
                    .ok_or_else(|| Problem::Query { text: pair.into() })?;
                Ok((name.into(), Text::parse(value).map_err(Problem::Template)?))
            })
            .collect::<Result<_, Problem>>()?,
    };
    Ok(Url {
        origin,
        path,
        query,
    })
}
