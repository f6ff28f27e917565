//! The worker over its real channel against a real server on loopback.

use std::{os::fd::AsFd as _, time::Duration};

use crate::server::{Server, Step, answer};
use custody_sys::{channel, memfd};
use custody_wire::{
    frame,
    perform::{Answer, Http, Placement, Request},
};
use gate::id::{CredentialLabel, SessionId};
use tokio::{net::UnixStream, task::JoinHandle};

const SECRET: &str = "fake-token-for-tests/7Q+x";

struct Worker {
    channel: UnixStream,
    task: JoinHandle<Result<(), custody_effect::worker::WorkerError>>,
    next: u64,
}

impl Worker {
    async fn start() -> Self {
        let (ours, theirs) = channel::pair_stream().unwrap();
        let hello = Request::Hello {
            session: SessionId(7),
            label: CredentialLabel::parse("token").unwrap(),
            placement: Placement::Header {
                name: "authorization".into(),
                prefix: "Bearer ".into(),
            },
        };
        let secret = memfd::sealed(c"credential", SECRET.as_bytes()).unwrap();
        let bytes = frame::frame(&hello).unwrap();
        channel::send(&ours, &bytes, &[secret.as_fd()]).unwrap();
        drop(secret);
        let task = tokio::spawn(custody_effect::worker::serve(theirs));
        let ours = std::os::unix::net::UnixStream::from(ours);
        ours.set_nonblocking(true).unwrap();
        let mut channel = UnixStream::from_std(ours).unwrap();
        let ready: Answer = frame::read_async(&mut channel).await.unwrap();
        assert!(matches!(ready, Answer::Ready));
        Self {
            channel,
            task,
            next: 0,
        }
    }

    async fn perform(&mut self, http: Http) -> Answer {
        self.next += 1;
        let number = self.next;
        let request = Request::Http {
            number,
            request: http,
        };
        frame::write_async(&mut self.channel, &request)
            .await
            .unwrap();
        frame::read_async(&mut self.channel).await.unwrap()
    }

    async fn done(&mut self, http: Http) -> (u16, String, u32) {
        match self.perform(http).await {
            Answer::Done {
                status,
                body,
                scrubbed,
                ..
            } => (status, String::from_utf8(body).unwrap(), scrubbed),
            other => panic!("{other:?}"),
        }
    }

    async fn failed(&mut self, http: Http) -> (String, bool) {
        match self.perform(http).await {
            Answer::Failed { why, sent, .. } => {
                assert!(!why.contains("fake-token"), "{why}");
                (why, sent)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn post(server: &Server) -> Http {
    Http {
        method: "POST".into(),
        tls: false,
        host: "localhost".into(),
        port: server.address.port(),
        addresses: vec![server.address],
        target: "/v1/send?x=1".into(),
        headers: vec![("content-type".into(), "application/json".into())],
        body: b"{\"a\":1}".to_vec(),
        timeout_ms: 5_000,
        answer_cap: 64 << 10,
    }
}

fn ok() -> Server {
    Server::start(|_| {
        answer(
            "200 OK",
            &[("content-type", "application/json")],
            b"{\"ok\":true}",
        )
    })
}

#[tokio::test]
async fn a_request_arrives_with_the_credential_and_only_its_own_fields() {
    let server = ok();
    let mut worker = Worker::start().await;
    let (status, body, scrubbed) = worker.done(post(&server)).await;
    assert_eq!((status, body.as_str(), scrubbed), (200, "{\"ok\":true}", 0));
    let received = server.received();
    assert_eq!(received.len(), 1);
    let head = &received[0].head;
    assert!(head.starts_with("POST /v1/send?x=1 HTTP/1.1\r\n"), "{head}");
    assert_eq!(
        received[0].field("authorization"),
        Some(&*format!("Bearer {SECRET}"))
    );
    assert_eq!(
        received[0].field("host"),
        Some(&*format!("localhost:{}", server.address.port()))
    );
    assert_eq!(received[0].field("accept-encoding"), None);
    assert_eq!(received[0].body, b"{\"a\":1}");
    // Request line, four fields, the empty line.
    assert_eq!(head.lines().count(), 6, "{head}");
}

#[tokio::test]
async fn a_connection_is_used_again_and_its_end_is_noticed() {
    let server = Server::start(|request| {
        let mut steps = answer("200 OK", &[], b"");
        if request.head.starts_with("GET") {
            steps.push(Step::Close);
        }
        steps
    });
    let mut worker = Worker::start().await;
    for method in ["POST", "POST", "GET", "POST"] {
        let mut http = post(&server);
        http.method = method.into();
        assert_eq!(worker.done(http).await.0, 200);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let connections: Vec<usize> = server.received().iter().map(|r| r.connection).collect();
    assert_eq!(connections, [0, 0, 0, 1]);
}

#[tokio::test]
async fn a_kept_connection_never_serves_an_address_that_was_not_checked() {
    let server = ok();
    let mut worker = Worker::start().await;
    worker.done(post(&server)).await;
    let mut elsewhere = post(&server);
    elsewhere.addresses = vec!["127.0.0.2:1".parse().unwrap()];
    let (why, sent) = worker.failed(elsewhere).await;
    assert!(why.contains("127.0.0.2:1"), "{why}");
    assert!(!sent);
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn the_first_address_that_takes_the_connection_is_used() {
    let server = ok();
    let mut worker = Worker::start().await;
    let mut http = post(&server);
    http.addresses.insert(0, "127.0.0.2:1".parse().unwrap());
    assert_eq!(worker.done(http).await.0, 200);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let target = ok();
    let location = format!("http://{}/?t={SECRET}", target.address);
    let server = Server::start(move |_| {
        answer(
            "302 Found",
            &[("location", &location), ("x-echo", SECRET)],
            b"moved",
        )
    });
    let mut worker = Worker::start().await;
    let answer = worker.perform(post(&server)).await;
    assert!(!format!("{answer:?}").contains("fake-token"), "{answer:?}");
    let Answer::Done {
        status,
        body,
        media_type,
        ..
    } = answer
    else {
        panic!("{answer:?}")
    };
    assert_eq!(
        (status, body.as_slice(), media_type),
        (302, &b"moved"[..], None)
    );
    assert_eq!(target.received().len(), 0);
}

#[tokio::test]
async fn an_echo_is_scrubbed_wherever_the_chunks_are_cut() {
    // The whole head as it came, in a body of chunks of three bytes.
    let server = Server::start(|request| {
        let mut steps = vec![Step::Send(
            b"HTTP/1.1 400 Bad Request\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
        )];
        let echo = format!("you sent <{}>", request.field("authorization").unwrap());
        for chunk in echo.as_bytes().chunks(3) {
            let mut bytes = format!("{:x}\r\n", chunk.len()).into_bytes();
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
            steps.push(Step::Send(bytes));
            steps.push(Step::Wait(Duration::from_millis(2)));
        }
        steps.push(Step::Send(
            format!("0\r\nx-trailer: {}\r\n\r\n", SECRET).into_bytes(),
        ));
        steps
    });
    let mut worker = Worker::start().await;
    let (status, body, scrubbed) = worker.done(post(&server)).await;
    assert_eq!(
        (status, body.as_str(), scrubbed),
        (400, "you sent <Bearer [credential]>", 1)
    );
}

#[tokio::test]
async fn an_echo_in_the_media_type_is_scrubbed() {
    let server = Server::start(|_| {
        answer(
            "200 OK",
            &[("content-type", &format!("text/plain; x=\"{SECRET}\""))],
            b"",
        )
    });
    let mut worker = Worker::start().await;
    match worker.perform(post(&server)).await {
        Answer::Done {
            media_type,
            scrubbed,
            ..
        } => {
            assert_eq!(
                media_type.as_deref(),
                Some("text/plain; x=\"[credential]\"")
            );
            assert_eq!(scrubbed, 1);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_encoded_answer_is_refused_whatever_it_holds() {
    for field in ["content-encoding", "transfer-encoding"] {
        for value in ["gzip", "br", SECRET, "identity, gzip"] {
            let bytes =
                format!("HTTP/1.1 200 OK\r\n{field}: {value}\r\nconnection: close\r\n\r\nxyz");
            let server =
                Server::start(move |_| vec![Step::Send(bytes.clone().into_bytes()), Step::Close]);
            let mut worker = Worker::start().await;
            let (why, sent) = worker.failed(post(&server)).await;
            assert!(sent, "{field}: {value}: {why}");
            assert!(!why.contains(value), "the server's own words: {why}");
            assert!(
                field == "transfer-encoding" || why.contains(field),
                "{field}: {value}: {why}"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_over_its_cap_is_refused_and_counts_as_sent() {
    let server = Server::start(|_| answer("200 OK", &[], &vec![b'x'; 1001]));
    let mut worker = Worker::start().await;
    let mut http = post(&server);
    http.answer_cap = 1000;
    let (why, sent) = worker.failed(http.clone()).await;
    assert!(why.contains("more than 1000 bytes") && sent, "{why}");
    http.answer_cap = 1001;
    assert_eq!(worker.done(http).await.1.len(), 1001);
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let server = Server::start(|_| {
        let line = format!("x-filler: {}\r\n", "y".repeat(1000));
        let mut steps = vec![Step::Send(b"HTTP/1.1 200 OK\r\n".to_vec())];
        steps.extend(vec![Step::Send(line.into_bytes()); 100]);
        steps.push(Step::Wait(Duration::from_secs(60)));
        steps
    });
    let mut worker = Worker::start().await;
    let (why, sent) = worker.failed(post(&server)).await;
    assert!(why.contains("too large") && sent, "{why}");
}

#[tokio::test]
async fn a_server_that_stalls_is_left_and_the_effect_may_have_happened() {
    // Before the head, inside the head, inside the body.
    for begin in [
        "",
        "HTTP/1.1 200 OK\r\ncont",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc",
    ] {
        let server = Server::start(move |_| {
            vec![
                Step::Send(begin.as_bytes().to_vec()),
                Step::Wait(Duration::from_secs(60)),
            ]
        });
        let mut worker = Worker::start().await;
        let mut http = post(&server);
        http.timeout_ms = 150;
        let (why, sent) = worker.failed(http).await;
        assert!(why.contains("within 150 ms") && sent, "{why}");
        assert_eq!(server.received().len(), 1);
    }
}

#[tokio::test]
async fn a_connection_that_dies_under_the_request_is_not_tried_again() {
    for _ in 0..20 {
        // The second request on the kept connection is read and met with a close.
        let server = Server::start(|request| match &*request.body {
            b"last" => vec![Step::Close],
            _ => answer("200 OK", &[], b""),
        });
        let mut worker = Worker::start().await;
        worker.done(post(&server)).await;
        let mut last = post(&server);
        last.body = b"last".to_vec();
        let (why, sent) = worker.failed(last).await;
        assert!(sent, "{why}");
        assert_eq!(server.received().len(), 2, "performed once, not again");
    }
}

#[tokio::test]
async fn nothing_was_sent_where_nobody_listens() {
    let mut worker = Worker::start().await;
    let server = ok();
    let mut http = post(&server);
    http.addresses = vec!["127.0.0.1:1".parse().unwrap()];
    let (why, sent) = worker.failed(http).await;
    assert!(
        why.contains("cannot connect to 127.0.0.1:1") && !sent,
        "{why}"
    );
}

#[tokio::test]
async fn requests_are_performed_side_by_side() {
    let server = Server::start(|_| {
        let mut steps = vec![Step::Wait(Duration::from_millis(300))];
        steps.extend(answer("200 OK", &[], b""));
        steps
    });
    let mut worker = Worker::start().await;
    let start = std::time::Instant::now();
    for number in 0..8 {
        let request = Request::Http {
            number,
            request: post(&server),
        };
        frame::write_async(&mut worker.channel, &request)
            .await
            .unwrap();
    }
    for _ in 0..8 {
        let answer: Answer = frame::read_async(&mut worker.channel).await.unwrap();
        assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
    }
    assert!(
        start.elapsed() < Duration::from_millis(1500),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn the_worker_ends_with_its_channel_and_refuses_a_second_credential() {
    let worker = Worker::start().await;
    drop(worker.channel);
    worker.task.await.unwrap().unwrap();

    let mut worker = Worker::start().await;
    let hello = Request::Hello {
        session: SessionId(7),
        label: CredentialLabel::parse("other").unwrap(),
        placement: Placement::Header {
            name: "authorization".into(),
            prefix: String::new(),
        },
    };
    frame::write_async(&mut worker.channel, &hello)
        .await
        .unwrap();
    assert!(worker.task.await.unwrap().is_err());
}

#[tokio::test]
async fn a_channel_that_does_not_begin_with_one_credential_is_refused() {
    let server = ok();
    let hello = Request::Hello {
        session: SessionId(7),
        label: CredentialLabel::parse("token").unwrap(),
        placement: Placement::Header {
            name: "authorization".into(),
            prefix: "Bearer ".into(),
        },
    };
    let request = Request::Http {
        number: 1,
        request: post(&server),
    };
    let secret = || memfd::sealed(c"credential", SECRET.as_bytes()).unwrap();
    let short = || memfd::sealed(c"credential", b"abc").unwrap();
    let cases = [
        (frame::frame(&hello).unwrap(), vec![]),
        (frame::frame(&hello).unwrap(), vec![secret(), secret()]),
        (frame::frame(&hello).unwrap(), vec![short()]),
        (frame::frame(&request).unwrap(), vec![secret()]),
        (b"\x08\0\0\0garbage!".to_vec(), vec![secret()]),
        (u32::MAX.to_le_bytes().to_vec(), vec![secret()]),
    ];
    for (bytes, fds) in cases {
        let (ours, theirs) = channel::pair_stream().unwrap();
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        channel::send(&ours, &bytes, &fds).unwrap();
        drop(ours);
        let error = custody_effect::worker::serve(theirs).await.unwrap_err();
        assert!(!format!("{error:?}").contains("fake-token"), "{error:?}");
    }
    assert_eq!(server.received().len(), 0);
}
