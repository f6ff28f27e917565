//! From what was found to a report.

use std::collections::BTreeMap;

use gate::{
    digest::Running,
    json::{self, Value},
};

use super::{
    AnnotationReport, ArgumentReport, BranchCase, BranchesReport, Choices, Document, HintReport,
    Names, ObligationReport, Remedy, RiskReport, StatedArgumentReport, StatedReport, ToolReport,
    UNVERIFIED,
};
use crate::{
    controls::{Acts, Stated, StatedArgument, StatedAuthority},
    infer::{
        Agreement, Authority, Confidence, Confirmation, Judged, RiskFinding, Scanned, Standing,
    },
    input::Export,
    schema::{Argument, Bounds, Choice, Obligation, Presence, Unknown},
};

/// What somebody states of a tool, by its name.
pub(super) type Lookup<'a> = dyn Fn(&str) -> Option<&'a Stated> + 'a;

pub(super) fn document(
    index: usize,
    export: &Export,
    scanned: &[Scanned<'_>],
    stated: &Lookup<'_>,
    names: Names,
) -> Document {
    let tools = scanned.iter().enumerate();
    let tools = tools.map(|(index, scanned)| tool(index, scanned, stated, names));
    Document {
        file: names.or_number(&export.file, "file", index),
        sha256: names.shown(export.sha256),
        dialect: export.dialect,
        ignored_keys: names.shown(export.ignored.clone()).unwrap_or_default(),
        tools: tools.collect(),
    }
}

fn tool(index: usize, scanned: &Scanned<'_>, stated: &Lookup<'_>, names: Names) -> ToolReport {
    let stated = stated(&scanned.tool.name);
    let paths = Paths::of(scanned, names);
    let arguments: Vec<ArgumentReport> = scanned
        .arguments()
        .map(|(argument, judged)| {
            let stated = stated.and_then(|it| it.arguments.get(&argument.path));
            self::argument(argument, judged, stated, &paths, names)
        })
        .collect();
    let annotations: Vec<AnnotationReport> = scanned
        .annotations
        .iter()
        .enumerate()
        .map(|(index, it)| AnnotationReport {
            hint: if KEYS.contains(&it.hint.as_str()) {
                it.hint.clone()
            } else {
                names.or_number(&it.hint, "annotation", index)
            },
            says: it.says,
            standing: it.standing,
            against: it.against,
            worth: "unverified_hint",
        })
        .collect();
    let obligations = obligations(&scanned.schema.obligations, names);
    let branches = scanned.branches.as_ref().map(|it| BranchesReport {
        argument: paths.get(&it.argument),
        cases: it
            .cases
            .iter()
            .map(|(value, tier)| BranchCase {
                value: names.shown(value.clone()),
                inferred: *tier,
            })
            .collect(),
    });
    let conflict = annotations
        .iter()
        .any(|it| it.standing == Standing::Conflict);
    let review_required = conflict
        || !obligations.is_empty()
        || scanned.risk.agreement != Agreement::Agree
        || scanned.schema.unknown == Unknown::Taken
        || branches.is_some()
        || arguments.iter().any(|it| it.review_required);
    ToolReport {
        name: names.or_number(&scanned.tool.name, "tool", index),
        pointer: scanned.tool.pointer.clone(),
        review_required,
        risk: risk(&scanned.risk, names),
        branches,
        annotations,
        unknown_arguments: match scanned.schema.unknown {
            Unknown::Refused => "refused",
            Unknown::Taken => "taken",
        },
        schema_sha256: names.shown(scanned.schema.sha256),
        unmodelled_sha256: names.shown(scanned.schema.unmodelled_sha256).flatten(),
        obligations,
        arguments,
        controls: stated.map(|it| self::stated(it, &paths, names)),
    }
}

/// MCP's own annotations.
const KEYS: [&str; 4] = [
    "destructiveHint",
    "idempotentHint",
    "openWorldHint",
    "readOnlyHint",
];

fn risk(risk: &RiskFinding, names: Names) -> RiskReport {
    RiskReport {
        declared: risk.declared,
        inferred: risk.inferred,
        word: risk.word.and_then(|word| names.shown(word)),
        effective: risk.effective,
        agreement: match risk.agreement {
            Agreement::Agree => "agree",
            Agreement::Conflict => "conflict",
            Agreement::Undeclared => "undeclared",
        },
        confirmation_needed: risk.confirmation == Confirmation::Needed,
    }
}

fn argument(
    argument: &Argument,
    judged: &Judged,
    stated: Option<&StatedArgument>,
    paths: &Paths,
    names: Names,
) -> ArgumentReport {
    let inferred = &judged.inferred;
    let path = paths.get(&argument.path);
    let hints = judged.hints.iter().map(|hint| {
        let mut hint = hint.clone();
        hint.word = names.shown(hint.word).unwrap_or_default();
        HintReport { hint }
    });
    ArgumentReport {
        pointer: names.shown(argument.pointer.clone()),
        kind: argument.kind(),
        required: argument.presence == Presence::Required,
        authority: inferred.authority,
        confidence: inferred.confidence,
        reason: inferred.reason,
        because: inferred.reason.sentence(),
        word: names
            .shown(inferred.word.clone())
            .filter(|it| !it.is_empty()),
        review_required: inferred.confidence == Confidence::Uncertain
            || !argument.obligations.is_empty()
            || inferred.authority == Authority::Payload && !judged.hints.is_empty(),
        remediation: Remedy::of(argument, inferred, &path),
        bounds: names.shown(bounds(&argument.bounds)),
        choices: names.shown(argument.choice.as_ref().map(choices)).flatten(),
        hints: hints.collect(),
        obligations: obligations(&argument.obligations, names),
        schema_sha256: names.shown(argument.sha256),
        controls: stated.map(|it| StatedArgumentReport {
            standing: UNVERIFIED,
            stated: match names {
                Names::Shown => it.clone(),
                Names::Redacted => StatedArgument {
                    authority: it.authority,
                    evidence: it.evidence,
                    bounds: Vec::new(),
                    note: None,
                },
            },
            beside_inference: beside(it.authority, inferred.authority),
        }),
        path,
    }
}

/// How what is stated stands to what is inferred.
const fn beside(stated: StatedAuthority, inferred: Authority) -> &'static str {
    match (stated, inferred) {
        (StatedAuthority::Locked, Authority::Locked)
        | (StatedAuthority::Constrained, Authority::Bounded)
        | (StatedAuthority::Free, Authority::Payload) => "same",
        (StatedAuthority::Locked, Authority::Bounded | Authority::Payload)
        | (StatedAuthority::Constrained, Authority::Payload) => "stricter",
        (StatedAuthority::Constrained, Authority::Locked)
        | (StatedAuthority::Free, Authority::Bounded | Authority::Locked) => "looser",
    }
}

fn bounds(bounds: &Bounds) -> BTreeMap<&'static str, Value> {
    let mut all = bounds.numbers.clone();
    let texts = [("format", &bounds.formats), ("pattern", &bounds.patterns)];
    for (keyword, texts) in texts {
        let texts: Vec<Value> = texts.iter().map(|it| Value::Text((&**it).into())).collect();
        if !texts.is_empty() {
            all.insert(keyword, Value::List(texts));
        }
    }
    all
}

fn choices(choice: &Choice) -> Choices {
    let list = choice.0.iter().map(|it| it.as_ref().clone()).collect();
    let mut sha256 = Running::default();
    sha256.update(&json::canonical(&Value::List(list)));
    Choices {
        count: choice.0.len(),
        sha256: sha256.so_far(),
    }
}

fn obligations(obligations: &[Obligation], names: Names) -> Vec<ObligationReport> {
    obligations
        .iter()
        .map(|it| ObligationReport {
            kind: it.kind.as_str(),
            pointer: names.shown(it.pointer.clone()),
            about: names.shown(it.about.clone()).filter(|it| !it.is_empty()),
            ask: it.kind.ask(),
        })
        .collect()
}

fn stated(stated: &Stated, paths: &Paths, names: Names) -> StatedReport {
    let mut report = StatedReport {
        standing: UNVERIFIED,
        risk: None,
        selector: None,
        cases: Vec::new(),
        unexposed_arguments: names.shown(stated.unexposed.clone()).unwrap_or_default(),
    };
    match &stated.acts {
        Acts::NotStated => {}
        Acts::Risk(risk) => {
            let mut risk = risk.clone();
            risk.effects = names.shown(risk.effects).unwrap_or_default();
            risk.note = names.shown(risk.note).flatten();
            report.risk = Some(risk);
        }
        Acts::Branches { selector, cases } => {
            report.selector = Some(paths.get(selector));
            report.cases = names.shown(cases.clone()).unwrap_or_default();
        }
    }
    report
}

/// What the paths of a tool are called in the report.
struct Paths(BTreeMap<String, String>);

impl Paths {
    fn of(scanned: &Scanned<'_>, names: Names) -> Self {
        let mut paths: BTreeMap<String, String> = BTreeMap::new();
        for (index, argument) in scanned.schema.arguments.iter().enumerate() {
            let path = &argument.path;
            let called = match names {
                Names::Shown => path.clone(),
                Names::Redacted => {
                    let step = format!("argument-{}", index.saturating_add(1));
                    format!("{}/{step}", above(path, &paths))
                }
            };
            paths.insert(path.clone(), called);
        }
        Self(paths)
    }

    fn get(&self, path: &str) -> String {
        self.0.get(path).cloned().unwrap_or_default()
    }
}

/// What the argument that `path` stands inside of is called, with a `*` for the items between.
fn above(path: &str, paths: &BTreeMap<String, String>) -> String {
    let mut rest = path;
    let mut items = String::new();
    while let Some((parent, _)) = rest.rsplit_once('/') {
        if let Some(called) = paths.get(parent) {
            return format!("{called}{items}");
        }
        if !parent.is_empty() {
            items.push_str("/*");
        }
        rest = parent;
    }
    String::new()
}
