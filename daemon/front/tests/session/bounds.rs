//! Floods and stalls: bounded, and the neighbours undisturbed.

use std::time::Duration;

use serde_json::json;
use tokio::{io::AsyncWriteExt as _, time::timeout};

use crate::peer::{Agent, Session, call};

async fn is_served(agent: &mut Agent) {
    let served = timeout(Duration::from_secs(5), agent.call("echo", json!({"n": 1})));
    let answer = served.await.expect("a neighbour waits");
    assert_eq!(answer["result"]["structuredContent"], json!({"n": 1}));
}

async fn ready(session: &Session) -> Agent {
    let mut agent = session.agent().await;
    agent.shake_hands("2025-11-25").await;
    agent
}

#[tokio::test]
async fn a_call_in_many_pieces_is_one_call() {
    let session = Session::start();
    let mut agent = ready(&session).await;
    let message = call(1, "echo", json!({"a": "b"})).to_string();
    for byte in message.as_bytes().chunks(3) {
        agent.write.write_all(byte).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    agent.write.write_all(b"\n").await.unwrap();
    let answer = agent.hear().await.unwrap();
    assert_eq!(answer["result"]["structuredContent"], json!({"a": "b"}));
}

#[tokio::test]
async fn idle_and_half_sent_connections_disturb_nobody() {
    let session = Session::start();
    let mut other = ready(&session).await;
    let mut idle = Vec::new();
    for _ in 0..30 {
        let mut agent = session.agent().await;
        agent.write.write_all(b"{\"jsonrpc\":").await.unwrap();
        idle.push(agent);
    }
    is_served(&mut other).await;
}

#[tokio::test]
async fn a_connection_too_many_is_told_so_and_a_place_that_is_left_is_free_again() {
    let session = Session::start();
    let mut agents = Vec::new();
    for _ in 0..32 {
        agents.push(ready(&session).await);
    }
    let mut late = session.agent().await;
    let answer = late.hear().await.unwrap();
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("32 connections"), "{why}");
    assert_eq!(late.hear().await, None);

    drop(agents.pop());
    // The place is free when the front has seen the end.
    for _ in 0..100 {
        let mut next = session.agent().await;
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string() + "\n";
        if next.write.write_all(hello.as_bytes()).await.is_ok()
            && let Some(answer) = next.hear().await
            && answer.get("result").is_some()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the place was not given back");
}

#[tokio::test]
async fn a_reader_that_stalls_stops_its_own_connection_alone() {
    let mut session = Session::start();
    let mut other = ready(&session).await;
    let mut stalled = ready(&session).await;
    // Each answer is 900 KiB, and none is read.
    let writer = tokio::spawn(async move {
        for id in 0..200 {
            let line = call(id, "big", json!({})).to_string() + "\n";
            if stalled.write.write_all(line.as_bytes()).await.is_err() {
                break;
            }
        }
        stalled
    });
    // Until no further call comes through.
    let mut asked = 0;
    while let Ok(Some(_)) = timeout(Duration::from_secs(1), session.asked.recv()).await {
        asked += 1;
    }
    // Those worked on, and as many answers that are not written.
    let most = 2 * custody_front::transport::REQUESTS_MAX;
    assert!(
        (1..=most).contains(&asked),
        "{asked} calls for a stalled reader"
    );
    is_served(&mut other).await;
    writer.abort();
}

#[tokio::test]
async fn calls_that_the_gate_keeps_are_bounded_and_leave_room_for_others() {
    let mut session = Session::start();
    let mut other = ready(&session).await;
    let mut greedy = ready(&session).await;
    for id in 0..100 {
        greedy.say(call(id, "slow", json!({})).to_string()).await;
    }
    is_served(&mut other).await;
    let mut asked = 0;
    while let Ok((tool, _)) = session.asked.try_recv() {
        asked += usize::from(tool == "slow");
    }
    assert_eq!(asked, custody_front::transport::REQUESTS_MAX);
}

#[tokio::test]
async fn cancelled_calls_keep_their_place_until_the_gate_answered() {
    let mut session = Session::start();
    let mut greedy = ready(&session).await;
    for id in 0..100_u64 {
        greedy.say(call(id, "slow", json!({})).to_string()).await;
        greedy
            .say(
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                       "params": {"requestId": id}})
                .to_string(),
            )
            .await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut asked = 0;
    while let Ok((tool, _)) = session.asked.try_recv() {
        asked += usize::from(tool == "slow");
    }
    assert_eq!(asked, custody_front::transport::REQUESTS_MAX);
}

#[tokio::test]
async fn when_the_gate_dies_whoever_waits_is_told_and_the_front_ends() {
    let session = Session::start();
    let mut waiting = ready(&session).await;
    waiting.say(call(5, "slow", json!({})).to_string()).await;
    let mut agent = ready(&session).await;
    agent.say(call(6, "die", json!({})).to_string()).await;
    for agent in [&mut waiting, &mut agent] {
        let answer = agent.hear().await.unwrap();
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{answer}");
        assert_eq!(result["structuredContent"]["in_doubt"], true);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("the gate is gone"), "{text}");
    }
    let why = timeout(Duration::from_secs(5), session.front).await;
    why.expect("the front goes on").unwrap();
    session.gate.await.unwrap();
}

#[tokio::test]
async fn an_agent_that_leaves_in_mid_call_disturbs_nobody() {
    let session = Session::start();
    let mut other = ready(&session).await;
    for _ in 0..40 {
        let mut agent = ready(&session).await;
        agent.say(call(1, "echo", json!({})).to_string()).await;
        drop(agent);
        is_served(&mut other).await;
    }
}
