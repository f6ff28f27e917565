//! A sheet in the terminal. Our words begin at the margin; what others wrote stands behind a bar, so that
//! no value passes for a line of ours.

use custody_shown::{
    Sheet,
    sheet::{Argument, Line},
};
use gate::approval::Needs;

/// The lines of `sheet`.
pub(crate) fn lines(sheet: &Sheet) -> Vec<String> {
    let mut lines = vec![
        format!("call {}: {}", sheet.pending, sheet.state),
        String::new(),
    ];
    for fact in &sheet.facts {
        lines.push(format!("  {:11} {}", fact.name, fact.text));
    }
    lines.push(String::new());
    lines.push("why it waits".into());
    for reason in &sheet.reasons {
        let about = reason
            .argument
            .as_ref()
            .map_or_else(String::new, |it| format!(", argument {it}"));
        lines.push(format!("  {}{about}: {}", reason.rule, reason.why));
        lines.push(format!("    it would not, if: {}", reason.change));
    }
    for taint in &sheet.taint {
        lines.push(format!("  the session is tainted: {taint}"));
    }
    lines.push(String::new());
    lines.push("the call, exactly".into());
    if sheet.arguments.is_empty() {
        lines.push("  no arguments".into());
    }
    for argument in &sheet.arguments {
        lines.extend(argument_lines(argument));
    }
    lines.push(String::new());
    lines.push(format!(
        "digest, taken here from these bytes: {}",
        sheet.digest
    ));
    lines.extend(next(sheet));
    lines
}

fn argument_lines(argument: &Argument) -> Vec<String> {
    let kind = if argument.is_text { "" } else { " (JSON)" };
    let mut lines = vec![format!("  {}{kind}", argument.name)];
    lines.extend(
        argument
            .value
            .iter()
            .map(|Line(text)| format!("    │ {text}")),
    );
    lines.push(format!("    {}", argument.origin));
    if let Some(unusual) = &argument.unusual {
        lines.push(format!("    look twice: {unusual}"));
    }
    for said in &argument.said_by {
        lines.push(format!("    said by {}", said.place));
        if let Some(excerpt) = &said.excerpt {
            lines.push(format!("    │ … {excerpt} …"));
        }
    }
    lines
}

/// What can be done now.
fn next(sheet: &Sheet) -> Vec<String> {
    let id = sheet.pending;
    match (&sheet.not_yours, sheet.needs) {
        (Some(why), _) => vec![format!("you cannot answer: {why}")],
        (None, Needs::Approval) => vec![
            format!("yes: custody approve {id} [--scope once|session|target] [--for 10m]"),
            format!("no:  custody refuse {id} --why TEXT"),
        ],
        (None, Needs::Signature) => vec![
            format!(
                "yes: custody approve {id} --key FILE (your SSH key; a .pub file asks your agent)"
            ),
            format!("no:  custody refuse {id} --why TEXT"),
        ],
    }
}
