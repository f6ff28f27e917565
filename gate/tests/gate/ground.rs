//! The floor: which origins, methods, paths and addresses.

use std::net::IpAddr;

use gate::{
    address::{AddressError, Addresses},
    floor::{Floor, FloorError, PathPattern, check},
    origin::Origin,
    request::{HttpRequest, Method},
};

fn floor() -> Floor {
    Floor {
        addresses: Addresses::PUBLIC,
        methods: vec![Method::Get, Method::Post],
        origins: vec![Origin::parse("https://api.example.test").unwrap()],
        paths: ["/v1/messages", "/v1/pages/{}", "/v1/pages/{}/publish", "/"]
            .into_iter()
            .map(|it| PathPattern::parse(it).unwrap())
            .collect(),
    }
}

fn request(method: Method, origin: &str, target: &str) -> HttpRequest {
    HttpRequest {
        answer_max_bytes: 1,
        body: vec![],
        headers: vec![],
        method,
        origin: Origin::parse(origin).unwrap(),
        target: target.into(),
        timeout_ms: 1,
    }
}

#[test]
fn only_what_is_listed_is_on_the_floor() {
    const HOST: &str = "https://api.example.test";
    let floor = floor();
    let ask = |method, origin: &str, target: &str| check(&floor, &request(method, origin, target));
    for target in [
        "/v1/messages",
        "/v1/messages?to=x/../y",
        "/v1/pages/7",
        "/v1/pages/a%20b",
        "/v1/pages/a;v=1",
        "/v1/pages/a%3B..",
        "/v1/pages/%C3%A4/publish",
        "/",
    ] {
        assert_eq!(ask(Method::Get, HOST, target), Ok(()), "{target}");
    }
    for origin in [
        "https://api.example.test:8443",
        "https://example.test",
        "https://api.example.test.evil.test",
        "http://127.0.0.1",
    ] {
        let answer = ask(Method::Get, origin, "/v1/messages");
        assert!(matches!(answer, Err(FloorError::Origin { .. })), "{origin}");
    }
    for method in [Method::Delete, Method::Head, Method::Patch, Method::Put] {
        let answer = ask(method, HOST, "/v1/messages");
        assert_eq!(answer, Err(FloorError::Method { method }));
    }
    for target in [
        "",
        "v1/messages",
        "/v1",
        "/v1/",
        "/v1/messages/",
        "//v1/messages",
        "/V1/messages",
        "/v1/message%73",
        "/v1/pages/",
        "/v1/pages/.",
        "/v1/pages/..",
        "/v1/pages/%2e%2e",
        "/v1/pages/%2E",
        "/v1/pages/;",
        "/v1/pages/;v=1",
        "/v1/pages/.;",
        "/v1/pages/..;",
        "/v1/pages/..%3B",
        "/v1/pages/..%3bv=1",
        "/v1/pages/%3B..",
        "/v1/pages/a%2fb",
        "/v1/pages/a%2Fb",
        "/v1/pages/a%5cb",
        "/v1/pages/a\\b",
        "/v1/pages/a%00",
        "/v1/pages/a%0d%0a",
        "/v1/pages/%252e%252e",
        "/v1/pages/%c0%af",
        "/v1/pages/%c2%85",
        "/v1/pages/%",
        "/v1/pages/%2",
        "/v1/pages/%zz",
        "/v1/pages/7/8",
        "/v1/pages/7/publish/",
        "/v1/pages/7/publish/now",
        "/v1/pages//publish",
    ] {
        let answer = ask(Method::Get, HOST, target);
        assert!(matches!(answer, Err(FloorError::Path { .. })), "{target}");
    }
}

fn addresses(of: &[&str]) -> Addresses {
    Addresses::try_from(of.iter().map(|it| String::from(*it)).collect::<Vec<_>>()).unwrap()
}

#[test]
fn public_is_what_the_internet_routes() {
    let admits = |it: &str| Addresses::PUBLIC.admits(it.parse::<IpAddr>().unwrap());
    for address in [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2001:4860:4860::8888",
        "2606:4700::1111",
        "2a00:1450::1",
    ] {
        assert!(admits(address), "{address}");
    }
    for address in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.0",
        "169.254.169.254",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.0",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.0",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:1.1.1.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::1.1.1.1",
        "64:ff9b::1.1.1.1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "4000::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(!admits(address), "{address}");
    }
}

#[test]
fn a_list_admits_what_it_lists_and_nothing_else() {
    let loopback = addresses(&["127.0.0.1/32"]);
    let admits = |set: &Addresses, it: &str| set.admits(it.parse::<IpAddr>().unwrap());
    assert!(admits(&loopback, "127.0.0.1"));
    for other in ["127.0.0.2", "1.1.1.1", "::1", "::ffff:127.0.0.1", "0.0.0.0"] {
        assert!(!admits(&loopback, other), "{other}");
    }
    let both = addresses(&["public", "10.1.0.0/16", "fd00::/8"]);
    for address in ["1.1.1.1", "10.1.255.255", "fd00::1", "fdff::1"] {
        assert!(admits(&both, address), "{address}");
    }
    for address in ["10.0.255.255", "10.2.0.0", "fc00::1", "127.0.0.1"] {
        assert!(!admits(&both, address), "{address}");
    }
    // However wide, never these.
    let wide = addresses(&["64.0.0.0/8", "127.0.0.0/8", "2000::/8", "fe80::/10"]);
    for address in ["224.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1", "ff02::1"] {
        assert!(!admits(&wide, address), "{address}");
    }
    assert!(admits(&wide, "fe80::1"));
}

#[test]
fn a_list_survives_its_text() {
    for list in [
        &["public"][..],
        &["127.0.0.1/32"],
        &["public", "10.1.0.0/16", "::1/128"],
    ] {
        let texts: Vec<String> = addresses(list).into();
        assert_eq!(texts, list);
    }
    let bare: Vec<String> = addresses(&["127.0.0.1"]).into();
    assert_eq!(bare, ["127.0.0.1/32"]);
}

#[test]
fn no_network_brings_in_what_is_never_connected_to() {
    let admits = |set: &[&str], it: &str| addresses(set).admits(it.parse::<IpAddr>().unwrap());
    assert!(!admits(&["255.0.0.0/8"], "255.255.255.255"));
    assert!(admits(&["255.0.0.0/8"], "255.1.2.3"));
    assert!(!admits(&["::fffe:0:0/95"], "::ffff:127.0.0.1"));
    assert!(admits(&["::fffe:0:0/95"], "::fffe:127.0.0.1"));
}

#[test]
fn a_network_that_means_something_else_is_refused() {
    let refused = |text: &str| Addresses::try_from(vec![text.to_owned()]).unwrap_err();
    for text in ["10.1.2.3/24", "127.0.0.1/8", "fe80::1/10"] {
        let error = refused(text);
        assert!(matches!(error, AddressError::HostBits { .. }), "{error}");
    }
    for text in ["8.0.0.0/7", "128.0.0.0/1", "2000::/3"] {
        let error = refused(text);
        assert!(matches!(error, AddressError::Wide { .. }), "{error}");
    }
    for text in [
        "0.0.0.0/0",
        "0.0.0.0/8",
        "224.0.0.0/8",
        "255.255.255.255",
        "::/0",
        "::",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::7f00:1/128",
    ] {
        let error = refused(text);
        assert!(matches!(error, AddressError::Never { .. }), "{error}");
    }
    for text in [
        "",
        "private",
        "10.1",
        "10.0.0.0/33",
        "10.0.0.0/+8",
        "10.0.0.0/",
        "::1/129",
        "[::1]",
        "010.0.0.1",
    ] {
        let error = refused(text);
        assert!(matches!(error, AddressError::Syntax { .. }), "{error}");
    }
    assert_eq!(Addresses::try_from(vec![]), Err(AddressError::Empty));
}
