//! The pages. What is on them is the sheet's; here it gets its place.

use custody_shown::{
    Sheet,
    sheet::{Argument, Line},
    words::{moment, until},
};
use custody_wire::operator::{Behind, PendingView, Shown, Ticket};
use gate::approval::Needs;

use crate::{
    guard::{path_half, token},
    html::Html,
};

/// What every page looks like: one file, no script.
pub const STYLE: &str = include_str!("style.css");

/// The login link leads here: nothing is used up before the button is pressed.
pub fn login(secret: &str) -> String {
    Html::page("Custody: log in", |body| {
        body.with("h1", &[], "Review what agents want to do");
        body.with(
            "p",
            &[],
            "This link was made for you by `custody review --web`, and works once.",
        );
        body.element(
            "form",
            &[("method", "post"), ("action", "/login")],
            |form| {
                form.void(
                    "input",
                    &[("type", "hidden"), ("name", "token"), ("value", secret)],
                );
                form.with("button", &[("class", "yes")], "Log in");
            },
        );
    })
}

/// Something is to be said.
pub fn message(title: &str, text: &str, back: Option<&str>) -> String {
    Html::page(title, |body| {
        body.with("h1", &[], title);
        body.with("p", &[], text);
        if let Some(back) = back {
            body.with("a", &[("href", back)], "Back to the list");
        }
    })
}

/// Where the list of this session is.
pub fn home(ticket: &Ticket) -> String {
    format!("/r/{}", path_half(ticket))
}

/// What waits.
pub fn list(ticket: &Ticket, calls: &[PendingView], next: Option<Behind>, now: u64) -> String {
    let home = home(ticket);
    Html::page("Custody: calls that wait", |body| {
        body.with("h1", &[], "Calls that wait for you");
        if calls.is_empty() {
            body.with("p", &[], "Nothing waits.");
        } else {
            body.element("table", &[], |table| {
                table.element("tr", &[], |row| {
                    for head in ["Call", "Tool", "Policy", "Run by", "Since", "Time", "Needs"] {
                        row.with("th", &[], head);
                    }
                });
                for call in calls {
                    let link = format!("{home}/call/{}/{}", call.session, call.pending);
                    table.element("tr", &[], |row| {
                        row.element("td", &[], |cell| {
                            cell.with("a", &[("href", &link)], &format!("call {}", call.pending));
                        });
                        row.with("td", &[], call.tool.as_str());
                        row.with("td", &[], call.policy.as_str());
                        row.with("td", &[], &format!("uid {}", call.caller_uid));
                        row.with("td", &[], &moment(call.since));
                        row.with("td", &[], &until(now, call.expires));
                        row.with("td", &[], call.needs.as_str());
                    });
                }
            });
        }
        if let Some(next) = next {
            let link = format!(
                "{home}/after/{}/{}/{}",
                next.since, next.session, next.pending
            );
            body.element("p", &[], |it| {
                it.with("a", &[("href", &link)], "More");
            });
        }
        body.element(
            "form",
            &[("method", "post"), ("action", &format!("{home}/leave"))],
            |form| {
                form.void(
                    "input",
                    &[
                        ("type", "hidden"),
                        ("name", "token"),
                        ("value", &token(ticket, "leave")),
                    ],
                );
                form.with("button", &[], "Log out");
            },
        );
    })
}

/// What a decision form is for: its token is of this call and these bytes.
pub fn about(sheet: &Sheet) -> String {
    format!("{} {}", sheet.pending, sheet.digest)
}

/// A call, whole, and the decision.
pub fn call(ticket: &Ticket, shown: &Shown, sheet: &Sheet) -> String {
    let title = format!("Call {}: {}", sheet.pending, sheet.state);
    Html::page(&title, |body| {
        body.element("p", &[], |it| {
            it.with("a", &[("href", &home(ticket))], "All calls that wait");
        });
        body.with("h1", &[], &title);
        let lead = format!(
            "An agent that uid {} runs asks to call the tool {}. It is done only if a reviewer approves it.",
            shown.waits.caller_uid, shown.waits.tool
        );
        body.with("p", &[], &lead);
        body.element("section", &[], |it| facts(it, sheet));
        body.element("section", &[], |it| reasons(it, sheet));
        body.element("section", &[], |it| {
            it.with("h2", &[], "The call, exactly");
            it.with(
                "p",
                &[("class", "note")],
                "What stands in a box was not written by Custody. Nothing in it is a part of this page.",
            );
            if sheet.arguments.is_empty() {
                it.with("p", &[], "It has no arguments.");
            }
            for one in &sheet.arguments {
                argument(it, one);
            }
            it.element("p", &[("class", "note")], |note| {
                note.text("Digest of these bytes, taken by this page: ");
                note.with("code", &[("id", "digest")], &sheet.digest.to_string());
            });
        });
        body.element("section", &[("class", "decision")], |it| {
            it.with("h2", &[], "Your answer");
            match (&sheet.not_yours, sheet.needs) {
                (Some(why), _) => {
                    it.with(
                        "p",
                        &[("id", "not-yours")],
                        &format!("You cannot answer: {why}"),
                    );
                }
                (None, Needs::Approval) => approve(it, ticket, shown, sheet),
                (None, Needs::Signature) => {
                    it.element("p", &[("id", "sign")], |note| {
                        note.text(
                            "It needs your signature. Sign it in a terminal, with your key: ",
                        );
                        let typed = format!("custody approve {} --key FILE", sheet.pending);
                        note.with("code", &[], &typed);
                    });
                    refuse(it, ticket, shown, sheet);
                }
            }
        });
    })
}

fn facts(section: &mut Html, sheet: &Sheet) {
    section.with("h2", &[], "What is asked");
    section.element("dl", &[], |list| {
        for fact in &sheet.facts {
            list.with("dt", &[], fact.name);
            list.with("dd", &[], &fact.text);
        }
    });
}

fn reasons(section: &mut Html, sheet: &Sheet) {
    section.with("h2", &[], "Why it waits");
    section.element("ul", &[], |list| {
        for reason in &sheet.reasons {
            list.element("li", &[], |item| {
                let about = reason
                    .argument
                    .as_ref()
                    .map_or_else(String::new, |it| format!(", argument {it}"));
                item.with("strong", &[], &format!("{}{about}", reason.rule));
                item.text(": ").text(&reason.why);
                let change = format!("It would not, if: {}", reason.change);
                item.with("div", &[("class", "note")], &change);
            });
        }
        for taint in &sheet.taint {
            list.with("li", &[], &format!("The session is tainted: {taint}"));
        }
    });
}

fn argument(section: &mut Html, argument: &Argument) {
    section.element("div", &[("class", "argument")], |it| {
        it.with("h3", &[], &argument.name);
        it.element("pre", &[("class", "foreign"), ("dir", "ltr")], |pre| {
            for (index, Line(text)) in argument.value.iter().enumerate() {
                if index > 0 {
                    pre.text("\n");
                }
                pre.text(text);
            }
        });
        if !argument.is_text {
            it.with("p", &[("class", "note")], "A value, as JSON.");
        }
        it.with("p", &[("class", "origin")], &argument.origin);
        if let Some(unusual) = &argument.unusual {
            it.with(
                "p",
                &[("class", "warning")],
                &format!("Look twice: {unusual}"),
            );
        }
        for said in &argument.said_by {
            it.with(
                "p",
                &[("class", "note")],
                &format!("Said by {}:", said.place),
            );
            if let Some(excerpt) = &said.excerpt {
                let excerpt = format!("… {excerpt} …");
                it.with(
                    "pre",
                    &[("class", "foreign excerpt"), ("dir", "ltr")],
                    &excerpt,
                );
            }
        }
    });
}

fn approve(section: &mut Html, ticket: &Ticket, shown: &Shown, sheet: &Sheet) {
    form(section, ticket, shown, sheet, |form| {
        form.element("fieldset", &[], |set| {
            set.with("legend", &[], "How far");
            for (value, words) in [
                ("once", "This call, once"),
                ("session", "This call, as often as this session makes it"),
                (
                    "target",
                    "Calls of this session with the same target, whatever is said in them",
                ),
            ] {
                set.element("label", &[], |label| {
                    let mut attributes =
                        vec![("type", "radio"), ("name", "scope"), ("value", value)];
                    if value == "once" {
                        attributes.push(("checked", "checked"));
                    }
                    label.void("input", &attributes).text(words);
                });
            }
            set.element("label", &[], |label| {
                label.text("For how long (90s, 10m, 2h; empty: no limit of its own) ");
                let attributes = [
                    ("type", "text"),
                    ("name", "for"),
                    ("size", "6"),
                    ("autocomplete", "off"),
                ];
                label.void("input", &attributes);
            });
        });
        let attributes = [("class", "yes"), ("name", "answer"), ("value", "approve")];
        form.with("button", &attributes, "Approve");
    });
    refuse(section, ticket, shown, sheet);
}

fn refuse(section: &mut Html, ticket: &Ticket, shown: &Shown, sheet: &Sheet) {
    form(section, ticket, shown, sheet, |form| {
        form.element("label", &[], |label| {
            label.text("Why not; the agent is told ");
            let attributes = [
                ("type", "text"),
                ("name", "why"),
                ("size", "50"),
                ("maxlength", "500"),
                ("required", "required"),
                ("autocomplete", "off"),
            ];
            label.void("input", &attributes);
        });
        let attributes = [("class", "no"), ("name", "answer"), ("value", "refuse")];
        form.with("button", &attributes, "Refuse");
    });
}

fn form(
    section: &mut Html,
    ticket: &Ticket,
    shown: &Shown,
    sheet: &Sheet,
    inner: impl FnOnce(&mut Html),
) {
    let action = format!("{}/answer", home(ticket));
    section.element("form", &[("method", "post"), ("action", &action)], |form| {
        for (name, value) in [
            ("pending", sheet.pending.to_string()),
            ("session", shown.waits.session.to_string()),
            ("digest", sheet.digest.to_string()),
            ("token", token(ticket, &about(sheet))),
        ] {
            let attributes = [("type", "hidden"), ("name", name), ("value", &*value)];
            form.void("input", &attributes);
        }
        inner(form);
    });
}
