//! A policy to begin with, of what a scan says: every guess in it is marked, and none of them opens anything.
//!
//! What is locked is authored by the application or by a list of the operator's; what cannot be written in a policy
//! is left out and said. Each call waits for a person where the risk is not declared, requests go to a host that
//! cannot be (RFC 2606, `.invalid`), and no word of a tool about itself is what an agent is told: those are the operator's to write.

mod kinds;
mod names;
mod toml;

use gate::excerpt::excerpt;

use crate::{
    infer::{Authority, Confirmation, Judged, Scanned, Tier},
    input::Export,
    schema::{Argument, Presence},
};
use kinds::Kind;
use names::Names;
use toml::{Page, quoted};

/// A policy to begin with.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The file.
    pub text: String,
    /// How many guesses are marked in it.
    pub guesses: usize,
    /// How many arguments could not be written.
    pub left_out: usize,
}

/// The host that stands for one that nobody named yet.
const NOWHERE: &str = "https://replace-me.invalid";

/// The label of the credential that nobody named yet.
const CREDENTIAL: &str = "replace-me";

/// Drafts a policy for the tools of `export`, which were scanned.
pub fn of(export: &Export, scanned: &[Scanned<'_>]) -> Draft {
    let mut draft = Drafting::default();
    let mut names = Names::default();
    let tools: Vec<(String, &Scanned<'_>)> = scanned
        .iter()
        .map(|it| (names.tool(&it.tool.name), it))
        .collect();
    for (name, tool) in &tools {
        draft.tool(name, tool, &mut names);
    }
    let mut page = Page::default();
    head(export, &mut page);
    page.append(draft.lists);
    page.blank();
    page.line(&format!("[credentials.{CREDENTIAL}]"));
    page.guess("connector = \"http\"", "how the effects are performed");
    page.blank();
    page.line(&format!("[credentials.{CREDENTIAL}.floor]"));
    page.guess(
        &format!("origins = [\"{NOWHERE}\"]"),
        "there is no such host; name where the credential may go",
    );
    page.line("methods = [\"POST\"]");
    let paths: Vec<String> = tools
        .iter()
        .map(|(name, _)| format!("\"/{name}\""))
        .collect();
    page.guess(
        &format!("paths = [{}]", paths.join(", ")),
        "the schemas do not say any",
    );
    page.append(draft.tools);
    Draft {
        guesses: page.guesses,
        text: page.text,
        left_out: draft.left_out,
    }
}

fn head(export: &Export, page: &mut Page) {
    page.line("# Drafted by `custody policy init`: read off schemas, and verified by nobody.");
    page.line(&format!(
        "# Of: {}, SHA-256 {}",
        excerpt(&export.file),
        export.sha256
    ));
    page.line("# Each line with `# guess` is one; look at it, then take the mark away. `custody policy check` compiles this file.");
    page.line("");
    page.line("format = 1");
}

/// The parts of a draft, as they are written.
#[derive(Default)]
struct Drafting {
    lists: Page,
    tools: Page,
    left_out: usize,
}

impl Drafting {
    fn tool(&mut self, name: &str, scanned: &Scanned<'_>, names: &mut Names) {
        let (mut arguments, mut fields) = (Page::default(), Vec::new());
        for (argument, judged) in scanned.arguments().filter(|it| !it.0.is_nested()) {
            let called = names.argument(name, &argument.name);
            let Some(kind) = Kind::of(argument, scanned) else {
                self.leave_out(argument, &mut arguments);
                continue;
            };
            fields.push(format!("{} = \"{{{called}}}\"", quoted(&argument.name)));
            arguments.blank();
            arguments.line(&format!("[tools.{name}.arguments.{called}]"));
            if called != argument.name {
                arguments.line(&format!(
                    "# The schema calls it {}.",
                    excerpt(&argument.name)
                ));
            }
            self.authority(
                (name, &called),
                (argument, judged),
                &kind,
                (&mut arguments, names),
            );
            if argument.presence == Presence::Optional {
                arguments.line("optional = true");
            }
        }
        let page = &mut self.tools;
        page.blank();
        page.line(&format!("[tools.{name}]"));
        if name != scanned.tool.name {
            page.line(&format!(
                "# The export calls it {}.",
                excerpt(&scanned.tool.name)
            ));
        }
        if let Some(words) = &scanned.tool.description {
            page.line(&format!(
                "# It says of itself, and nothing holds it to that: {}",
                excerpt(words)
            ));
        }
        page.guess(
            &format!("description = \"{name}\""),
            "what an agent is told of it, in your words",
        );
        page.guess(
            &format!("credential = \"{CREDENTIAL}\""),
            "which one its effects need",
        );
        risk(scanned, page);
        page.blank();
        page.line(&format!("[tools.{name}.request]"));
        page.guess("method = \"POST\"", "the schema does not say it");
        page.guess(
            &format!("url = \"{NOWHERE}/{name}\""),
            "the schema does not say it",
        );
        if !fields.is_empty() {
            page.guess(
                &format!("body = {{ {} }}", fields.join(", ")),
                "the schema does not say where an argument goes",
            );
        }
        page.append(arguments);
    }

    fn leave_out(&mut self, argument: &Argument, page: &mut Page) {
        self.left_out = self.left_out.saturating_add(1);
        page.blank();
        page.line(&format!(
            "# Left out: {}, {}: a policy cannot say it as the schema does. Write it by hand, or split it.",
            excerpt(&argument.name),
            argument.kind()
        ));
        if argument.presence == Presence::Required {
            page.line("# Each call must have it: until it is written, every call is one that the server refuses.");
        }
    }

    /// Who authors an argument.
    fn authority(
        &mut self,
        (tool, called): (&str, &str),
        (argument, judged): (&Argument, &Judged),
        kind: &Kind,
        (page, names): (&mut Page, &mut Names),
    ) {
        let why = judged.inferred.reason.sentence();
        match (judged.inferred.authority, kind) {
            // A declaration is needed to leave one open, and a draft has none.
            (Authority::Payload | Authority::Bounded, Kind::Text(_) | Kind::Texts(_)) => {
                page.guess("authority = \"payload\"", why);
                kind.write(page);
            }
            (_, Kind::Choice(members)) => {
                let list = names.list(tool, called);
                self.lists.blank();
                self.lists.line(&format!("[catalogues.{list}]"));
                let members: Vec<String> = members.iter().map(|it| quoted(it)).collect();
                self.lists.guess(
                    &format!("members = [{}]", members.join(", ")),
                    "all that the schema lists; leave those in that a call may choose",
                );
                page.guess("authority = \"catalogue\"", why);
                page.line(&format!("catalogue = \"{list}\""));
            }
            (_, Kind::Texts(_)) => {
                let list = names.list(tool, called);
                self.set("owned", &list, kind);
                page.guess("authority = \"owned\"", why);
                page.line(&format!("set = \"{list}\""));
                page.line("type = \"list\"");
            }
            (_, Kind::Text(_)) if judged.inferred.reason.is_selector() => {
                let list = names.list(tool, called);
                self.set("owned", &list, kind);
                page.guess("authority = \"owned\"", why);
                page.line(&format!("set = \"{list}\""));
            }
            (_, Kind::Text(_) | Kind::Plain(_)) => {
                let value = names.list(tool, called);
                self.set("values", &value, kind);
                page.guess("authority = \"verified\"", why);
                page.line(&format!("value = \"{value}\""));
            }
        }
        for note in kinds::notes(argument) {
            page.line(&format!("# The schema says more: {note}"));
        }
    }

    fn set(&mut self, of: &str, name: &str, kind: &Kind) {
        self.lists.blank();
        self.lists.line(&format!("[{of}.{name}]"));
        kind.write_member(&mut self.lists);
    }
}

fn risk(scanned: &Scanned<'_>, page: &mut Page) {
    let (risk, why) = match (scanned.risk.effective, scanned.risk.inferred) {
        (Tier::Known(risk), _) => (risk.as_str(), "as it was declared"),
        (Tier::Unknown, Tier::Known(risk)) => (risk.as_str(), "by its name alone"),
        (Tier::Unknown, Tier::Unknown) => ("execute", "nothing says it, so the worst"),
    };
    page.guess(&format!("risk = \"{risk}\""), why);
    if scanned.risk.confirmation == Confirmation::Needed {
        page.guess(
            "confirm = \"always\"",
            "its risk is not known, or does not come back",
        );
    }
}
