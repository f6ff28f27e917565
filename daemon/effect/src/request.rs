//! From the vault's rendered request to one that hyper sends, credential and all.

use bytes::Bytes;
use custody_wire::perform::Http;
use gate::request::CONNECTOR_FIELDS;
use http::{HeaderName, HeaderValue, Method, Request, header, uri::PathAndQuery};
use http_body_util::Full;

use crate::{
    credential::Credential,
    host::{Host, HostError},
};

/// Why a request is not sent. The vault rendered it, so each of these is a fault of ours or a lie
/// of a vault that is not ours.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The credential does not make a header value.
    #[error("the credential does not fit its header field")]
    Credential,
    /// A header field that does not parse.
    #[error("header field `{name}` is not one (RFC 9110 section 5)")]
    Header {
        /// Its name.
        name: String,
    },
    /// The host is not one.
    #[error("the request's host is not usable")]
    Host(#[source] HostError),
    /// The method is not one.
    #[error("method `{method}` is not one that is sent")]
    Method {
        /// The method.
        method: String,
    },
    /// Nowhere to connect to.
    #[error("the request has no address")]
    NoAddress,
    /// A header field that the connector keeps for itself.
    #[error("header field `{name}` is the connector's own")]
    Reserved {
        /// Its name.
        name: String,
    },
    /// The target is not a path with a query.
    #[error("the request's target is not an absolute path of plain ASCII (RFC 9112 section 3.2.1)")]
    Target,
}

/// Whether a header field is the connector's own, as policies have it too.
pub(crate) fn is_reserved(name: &HeaderName) -> bool {
    CONNECTOR_FIELDS.contains(&name.as_str())
}

/// Builds the request, in origin form (RFC 9112 section 3.2.1).
///
/// # Errors
/// When a part of it is not exactly what it says it is.
pub(crate) fn build(
    http: &Http,
    credential: &Credential,
) -> Result<Request<Full<Bytes>>, RequestError> {
    let host = Host::parse(&http.host).map_err(RequestError::Host)?;
    if http.addresses.is_empty() {
        return Err(RequestError::NoAddress);
    }
    let method = Method::from_bytes(http.method.as_bytes())
        .ok()
        .filter(|method| !matches!(*method, Method::CONNECT | Method::TRACE))
        .filter(|method| method.as_str().bytes().all(|b| b.is_ascii_uppercase()))
        .ok_or_else(|| RequestError::Method {
            method: http.method.clone(),
        })?;
    let mut request = Request::new(Full::new(Bytes::copy_from_slice(&http.body)));
    *request.method_mut() = method;
    *request.uri_mut() = target(&http.target)?;

    let (place, value) = credential.field();
    let fields = request.headers_mut();
    fields.insert(header::HOST, host_field(&host, http)?);
    for (name, value) in &http.headers {
        let malformed = || RequestError::Header { name: name.clone() };
        let parsed = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .filter(|parsed| parsed.as_str() == name)
            .ok_or_else(malformed)?;
        if is_reserved(&parsed) || parsed == place {
            return Err(RequestError::Reserved { name: name.clone() });
        }
        let value = HeaderValue::from_str(value).map_err(|_control| malformed())?;
        fields.append(parsed, value);
    }
    fields.insert(place, value.ok_or(RequestError::Credential)?);
    Ok(request)
}

fn target(text: &str) -> Result<http::Uri, RequestError> {
    let plain = text.starts_with('/')
        && !text.starts_with("//")
        && text.bytes().all(|b| matches!(b, b'!'..=b'~') && b != b'#');
    let parsed = PathAndQuery::try_from(text).ok().filter(|_| plain);
    parsed
        .filter(|parsed| parsed.as_str() == text)
        .map(http::Uri::from)
        .ok_or(RequestError::Target)
}

fn host_field(host: &Host, http: &Http) -> Result<HeaderValue, RequestError> {
    let name = match host {
        Host::Address(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        Host::Address(std::net::IpAddr::V4(address)) => address.to_string(),
        Host::Name(name) => name.clone(),
    };
    let usual = if http.tls { 443 } else { 80 };
    let text = if http.port == usual {
        name
    } else {
        format!("{name}:{}", http.port)
    };
    HeaderValue::from_str(&text).map_err(|_control| RequestError::Header {
        name: "host".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http() -> Http {
        Http {
            method: "POST".into(),
            tls: false,
            host: "api.example".into(),
            port: 8080,
            addresses: vec!["127.0.0.1:8080".parse().unwrap()],
            target: "/v1/messages?to=a%20b".into(),
            headers: vec![("content-type".into(), "application/json".into())],
            body: b"{}".to_vec(),
            timeout_ms: 1000,
            answer_cap: 1000,
        }
    }

    fn credential() -> Credential {
        Credential::from_bytes(b"fake-token-for-tests", "Bearer ").unwrap()
    }

    #[test]
    fn a_request_gets_its_host_and_its_credential() {
        let request = build(&http(), &credential()).unwrap();
        assert_eq!(request.uri(), "/v1/messages?to=a%20b");
        assert_eq!(request.headers()[header::HOST], "api.example:8080");
        assert_eq!(
            request.headers()[header::AUTHORIZATION],
            "Bearer fake-token-for-tests"
        );
        assert!(!format!("{request:?}").contains("fake-token"));
    }

    #[test]
    fn a_field_that_is_the_connectors_own_is_refused() {
        for name in CONNECTOR_FIELDS.into_iter().chain(["authorization"]) {
            let mut http = http();
            http.headers.push((name.into(), "x".into()));
            let error = build(&http, &credential()).unwrap_err();
            assert!(
                matches!(error, RequestError::Reserved { .. }),
                "{name}: {error}"
            );
        }
    }

    #[test]
    fn a_request_that_could_be_read_as_two_is_refused() {
        for target in [
            "",
            "x",
            "//evil.example/",
            "http://evil.example/",
            "/a b",
            "/a\r\nx: y",
            "/a\nb",
            "/a\0",
            "/a#b",
            "/ä",
            "*",
        ] {
            let mut http = http();
            http.target = target.into();
            assert!(
                matches!(build(&http, &credential()), Err(RequestError::Target)),
                "{target:?}"
            );
        }
        for (name, value) in [
            ("x", "a\r\nhost: evil.example"),
            ("x", "a\0"),
            ("x\r\ny", "a"),
            ("x y", "a"),
            ("X-Up", "a"),
            ("", "a"),
        ] {
            let mut http = http();
            http.headers.push((name.into(), value.into()));
            assert!(
                matches!(
                    build(&http, &credential()),
                    Err(RequestError::Header { .. })
                ),
                "{name:?}"
            );
        }
        for method in ["", "CONNECT", "TRACE", "GET / HTTP/1.1\r\n", "get", "G T"] {
            let mut http = http();
            http.method = method.into();
            assert!(
                matches!(
                    build(&http, &credential()),
                    Err(RequestError::Method { .. })
                ),
                "{method:?}"
            );
        }
    }
}
