//! The address a request comes from. What a header says of it is believed of a configured proxy alone, and read from the
//! right, where that proxy wrote: everything left of the last address that is no proxy's is the client's own invention.
//!
//! `X-Forwarded-For` and `Forwarded` (RFC 7239, `for=`) are known. Where both are there and differ, one of them was passed
//! through unread, so neither is believed. Host and scheme are never taken from such headers. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{FORWARDED, HeaderMap, HeaderName};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Proxies in a row that are looked behind.
const MAX_HOPS: usize = 16;
/// The longest entry, in bytes: one of `Forwarded` may tell more than an address.
const MAX_ENTRY_BYTES: usize = 256;

/// The proxies that are believed.
#[derive(Debug, Clone)]
pub(super) struct Proxies(Vec<Network>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Proxies {
    /// Addresses, or networks as `address/bits`; the configuration has checked them.
    pub(super) fn new(networks: &[String]) -> Self {
        Self(networks.iter().filter_map(|text| Network::parse(text)).collect())
    }

    /// The client behind `peer`: the peer itself, unless it is a proxy that says otherwise. IPv4 addresses are IPv4, also
    /// where they came as IPv6.
    pub(super) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.trust(peer) {
            return peer;
        }
        let listed = headers.contains_key(X_FORWARDED_FOR).then(|| self.walk(peer, headers, X_FORWARDED_FOR, listed));
        let described = headers.contains_key(FORWARDED).then(|| self.walk(peer, headers, FORWARDED, described));
        match (listed, described) {
            (Some(one), Some(other)) if one != other => peer,
            (Some(client), _) | (None, Some(client)) => client,
            (None, None) => peer,
        }
    }

    /// Whether this is the address of one of them.
    pub(super) fn trust(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.has(address))
    }

    fn walk(&self, peer: IpAddr, headers: &HeaderMap, name: HeaderName, read: fn(&str) -> Option<IpAddr>) -> IpAddr {
        let mut client = peer;
        for entry in from_the_right(headers, name).take(MAX_HOPS) {
            let Some(address) = read(entry) else { break };
            client = address.to_canonical();
            if !self.trust(client) {
                break;
            }
        }
        client
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address.parse::<IpAddr>().ok()?, Some(bits.parse::<u32>().ok()?)),
            None => (text.parse().ok()?, None),
        };
        let canonical = address.to_canonical();
        let (all, most) = (width(address), width(canonical));
        // An IPv4 network that was written as IPv6 loses the prefix that says so.
        let bits = bits.unwrap_or(all).checked_sub(all - most)?;
        (bits <= most).then_some(Self { address: canonical, bits })
    }

    fn has(self, address: IpAddr) -> bool {
        let width = width(self.address);
        let prefix = |address: IpAddr| match address {
            IpAddr::V4(it) => u128::from(it.to_bits()),
            IpAddr::V6(it) => it.to_bits(),
        };
        let beyond = |it: u128| it.checked_shr(width - self.bits).unwrap_or(0);
        address.is_ipv4() == self.address.is_ipv4() && beyond(prefix(address)) == beyond(prefix(self.address))
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS }
}

/// The entries of all lines, the last one first. A comma divides wherever it stands: a quotation mark that a client opened
/// must not reach into what the proxy wrote. What cannot be read is an empty entry.
fn from_the_right(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter().rev();
    let entries = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
    entries.map(|entry| if entry.len() <= MAX_ENTRY_BYTES { entry.trim_matches([' ', '\t']) } else { "" })
}

/// An entry of `X-Forwarded-For`: an address, with a port or without.
fn listed(entry: &str) -> Option<IpAddr> {
    entry.parse().ok().or_else(|| with_port(entry))
}

/// An entry of `Forwarded`: pairs, one of which is `for`. Names that hide an address end the walk, as faults do.
fn described(entry: &str) -> Option<IpAddr> {
    let mut node = None;
    for pair in entry.split(';') {
        let (name, value) = pair.trim_matches([' ', '\t']).split_once('=')?;
        if name.eq_ignore_ascii_case("for") && node.replace(value).is_some() {
            return None;
        }
    }
    match node?.strip_prefix('"') {
        Some(quoted) => with_port(quoted.strip_suffix('"')?),
        None => node?.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// `1.2.3.4` or `[::1]`, each with `:port` or without.
fn with_port(text: &str) -> Option<IpAddr> {
    let (address, rest): (IpAddr, &str) = match text.strip_prefix('[') {
        Some(text) => {
            let (address, rest) = text.split_once(']')?;
            (address.parse::<Ipv6Addr>().ok()?.into(), rest)
        }
        None => {
            let (address, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            (address.parse::<Ipv4Addr>().ok()?.into(), rest)
        }
    };
    let is_port = |it: &str| it.bytes().all(|byte| byte.is_ascii_digit()) && it.parse::<u16>().is_ok();
    (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)).then_some(address)
}

#[cfg(test)]
mod tests;
