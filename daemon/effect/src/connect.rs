//! Connections: made to the checked addresses only, kept for the next request.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::{
    CertificateError, ClientConfig, Error as TlsError, RootCertStore, pki_types::ServerName,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::AbortHandle,
    time::Instant,
};
use tokio_rustls::TlsConnector;

use custody_wire::perform::Http;

use crate::host::Host;

/// How long one address may take to answer a connect. A dead first address leaves time for others.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a connection is kept unused. Shorter than the 5 s after which some servers close, so
/// that a request seldom meets a connection that is about to end.
const KEPT: Duration = Duration::from_secs(4);

/// The most connections that are kept for one destination.
const KEPT_MAX: usize = 8;

/// The most bytes of an answer's head.
const HEAD_CAP: usize = 64 << 10;

/// The most header fields of an answer.
const FIELDS_MAX: usize = 128;

/// Where systems keep their root certificates, most used first. No environment variable is asked:
/// it could name other ones.
const ROOTS: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Why there is no connection. Nothing of a request was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// TCP.
    #[error("cannot connect to {address}")]
    Connect {
        /// The last address that was tried.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// HTTP could not begin.
    #[error("cannot begin HTTP with {address}")]
    Http {
        /// The address.
        address: SocketAddr,
        /// hyper's words.
        source: hyper::Error,
    },
    /// No address at all.
    #[error("there is no address to connect to")]
    NoAddress,
    /// No root certificate was found.
    #[error("no root certificate of this system can be read")]
    NoRoots,
    /// TLS.
    #[error("no TLS with {address}: {why}")]
    Tls {
        /// The address.
        address: SocketAddr,
        /// What kind of failure: rustls's own words repeat what stands in the certificate.
        why: &'static str,
    },
    /// The host is not one for a certificate.
    #[error("the host is not a name for a certificate")]
    TlsName,
    /// rustls refused our own configuration.
    #[error("TLS cannot be set up")]
    TlsSetUp(#[source] rustls::Error),
}

/// A connection that can take one request.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) sender: SendRequest<Full<Bytes>>,
    peer: SocketAddr,
    since: Instant,
    driver: AbortHandle,
}

impl Connection {
    /// The task that moves its bytes; aborted, the connection is closed.
    pub(crate) fn driver(&self) -> AbortHandle {
        self.driver.clone()
    }
}

/// Makes connections, and keeps those that are unused.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    kept: Mutex<HashMap<Destination, Vec<Connection>>>,
    tls: OnceLock<Arc<ClientConfig>>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Destination {
    host: String,
    port: u16,
    tls: bool,
}

impl Destination {
    fn of(http: &Http) -> Self {
        Self {
            host: http.host.clone(),
            port: http.port,
            tls: http.tls,
        }
    }
}

impl Connections {
    /// Connections that trust `roots` alone.
    #[cfg(test)]
    pub(crate) fn trusting(roots: RootCertStore) -> Self {
        Self {
            kept: Mutex::default(),
            tls: OnceLock::from(Arc::new(tls_config(roots).unwrap())),
        }
    }

    /// A kept connection to where `http` may go, if there is one that is still open.
    pub(crate) async fn kept(&self, http: &Http) -> Option<Connection> {
        // A server that closed meanwhile is noticed by the connection's own task: let it run.
        tokio::task::yield_now().await;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = kept.get_mut(&Destination::of(http))?;
        connections.retain(|connection| {
            !connection.sender.is_closed() && connection.since.elapsed() < KEPT
        });
        let at = connections.iter().position(|connection| {
            connection.sender.is_ready() && http.addresses.contains(&connection.peer)
        })?;
        Some(connections.swap_remove(at))
    }

    /// Keeps a connection whose answer was read to its end.
    pub(crate) fn keep(&self, http: &Http, mut connection: Connection) {
        if connection.sender.is_closed() {
            return;
        }
        connection.since = Instant::now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = kept.entry(Destination::of(http)).or_default();
        if connections.len() < KEPT_MAX {
            connections.push(connection);
        }
    }

    /// A new connection to the first of the addresses that takes it.
    pub(crate) async fn new_one(&self, http: &Http) -> Result<Connection, ConnectError> {
        let mut last = ConnectError::NoAddress;
        for &address in &http.addresses {
            match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return self.begin(http, address, stream).await,
                Ok(Err(source)) => last = ConnectError::Connect { address, source },
                Err(_late) => {
                    let source = io::ErrorKind::TimedOut.into();
                    last = ConnectError::Connect { address, source };
                }
            }
        }
        Err(last)
    }

    async fn begin(
        &self,
        http: &Http,
        address: SocketAddr,
        stream: TcpStream,
    ) -> Result<Connection, ConnectError> {
        // A request is one write; Nagle's algorithm would only hold back its tail.
        stream
            .set_nodelay(true)
            .map_err(|source| ConnectError::Connect { address, source })?;
        if !http.tls {
            return handshake(address, stream).await;
        }
        let name = match Host::parse(&http.host) {
            Ok(Host::Address(address)) => ServerName::IpAddress(address.into()),
            Ok(Host::Name(name)) => {
                ServerName::try_from(name).map_err(|_not| ConnectError::TlsName)?
            }
            Err(_not) => return Err(ConnectError::TlsName),
        };
        let connector = TlsConnector::from(self.tls()?);
        let stream = connector
            .connect(name, stream)
            .await
            .map_err(|error| ConnectError::Tls {
                address,
                why: kind_of(&error),
            })?;
        handshake(address, stream).await
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, ConnectError> {
        if let Some(config) = self.tls.get() {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(tls_config(system_roots()?)?);
        Ok(Arc::clone(self.tls.get_or_init(|| config)))
    }
}

/// What kind of failure a handshake ended with, without a word that the server chose.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "kinds that are not told apart, in enums that may grow"
)]
fn kind_of(error: &io::Error) -> &'static str {
    let inner = error.get_ref().and_then(|it| it.downcast_ref());
    let Some(error) = inner else {
        return "the connection ended in the handshake";
    };
    match error {
        TlsError::InvalidCertificate(why) => match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the server's certificate expired"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the server's certificate is not valid yet"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the server's certificate is for another name"
            }
            CertificateError::UnknownIssuer => {
                "the server's certificate has no issuer that this system trusts"
            }
            CertificateError::BadSignature => "the server's certificate is not signed as it says",
            _ => "the server's certificate is not usable",
        },
        TlsError::AlertReceived(_) => "the server refused the handshake",
        TlsError::PeerIncompatible(_) => "the server speaks no TLS that is safe",
        _ => "the server does not keep to the protocol",
    }
}

async fn handshake<S>(address: SocketAddr, stream: S) -> Result<Connection, ConnectError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_CAP)
        .max_headers(FIELDS_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|source| ConnectError::Http { address, source })?;
    // Its errors come back through the request's own future.
    let driver = tokio::spawn(async move { drop(connection.await) }).abort_handle();
    Ok(Connection {
        sender,
        peer: address,
        since: Instant::now(),
        driver,
    })
}

fn system_roots() -> Result<RootCertStore, ConnectError> {
    let mut roots = RootCertStore::empty();
    for file in ROOTS {
        let found = rustls_native_certs::load_certs_from_paths(Some(Path::new(file)), None);
        // A certificate of the system that rustls cannot use is left out, as everybody does.
        let (_added, _ignored) = roots.add_parsable_certificates(found.certs);
        if !roots.is_empty() {
            return Ok(roots);
        }
    }
    Err(ConnectError::NoRoots)
}

fn tls_config(roots: RootCertStore) -> Result<ClientConfig, ConnectError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ConnectError::TlsSetUp)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
