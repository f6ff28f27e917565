//! The report for people. Every foreign text stands in a code span that it cannot leave.

use gate::excerpt::excerpt;

use super::{
    AnnotationReport, ArgumentReport, Document, ObligationReport, Preferred, Remedy, Report,
    Standing, ToolReport,
};
use crate::infer::{self, Weight};

pub(super) fn of(report: &Report) -> String {
    let mut out = Page::default();
    out.line(format_args!("# Authority of tool arguments"));
    out.line(format_args!(""));
    for sentence in &report.summary.first_look {
        out.line(format_args!("- {sentence}"));
    }
    out.line(format_args!(""));
    out.line(format_args!(
        "Report version {}, {} {}. Files: {}. Tools: {}. Read off schemas alone: nothing was run, fetched or verified.",
        report.report_version,
        report.generator.name,
        report.generator.version,
        report.summary.documents,
        report.summary.tools
    ));
    out.line(format_args!("Privacy: {}.", report.privacy.note));
    out.line(format_args!(""));
    out.line(format_args!(
        "`locked`: nobody's whose words are not trusted. `payload`: anybody's. `inject`: take the argument out of the schema \
         that the model sees, and put its value in (`injected` in a policy); what stands behind it is the authority that \
         a policy gives an argument which stays."
    ));
    if let Some(controls) = &report.controls {
        out.line(format_args!(
            "Controls: {}, {}.",
            controls.standing, controls.note
        ));
    }
    for document in &report.documents {
        self::document(document, &mut out);
    }
    out.0
}

fn document(document: &Document, out: &mut Page) {
    out.line(format_args!(""));
    out.line(format_args!("## {}", code(&document.file)));
    out.line(format_args!(""));
    let digest = document
        .sha256
        .map_or_else(String::new, |it| format!(", SHA-256 {it}"));
    out.line(format_args!("{} form{digest}", document.dialect));
    if !document.ignored_keys.is_empty() {
        let keys: Vec<String> = document.ignored_keys.iter().map(|it| code(it)).collect();
        out.line(format_args!("Not looked at: {}", keys.join(", ")));
    }
    for tool in &document.tools {
        self::tool(tool, out);
    }
}

fn tool(tool: &ToolReport, out: &mut Page) {
    let risk = &tool.risk;
    out.line(format_args!(""));
    out.line(format_args!("### {}", code(&tool.name)));
    out.line(format_args!(""));
    let word = risk
        .word
        .map_or_else(String::new, |word| format!(" (`{word}`)"));
    let confirm = if risk.confirmation_needed {
        "; have each call confirmed"
    } else {
        ""
    };
    out.line(format_args!(
        "Risk {}: declared {}, by its name {}{word}{confirm}. Unknown arguments are {}.",
        risk.effective, risk.declared, risk.inferred, tool.unknown_arguments
    ));
    if let Some(branches) = &tool.branches {
        let cases: Vec<String> = branches
            .cases
            .iter()
            .map(|it| match &it.value {
                Some(value) => format!("{} {}", code(value), it.inferred),
                None => it.inferred.to_string(),
            })
            .collect();
        out.line(format_args!(
            "{} chooses among branches: {}.",
            code(&branches.argument),
            cases.join(", ")
        ));
    }
    let hints: Vec<String> = tool.annotations.iter().map(annotation).collect();
    if !hints.is_empty() {
        out.line(format_args!(""));
        out.line(format_args!(
            "What it says of itself, verified by nothing: {}.",
            hints.join(", ")
        ));
    }
    if !tool.obligations.is_empty() || tool.controls.is_some() {
        out.line(format_args!(""));
    }
    for it in &tool.obligations {
        out.line(format_args!("- Look: {}", look(it)));
    }
    if let Some(stated) = &tool.controls {
        let risk = stated
            .risk
            .as_ref()
            .map_or("no risk", |it| it.tier.as_str());
        out.line(format_args!(
            "- Controls ({}): {risk}, {} branches, {} arguments fixed by the server",
            stated.standing,
            stated.cases.len(),
            stated.unexposed_arguments.len()
        ));
    }
    if tool.arguments.is_empty() {
        return;
    }
    out.line(format_args!(""));
    out.line(format_args!(
        "| argument | type | authority | why | what to do |"
    ));
    out.line(format_args!("|---|---|---|---|---|"));
    for argument in &tool.arguments {
        row(argument, out);
    }
    let mut to_look = tool
        .arguments
        .iter()
        .filter(|it| !it.obligations.is_empty())
        .peekable();
    if to_look.peek().is_some() {
        out.line(format_args!(""));
    }
    for argument in to_look {
        for it in &argument.obligations {
            out.line(format_args!(
                "- Look at {}: {}",
                code(&argument.path),
                look(it)
            ));
        }
    }
}

fn annotation(it: &AnnotationReport) -> String {
    let against = match it.standing {
        infer::Standing::Conflict | infer::Standing::Consistent => {
            format!(" with its {}", it.against.as_str())
        }
        infer::Standing::Inapplicable | infer::Standing::Unresolved => String::new(),
    };
    let (says, standing) = (it.says.as_str(), it.standing.as_str());
    format!("{} {says} ({standing}{against})", code(&it.hint))
}

fn row(argument: &ArgumentReport, out: &mut Page) {
    let required = if argument.required { ", required" } else { "" };
    let mut why = argument.because.to_owned();
    if let Some(word) = &argument.word {
        why.push_str(&format!(" ({})", code(word)));
    }
    for hint in &argument.hints {
        let hint = &hint.hint;
        let verb = match hint.weight {
            Weight::Mention => "mentions",
            Weight::Says => "says",
        };
        let word = if hint.word.is_empty() {
            String::new()
        } else {
            format!(" {}", code(&hint.word))
        };
        why.push_str(&format!(
            "; hint: its {} {verb} {}{word}",
            hint.source.as_str(),
            hint.cue.as_str()
        ));
    }
    let mut act = argument
        .remediation
        .as_ref()
        .map_or_else(|| "bound its length".to_owned(), remedy);
    if let Some(controls) = &argument.controls {
        act.push_str(&format!(
            "; controls ({}) are {} here",
            controls.standing, controls.beside_inference
        ));
    }
    out.line(format_args!(
        "| {} | {}{required} | {}, {} | {why} | {act} |",
        code(&argument.path),
        argument.kind.replace('|', "or"),
        argument.authority.as_str(),
        argument.confidence.as_str()
    ));
}

fn remedy(remedy: &Remedy) -> String {
    let first = match remedy.standing {
        Standing::Recommended => "",
        Standing::ReviewFirst => "look, then ",
    };
    let Preferred::RemoveFromSchemaAndInject = remedy.preferred;
    let fallback: Vec<String> = remedy
        .fallback
        .iter()
        .map(|it| format!("`{}`", it.as_str()))
        .collect();
    let whole = remedy
        .applies_to
        .as_ref()
        .map_or_else(String::new, |it| format!(" (of {} as a whole)", code(it)));
    format!("{first}inject, or {}{whole}", fallback.join(", "))
}

fn look(it: &ObligationReport) -> String {
    let mut look = format!("{}: {}", it.kind, it.ask);
    if let Some(about) = &it.about {
        look.push_str(&format!(" ({})", code(about)));
    }
    if let Some(pointer) = &it.pointer {
        look.push_str(&format!(" at {}", code(pointer)));
    }
    look
}

/// Foreign text in a code span: printable ASCII without a backtick, which would end the span, and without a bar,
/// which would end the cell.
fn code(text: &str) -> String {
    if text.is_empty() {
        return "(empty)".into();
    }
    format!("`{}`", excerpt(text).replace('|', "\\u{7c}"))
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.0.push_str(&format!(
            "{line}
"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_does_not_leave_its_code_span() {
        for text in [
            "a`b",
            "|x|",
            "<img src=x>",
            "\u{202e}",
            "\u{1b}[31m",
            "a\nb",
            "www.example.test",
        ] {
            let shown = code(text);
            let inner = shown
                .strip_prefix('`')
                .and_then(|it| it.strip_suffix('`'))
                .unwrap();
            assert!(
                inner
                    .bytes()
                    .all(|b| (b' '..=b'~').contains(&b) && b != b'`' && b != b'|'),
                "{shown}"
            );
        }
        assert_eq!(code(""), "(empty)");
    }
}
