//! The order to fork into a sandbox, as `native.c` reads it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::borrowed;
use super::vacant::Vacancy;
use crate::sandbox::Identity;
use crate::sandbox::cgroup::Entrance;
use crate::sandbox::enter::Entry;
use crate::sandbox::payload::{self, Limit};
use crate::sandbox::rights::PAYLOAD_ID;
use crate::sandbox::spawn::Theirs;

const VERSION: u32 = 1;
/// Places for limits.
const LIMITS: usize = 16;
/// Descriptors of one order: those of the sandbox, and those of its cgroups.
const MOST_FDS: usize = 14 + 8;

/// Sends it, with all descriptors of the sandbox.
///
/// # Errors
/// Those of sendmsg(2); `EPIPE` from a zygote that has ended.
pub(super) fn send(orders: BorrowedFd<'_>, entry: &Entry<'_>, vacancy: &Vacancy, wires: &Theirs) -> io::Result<()> {
    let Vacancy { namespaces, rules, stdin, arriving } = vacancy;
    let Theirs { sync, stdout, stderr, control, init: _ } = wires;
    let mut fds = borrowed(namespaces.iter().chain([rules, stdin, stdout, stderr, control, sync, arriving]));
    let old: Vec<_> = entry.entrance.iter().flat_map(Entrance::old).collect();
    let unified = entry.entrance.as_ref().and_then(Entrance::unified);
    fds.extend(old.iter().copied().chain(unified));
    let order = encode(entry, old.len(), unified.is_some());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    sendmsg(orders, &[IoSlice::new(&order)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn encode(entry: &Entry<'_>, old_groups: usize, has_unified: bool) -> Vec<u8> {
    let limits = payload::limits(entry);
    let id = match entry.request.identity {
        Identity::Mapped { .. } => PAYLOAD_ID,
        Identity::Plain { .. } | Identity::Single => 0,
    };
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let numbers =
        [VERSION, count(limits.len()), count(old_groups), has_unified.into(), id, entry.policy.files.into(), 0, 0];
    let mut order: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    // Places that are left over are not looked at.
    let padding = std::iter::repeat(payload::open_files(entry));
    for Limit { resource, soft, hard } in limits.into_iter().chain(padding).take(LIMITS + 1) {
        order.extend((resource as u32).to_ne_bytes());
        order.extend([0; 4]);
        order.extend(soft.to_ne_bytes());
        order.extend(hard.to_ne_bytes());
    }
    order
}
