//! The report: the same bytes for the same files, inert, and without names where that was asked.

use std::{fs, path::PathBuf};

use custody_scan::{
    controls,
    infer::Authority,
    input::{self, Export},
    report::{self, Names, Report},
};

/// The exports of real servers, with the names of their reports.
const SERVERS: [&str; 5] = [
    "mcp-server-fetch",
    "mcp-server-time",
    "playwright-mcp",
    "server-everything",
    "server-filesystem",
];

fn folder() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mcp-schemas").into()
}

fn server(name: &str) -> Export {
    let file = format!("{name}.json");
    let bytes = fs::read(folder().join(&file)).unwrap();
    input::parse(&file, &bytes).unwrap()
}

fn report(export: Export, names: Names) -> Report {
    Report::of(&[export], None, names).unwrap()
}

/// `BLESS=1` writes them anew; then they are read, each verdict, before they are kept.
#[test]
fn the_reports_on_real_servers_are_those_that_were_read() {
    for name in SERVERS {
        let found = report(server(name), Names::Shown).markdown();
        let kept = folder().join("reports").join(format!("{name}.md"));
        if std::env::var_os("BLESS").is_some() {
            fs::write(&kept, &found).unwrap();
        }
        assert_eq!(found, fs::read_to_string(&kept).unwrap(), "{name}");
    }
}

/// Everything else in these exports is locked. Why each of these may be open, docs/scan.md says.
#[test]
fn of_real_servers_nothing_else_is_open() {
    let mut open = Vec::new();
    for name in SERVERS {
        for tool in &report(server(name), Names::Shown).documents[0].tools {
            for argument in &tool.arguments {
                match argument.authority {
                    Authority::Locked => {}
                    Authority::Bounded | Authority::Payload => {
                        open.push(format!("{name} {} {}", tool.name, argument.path));
                    }
                }
            }
        }
    }
    assert_eq!(
        open,
        [
            "playwright-mcp browser_type /text",
            "server-everything echo /message",
            "server-filesystem write_file /content",
            "server-filesystem edit_file /edits/*/newText",
        ]
    );
}

#[test]
fn the_same_files_give_the_same_bytes_and_say_their_version() {
    let once = report(server("server-everything"), Names::Shown);
    let again = report(server("server-everything"), Names::Shown);
    assert_eq!(once.json().unwrap(), again.json().unwrap());
    let value: serde_json::Value = serde_json::from_str(&once.json().unwrap()).unwrap();
    assert_eq!(value["report_version"], report::VERSION);
    let keys: Vec<&str> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(keys.len(), 6, "{keys:?}");
    assert_eq!(value["summary"]["tools"], 13);
    // Strict JSON too: no key twice, every number as all readers have it.
    let limits = gate::json::Limits {
        bytes: 1 << 20,
        depth: 64,
        nodes: 100_000,
    };
    assert!(gate::json::parse(once.json().unwrap().as_bytes(), &limits).is_ok());
}

/// Every reason and every kind of thing to look at that these exports bring about is explained.
#[test]
fn the_documentation_names_what_a_report_says() {
    let page = include_str!("../../docs/scan.md");
    for name in SERVERS {
        for tool in &report(server(name), Names::Shown).documents[0].tools {
            for argument in &tool.arguments {
                let reason = argument.reason.as_str();
                let named = reason == "payload_name" || page.contains(&format!("`{reason}`"));
                assert!(named, "{reason}");
                for it in &argument.obligations {
                    assert!(page.contains(&format!("`{}`", it.kind)), "{}", it.kind);
                }
            }
        }
    }
}

/// Hostile in every place where foreign text can stand.
fn hostile() -> Export {
    let text = "\u{202e}`|<b>\u{1b}[2J\u{9b}1m\\u000a# [a](http://a.test) ";
    let text = text.replace('\u{1b}', "\\u001b");
    // A name that turns text is refused: names have everything else.
    let name = "\u{200b}\u{2028}`|<b># [a](http://a.test) ";
    let json = format!(
        r#"{{"{text}k":1,"tools":[{{"name":"{name}","{text}u":1,"description":"{text} URL","annotations":{{"{text}":true,"readOnlyHint":"x"}},
        "inputSchema":{{"properties":{{
          "{name}p":{{"type":"string","{text}w":1,"title":"{text}","description":"{text}","default":"{text}://","format":"{text}","pattern":"{text}"}},
          "action":{{"enum":["{text}e","list"]}},"body":{{"type":"string","description":"{text} https://a.test"}},
          "r":{{"$ref":"{text}"}}}},"required":["{name}q"]}},"outputSchema":{{"properties":{{"body":{{}}}}}}}}]}}"#
    );
    input::parse(&text.replace('\\', ""), json.as_bytes()).unwrap()
}

#[test]
fn foreign_text_in_a_report_does_nothing() {
    let report = report(hostile(), Names::Shown);
    let json = report.json().unwrap();
    assert!(
        json.bytes()
            .all(|b| b == b'\n' || (b' '..=b'~').contains(&b))
    );
    let markdown = report.markdown();
    assert!(
        markdown
            .bytes()
            .all(|b| b == b'\n' || (b' '..=b'~').contains(&b)),
        "{markdown}"
    );
    for line in markdown.lines() {
        // Outside of code spans there is nothing of theirs.
        let ours: String = line.split('`').step_by(2).collect();
        for theirs in ["<b>", "http", "](", "# ["] {
            assert!(!ours.contains(theirs), "{line}");
        }
        assert_eq!(line.matches('`').count() % 2, 0, "{line}");
        if line.starts_with('|') {
            assert_eq!(line.matches('|').count(), 6, "{line}");
        }
    }
}

#[test]
fn a_redacted_report_has_no_name_no_word_no_bound_and_no_digest() {
    let text = r#"{"tools":[{"name":"zork_send","title":"zork","description":"zork URL","inputSchema":{"properties":{
        "zork_url":{"type":"string","maxLength":4711,"pattern":"zork","description":"zork webhook","default":"https://zork.test"},
        "zork_list":{"type":"array","items":{"properties":{"zork_text":{"type":"string","zork":1}}}},
        "zork_action":{"enum":["zork_delete","zork_get"]}},"required":["zork_more"]},"annotations":{"zorkHint":true}}],"zork":1}"#;
    let exports = [input::parse("zork.json", text.as_bytes()).unwrap()];
    let stated = r#"{"version":1,"tools":{"zork_send":{"risk":{"tier":"write","evidence":"declared","effects":["zork"],"note":"zork"},
        "arguments":{"zork_url":{"authority":"free","note":"zork","bounds":[{"source":"zork","bounds_mutability":"caller"}]}},
        "unexposed_arguments":{"zork":{"exposure":"server_fixed","enforced_by":"zork","evidence":"declared"}}}}}"#;
    let controls = controls::parse("zork.json", stated.as_bytes(), &exports).unwrap();
    let shown = Report::of(&exports, Some(&controls), Names::Shown).unwrap();
    let redacted = Report::of(&exports, Some(&controls), Names::Redacted).unwrap();
    assert_eq!(redacted.summary.arguments, shown.summary.arguments);
    for text in [redacted.json().unwrap(), redacted.markdown()] {
        for name in ["zork", "4711", "send", "delete", "url", "webhook"] {
            assert!(!text.to_lowercase().contains(name), "{name} in {text}");
        }
        let mut run = 0;
        for byte in text.bytes() {
            run = if byte.is_ascii_hexdigit() { run + 1 } else { 0 };
            assert!(run < 16, "a digest in {text}");
        }
        assert!(text.contains("cannot be compared"), "{text}");
    }
    let shown = shown.json().unwrap();
    assert!(shown.contains("zork_url") && shown.contains("4711"));
}
