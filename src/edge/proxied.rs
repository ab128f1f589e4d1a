//! The address of a client as a proxy tells it before that client's first byte: version 2 of the PROXY protocol. Only what
//! comes from a proxy that is trusted is read as one; who else connects is a client.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// What a header begins with: nothing that HTTP or TLS does.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, and who speaks: the proxy for itself, or for a client.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
/// Kinds of addresses. Those of datagrams do not come by a stream.
const UNSPECIFIED: u8 = 0x00;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;
/// Signature, command, kind of address and the length of what follows.
const FIXED_BYTES: usize = 16;
/// The longest header: an address, and what proxies tell of TLS beside it, which is passed over.
const MAX_BYTES: usize = 4096;

/// Reads the header, and not one byte more. None if the proxy speaks for itself, or of a kind of address that this server
/// does not have. The caller sets it a limit.
///
/// # Errors
/// Those of the connection; `InvalidData` for what is no such header.
///
/// # Cancel safety
/// Not cancel-safe: what was read is lost.
pub(super) async fn client(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let mut header = vec![0; FIXED_BYTES];
    stream.read_exact(&mut header).await?;
    if !header.starts_with(SIGNATURE) {
        return Err(invalid("a proxy began without a PROXY header of version 2"));
    }
    let length = FIXED_BYTES + usize::from(u16::from_be_bytes([header[14], header[15]]));
    if length > MAX_BYTES {
        return Err(invalid("the PROXY header is too long"));
    }
    header.resize(length, 0);
    stream.read_exact(&mut header[FIXED_BYTES..]).await?;
    parse(&header)
}

/// Takes a whole header apart.
///
/// # Errors
/// `InvalidData` for what is none.
pub(super) fn parse(header: &[u8]) -> io::Result<Option<SocketAddr>> {
    let unreadable = || invalid("the PROXY header cannot be read");
    let rest = header.strip_prefix(SIGNATURE).ok_or_else(unreadable)?;
    let (&[command, kind, high, low], addresses) = rest.split_first_chunk().ok_or_else(unreadable)?;
    if addresses.len() != usize::from(u16::from_be_bytes([high, low])) {
        return Err(unreadable());
    }
    match (command, kind) {
        (LOCAL, _) | (PROXY, UNSPECIFIED | UNIX_STREAM) => Ok(None),
        (PROXY, TCP_OVER_IPV4) => source::<4>(addresses).ok_or_else(unreadable).map(Some),
        (PROXY, TCP_OVER_IPV6) => source::<16>(addresses).ok_or_else(unreadable).map(Some),
        _ => Err(unreadable()),
    }
}

/// The first of two addresses of `N` bytes, with the first of the two ports that follow them.
fn source<const N: usize>(addresses: &[u8]) -> Option<SocketAddr>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = addresses.split_first_chunk::<N>()?;
    let (_, ports) = rest.split_first_chunk::<N>()?;
    let (port, _) = ports.first_chunk::<4>()?.split_first_chunk::<2>()?;
    Some((IpAddr::from(*source), u16::from_be_bytes(*port)).into())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signature, then command and kind of address, then the rest under its length.
    fn header(command: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[command, kind][..], &length, rest].concat()
    }

    const V4: [u8; 12] = [192, 0, 2, 7, 10, 0, 0, 1, 0x30, 0x39, 1, 187];

    #[test]
    fn the_source_is_the_client() {
        assert_eq!(parse(&header(0x21, 0x11, &V4)).unwrap(), Some("192.0.2.7:12345".parse().unwrap()));
        let mut v6 = [0; 36];
        (v6[0], v6[15], v6[32], v6[33]) = (0x20, 9, 0x30, 0x39);
        assert_eq!(parse(&header(0x21, 0x21, &v6)).unwrap(), Some("[2000::9]:12345".parse().unwrap()));
        let with_more = [&V4[..], &[0x20, 0, 3, 1, 2, 3]].concat();
        assert_eq!(parse(&header(0x21, 0x11, &with_more)).unwrap(), Some("192.0.2.7:12345".parse().unwrap()));
    }

    #[test]
    fn a_proxy_may_speak_for_itself() {
        for (command, kind, rest) in [(0x20, 0x00, &[][..]), (0x20, 0x11, &V4), (0x21, 0x00, &[])] {
            assert_eq!(parse(&header(command, kind, rest)).unwrap(), None, "{command:x} {kind:x}");
        }
    }

    #[test]
    fn what_is_no_header_is_none() {
        for (command, kind, rest) in [
            (0x11, 0x11, &V4[..]),
            (0x22, 0x11, &V4),
            (0x21, 0x41, &V4),
            (0x21, 0x13, &V4),
            (0x21, 0x11, &V4[..11]),
            (0x21, 0x21, &V4),
        ] {
            assert!(parse(&header(command, kind, rest)).is_err(), "{command:x} {kind:x} {}", rest.len());
        }
        let whole = header(0x21, 0x11, &V4);
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).is_err(), "{end}");
        }
    }
}
