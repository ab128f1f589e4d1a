//! The users that a server which is root gives to its gateway and its sessions.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use anyhow::Context as _;

/// The first user id of this server, where it is root: far above people, services and containers of other programs.
const BASE: u32 = 0x7000_0000;
/// How many users a server has.
const ROOM: u32 = 16 * 1024;
/// How many servers are looked for.
const MAX_SERVERS: u32 = 64;

/// A range of users. Other servers of this network namespace take another one until this is dropped.
#[derive(Debug)]
pub(super) struct Users {
    /// The first of them.
    pub(super) base: u32,
    _reserved: Option<UnixListener>,
}

/// The range that all servers take: with namespaces, the same users are strangers to each other.
pub(super) fn common(uid_map: &str) -> Option<Users> {
    Some(Users { base: candidates(uid_map).next()?, _reserved: None })
}

/// A range that no other server has, and that is not the common one: where processes are ended by their user, two servers
/// must not share one.
///
/// # Errors
/// Where no range is mapped, or free.
pub(super) fn own(uid_map: &str) -> anyhow::Result<Users> {
    for base in candidates(uid_map).skip(1) {
        // Linux takes the name back with the process that holds it.
        let address = SocketAddr::from_abstract_name(format!("repltool-users-{base:x}")).context("a name for users")?;
        match UnixListener::bind_addr(&address) {
            Ok(reserved) => return Ok(Users { base, _reserved: Some(reserved) }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).context("a range of user ids cannot be reserved"),
        }
    }
    anyhow::bail!("there is no free range of user ids to give to sessions; other servers have taken them")
}

/// The first ids of ranges in the largest one that is mapped: from [`BASE`] up, or from its top down.
fn candidates(uid_map: &str) -> impl Iterator<Item = u32> {
    let ranges = uid_map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(first)), Some(Ok(_)), Some(Ok(length))) => Some((first, length)),
            _ => None,
        }
    });
    let (first, length) = ranges.max_by_key(|(_, length)| *length).unwrap_or((0, 0));
    let end = first.saturating_add(length);
    let has_base = first <= BASE && end >= BASE.saturating_add(ROOM);
    (0..MAX_SERVERS).map_while(move |server| match has_base {
        true => Some(BASE + server * ROOM).filter(|base| end - base >= ROOM),
        false => (length > (server + 2) * ROOM).then(|| end - (server + 1) * ROOM),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_get_users_that_are_mapped() {
        let base = |map| common(map).map(|users| users.base);
        assert_eq!(base("         0          0 4294967295\n"), Some(BASE));
        assert_eq!(base("         0     100000      65536\n"), Some(65536 - 16 * 1024));
        assert_eq!(base("      1000       1000          1\n"), None);
        let all: Vec<u32> = candidates("0 100000 65536\n").collect();
        assert_eq!(all, [65536 - 16 * 1024, 65536 - 32 * 1024], "the lower half is not taken");
        assert_eq!(candidates("0 0 4294967295\n").nth(1), Some(BASE + ROOM));
    }

    #[test]
    fn no_two_servers_have_the_same_users() {
        let map = "0 0 4294967295\n";
        let one = own(map).unwrap();
        let other = own(map).unwrap();
        assert_ne!(one.base, other.base);
        assert!(one.base > BASE && other.base > BASE, "that is everybody's");
        let base = one.base;
        drop(one);
        assert!((0..MAX_SERVERS).map(|_| own(map).unwrap()).any(|users| users.base <= base), "it is free again");
    }
}
