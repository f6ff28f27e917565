//! What a reader is shown: headings, sentences and tables. The words here are ours; a [`Cell::Foreign`] is an
//! agent's or a server's text, and whoever writes a page makes it inert.

use crate::{
    load::{self, share},
    report::{Report, ToolSeen},
    source::Form,
    spread::Times,
};

/// A part of a page.
pub(super) enum Block {
    Heading(&'static str),
    Sentence(String),
    Items(Vec<String>),
    Table(Vec<&'static str>, Vec<Vec<Cell>>),
}

/// A cell of a table.
pub(super) enum Cell {
    Ours(String),
    Foreign(String),
}

pub(super) fn of(report: &Report) -> Vec<Block> {
    let mut page = vec![Block::Heading("What a ledger's traffic says")];
    read(report, &mut page);
    advice(report, &mut page);
    classes(report, &mut page);
    labels(report, &mut page);
    review(report, &mut page);
    unknown(report, &mut page);
    page.push(Block::Heading("What this cannot know"));
    page.push(Block::Items(LIMITS.iter().map(|it| (*it).into()).collect()));
    page
}

/// Said in every report.
const LIMITS: [&str; 5] = [
    "Where a value came from is asked in sessions that had seen untrusted content, of tools with `on_taint = \"origins\"`; of \
     other calls the records do not say it.",
    "Whether untrusted text has a value of a result's field is known of values that a call used, not of the rest of the result; \
     which of the two came first is not recorded.",
    "A call that a reviewer approved may have been looked at or not.",
    "An export has what was asked for: what was left out of it nobody knows.",
    "Times are by the host's clock.",
];

fn read(report: &Report, page: &mut Vec<Block>) {
    let read = &report.read;
    let source = &read.source;
    let from = match source.form {
        Form::Export => "an export",
        Form::Ledger => "a ledger",
    };
    let mut said = vec![format!(
        "{} decision records of {from} were read, positions {} to {}, each signed by a key that was given.",
        source.records, source.first, source.last
    )];
    let mut more = |count: u64, what: &str| {
        if count > 0 {
            said.push(format!("{count} {what}"));
        }
    };
    more(
        source.unsigned,
        "records behind the last checkpoint are NOT SIGNED, and are not counted.",
    );
    more(
        source.torn,
        "bytes at the end are no line, which a crash leaves; they are not counted.",
    );
    more(source.withheld, "records have something withheld.");
    more(
        read.before_since,
        "records are from before the time that was asked for, and are not counted.",
    );
    more(
        read.not_counted,
        "records say nothing that could be counted: what is counted was withheld, or is of a form that this version does not know.",
    );
    more(
        read.not_followed,
        "answers, ends and results belong to calls or sessions whose beginning was not read.",
    );
    page.push(Block::Items(said));
    let policies = report.policies.iter().map(|it| {
        let given = match &it.given {
            Some(digest) => format!("given, {}", digest.get(..12).unwrap_or(digest)),
            None => "not given".into(),
        };
        ours([
            it.policy.clone(),
            given,
            it.decided_by_it.to_string(),
            it.decided_by_others.to_string(),
            it.other_versions.to_string(),
        ])
    });
    page.push(Block::Table(
        vec![
            "policy",
            "file",
            "calls decided by it",
            "by other versions",
            "other versions",
        ],
        policies.collect(),
    ));
}

fn advice(report: &Report, page: &mut Vec<Block>) {
    page.push(Block::Heading("To look at"));
    page.push(Block::Sentence(
        "Nothing here weakens a gate: each of these only tightens, or asks a person.".into(),
    ));
    if report.advice.is_empty() {
        page.push(Block::Sentence("Nothing.".into()));
        return;
    }
    let items = report
        .advice
        .iter()
        .map(|it| format!("{}: {}", it.policy, it.text));
    page.push(Block::Items(items.collect()));
}

fn classes(report: &Report, page: &mut Vec<Block>) {
    page.push(Block::Heading("Action classes"));
    page.push(Block::Sentence(
        "What after untrusted content can stop a call by what it does to the world.".into(),
    ));
    let rows = report.tools.iter().map(|it| {
        let classes: Vec<&str> = it.classed.declared.iter().map(|it| it.as_str()).collect();
        ours([
            format!("{} {}", it.classed.policy, it.classed.tool),
            it.classed.standing.as_str().into(),
            dash(classes.join(", ")),
            it.calls.decided.to_string(),
            it.tainted.to_string(),
        ])
    });
    page.push(Block::Table(
        vec![
            "tool",
            "write gate",
            "classes",
            "calls",
            "after untrusted content",
        ],
        rows.collect(),
    ));
    for tool in &report.tools {
        page.push(Block::Items(shown(tool)));
    }
}

/// One tool in sentences.
fn shown(tool: &ToolSeen) -> Vec<String> {
    let name = format!("{} {}", tool.classed.policy, tool.classed.tool);
    let mut said: Vec<String> = tool
        .classed
        .why
        .iter()
        .map(|why| format!("{name}: {why}."))
        .collect();
    if !tool.classed.seen.is_empty() {
        let seen = tool.classed.seen.iter();
        let seen: Vec<String> = seen
            .map(|(class, n)| format!("{} {n}", class.as_str()))
            .collect();
        said.push(format!("{name}: its calls were of {}.", seen.join(", ")));
    }
    if !tool.tainted_by.is_empty() {
        let by = tool.tainted_by.iter();
        let by: Vec<String> = by.map(|(what, n)| format!("{what} {n}")).collect();
        said.push(format!(
            "{name}: untrusted content had come by {}.",
            by.join(", ")
        ));
    }
    for (argument, it) in &tool.arguments {
        let authority: Vec<&str> = it.authority.iter().copied().collect();
        let roles: Vec<&str> = it.roles.iter().map(|it| it.as_str()).collect();
        let mut line = format!(
            "{name}: argument `{argument}` ({}, {}) in {} calls",
            authority.join(" or "),
            roles.join(" or "),
            it.calls
        );
        if !it.origins.is_empty() {
            let origins = it.origins.iter();
            let origins: Vec<String> = origins
                .map(|(from, n)| format!("{} {n}", from.as_str()))
                .collect();
            line.push_str(&format!("; values from {}", origins.join(", ")));
        }
        if it.in_untrusted > 0 {
            line.push_str(&format!(
                "; untrusted text had {} of them too",
                it.in_untrusted
            ));
        }
        said.push(format!("{line}."));
    }
    said
}

fn labels(report: &Report, page: &mut Vec<Block>) {
    page.push(Block::Heading("Result labels"));
    if report.repeated_fields.is_empty() {
        page.push(Block::Sentence(
            "No value of a field that a policy vouches for was seen in untrusted text, of the values that calls used.".into(),
        ));
    } else {
        page.push(Block::Sentence(
            "Values of these fields, which a policy vouches for, stood in untrusted text too."
                .into(),
        ));
        let rows = report.repeated_fields.iter().map(|it| {
            let label = it.label.map_or("policy not given", |it| match it {
                gate::policy::FieldLabel::Authoritative => "authoritative",
                gate::policy::FieldLabel::System => "system",
                gate::policy::FieldLabel::Untrusted => "untrusted",
            });
            let list = |of: &std::collections::BTreeMap<String, u64>| {
                let all: Vec<String> = of.iter().map(|(what, n)| format!("{what} ({n})")).collect();
                all.join(", ")
            };
            vec![
                Cell::Ours(format!("{} {}", it.policy, it.tool)),
                Cell::Foreign(it.field.clone()),
                Cell::Ours(label.into()),
                Cell::Ours(it.values.to_string()),
                Cell::Ours(list(&it.used_by)),
                Cell::Foreign(list(&it.also_in)),
            ]
        });
        page.push(Block::Table(
            vec![
                "tool",
                "field",
                "label",
                "values",
                "used by",
                "untrusted text in",
            ],
            rows.collect(),
        ));
    }
    if !report.unlabelled_results.is_empty() {
        page.push(Block::Sentence(
            "Of the results of these tools the policy says nothing; they are taken for anyone's words.".into(),
        ));
        let rows = report
            .unlabelled_results
            .iter()
            .map(|it| ours([format!("{} {}", it.policy, it.tool), it.results.to_string()]));
        page.push(Block::Table(vec!["tool", "results"], rows.collect()));
    }
}

fn review(report: &Report, page: &mut Vec<Block>) {
    page.push(Block::Heading("Review load"));
    let heads = vec![
        "of",
        "decided",
        "held",
        "share",
        "approved",
        "refused by a reviewer",
        "not answered in time",
        "ended otherwise",
        "open",
        "median wait",
        "95 % waited at most",
        "refused by the gate",
    ];
    let mut rows = vec![load_row("all tools".into(), &report.review.all, true)];
    for tool in report.tools.iter().filter(|it| it.calls.decided > 0) {
        let name = format!("{} {}", tool.classed.policy, tool.classed.tool);
        rows.push(load_row(name, &tool.calls, true));
    }
    page.push(Block::Table(heads.clone(), rows));
    page.push(Block::Sentence(
        "By rule; a call that several rules hold counts for each.".into(),
    ));
    let rules = report.review.rules.iter();
    let rules = rules.map(|(rule, said)| load_row(rule.clone(), said, false));
    page.push(Block::Table(heads, rules.collect()));
}

fn load_row(of: String, said: &load::Said, shares: bool) -> Vec<Cell> {
    let Times {
        count,
        median_ms,
        p95_ms,
        longest_ms: _,
    } = said.waits;
    let time = |ms| if count == 0 { "–".into() } else { span(ms) };
    let decided = if shares {
        said.decided.to_string()
    } else {
        "–".into()
    };
    let held = if shares {
        share(said.held, said.decided)
    } else {
        "–".into()
    };
    ours([
        of,
        decided,
        said.held.to_string(),
        held,
        said.approved.to_string(),
        of_answered(said),
        said.expired.to_string(),
        said.ended.to_string(),
        said.open.to_string(),
        time(median_ms),
        time(p95_ms),
        said.refused.to_string(),
    ])
}

/// How many reviewers refused, and of how many that they answered.
fn of_answered(said: &load::Said) -> String {
    match said.answered() {
        0 => "0".into(),
        answered => format!(
            "{} ({})",
            said.turned_down,
            share(said.turned_down, answered)
        ),
    }
}

fn unknown(report: &Report, page: &mut Vec<Block>) {
    if report.unknown_tools.is_empty() {
        return;
    }
    page.push(Block::Heading("Names that no policy was seen to have"));
    let mut rows: Vec<Vec<Cell>> = report
        .unknown_tools
        .iter()
        .map(|(name, count)| vec![Cell::Foreign(name.clone()), Cell::Ours(count.to_string())])
        .collect();
    if report.more_unknown_calls > 0 {
        rows.push(ours([
            "more names".into(),
            report.more_unknown_calls.to_string(),
        ]));
    }
    page.push(Block::Sentence(
        "The agent wrote them, in calls that were refused before or because nothing of that name was found.".into(),
    ));
    page.push(Block::Table(vec!["name", "calls"], rows));
}

fn ours<const N: usize>(cells: [String; N]) -> Vec<Cell> {
    cells.into_iter().map(Cell::Ours).collect()
}

fn dash(text: String) -> String {
    if text.is_empty() { "–".into() } else { text }
}

/// A time in one unit, rounded up: `870 ms`, `12.5 s`, `8 min`.
fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => custody_shown::words::span(ms),
    }
}
