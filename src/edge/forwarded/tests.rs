use proptest::prelude::*;

use super::*;

fn proxies() -> Proxies {
    let networks = ["10.0.0.0/8", "192.0.2.1", "2001:db8:1::/48", "::ffff:172.16.0.0/108", "::1"];
    Proxies::new(&networks.map(str::to_owned))
}

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    lines.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
}

/// Who is taken for the client when 10.0.0.1, a proxy, sends these lines.
fn client(lines: &[(&str, &str)]) -> String {
    proxies().client("10.0.0.1".parse().unwrap(), &headers(lines)).to_string()
}

fn listed_as(value: &str) -> String {
    client(&[("x-forwarded-for", value)])
}

fn described_as(value: &str) -> String {
    client(&[("forwarded", value)])
}

#[test]
fn a_peer_that_is_no_proxy_is_the_client_whatever_it_says() {
    let lines = [("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=203.0.113.9"), ("x-real-ip", "203.0.113.9")];
    for peer in ["198.51.100.1", "11.0.0.1", "2001:db8:2::1", "::2", "127.0.0.1", "192.0.2.2", "172.32.0.1"] {
        let peer: IpAddr = peer.parse().unwrap();
        assert_eq!(proxies().client(peer, &headers(&lines)), peer);
    }
    let peer = "10.0.0.1".parse().unwrap();
    assert_eq!(Proxies::new(&[]).client(peer, &headers(&lines)), peer);
}

#[test]
fn a_proxy_is_believed_under_each_form_of_its_address() {
    let lines = headers(&[("x-forwarded-for", "203.0.113.9")]);
    for peer in
        ["10.255.0.1", "::ffff:10.0.0.1", "192.0.2.1", "2001:db8:1:9::1", "172.31.0.1", "::ffff:172.16.0.1", "::1"]
    {
        assert_eq!(proxies().client(peer.parse().unwrap(), &lines).to_string(), "203.0.113.9", "{peer}");
    }
}

#[test]
fn networks_of_all_addresses_keep_to_their_family() {
    let all = |network: &str, peer: &str| Proxies::new(&[network.to_owned()]).trust(peer.parse().unwrap());
    assert!(all("0.0.0.0/0", "198.51.100.1") && !all("0.0.0.0/0", "::1"));
    assert!(all("::/0", "::1") && !all("::/0", "198.51.100.1"));
    assert!(all("10.0.0.0/31", "10.0.0.1") && !all("10.0.0.0/31", "10.0.0.2"));
    assert!(all("::ffff:10.0.0.1", "10.0.0.1") && !all("::ffff:10.0.0.1", "10.0.0.2"));
    assert!(!all("::ffff:10.0.0.1/64", "10.0.0.1"), "most of that network has no IPv4 address");
}

#[test]
fn the_last_address_that_is_no_proxys_is_the_client() {
    for (value, expected) in [
        ("203.0.113.9", "203.0.113.9"),
        ("203.0.113.9, 10.0.0.2", "203.0.113.9"),
        ("1.1.1.1, 203.0.113.9", "203.0.113.9"),
        ("1.1.1.1,203.0.113.9 ,\t10.0.0.2,10.0.0.3", "203.0.113.9"),
        ("10.0.0.2, 10.0.0.3", "10.0.0.2"),
        ("203.0.113.9:4711", "203.0.113.9"),
        ("2001:db8::7", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("[2001:DB8::7]:443", "2001:db8::7"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("203.0.113.9, ::ffff:10.0.0.2", "203.0.113.9"),
    ] {
        assert_eq!(listed_as(value), expected, "{value}");
    }
    let lines = [("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "203.0.113.9"), ("x-forwarded-for", "10.0.0.2")];
    assert_eq!(client(&lines), "203.0.113.9", "all lines are one list");
}

#[test]
fn what_cannot_be_read_ends_the_walk() {
    for value in [
        "",
        ",",
        "unknown",
        "1.1.1.1, unknown",
        "1.1.1.1, ",
        "1.1.1.1,, ",
        "1.1.1.1 2.2.2.2",
        "1.1.1",
        "1.1.1.1.1",
        "01.1.1.1",
        "0x1.1.1.1",
        "256.1.1.1",
        "1.1.1.1:",
        "1.1.1.1:x",
        "1.1.1.1:+1",
        "1.1.1.1:65536",
        "1.1.1.1/32",
        "[1.1.1.1]",
        "[::2",
        "::2]",
        "[::2]x",
        "[::2]:",
        "fe80::1%eth0",
        "\"1.1.1.1\"",
        "for=1.1.1.1",
        "localhost",
        "1.1.1.1;2.2.2.2",
        "é1.1.1.1",
    ] {
        assert_eq!(listed_as(value), "10.0.0.1", "{value}");
    }
    assert_eq!(listed_as("203.0.113.9, unknown, 10.0.0.2"), "10.0.0.2");
    let long = format!("{}203.0.113.9", " ".repeat(MAX_ENTRY_BYTES));
    assert_eq!(listed_as(&format!("1.1.1.1,{long}")), "10.0.0.1");
}

#[test]
fn forwarded_is_read_as_the_rfc_writes_it() {
    for (value, expected) in [
        ("for=203.0.113.9", "203.0.113.9"),
        ("For=203.0.113.9;proto=http;by=203.0.113.43", "203.0.113.9"),
        ("by=203.0.113.43; FOR=\"203.0.113.9:4711\"", "203.0.113.9"),
        ("for=\"[2001:db8::7]\"", "2001:db8::7"),
        ("for=\"[2001:db8::7]:4711\";host=\"a.example\"", "2001:db8::7"),
        ("for=1.1.1.1, for=203.0.113.9, for=10.0.0.2", "203.0.113.9"),
        // What a client opened does not reach into what a proxy wrote.
        ("for=\"1.1.1.1, for=203.0.113.9", "203.0.113.9"),
        ("for=\"1.1.1.1, for=203.0.113.9;by=\"x\"", "203.0.113.9"),
    ] {
        assert_eq!(described_as(value), expected, "{value}");
    }
    for value in [
        "",
        "for",
        "for=",
        "for=unknown",
        "for=_hidden",
        "for=\"_hidden\"",
        "for=1.1.1.1:80",
        "for=::2",
        "for=[::2]",
        "for=\"::2\"",
        "for=\"1.1.1.1",
        "for=1.1.1.1\"",
        "for=\"1.1.1\\.1\"",
        "for=1.1.1.1;for=2.2.2.2",
        "for=1.1.1.1;by",
        "for =1.1.1.1",
        "by=1.1.1.1",
        "1.1.1.1",
        "for=1.1.1.1;host=\"a,b\"",
    ] {
        assert_eq!(described_as(value), "10.0.0.1", "{value}");
    }
}

#[test]
fn two_headers_that_differ_are_both_not_believed() {
    let both = |listed, described| client(&[("x-forwarded-for", listed), ("forwarded", described)]);
    assert_eq!(both("203.0.113.9", "for=203.0.113.9"), "203.0.113.9");
    assert_eq!(both("203.0.113.9", "for=1.1.1.1"), "10.0.0.1");
    assert_eq!(both("203.0.113.9", "for=unknown"), "10.0.0.1");
    assert_eq!(both("unknown", "for=203.0.113.9"), "10.0.0.1");
}

#[test]
fn a_chain_of_proxies_has_an_end() {
    let chain = |hops: usize| {
        listed_as(&["203.0.113.9"].into_iter().chain((0..hops).map(|_| "10.0.0.2")).collect::<Vec<_>>().join(","))
    };
    assert_eq!(chain(MAX_HOPS - 1), "203.0.113.9");
    assert_eq!(chain(MAX_HOPS), "10.0.0.2");
}

#[test]
fn other_headers_say_nothing() {
    for name in ["x-real-ip", "x-forwarded-host", "x-forwarded-proto", "x-client-ip", "true-client-ip", "via"] {
        assert_eq!(client(&[(name, "203.0.113.9")]), "10.0.0.1", "{name}");
    }
}

proptest! {
    #[test]
    fn nothing_a_client_sends_changes_what_its_proxy_says(invented in "[ -~\t]{0,80}", line in any::<bool>()) {
        let one = |name: &'static str, told: &str| {
            let joined = format!("{invented},{told}");
            let lines = if line { vec![(name, invented.as_str()), (name, told)] } else { vec![(name, joined.as_str())] };
            client(&lines)
        };
        prop_assert_eq!(one("x-forwarded-for", "203.0.113.9"), "203.0.113.9");
        prop_assert_eq!(one("forwarded", "for=203.0.113.9"), "203.0.113.9");
        prop_assert_eq!(one("forwarded", "for=\"[2001:db8::7]:1\""), "2001:db8::7");
    }

    #[test]
    fn any_bytes_are_read_or_not_believed(value in proptest::collection::vec(any::<u8>(), 0..200)) {
        let Ok(value) = http::HeaderValue::from_bytes(&value) else { return Ok(()) };
        let mut lines = HeaderMap::new();
        lines.insert(FORWARDED, value.clone());
        proxies().client("10.0.0.1".parse().unwrap(), &lines);
        lines.insert(X_FORWARDED_FOR, value);
        let stranger: IpAddr = "198.51.100.1".parse().unwrap();
        prop_assert_eq!(proxies().client(stranger, &lines), stranger);
    }
}
