//! Both eras of the protocol, and what the gate's answers become.

use gate::digest::{Digest, Domain};
use serde_json::{Value, json};

use crate::peer::{Session, call, self_contained};

#[tokio::test]
async fn the_handshake_of_each_older_revision_is_taken() {
    let session = Session::start();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut agent = session.agent().await;
        let answer = agent.shake_hands(version).await;
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "custody");
        let answer = agent.call("echo", json!({"a": 1})).await;
        assert_eq!(answer["result"]["structuredContent"], json!({"a": 1}));
        assert_eq!(answer["result"].get("resultType"), None, "{answer}");
    }
}

#[tokio::test]
async fn the_newest_revision_needs_no_handshake() {
    let session = Session::start();
    let mut agent = session.agent().await;
    let discover = json!({"jsonrpc": "2.0", "id": "d", "method": "server/discover", "params": {}});
    let answer = agent.ask(&self_contained(discover)).await;
    let versions = answer["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{answer}");
    assert!(versions.contains(&json!("2025-11-25")), "{answer}");

    let answer = agent
        .ask(&self_contained(call(2, "echo", json!({"a": 1}))))
        .await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(answer["result"]["structuredContent"], json!({"a": 1}));
}

#[tokio::test]
async fn a_call_that_waits_is_shown_to_the_user_once_and_then_told_to_the_agent() {
    let session = Session::start();
    let mut agent = session.agent().await;
    let forms = |id, extra: Value| {
        let mut call = self_contained(call(id, "held", json!({})));
        call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"elicitation": {}});
        for (key, value) in extra.as_object().unwrap() {
            call["params"][key] = value.clone();
        }
        call
    };
    let answer = agent.ask(&forms(1, json!({}))).await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let asked = &result["inputRequests"]["approval"];
    assert_eq!(asked["method"], "elicitation/create");
    let said = asked["params"]["message"].as_str().unwrap();
    assert!(
        said.contains("call 9") && said.contains("approves nothing"),
        "{said}"
    );
    assert_eq!(asked["params"]["requestedSchema"]["properties"], json!({}));
    assert_eq!(result["_meta"]["custody/held"]["pending"], 9);
    assert_eq!(
        result["_meta"]["custody/held"]["expires_unix_ms"],
        1_800_000_000_000_u64
    );
    // Whatever the client says to that, and whatever state it makes up: it waits.
    for (id, back) in [
        (
            2,
            json!({"requestState": "custody/9", "inputResponses": {"approval": {"action": "accept", "content": {}}}}),
        ),
        (3, json!({"requestState": "approved"})),
        (4, json!({"inputResponses": {}})),
    ] {
        let answer = agent.ask(&forms(id, back)).await;
        let result = &answer["result"];
        assert_eq!(result["resultType"], "complete", "{answer}");
        assert_eq!(result["isError"], true);
        assert_eq!(result["structuredContent"]["decision"], "hold");
        assert_eq!(result["structuredContent"]["pending"], 9);
    }
    // A client that shows no forms, and one of an older revision, are told at once.
    let answer = agent.ask(&self_contained(call(5, "held", json!({})))).await;
    assert_eq!(
        answer["result"]["structuredContent"]["decision"], "hold",
        "{answer}"
    );
    let mut older = session.agent().await;
    older.shake_hands("2025-11-25").await;
    let answer = older.call("held", json!({})).await;
    assert_eq!(
        answer["result"]["structuredContent"]["pending"], 9,
        "{answer}"
    );
}

#[tokio::test]
async fn a_newest_call_as_the_very_first_message_is_served() {
    let session = Session::start();
    let mut agent = session.agent().await;
    let answer = agent.ask(&self_contained(call(7, "text", json!({})))).await;
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"]["content"][0]["text"], "plain words");
}

#[tokio::test]
async fn a_call_without_handshake_and_without_metadata_is_told_what_is_missing() {
    let session = Session::start();
    let mut agent = session.agent().await;
    let answer = agent.call("echo", json!({})).await;
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("_meta"), "{answer}");
    // The connection is not lost.
    agent.shake_hands("2025-11-25").await;
    let answer = agent.call("echo", json!({})).await;
    assert_eq!(answer["result"]["isError"], false);
}

#[tokio::test]
async fn the_tools_are_the_gates_in_order_with_its_hints() {
    let session = Session::start();
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let answer = agent.ask(&list).await;
    let tools = answer["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 2);
    assert_eq!(tools[0]["name"], "list");
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
    assert_eq!(tools[0]["annotations"]["idempotentHint"], true);
    assert_eq!(tools[1]["name"], "send");
    assert_eq!(tools[1]["description"], "does send");
    assert_eq!(tools[1]["annotations"]["readOnlyHint"], false);
    assert_eq!(
        tools[1]["inputSchema"]["properties"]["to"]["type"],
        "string"
    );
    assert_eq!(agent.ask(&list).await, answer, "the list differs");
}

#[tokio::test]
async fn the_gate_gets_the_arguments_in_their_one_form() {
    let mut session = Session::start();
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    agent
        .say(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments": {"b" : 1.0, "a": "\u00e9"}}}"#,
        )
        .await;
    let answer = agent.hear().await.unwrap();
    let (tool, arguments) = session.asked.recv().await.unwrap();
    assert_eq!(tool, "echo");
    assert_eq!(arguments, "{\"a\":\"é\",\"b\":1}".as_bytes());
    let digest = Digest::of(Domain::Call, &arguments).to_string();
    assert_eq!(answer["result"]["_meta"]["custody/call"], digest);
    assert_eq!(answer["result"]["_meta"]["custody/status"], 200);
}

#[tokio::test]
async fn a_refusal_is_an_error_that_a_model_and_a_program_can_read() {
    let session = Session::start();
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    let answer = agent.call("steal", json!({})).await;
    let result = &answer["result"];
    assert_eq!(result["isError"], true);
    assert_eq!(
        result["structuredContent"],
        json!({"decision": "refuse", "rule": "tool.unregistered", "argument": "to",
               "why": "no tool of this name"})
    );
    let text = result["content"][0]["text"].as_str().unwrap();
    for part in [
        "refused",
        "tool.unregistered",
        "`to`",
        "no tool of this name",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn a_failure_says_whether_it_is_in_doubt_and_a_servers_no_is_an_error() {
    let session = Session::start();
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    let answer = agent.call("broken", json!({})).await;
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(answer["result"]["structuredContent"]["in_doubt"], true);

    let answer = agent.call("forbidden", json!({})).await;
    assert_eq!(answer["result"]["isError"], true);
    assert_eq!(
        answer["result"]["structuredContent"],
        json!({"error": "no"})
    );
    assert_eq!(answer["result"]["_meta"]["custody/status"], 403);
}

#[tokio::test]
async fn a_result_that_is_no_text_says_so() {
    let session = Session::start();
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    let answer = agent.call("bytes", json!({})).await;
    let note = answer["result"]["content"][1]["text"].as_str().unwrap();
    assert!(note.contains("not UTF-8"), "{answer}");
}

#[tokio::test]
async fn answers_come_to_whoever_asked_though_many_ask_at_once() {
    let session = Session::start();
    let mut agents = Vec::new();
    for _ in 0..8 {
        let mut agent = session.agent().await;
        agent.shake_hands("2025-11-25").await;
        agents.push(agent);
    }
    for (n, agent) in agents.iter_mut().enumerate() {
        for id in 0..20 {
            let message = call(id, "echo", json!({"agent": n, "id": id}));
            agent.say(message.to_string()).await;
        }
    }
    for (n, agent) in agents.iter_mut().enumerate() {
        let mut heard = Vec::new();
        for _ in 0..20 {
            let answer = agent.hear().await.unwrap();
            let said = &answer["result"]["structuredContent"];
            assert_eq!(said["agent"], n, "{answer}");
            assert_eq!(said["id"], answer["id"]);
            heard.push(answer["id"].as_u64().unwrap());
        }
        heard.sort_unstable();
        assert_eq!(heard, (0..20).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn what_reading_back_came_to_is_beside_the_answer_and_a_lie_is_an_error() {
    let session = Session::start();
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    let shown = agent.call("shown", json!({})).await["result"].clone();
    let found = &shown["_meta"]["custody/verification"];
    assert_eq!(found["finding"], "verified");
    assert_eq!(shown["structuredContent"], json!({ "ok": true }));
    assert_ne!(shown["isError"], true);
    let lie = agent.call("lie", json!({})).await["result"].clone();
    assert_eq!(lie["isError"], true);
    let found = &lie["structuredContent"]["verification"];
    assert_eq!(
        (&found["finding"], &found["reads"]),
        (&json!("mismatched"), &json!(2))
    );
    let words = lie["content"].to_string();
    assert!(words.contains("Do not take it for done"), "{words}");
    let lost = agent.call("lost", json!({})).await["result"].clone();
    let words = lost["content"].to_string();
    assert!(words.contains("It was performed"), "{words}");
    // Whoever does not know the finding still looks before he repeats it.
    assert_eq!(lost["structuredContent"]["in_doubt"], true);
}

#[tokio::test]
async fn what_was_looked_at_before_the_effect_is_beside_the_answer() {
    let session = Session::start();
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    for (tool, told) in [
        ("conditional", json!({ "condition": "closed" })),
        ("narrowed", json!({ "condition": "narrowed", "ms": 12 })),
        ("shown", Value::Null),
    ] {
        let answer = agent.call(tool, json!({})).await;
        let meta = &answer["result"]["_meta"];
        assert_eq!(meta["custody/freshness"], told, "{answer}");
        assert_eq!(meta["custody/status"], 200);
    }
}

#[tokio::test]
async fn an_id_that_was_another_calls_is_refused_and_never_answered_by_the_first() {
    let mut session = Session::start();
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    let first = agent.ask(&call(7, "echo", json!({ "to": "one" }))).await;
    assert_eq!(first["result"]["structuredContent"]["to"], "one");
    for (tool, arguments) in [
        ("echo", json!({ "to": "two" })),
        ("text", json!({ "to": "one" })),
    ] {
        let again = agent.ask(&call(7, tool, arguments)).await;
        assert_eq!(again["id"], 7);
        let why = again["error"]["message"].as_str().unwrap();
        assert!(why.contains("another call's"), "{again}");
        assert!(!again.to_string().contains("one"), "{again}");
    }
    // The same call is decided on anew.
    let same = agent.ask(&call(7, "echo", json!({ "to": "one" }))).await;
    assert_eq!(same["result"]["structuredContent"]["to"], "one");
    let mut asked = Vec::new();
    while let Ok((tool, arguments)) = session.asked.try_recv() {
        asked.push((tool, arguments));
    }
    assert_eq!(asked.len(), 2, "the gate heard of nothing else");
}
