//! Addresses inside a text: what a payload could lead its reader to, or send to.

use alloc::{string::String, vec::Vec};

use super::words::Words;

/// What an address is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum LinkKind {
    /// A long number or code: an account, a telephone, a key.
    Code,
    /// An e-mail address.
    Email,
    /// A host name, or what looks like one.
    Host,
    /// A URL.
    Url,
}

/// An address in a text, as it is written there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Link<'t> {
    /// What it is.
    pub kind: LinkKind,
    /// The address.
    pub text: &'t str,
}

impl<'t> Link<'t> {
    /// The host of a URL, the domain of an address; lower case or not, as it is written.
    pub fn host(&self) -> Option<&'t str> {
        match self.kind {
            LinkKind::Code => None,
            LinkKind::Email => self.text.rsplit_once('@').map(|(_, domain)| domain),
            LinkKind::Host => Some(self.text),
            LinkKind::Url => Some(url_host(self.text)),
        }
    }
}

/// Every address in `text`, in order.
pub fn links(text: &str) -> Vec<Link<'_>> {
    Words::new(text)
        .filter_map(|(from, to)| link(text.get(from..to)?))
        .collect()
}

/// `word` as an address, or the address that it ends with.
pub(super) fn link(word: &str) -> Option<Link<'_>> {
    if !word.is_ascii()
        && let Some(found) = disguised(word)
    {
        return Some(found);
    }
    // Most words are none, and long texts have many.
    let plain = |it: u8| !matches!(it, b'.' | b'/' | b':' | b'@') && !it.is_ascii_digit();
    if word.bytes().all(plain) {
        return None;
    }
    let of = |kind, text| Some(Link { kind, text });
    if let Some(at) = word.find("://").or_else(|| word.find("//")) {
        let scheme = word.get(..at)?;
        let letters = scheme
            .bytes()
            .rev()
            .take_while(u8::is_ascii_alphabetic)
            .count();
        let from = at.saturating_sub(letters);
        return of(LinkKind::Url, word.get(from..)?);
    }
    let word = word.strip_prefix("mailto:").unwrap_or(word);
    if let Some((local, domain)) = word.rsplit_once('@')
        && !local.is_empty()
        && !domain.is_empty()
    {
        return of(LinkKind::Email, word);
    }
    let (host, path) = word.find(['/', '?', '#', ':']).map_or((word, ""), |at| {
        (word.get(..at).unwrap_or(""), word.get(at..).unwrap_or(""))
    });
    if is_host(host) {
        let kind = if path.is_empty() {
            LinkKind::Host
        } else {
            LinkKind::Url
        };
        return of(kind, word);
    }
    if let Some(from) = hidden_host(word) {
        return of(LinkKind::Url, word.get(from..)?);
    }
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    (digits >= CODE_DIGITS).then_some(Link {
        kind: LinkKind::Code,
        text: word,
    })
}

/// `word` as an address, where it is one for whoever does not see what nobody sees, and reads full-width
/// letters and signs as others (UTS 46, section 4).
fn disguised(word: &str) -> Option<Link<'_>> {
    let unseen = |it: &char| matches!(it, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    let narrow = |it: char| match it {
        '\u{ff01}'..='\u{ff5e}' => {
            char::from_u32(u32::from(it).saturating_sub(0xfee0)).unwrap_or(it)
        }
        '\u{ff61}' => '.',
        other => other,
    };
    let usual = |it: char| narrow(it) == it && !unseen(&it);
    if word.chars().all(usual) {
        return None;
    }
    let plain: String = word.chars().filter(|it| !unseen(it)).map(narrow).collect();
    link(&plain).map(|it| Link {
        kind: it.kind,
        text: word,
    })
}

/// A date and a time have fourteen digits at most but eight in most forms; an account has more.
const CODE_DIGITS: usize = 9;

/// Whether this looks like a host name: labels, and a last one of letters.
fn is_host(text: &str) -> bool {
    let mut labels = text.rsplit('.');
    let top = labels.next().unwrap_or("");
    let rest: Vec<&str> = labels.collect();
    let letters = top.chars().all(char::is_alphabetic) && top.chars().count() >= 2;
    // An internationalised one (RFC 5890, 2.3.2.1), or an IPv4 address.
    let letters = letters
        || top
            .get(..4)
            .is_some_and(|it| it.eq_ignore_ascii_case("xn--"))
        || (rest.len() == 3 && labels_are_octets(text));
    let label = |it: &&str| {
        !it.is_empty()
            && it
                .chars()
                .all(|c| c.is_alphanumeric() || c == '-' || c == '_')
    };
    letters && !rest.is_empty() && rest.iter().all(label)
}

fn labels_are_octets(text: &str) -> bool {
    text.split('.').all(|it| it.parse::<u8>().is_ok())
}

/// Where in a word a host stands behind something else: `see:host.example`, `http:host.example`,
/// `to=host.example/x`.
fn hidden_host(word: &str) -> Option<usize> {
    let of_host = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | '.');
    let mut from: usize = 0;
    for piece in word.split(|it| !of_host(it)) {
        let bare = piece.trim_matches('.');
        if is_host(bare) {
            let lead = piece
                .len()
                .saturating_sub(piece.trim_start_matches('.').len());
            return Some(from.saturating_add(lead));
        }
        let next = from.saturating_add(piece.len());
        let gap = word.get(next..).and_then(|it| it.chars().next());
        from = next.saturating_add(gap.map_or(0, char::len_utf8));
    }
    None
}

fn url_host(url: &str) -> &str {
    let rest = url.split_once("//").map_or(url, |(_, rest)| rest);
    // A backslash ends the host too (WHATWG URL, 4.4).
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or("");
    let host = authority.rsplit('@').next().unwrap_or("");
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => name,
        Some(_) | None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn addresses_are_found_in_a_text() {
        let text = "Write to boss@acme.com (or see https://u:p@evil.example:8443/x?to=a@b), \
                    <img src=\"//cdn.example/p.png\">, [www.our-company.com/a](), file.txt; \
                    IBAN GB29NWBK60161331926819. On 2024-05-19 at 12:00, 100.50 EUR.";
        let found: Vec<_> = links(text)
            .iter()
            .map(|it| (it.kind, it.text, it.host()))
            .collect();
        assert_eq!(
            found,
            vec![
                (LinkKind::Email, "boss@acme.com", Some("acme.com")),
                (
                    LinkKind::Url,
                    "https://u:p@evil.example:8443/x?to=a@b",
                    Some("evil.example")
                ),
                (LinkKind::Url, "//cdn.example/p.png", Some("cdn.example")),
                (
                    LinkKind::Url,
                    "www.our-company.com/a",
                    Some("www.our-company.com")
                ),
                (LinkKind::Host, "file.txt", Some("file.txt")),
                (LinkKind::Code, "GB29NWBK60161331926819", None),
            ]
        );
    }
}
