//! A sandbox that is ready but for its program: init opens the ways in, gives them to the supervisor, and waits for who
//! comes.

use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use crate::sandbox::enter::{Ends, Entry};
use crate::sandbox::error::{At as _, Failure, SpawnError, Step};
use crate::sandbox::payload;
use crate::sandbox::spawn::SILENCE_S;

/// What is told with descriptors.
pub(in crate::sandbox) mod note {
    /// The ways into a sandbox that waits: its namespaces, its rules, standard input, and where to report.
    pub(in crate::sandbox) const VACANT: u8 = b'v';
    /// The user namespace of a zygote, which is about to be executed.
    pub(in crate::sandbox) const ZYGOTE: u8 = b'z';
}

/// The namespaces of a sandbox, in the order of `native.c`.
const NAMESPACES: [&str; 7] = ["pid_for_children", "user", "mnt", "net", "ipc", "uts", "cgroup"];
/// With rules, standard input and the pipe for the report.
const MOST: usize = NAMESPACES.len() + 3;

/// The ways into a sandbox that waits, in the order of `native.c`.
#[derive(Debug)]
pub(in crate::sandbox) struct Vacancy {
    pub(super) namespaces: Vec<OwnedFd>,
    pub(super) rules: OwnedFd,
    pub(super) stdin: OwnedFd,
    pub(super) arriving: OwnedFd,
}

/// The caller's namespaces. Needs the host's `/proc`, so before the root changes; and after it, Linux would not let anybody
/// else open those of a process that has locked itself.
pub(in crate::sandbox) fn open_namespaces() -> io::Result<Vec<OwnedFd>> {
    NAMESPACES.into_iter().map(open_namespace).collect()
}

/// One of the caller's namespaces, by its name in `/proc/self/ns`.
pub(in crate::sandbox) fn open_namespace(name: &str) -> io::Result<OwnedFd> {
    Ok(open(format!("/proc/self/ns/{name}"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// In init: opens the sandbox to a program that comes from elsewhere, and waits for it. Gives its pid.
pub(in crate::sandbox) fn wait_for_program(
    entry: &Entry<'_>,
    namespaces: Vec<OwnedFd>,
    ends: Ends,
) -> Result<Pid, Failure> {
    let rules = payload::rules(entry).at(Step::Landlock)?;
    let (arrived, arriving) = pipe_with(PipeFlags::CLOEXEC).at(Step::Stdio)?;
    let ways: Vec<_> = namespaces.iter().chain([&rules, &ends.stdin, &arriving]).map(|fd| fd.as_fd()).collect();
    tell(&entry.wires.sync, note::VACANT, &ways).at(Step::Start)?;
    // If nobody comes, the end of this pipe tells.
    drop(ways);
    drop((namespaces, rules, ends, arriving));
    let mut pid = [0; size_of::<libc::pid_t>()];
    std::fs::File::from(arrived).read_exact(&mut pid).at(Step::Fork)?;
    Pid::from_raw(libc::pid_t::from_ne_bytes(pid)).ok_or(Failure { step: Step::Fork, errno: libc::ESRCH })
}

/// Sends one byte with descriptors.
pub(super) fn tell(sync: &OwnedFd, note: u8, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    sendmsg(sync, &[IoSlice::new(&[note])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// In the supervisor: waits until the ways into a sandbox are there. Other words of the child before are `skipped`.
pub(in crate::sandbox) fn wait_for_vacancy(sync: &OwnedFd, mut skipped: impl FnMut(u8)) -> Result<Vacancy, SpawnError> {
    let mut fds = wait(sync, |packet| {
        let is_it = packet == [note::VACANT];
        packet.first().filter(|_| !is_it && packet.len() == 1).into_iter().for_each(|note| skipped(*note));
        is_it
    })?;
    if fds.len() != MOST {
        return Err(SpawnError::Died);
    }
    let mut last = || fds.pop().ok_or(SpawnError::Died);
    let (arriving, stdin, rules) = (last()?, last()?, last()?);
    Ok(Vacancy { namespaces: fds, rules, stdin, arriving })
}

/// Waits for a packet that is the `wanted` one; gives its descriptors. Longer packets tell of a failed step.
pub(super) fn wait(sync: &OwnedFd, mut wanted: impl FnMut(&[u8]) -> bool) -> Result<Vec<OwnedFd>, SpawnError> {
    loop {
        let timeout = Timespec { tv_sec: SILENCE_S, tv_nsec: 0 };
        match poll(&mut [PollFd::new(sync, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(SpawnError::Timeout),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(SpawnError::Descriptors(error.into())),
        }
        let mut packet = [0; 8];
        let (length, fds) = receive(sync, &mut packet).map_err(|error| SpawnError::Descriptors(error.into()))?;
        let packet = packet.get(..length).unwrap_or_default();
        if wanted(packet) {
            return Ok(fds);
        }
        if packet.len() != 1 {
            return Err(Failure::decode(packet).map_or(SpawnError::Died, SpawnError::inside));
        }
    }
}

/// One packet, with the descriptors that came with it; none at the end.
pub(in crate::sandbox) fn receive(sync: &OwnedFd, packet: &mut [u8]) -> rustix::io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let length = match recvmsg(sync, &mut [IoSliceMut::new(packet)], &mut ancillary, flags) {
        Ok(received) => received.bytes,
        Err(rustix::io::Errno::CONNRESET) => 0,
        Err(error) => return Err(error),
    };
    let fds = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
        _ => Vec::new(),
    });
    Ok((length, fds.collect()))
}
