//! Which requests are the page's own.
//!
//! A page of another site can send the reviewer's browser here (CSRF), name itself this host (DNS
//! rebinding), or listen at another port of this address, where a browser sends the same cookies. So a
//! request needs the right Host; a form also the right Origin, and a token that only a page of this session
//! has; and a session is two secrets: one in a cookie, one in the path, which no other port is sent.

use custody_wire::operator::Ticket;
use http::{HeaderMap, header};
use sha2::{Digest as _, Sha256};

/// The cookie. `__Host-`: it came over this host alone, for the whole host, and no other can set it.
const COOKIE: &str = "__Host-custody-review";

/// Why a request is none of the page's.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Foreign {
    /// It is for another host.
    #[error(
        "the request is for another host than this page's; open the link that `custody review --web` prints"
    )]
    Host,
    /// It does not come from a page of ours.
    #[error("the form does not come from this page")]
    Origin,
    /// It is of another session, or was made up.
    #[error("the form is of another session of the page; go back to the list")]
    Token,
}

/// The request is for this host: `authority` is the page's own.
///
/// # Errors
/// When it is for another, or says so twice.
pub fn host(headers: &HeaderMap, authority: &str) -> Result<(), Foreign> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if host.as_bytes() == authority.as_bytes() => Ok(()),
        _ => Err(Foreign::Host),
    }
}

/// A form of ours was sent.
///
/// # Errors
/// When it comes from elsewhere.
pub fn origin(headers: &HeaderMap, authority: &str) -> Result<(), Foreign> {
    let ours = format!("http://{authority}");
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let same = match (origins.next(), origins.next()) {
        (Some(origin), None) => origin.as_bytes() == ours.as_bytes(),
        _ => false,
    };
    let site = headers.get("sec-fetch-site");
    if same && site.is_none_or(|it| it.as_bytes() == b"same-origin") {
        Ok(())
    } else {
        Err(Foreign::Origin)
    }
}

/// The half of the ticket that is in the path.
pub fn path_half(ticket: &Ticket) -> String {
    hex::encode(&ticket.0[..16])
}

/// What sets the other half.
pub fn set_cookie(ticket: &Ticket) -> String {
    let half = hex::encode(&ticket.0[16..]);
    format!("{COOKIE}={half}; Path=/; Secure; HttpOnly; SameSite=Strict")
}

/// The ticket, of both halves; none where one is missing or no half.
pub fn ticket(headers: &HeaderMap, in_path: &str) -> Option<Ticket> {
    let mut halves = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split("; "))
        .filter_map(|it| it.strip_prefix(COOKIE)?.strip_prefix('='));
    let (Some(half), None) = (halves.next(), halves.next()) else {
        return None;
    };
    let mut bytes = [0; 32];
    let (first, second) = bytes.split_at_mut(16);
    hex::decode_to_slice(in_path, first).ok()?;
    hex::decode_to_slice(half, second).ok()?;
    Some(Ticket(bytes))
}

/// The token of a form: whoever has not the ticket cannot make one, and it is for this call alone.
pub fn token(ticket: &Ticket, what: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(b"custody review form v1\0");
    hasher.update(ticket.0);
    hasher.update(what.as_bytes());
    hex::encode(hasher.finalize())
}

/// The form has that token.
///
/// # Errors
/// When it has another.
pub fn check_token(ticket: &Ticket, what: &str, sent: &str) -> Result<(), Foreign> {
    // Compared as digests: how long it takes says nothing of the token.
    if Sha256::digest(token(ticket, what)) == Sha256::digest(sent) {
        Ok(())
    } else {
        Err(Foreign::Token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const OURS: &str = "127.0.0.1:7707";

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn another_host_is_refused_whatever_it_resolves_to() {
        host(&headers(&[("host", OURS)]), OURS).unwrap();
        for bad in [
            "evil.example:7707",
            "127.0.0.1",
            "localhost:7707",
            "127.0.0.1:77070",
            "",
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("host", HeaderValue::from_static(bad));
            assert_eq!(host(&headers, OURS), Err(Foreign::Host), "{bad}");
        }
        assert!(host(&headers(&[]), OURS).is_err());
        assert!(host(&headers(&[("host", OURS), ("host", "evil")]), OURS).is_err());
    }

    #[test]
    fn a_form_of_another_page_is_refused() {
        let own = ("origin", "http://127.0.0.1:7707");
        origin(&headers(&[own]), OURS).unwrap();
        origin(&headers(&[own, ("sec-fetch-site", "same-origin")]), OURS).unwrap();
        for bad in [
            &[][..],
            &[("origin", "null")],
            &[("origin", "http://127.0.0.1:9999")],
            &[("origin", "https://127.0.0.1:7707")],
            &[own, ("origin", "http://evil.example")],
            &[own, ("sec-fetch-site", "same-site")],
            &[own, ("sec-fetch-site", "cross-site")],
        ] {
            assert_eq!(origin(&headers(bad), OURS), Err(Foreign::Origin), "{bad:?}");
        }
    }

    #[test]
    fn a_ticket_needs_both_its_halves() {
        let whole = Ticket(core::array::from_fn(|at| u8::try_from(at).unwrap()));
        let cookie = set_cookie(&whole);
        let cookie = cookie.split(';').next().unwrap();
        let mut sent = HeaderMap::new();
        sent.insert(
            "cookie",
            HeaderValue::from_str(&format!("a=b; {cookie}")).unwrap(),
        );
        assert_eq!(ticket(&sent, &path_half(&whole)), Some(whole));
        assert_eq!(ticket(&HeaderMap::new(), &path_half(&whole)), None);
        assert_eq!(ticket(&sent, ""), None);
        assert_ne!(ticket(&sent, &"00".repeat(16)), Some(whole));
        sent.append("cookie", HeaderValue::from_str(cookie).unwrap());
        assert_eq!(ticket(&sent, &path_half(&whole)), None, "two are none");
    }

    #[test]
    fn a_token_is_for_one_session_and_one_call() {
        let (one, other) = (Ticket([1; 32]), Ticket([2; 32]));
        let good = token(&one, "7 digest");
        check_token(&one, "7 digest", &good).unwrap();
        assert!(check_token(&other, "7 digest", &good).is_err());
        assert!(check_token(&one, "8 digest", &good).is_err());
        assert!(check_token(&one, "7 digest", "").is_err());
    }
}
