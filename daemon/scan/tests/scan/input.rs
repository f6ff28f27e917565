//! What is no export is refused, with one sentence that says where and what to do.

use std::{fs, io::Write as _};

use custody_scan::{
    infer::{self, Tier},
    input::{self, Dialect, Fault, InputError, limits},
};
use gate::json::JsonError;

/// An MCP tool with these properties.
fn tool(properties: &str) -> String {
    format!(r#"{{"name":"t","inputSchema":{{"type":"object","properties":{properties}}}}}"#)
}

fn export(properties: &str) -> String {
    format!(r#"{{"tools":[{}]}}"#, tool(properties))
}

fn scan(bytes: &[u8]) -> Result<usize, InputError> {
    let export = input::parse("a.json", bytes)?;
    let scanned = infer::scan(&export, &|_| Tier::Unknown)?;
    Ok(scanned.iter().map(|it| it.judged.len()).sum())
}

fn refused(bytes: impl AsRef<[u8]>) -> InputError {
    let error = scan(bytes.as_ref()).unwrap_err();
    let said = error.to_string();
    assert!(said.starts_with("`a.json`"), "{said}");
    assert!(!said.contains('\n') && said.len() < 500, "{said}");
    assert!(said.bytes().all(|b| !b.is_ascii_control()), "{said}");
    error
}

#[test]
fn what_is_not_the_json_that_all_readers_agree_on_is_refused_and_says_where() {
    let json = |bytes: &[u8], pointer: &str| {
        let error = refused(bytes);
        assert_eq!(error.pointer, pointer, "{error}");
        match error.fault {
            Fault::Json { why, .. } => why,
            other => panic!("{other}"),
        }
    };
    let whole = export(r#"{"a":{"type":"string"}}"#);
    let cut = whole.get(..whole.len() - 9).unwrap();
    assert!(matches!(
        json(cut.as_bytes(), "/tools/0/inputSchema/properties/a/type"),
        JsonError::Syntax { line: 1, .. }
    ));
    assert!(matches!(
        json(b"{\"tools\":[{\"name\":\"\xff\"}]}", "/tools/0/name"),
        JsonError::Syntax { .. }
    ));
    assert!(matches!(
        json(br#"{"tools":[{"name":"\ud800"}]}"#, "/tools/0/name"),
        JsonError::Syntax { .. }
    ));
    assert_eq!(
        json(br#"{"tools":[{"name":"a\u0000"}]}"#, "/tools/0/name"),
        JsonError::Nul
    );
    assert_eq!(
        json(br#"{"tools":[{"name":"a","name":"b"}]}"#, "/tools/0/name"),
        JsonError::DuplicateKey
    );
    for marked in [&b"\xef\xbb\xbf[]"[..], b"\xff\xfe[\0]\0"] {
        assert!(matches!(refused(marked).fault, Fault::Mark));
    }
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    assert!(matches!(
        json(deep.as_bytes(), &"/0".repeat(64)),
        JsonError::Depth { most: 64 }
    ));
    let many = format!("[{}0]", "0,".repeat(limits::NODES));
    assert!(matches!(
        json(many.as_bytes(), "/99999"),
        JsonError::Nodes { .. }
    ));
    let bound = export(r#"{"a":{"maximum":9223372036854775807}}"#);
    assert_eq!(
        json(
            bound.as_bytes(),
            "/tools/0/inputSchema/properties/a/maximum"
        ),
        JsonError::Magnitude
    );
}

#[test]
fn what_has_more_than_one_reading_is_refused() {
    let mcp = tool("{}");
    let open_ai = r#"{"type":"function","function":{"name":"f"}}"#;
    for (text, pointer) in [
        (format!(r#"{{"tools":[{mcp}],"functions":[]}}"#), ""),
        (format!(r#"{{"tools":[{mcp}],"result":{{}}}}"#), ""),
        (
            format!(r#"{{"result":{{"tools":[{mcp}],"functions":[]}}}}"#),
            "/result",
        ),
        (
            r#"[{"name":"t","inputSchema":{},"input_schema":{}}]"#.into(),
            "/0",
        ),
        (
            r#"[{"name":"t","parameters":{},"function":{}}]"#.into(),
            "/0",
        ),
    ] {
        let error = refused(&text);
        assert!(
            matches!(error.fault, Fault::Ambiguous { .. }),
            "{text}: {error}"
        );
        assert_eq!(error.pointer, pointer, "{text}");
    }
    let mixed = refused(format!("[{mcp},{open_ai}]"));
    assert!(matches!(
        mixed.fault,
        Fault::Dialects {
            first: Dialect::Mcp,
            found: Dialect::OpenAi
        }
    ));
    assert_eq!(mixed.pointer, "/1");
    assert!(matches!(
        refused(format!("[{mcp},{mcp}]")).fault,
        Fault::SameName { .. }
    ));
}

#[test]
fn what_is_no_list_of_tools_is_refused() {
    for text in [
        "{}",
        "1",
        "null",
        r#"{"result":{"result":{"tools":[]}}}"#,
        r#"{"result":{"functions":[]}}"#,
    ] {
        assert!(matches!(refused(text).fault, Fault::Form), "{text}");
    }
    assert!(matches!(refused("[]").fault, Fault::Empty));
    assert!(matches!(
        refused(r#"[{"name":"t"}]"#).fault,
        Fault::NoDialect
    ));
    assert!(matches!(
        refused(r#"{"tools":[],"nextCursor":"x"}"#).fault,
        Fault::Page
    ));
    assert!(matches!(
        refused(r#"{"jsonrpc":"2.0","id":1,"error":{}}"#).fault,
        Fault::Failed
    ));
    for hosted in [
        r#"[{"type":"web_search"}]"#,
        r#"[{"type":"bash_20250124","name":"bash"}]"#,
        r#"[{"type":"custom_x","name":"a","input_schema":{"type":"object"}}]"#,
    ] {
        assert!(
            matches!(refused(hosted).fault, Fault::Hosted { .. }),
            "{hosted}"
        );
    }
    for name in ["", &"a".repeat(limits::NAME_BYTES + 1)] {
        let text = format!(r#"[{{"name":"{name}","inputSchema":{{}}}}]"#);
        assert!(matches!(refused(text).fault, Fault::Name));
    }
    for text in [
        r#"[{"name":1,"inputSchema":{}}]"#,
        r#"{"tools":{}}"#,
        r#"[1]"#,
        r#"[{"name":"t","inputSchema":{"type":"string"}}]"#,
        r#"[{"name":"t","inputSchema":3}]"#,
        r#"[{"name":"t","inputSchema":false}]"#,
        r#"[{"name":"t","inputSchema":{"properties":[]}}]"#,
        r#"[{"name":"t","inputSchema":{"properties":{"a":"string"}}}]"#,
        r#"[{"name":"t","inputSchema":{},"annotations":[]}]"#,
    ] {
        assert!(matches!(refused(text).fault, Fault::Type { .. }), "{text}");
    }
}

#[test]
fn every_form_of_the_three_dialects_is_read() {
    let mcp = tool("{}");
    let chat = r#"{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}"#;
    let responses =
        r#"{"type":"function","name":"f","parameters":{"type":"object"},"strict":true}"#;
    let anthropic = r#"{"name":"f","input_schema":{"type":"object"}}"#;
    for (text, dialect, tools) in [
        (
            format!(r#"{{"tools":[{mcp}],"ttlMs":1,"nextCursor":null}}"#),
            Dialect::Mcp,
            1,
        ),
        (format!("[{mcp}]"), Dialect::Mcp, 1),
        (
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{mcp}]}}}}"#),
            Dialect::Mcp,
            1,
        ),
        (r#"{"tools":[]}"#.into(), Dialect::Mcp, 0),
        (mcp.clone(), Dialect::Mcp, 1),
        (anthropic.into(), Dialect::Anthropic, 1),
        (format!("[{chat}]"), Dialect::OpenAi, 1),
        (format!(r#"{{"tools":[{responses}]}}"#), Dialect::OpenAi, 1),
        (r#"{"functions":[{"name":"f"}]}"#.into(), Dialect::OpenAi, 1),
        (
            format!(r#"{{"model":"m","tools":[{anthropic}]}}"#),
            Dialect::Anthropic,
            1,
        ),
    ] {
        let export = input::parse("a.json", text.as_bytes()).unwrap();
        assert_eq!(
            (export.dialect, export.tools.len()),
            (dialect, tools),
            "{text}"
        );
        assert_eq!(export.ignored.is_empty(), !text.contains("model"), "{text}");
        assert!(infer::scan(&export, &|_| Tier::Unknown).is_ok());
    }
}

#[test]
fn more_than_the_limits_is_refused_whole() {
    let properties = |count: usize| {
        let all: Vec<String> = (0..count)
            .map(|n| format!(r#""a{n}":{{"type":"string"}}"#))
            .collect();
        format!("{{{}}}", all.join(","))
    };
    assert_eq!(
        scan(export(&properties(limits::ARGUMENTS)).as_bytes()).unwrap(),
        limits::ARGUMENTS
    );
    assert!(matches!(
        refused(export(&properties(10_000))).fault,
        Fault::Arguments
    ));
    let tools = |count: usize| {
        let all: Vec<String> = (0..count)
            .map(|n| format!(r#"{{"name":"t{n}","inputSchema":{{}}}}"#))
            .collect();
        format!("[{}]", all.join(","))
    };
    assert!(scan(tools(limits::TOOLS).as_bytes()).is_ok());
    assert!(matches!(
        refused(tools(limits::TOOLS + 1)).fault,
        Fault::Tools { found: 501 }
    ));
    let choices = |count: usize| {
        let all: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        export(&format!(r#"{{"a":{{"enum":[{}]}}}}"#, all.join(",")))
    };
    assert!(scan(choices(limits::CHOICES).as_bytes()).is_ok());
    let error = refused(choices(limits::CHOICES + 1));
    assert!(matches!(error.fault, Fault::Choices { found: 10_001 }));
    assert_eq!(error.pointer, "/tools/0/inputSchema/properties/a/enum");
}

#[test]
fn a_circle_of_references_is_refused_and_a_schema_inside_itself_is_flagged() {
    let circle = r##"[{"name":"t","inputSchema":{"properties":{"a":{"$ref":"#/$defs/x"}},
        "$defs":{"x":{"$ref":"#/$defs/y"},"y":{"allOf":[{"$ref":"#/$defs/x"}]}}}}]"##;
    let error = refused(circle);
    assert!(matches!(error.fault, Fault::Circle), "{error}");
    assert_eq!(error.pointer, "/0/inputSchema/$defs/y/allOf/0/$ref");
    let tree = r##"[{"name":"t","inputSchema":{"properties":{"node":{"$ref":"#/$defs/n"}},
        "$defs":{"n":{"type":"object","properties":{"to":{"type":"string"},"next":{"$ref":"#/$defs/n"}}}}}}]"##;
    assert_eq!(scan(tree.as_bytes()).unwrap(), 3);
}

#[test]
fn references_that_multiply_or_go_deep_are_refused_soon() {
    let doubled: Vec<String> = (0..40)
        .map(|n| {
            let next = n + 1;
            format!(r##""d{n}":{{"allOf":[{{"$ref":"#/$defs/d{next}"}},{{"$ref":"#/$defs/d{next}"}}]}}"##)
        })
        .collect();
    let bomb = format!(
        r##"[{{"name":"t","inputSchema":{{"properties":{{"a":{{"$ref":"#/$defs/d0"}}}},"$defs":{{{},"d40":{{}}}}}}}}]"##,
        doubled.join(",")
    );
    assert!(matches!(refused(bomb).fault, Fault::Steps | Fault::Depth));
    let chain: Vec<String> = (0..5_000)
        .map(|n| {
            format!(
                r##""d{n}":{{"properties":{{"p":{{"$ref":"#/$defs/d{}"}}}}}}"##,
                n + 1
            )
        })
        .collect();
    let long = format!(
        r##"[{{"name":"t","inputSchema":{{"properties":{{"a":{{"$ref":"#/$defs/d0"}}}},"$defs":{{{},"d5000":{{}}}}}}}}]"##,
        chain.join(",")
    );
    assert!(matches!(refused(long).fault, Fault::Depth));
}

#[test]
fn a_file_that_is_too_large_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.json");
    // 100 MB of nothing on disk: who reads it all would take it for 100 MB of NUL.
    fs::File::create(&path).unwrap().set_len(100 << 20).unwrap();
    let error = input::read(&[&path]).unwrap_err();
    assert!(matches!(error.fault, Fault::Large), "{error}");
    assert!(matches!(
        input::parse("a", &vec![b' '; limits::FILE_BYTES + 1])
            .unwrap_err()
            .fault,
        Fault::Large
    ));
}

#[test]
fn a_run_has_its_limits_too() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small.json");
    fs::write(&small, r#"{"tools":[]}"#).unwrap();
    assert_eq!(
        input::read(&vec![&small; limits::DOCUMENTS]).unwrap().len(),
        500
    );
    let error = input::read(&vec![&small; limits::DOCUMENTS + 1]).unwrap_err();
    assert!(matches!(error.fault, Fault::Documents));
    let wide = folder.path().join("wide.json");
    let mut file = fs::File::create(&wide).unwrap();
    file.write_all(&vec![b' '; limits::FILE_BYTES - 12])
        .unwrap();
    file.write_all(br#"{"tools":[]}"#).unwrap();
    assert_eq!(input::read(&[&wide, &wide]).unwrap().len(), 2);
    let error = input::read(&[&wide, &wide, &small]).unwrap_err();
    assert!(matches!(error.fault, Fault::Run));
    let error = input::read(&[folder.path().join("none.json")]).unwrap_err();
    assert!(matches!(error.fault, Fault::Read(_)), "{error}");
    let error = input::read(&[folder.path()]).unwrap_err();
    assert!(matches!(error.fault, Fault::Read(_)), "{error}");
}

#[test]
fn a_name_that_turns_the_text_beside_it_is_refused_wherever_it_stands() {
    for character in [
        "\u{202e}", "\u{2066}", "\u{200f}", "\u{9b}", "\\u001b", "\\n",
    ] {
        let named = format!("a{character}b");
        for (text, pointer) in [
            (
                format!(r#"[{{"name":"{named}","inputSchema":{{}}}}]"#),
                "/0".to_owned(),
            ),
            (
                export(&format!(r#"{{"{named}":{{}}}}"#)),
                "/tools/0/inputSchema/properties/".to_owned(),
            ),
            (
                format!(r#"[{{"name":"t","inputSchema":{{"required":["{named}"]}}}}]"#),
                "/0/inputSchema/required/0".to_owned(),
            ),
        ] {
            let error = refused(&text);
            assert!(
                matches!(error.fault, Fault::Turned { .. }),
                "{text}: {error}"
            );
            assert!(error.pointer.starts_with(&pointer), "{error}");
        }
    }
    // What is said for people may be in any script.
    let text = export("{\"a\":{\"description\":\"\u{200f}\u{5d0}\u{202b}\"}}");
    assert!(scan(text.as_bytes()).is_ok());
}

#[test]
fn foreign_text_in_a_refusal_does_nothing() {
    let error = refused(
        "{\"tools\":[{\"name\":\"a\",\"inputSchema\":{\"properties\":{\"\u{202e}\\u001b[31m\":1}}}]}",
    );
    let said = error.to_string();
    assert!(
        !said.contains('\u{202e}') && !said.contains('\u{1b}'),
        "{said}"
    );
}

/// One long text that many arguments refer to would be written down for each of them.
#[test]
fn a_long_text_that_stands_in_many_places_is_refused_before_it_is_copied() {
    let long = "x".repeat(1 << 20);
    let refer: Vec<String> = (0..1_900)
        .map(|n| format!(r##""a{n}":{{"$ref":"#/$defs/x"}}"##))
        .collect();
    let refer = refer.join(",");
    for inner in [
        format!(r#"{{"{long}":1}}"#),
        format!(r#"{{"$ref":"{long}"}}"#),
        format!(r#"{{"patternProperties":{{"{long}":{{}}}}}}"#),
        format!(r#"{{"properties":{{"{long}":{{"properties":{{"a":{{}},"b":{{}}}}}}}}}}"#),
        format!(r#"{{"required":["{long}"]}}"#),
        format!(r#"{{"enum":["{long}"]}}"#),
    ] {
        let text = format!(
            r#"[{{"name":"t","inputSchema":{{"properties":{{{refer}}},"$defs":{{"x":{inner}}}}}}}]"#
        );
        let error = refused(&text);
        assert!(matches!(error.fault, Fault::Steps), "{error}");
    }
    // Once is no harm, and a text for people is cut where nobody reads on.
    let once = export(&format!(r#"{{"{long}":{{"type":"string","{long}":1}}}}"#));
    assert_eq!(scan(once.as_bytes()).unwrap(), 1);
    let text = format!(
        r#"[{{"name":"t","inputSchema":{{"properties":{{{refer}}},"$defs":{{"x":{{"description":"{long}"}}}}}}}}]"#
    );
    assert_eq!(scan(text.as_bytes()).unwrap(), 1_900);
}

#[test]
fn a_file_of_as_much_prose_as_it_may_have_is_read() {
    // Long words: it is the bytes that count here.
    let prose = format!("{} ", "w".repeat(99)).repeat(50);
    let properties: Vec<String> = (0..1_600)
        .map(|n| format!(r#""a{n}":{{"type":"string","description":"{prose}"}}"#))
        .collect();
    let text = export(&format!("{{{}}}", properties.join(",")));
    assert!(text.len() > 7 << 20);
    assert_eq!(scan(text.as_bytes()).unwrap(), 1_600);
}
