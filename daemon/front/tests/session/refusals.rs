//! Bad input: each has an answer that says why, and the connection goes on where it can.

use serde_json::json;

use crate::peer::Session;

#[tokio::test]
async fn each_bad_line_is_answered_and_the_next_good_one_is_served() {
    let mut session = Session::start();
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"a":{}{}}}}}}}"#,
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    let big = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"a":"{}"}}}}}}"#,
        "x".repeat(300 << 10)
    );
    let cases: [(&[u8], i64, &str); 9] = [
        (b"{", -32700, "not json"),
        (b"\x00", -32700, "not json"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700, "not json"),
        (deep.as_bytes(), -32700, "nested deeper"),
        (
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"to":"a","to":"b"}}}"#,
            -32700,
            "a key twice",
        ),
        (
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"to":"a\u0000"}}}"#,
            -32700,
            "NUL",
        ),
        (
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"n":1e300}}}"#,
            -32700,
            "number",
        ),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, "batches"),
        (big.as_bytes(), -32602, "`arguments`"),
    ];
    for (line, code, why) in cases {
        agent.say(line).await;
        let answer = agent.hear().await.unwrap();
        assert_eq!(answer["error"]["code"], code, "{answer}");
        let said = answer["error"]["message"].as_str().unwrap();
        assert!(said.contains(why), "{said}");
    }
    let answer = agent.call("echo", json!({"still": "here"})).await;
    assert_eq!(answer["result"]["structuredContent"]["still"], "here");
    // The gate heard of the good call alone.
    assert_eq!(
        session.asked.recv().await.unwrap().1,
        br#"{"still":"here"}"#
    );
    assert!(session.asked.try_recv().is_err());
}

#[tokio::test]
async fn a_line_over_the_cap_is_answered_and_ends_its_connection_alone() {
    let session = Session::start();
    let mut other = session.agent().await;
    other.shake_hands("2025-11-25").await;
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    agent.say(vec![b'x'; 3 << 20]).await;
    let answer = agent.hear().await.unwrap();
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("at most 1048576 bytes"), "{why}");
    assert_eq!(agent.hear().await, None);
    let answer = other.call("echo", json!({})).await;
    assert_eq!(answer["result"]["isError"], false);
}

#[tokio::test]
async fn an_unknown_method_is_not_found_and_nothing_is_lost() {
    let session = Session::start();
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    for method in [
        "resources/list",
        "prompts/list",
        "custody/allow",
        "tasks/get",
    ] {
        let answer = agent
            .ask(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}))
            .await;
        assert!(answer["error"]["code"].is_i64(), "{method}: {answer}");
    }
    let answer = agent.call("echo", json!({})).await;
    assert_eq!(answer["result"]["isError"], false);
}

#[tokio::test]
async fn nothing_in_a_message_names_the_session_or_approves() {
    let mut session = Session::start();
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    let answer = agent
        .ask(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "echo",
                "arguments": {"a": 1},
                "session": "0000000000000001",
                "uid": 0,
                "requestState": "approved",
                "inputResponses": {"approve": {"action": "accept", "content": {}}},
                "_meta": {"custody/session": "0000000000000001", "approved": true},
            }}),
        )
        .await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    // All that crosses the border to the gate.
    let asked = session.asked.recv().await.unwrap();
    assert_eq!(asked, ("echo".into(), br#"{"a":1}"#.to_vec()));
}

#[tokio::test]
async fn notifications_and_answers_out_of_place_are_passed_over() {
    let session = Session::start();
    let mut agent = session.agent().await;
    agent
        .say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
        .await;
    agent
        .say(r#"{"jsonrpc":"2.0","id":9,"result":{"x":1}}"#)
        .await;
    agent.say("").await;
    agent.shake_hands("2025-11-25").await;
    let answer = agent.call("echo", json!({})).await;
    assert_eq!(answer["result"]["isError"], false);
}
