//! A server that says what a test writes.

use std::collections::VecDeque;

use super::*;

/// A server that says these lines, one after each request, and keeps what it was asked.
struct Script {
    says: VecDeque<Vec<String>>,
    ready: VecDeque<String>,
    asked: Vec<Value>,
}

impl Script {
    fn of(says: &[&[&str]]) -> Self {
        let lines = |all: &&[&str]| all.iter().map(|it| (*it).to_owned()).collect();
        Self {
            says: says.iter().map(lines).collect(),
            ready: VecDeque::new(),
            asked: Vec::new(),
        }
    }

    fn list(&mut self) -> Result<Listed, TalkError> {
        list(self, Instant::now())
    }

    fn methods(&self) -> Vec<String> {
        let method = |it: &Value| {
            let Value::Object(it) = it else {
                panic!("{it:?}");
            };
            said(it.get("method"))
        };
        self.asked.iter().map(method).collect()
    }
}

impl Link for Script {
    fn send(&mut self, line: &str) -> io::Result<()> {
        let message = json::parse(line.as_bytes(), &LIMITS).unwrap();
        let is_request = matches!(&message, Value::Object(it) if it.contains_key("id") && it.contains_key("method"));
        self.asked.push(message);
        if is_request {
            self.ready.extend(self.says.pop_front().unwrap_or_default());
        }
        Ok(())
    }

    fn next(&mut self, _deadline: Instant) -> Result<Vec<u8>, LinkError> {
        self.ready
            .pop_front()
            .map(String::into_bytes)
            .ok_or(LinkError::Late)
    }
}

const READY: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"}}}"#;

#[test]
fn every_page_is_asked_for_and_what_is_not_an_answer_is_put_aside() {
    let mut script = Script::of(&[
        &[
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#,
            READY,
        ],
        &[
            r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a"}],"nextCursor":"p2"}}"#,
        ],
        &[r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"b"}]}}"#],
    ]);
    let listed = script.list().unwrap();
    assert_eq!(
        (listed.server.as_str(), listed.protocol.as_str()),
        ("s 1", "2025-11-25")
    );
    assert_eq!(listed.tools.len(), 2);
    assert_eq!(
        script.methods(),
        [
            "initialize",
            "notifications/initialized",
            "tools/list",
            "",
            "",
            "tools/list"
        ]
    );
    let last = json::canonical(script.asked.last().unwrap());
    assert!(
        String::from_utf8(last)
            .unwrap()
            .contains(r#""params":{"cursor":"p2"}"#)
    );
    let export = listed.export().unwrap();
    assert!(String::from_utf8(export).unwrap().contains("said_by"));
}

#[test]
fn a_server_without_a_handshake_is_asked_by_the_newer_revision() {
    let mut script = Script::of(&[
        &[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#],
        &[
            r#"{"jsonrpc":"2.0","id":2,"result":{"supportedVersions":["2026-07-28"],"resultType":"complete"}}"#,
        ],
        &[r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[],"resultType":"complete"}}"#],
    ]);
    assert_eq!(script.list().unwrap().protocol, "2026-07-28");
    assert_eq!(
        script.methods(),
        ["initialize", "server/discover", "tools/list"]
    );
    let last = String::from_utf8(json::canonical(script.asked.last().unwrap())).unwrap();
    assert!(
        last.contains(r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#),
        "{last}"
    );
}

#[test]
fn what_is_not_as_mcp_has_it_is_refused_each_for_its_own_reason() {
    let page = |more: &str| format!(r#"{{"jsonrpc":"2.0","id":2,"result":{{{more}}}}}"#);
    for (answer, why) in [
        (page(r#""tools":{}"#), "no list `tools`"),
        (page(r#""tools":[],"nextCursor":7"#), "no short text"),
        (
            page(r#""tools":[],"resultType":"input_required""#),
            "wants something",
        ),
        (page(r#""tools":[],"tools":[]"#), "twice"),
        (
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"no"}}"#.into(),
            "refuses `tools/list`: no",
        ),
        (
            r#"{"jsonrpc":"2.0","id":2,"result":{},"error":{}}"#.into(),
            "not one object",
        ),
        ("[]".into(), "no object"),
        ("hello".into(), "not json"),
    ] {
        let error = Script::of(&[&[READY], &[&answer]])
            .list()
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{answer}: {error}");
    }
    let other = READY.replace("2025-11-25", "1999-01-01");
    let error = Script::of(&[&[&other]]).list().unwrap_err();
    assert!(matches!(error, TalkError::Protocol { .. }), "{error}");
    let error = Script::of(&[&[]]).list().unwrap_err();
    assert!(
        matches!(error, TalkError::Late { method: INITIALIZE }),
        "{error}"
    );
}

/// Whatever it gives, the asking ends.
#[test]
fn pages_without_end_and_the_same_page_again_are_refused() {
    let circle = r#"{"jsonrpc":"2.0","id":N,"result":{"tools":[],"nextCursor":"p"}}"#;
    let pages: Vec<String> = (2..10)
        .map(|it| circle.replace('N', &it.to_string()))
        .collect();
    let mut says: Vec<Vec<&str>> = vec![vec![READY]];
    says.extend(pages.iter().map(|it| vec![it.as_str()]));
    let says: Vec<&[&str]> = says.iter().map(Vec::as_slice).collect();
    assert!(matches!(Script::of(&says).list(), Err(TalkError::Circle)));

    let page = |n: usize| {
        format!(r#"{{"jsonrpc":"2.0","id":{n},"result":{{"tools":[],"nextCursor":"p{n}"}}}}"#)
    };
    let pages: Vec<String> = (2..=PAGES_MAX + 2).map(page).collect();
    let mut says: Vec<Vec<&str>> = vec![vec![READY]];
    says.extend(pages.iter().map(|it| vec![it.as_str()]));
    let says: Vec<&[&str]> = says.iter().map(Vec::as_slice).collect();
    assert!(matches!(
        Script::of(&says).list(),
        Err(TalkError::Many { .. })
    ));

    let noise = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    let noise = vec![noise; ASIDE_MAX + 1];
    assert!(matches!(
        Script::of(&[&noise]).list(),
        Err(TalkError::Many { .. })
    ));
}
