//! The HTTP connector: one request, one answer, scrubbed whole before it is released.

use std::{sync::Arc, time::Duration};

use custody_sys::clock;
use custody_wire::{
    agent::RESULT_CAP,
    perform::{Answer, Http},
};
use gate::freshness::entity_tag;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use crate::{
    connect::{ConnectError, Connection, Connections},
    credential::Credential,
    request::{self, RequestError},
    scrub::{self, Scrubber},
};

/// The longest reason in bytes.
const WHY_MAX: usize = 1 << 10;

/// The longest media type in bytes; the longest registered one has fewer than 100.
const MEDIA_TYPE_MAX: usize = 255;

/// Performs HTTP requests with one credential.
#[derive(Debug)]
pub struct Connector {
    pub(crate) credential: Arc<Credential>,
    pub(crate) connections: Connections,
}

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PerformError {
    #[error("no connection")]
    Connect(#[source] ConnectError),
    #[error("the vault cut it")]
    Cut,
    #[error(
        "the answer has a `{field}` of its own, so that the credential could not be found in it"
    )]
    Encoded { field: &'static str },
    #[error("the exchange failed")]
    Exchange(#[source] hyper::Error),
    #[error("the answer has more than {cap} bytes")]
    OverCap { cap: usize },
    #[error("the request is not sent")]
    Request(#[source] RequestError),
    #[error("the server switched to another protocol")]
    Switched,
    #[error("no whole answer within {ms} ms")]
    Timeout { ms: u32 },
}

impl Connector {
    /// A connector that holds this credential.
    pub fn new(credential: Credential) -> Self {
        Self {
            credential: Arc::new(credential),
            connections: Connections::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn trusting(credential: Credential, roots: rustls::RootCertStore) -> Self {
        Self {
            credential: Arc::new(credential),
            connections: Connections::trusting(roots),
        }
    }

    /// Performs one request. Nothing of the answer leaves before all of it is here and scrubbed.
    /// Never retries what may have reached the server.
    pub async fn perform(&self, number: u64, http: &Http) -> Answer {
        let mut sent = Sent::No;
        let mut began = 0;
        let deadline = Instant::now() + Duration::from_millis(u64::from(http.timeout_ms));
        let outcome = match timeout_at(deadline, self.exchange(http, &mut sent, &mut began)).await {
            Ok(outcome) => outcome,
            Err(_late) => Err(PerformError::Timeout {
                ms: http.timeout_ms,
            }),
        };
        match outcome {
            Ok(answer) => Answer::Done {
                number,
                status: answer.status.as_u16(),
                media_type: answer.media_type,
                body: answer.body,
                scrubbed: answer.scrubbed,
                etag: answer.etag,
                span: (began, clock::boot_ns()),
            },
            Err(error) => Answer::Failed {
                number,
                why: self.reason(&error),
                sent: sent == Sent::Maybe,
            },
        }
    }

    async fn exchange(
        &self,
        http: &Http,
        sent: &mut Sent,
        began: &mut u64,
    ) -> Result<Whole, PerformError> {
        let Begun {
            connection,
            ending,
            response,
        } = self.begin(http, sent, began).await?;
        let whole = self.read(http, response).await?;
        ending.keep();
        self.connections.keep(http, connection);
        Ok(whole)
    }

    /// Sends the request, and has the head of its answer.
    pub(crate) async fn begin(
        &self,
        http: &Http,
        sent: &mut Sent,
        began: &mut u64,
    ) -> Result<Begun, PerformError> {
        let mut request = request::build(http, &self.credential).map_err(PerformError::Request)?;
        let mut kept = self.connections.kept(http).await;
        loop {
            let (mut connection, fresh) = match kept.take() {
                Some(connection) => (connection, false),
                None => {
                    let made = self.connections.new_one(http).await;
                    (made.map_err(PerformError::Connect)?, true)
                }
            };
            // From here on bytes may be on their way, whatever is said later.
            *sent = Sent::Maybe;
            *began = clock::boot_ns();
            let ending = Ending::of(&connection);
            match connection.sender.try_send_request(request).await {
                Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    return Err(PerformError::Switched);
                }
                Ok(response) => {
                    refuse_encoded(response.headers())?;
                    return Ok(Begun {
                        connection,
                        ending,
                        response,
                    });
                }
                Err(mut error) => match error.take_message() {
                    // hyper gives the request back only if it wrote nothing of it: a kept
                    // connection that the server had closed. One new connection is tried.
                    Some(unsent) if !fresh => {
                        *sent = Sent::No;
                        request = unsent;
                    }
                    Some(_unsent) => {
                        *sent = Sent::No;
                        return Err(PerformError::Exchange(error.into_error()));
                    }
                    None => return Err(PerformError::Exchange(error.into_error())),
                },
            }
        }
    }

    async fn read(&self, http: &Http, response: Response<Incoming>) -> Result<Whole, PerformError> {
        let (head, mut body) = response.into_parts();
        let cap = usize::try_from(http.answer_cap)
            .unwrap_or(usize::MAX)
            .min(RESULT_CAP);
        let mut scrubber = Scrubber::new(Arc::clone(&self.credential));
        let (mut out, mut read) = (Vec::new(), 0_usize);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(PerformError::Exchange)?;
            // Trailers are not passed on.
            let Ok(chunk) = frame.into_data() else {
                continue;
            };
            read = read.saturating_add(chunk.len());
            if read > cap {
                return Err(PerformError::OverCap { cap });
            }
            scrubber.push(&chunk, &mut out);
        }
        let mut scrubbed = scrubber.finish(&mut out);
        // The mark may be longer than what it stands for.
        if out.len() > RESULT_CAP {
            return Err(PerformError::OverCap { cap: RESULT_CAP });
        }
        let media_type = self.media_type(&head.headers, &mut scrubbed);
        let etag = self.etag(&head.headers);
        // No other header field is passed on: not `location`, so that a redirect is an answer and
        // not an errand, and nothing in which a server could echo the credential.
        Ok(Whole {
            status: head.status,
            media_type,
            body: out,
            scrubbed,
            etag,
        })
    }

    /// A version that has the credential in it is none.
    fn etag(&self, fields: &HeaderMap) -> Option<String> {
        let value = fields.get(header::ETAG)?;
        let (value, count) = scrub::whole(&self.credential, value.as_bytes());
        let text = String::from_utf8(value).ok().filter(|_| count == 0)?;
        entity_tag(&text).filter(|tag| *tag == text)
    }

    fn media_type(&self, fields: &HeaderMap, scrubbed: &mut u32) -> Option<String> {
        let value = fields.get(header::CONTENT_TYPE)?;
        let (value, count) = scrub::whole(&self.credential, value.as_bytes());
        *scrubbed = scrubbed.saturating_add(count);
        let plain = value.len() <= MEDIA_TYPE_MAX && value.iter().all(|b| matches!(b, b' '..=b'~'));
        plain.then(|| String::from_utf8_lossy(&value).into_owned())
    }

    /// The whole chain of causes in one line: scrubbed, for a server's words may be in it.
    pub(crate) fn reason(&self, error: &dyn std::error::Error) -> String {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            text.push_str(": ");
            text.push_str(&inner.to_string());
            cause = inner.source();
        }
        let (text, _count) = scrub::whole(&self.credential, text.as_bytes());
        let mut text: String = String::from_utf8_lossy(&text)
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        text.truncate(text.floor_char_boundary(WHY_MAX));
        text
    }
}

/// Whether a byte of the request may have left this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sent {
    Maybe,
    No,
}

/// An answer whose head is here, and the connection that it comes over.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) connection: Connection,
    pub(crate) ending: Ending,
    pub(crate) response: Response<Incoming>,
}

/// A whole answer.
struct Whole {
    status: StatusCode,
    media_type: Option<String>,
    body: Vec<u8>,
    scrubbed: u32,
    etag: Option<String>,
}

fn refuse_encoded(fields: &HeaderMap) -> Result<(), PerformError> {
    for (name, field, allowed) in [
        (header::CONTENT_ENCODING, "content-encoding", "identity"),
        (header::TRANSFER_ENCODING, "transfer-encoding", "chunked"),
    ] {
        let plain = |value: &HeaderValue| {
            let value = value.as_bytes().trim_ascii();
            value.eq_ignore_ascii_case(allowed.as_bytes())
        };
        if !fields.get_all(name).iter().all(plain) {
            // Not which one: a server can write the credential there, encoded as no one looks for it.
            return Err(PerformError::Encoded { field });
        }
    }
    Ok(())
}

/// Ends a connection unless its answer was read to the end: a timeout drops the future half-way,
/// and nothing more of the request must leave then.
#[derive(Debug)]
pub(crate) struct Ending {
    driver: Option<tokio::task::AbortHandle>,
}

impl Ending {
    fn of(connection: &Connection) -> Self {
        Self {
            driver: Some(connection.driver()),
        }
    }

    pub(crate) fn keep(mut self) {
        self.driver = None;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::{RootCertStore, ServerConfig, pki_types::PrivatePkcs8KeyDer};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };
    use tokio_rustls::TlsAcceptor;

    /// A TLS server whose certificate is for `name`; it counts the bytes that it reads in clear.
    async fn tls_server(name: &str) -> (std::net::SocketAddr, RootCertStore, Arc<Mutex<Vec<u8>>>) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        drop(tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let mut buffer = [0; 4096];
                let len = stream.read(&mut buffer).await.unwrap();
                kept.lock().unwrap().extend_from_slice(&buffer[..len]);
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                stream.write_all(answer).await.unwrap();
            }
        }));
        (address, roots, seen)
    }

    fn get(address: std::net::SocketAddr) -> Http {
        Http {
            method: "GET".into(),
            tls: true,
            host: "api.example".into(),
            port: address.port(),
            addresses: vec![address],
            target: "/".into(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout_ms: 5_000,
            answer_cap: 1_000,
        }
    }

    fn credential() -> Credential {
        Credential::from_bytes(b"fake-token-for-tests", "Bearer ").unwrap()
    }

    #[tokio::test]
    async fn a_server_with_the_hosts_certificate_is_spoken_to() {
        let (address, roots, seen) = tls_server("api.example").await;
        let connector = Connector::trusting(credential(), roots);
        let answer = connector.perform(1, &get(address)).await;
        assert!(
            matches!(&answer, Answer::Done { body, .. } if body == b"ok"),
            "{answer:?}"
        );
        let seen = String::from_utf8(seen.lock().unwrap().clone()).unwrap();
        assert!(seen.contains("Bearer fake-token-for-tests"), "{seen}");
    }

    #[tokio::test]
    async fn a_server_with_another_certificate_never_sees_the_credential() {
        let (address, roots, seen) = tls_server("other.example").await;
        let (_address, unknown, _seen) = tls_server("api.example").await;
        for roots in [roots, unknown] {
            let connector = Connector::trusting(credential(), roots);
            let answer = connector.perform(1, &get(address)).await;
            let Answer::Failed { why, sent, .. } = answer else {
                panic!("{answer:?}");
            };
            assert!(why.contains("certificate") && !sent, "{why}");
            // Neither the name in it nor any other word of the server.
            assert!(!why.contains("other.example"), "{why}");
        }
        assert_eq!(seen.lock().unwrap().len(), 0);
    }
}
